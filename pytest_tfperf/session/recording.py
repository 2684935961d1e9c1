"""What a session that records baselines does before its first test, and after its last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_tfperf.bench.disturbance_guard import look_before_recording
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.invalid import accepted_load, refused_load
from pytest_tfperf.revisions.git import commit_of

if TYPE_CHECKING:
    from pytest_tfperf.session.session import Session


def before_recording(session: Session) -> list[str]:
    """Refuse a machine that other work disturbs; gives remarks on what is recorded all the same.

    Raises:
        MeasurementError: other work disturbs the machine.
    """
    settings, references = session.settings, session.measuring.launchers.references
    commit, limits = commit_of(settings.root, besides=settings.baselines), settings.disturbance_limits
    load = look_before_recording(limits)
    if load.refused is not None:
        raise refused_load(load.refused, limits)
    said = [references.before_recording(commit) if references else ""]
    said += [accepted_load(load.accepted, limits)] if load.accepted is not None else []
    return [line for line in said if line]


def end_recording(session: Session) -> list[str]:
    """Run the controls of a recording of few rows a last time, and correct the rows by what they showed.

    Gives a line for each machine whose rows could not be written again.
    """
    if not session.recorder.changes:
        return []
    session.progress.test, session.progress.why = "controls", ""
    faults = []
    for machine, found in session.measuring.controls.after_last_run().items():
        try:
            session.recorder.correct(machine, found)
        except TfperfError as error:
            faults.append(f"{machine}: the new rows could not be corrected by their controls: {error}")
    return faults
