"""Proposes, when a session ends, to record what became better for good."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature, has_baselines

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult
    from pytest_tfperf.lines import Line


def session_ended(session: Session, result: SessionResult) -> list[Line]:
    """Name the command that records the rows which were IMPROVED in their latest sessions, this one among them."""
    if not result.keeps_history:
        return []
    from pytest_tfperf.core.session_verdicts import red_machines
    from pytest_tfperf.core.verdict import Against, Outcome

    red = red_machines(result.verdicts)
    verdicts = [verdict for m in result.alone if m.machine not in red for verdict in m.verdicts]
    improved_now = [v for v in verdicts if v.outcome is Outcome.IMPROVED and v.against is Against.BASELINE]
    # IMPROVED relative to the drift common to all tests only is no gain.
    better = [v.baseline for v in improved_now if v.figure.signs[0] * (v.change or 0.0) > 0]
    if not (rows := {row for row in better if row is not None and row.is_measured}):
        return []
    from pytest_tfperf.features.baselines.ratchet import LEAST_SESSIONS, improved
    from pytest_tfperf.lines import command
    from pytest_tfperf.reports.numbers import counted

    settings, known = session.settings, 0
    with session.noting_history_faults():
        known = len(improved(rows, session.history))
    # The command reads variables and the ini file itself.
    folders = {"dir": settings.dir, "baselines": settings.baselines}
    given = [name for name in folders if f"--tfperf-{name}" in settings.rerun.options]
    options = "".join(f" --{name}={quote(str(folders[name]))}" for name in given)
    why = f"{counted(known, 'row')} IMPROVED in {LEAST_SESSIONS} sessions in a row: records from the history"
    return [command("ratchet", f"tfperf baselines ratchet{options}", why)] if known else []


FEATURE: Final = Feature(asked=has_baselines, session_ended=session_ended)
