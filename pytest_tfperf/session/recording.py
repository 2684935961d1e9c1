"""A recording of baselines, before its first test and after its last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_tfperf.bench.disturbance_guard import look_before_recording
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.reports.invalid import accepted_load, refused_load
from pytest_tfperf.revisions.git import commit_of

if TYPE_CHECKING:
    from pytest_tfperf.bench.controls import Controls
    from pytest_tfperf.bench.recording import BaselineRecorder
    from pytest_tfperf.core.settings import Settings
    from pytest_tfperf.workers.launcher import ReferenceEnvironments


def before_recording(settings: Settings, references: ReferenceEnvironments | None) -> list[str]:
    """Refuse a machine that other work disturbs; gives remarks on what is recorded all the same.

    Raises:
        MeasurementError: other work disturbs the machine.
    """
    commit, limits = commit_of(settings.root, besides=settings.baselines), settings.disturbance_limits
    load = look_before_recording(limits)
    if load.refused is not None:
        raise refused_load(load.refused, limits)
    remarks = [references.before_recording(commit) if references else ""]
    remarks += [accepted_load(load.accepted, limits)] if load.accepted is not None else []
    return [remark for remark in remarks if remark]


def end_recording(recorder: BaselineRecorder, controls: Controls) -> list[str]:
    """Run the controls of a recording of few rows a last time, and correct the rows by what they showed.

    Gives a line for each machine whose rows could not be written again, and for each figure that is too noisy there.
    """
    faults = []
    for machine, controlled in controls.after_last_run().items():
        try:
            recorder.correct(machine, controlled)
        except TfperfError as error:
            faults.append(f"{machine}: the new rows could not be corrected by their controls: {error}")
    try:
        return faults + recorder.refuse_calm_by_luck()
    except TfperfError as error:
        return [*faults, f"noisy rows could not be taken back: {error}"]
