"""Names, when a session ends, rows of figures that are stale, and proposes to record what became better for good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.baseline import Key
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionResult
    from pytest_tfperf.lines import Line


def session_ended(session: Session, result: SessionResult) -> Iterator[Line | str]:
    """Name stale rows, and the command that records the rows which were IMPROVED in their latest sessions."""
    if not result.keeps_history:
        return
    from pytest_tfperf.core.verdict import Outcome

    judged = [m for m in result.alone if m.verdict is not None]
    for machine in dict.fromkeys(m.machine for m in judged):
        if rows := session.baselines.figures(machine):
            yield from _stale(machine, rows, [m for m in judged if m.machine == machine])
    if any(verdict.outcome is Outcome.IMPROVED for m in judged for verdict in m.verdicts):
        yield from _proposal(session, result)


def _stale(machine: str, rows: Iterable[Key], measured: Sequence[Measurement]) -> Iterator[str]:
    """The rows of figures that the session's tests do not ask for."""
    asked = {m.key._replace(figure=verdict.figure.name) for m in measured for verdict in m.figures}
    for key in rows:
        if key not in asked and any(m.key == key._replace(figure="") for m in measured):
            yield (
                f"{machine}.csv: the baseline of {key.figure} of {key.workload} on {key.topology} is stale: no test of "
                "this session asks for it. Delete the row, or ask for the figure with also="
            )


def _proposal(session: Session, result: SessionResult) -> list[Line]:
    """The command that records the rows which were IMPROVED in their latest sessions, this one among them."""
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


FEATURE: Final = Feature(files="*.csv", session_ended=session_ended)
