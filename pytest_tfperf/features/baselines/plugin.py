"""`--tfperf-accept`; and when a session ends, names stale rows and proposes to accept what became better for good."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import Setting

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.baseline import Key
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionResult
    from pytest_tfperf.lines import Line


def session_ended(session: Session, result: SessionResult) -> Iterator[Line | str]:
    """Name stale rows, and the commands that accept what this session and the ones before it measured."""
    if not result.keeps_history:
        return
    yield from _accepting(session, result)
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
    """The command that accepts the rows which their latest sessions show to be better, this one among them."""
    from pytest_tfperf.core.session_verdicts import red_machines
    from pytest_tfperf.core.verdict import Against, Outcome

    red = red_machines(result.verdicts)
    verdicts = [verdict for m in result.alone if m.machine not in red for verdict in m.verdicts]
    improved_now = [v for v in verdicts if v.outcome is Outcome.IMPROVED and v.against is Against.BASELINE]
    # IMPROVED relative to the drift common to all tests only is no gain.
    better = [v.baseline for v in improved_now if v.figure.signs[0] * (v.change or 0.0) > 0]
    if not (rows := {row for row in better if row is not None and row.is_measured}):
        return []
    from pytest_tfperf.features.baselines.accept import GAIN_SESSIONS, gains
    from pytest_tfperf.lines import command
    from pytest_tfperf.reports.numbers import counted

    known = 0
    with session.noting_history_faults():
        known = len(list(gains(rows, session.history)))
    why = f"{counted(known, 'row')} better over {GAIN_SESSIONS} sessions than noise explains"
    return [command("gains", f"tfperf baselines accept --gains{session.settings.rerun.folders}", why)] if known else []


def lacking_runs(session: Session, measurement: Measurement) -> int:
    """Return how many free runs the changed test that `--tfperf-accept` names lacks for a baseline."""
    if not _is_named(session.settings.of(ACCEPT), measurement.test, session.selection):
        return 0
    from pytest_tfperf.core.baseline import RUNS
    from pytest_tfperf.features.baselines.accept import CONFIRMED, Change, of_history, with_others

    if not any(verdict.outcome in CONFIRMED for verdict in measurement.verdicts):
        return 0
    others: list[Measurement] = []
    with session.noting_history_faults():
        others = of_history(session.history, measurement)
    change = with_others(Change(measurement.verdicts[0], (measurement,)), others)
    return RUNS - sum(len(m.runs) for m in change.measurements)


def _is_named(name: str, test: str, tests: Iterable[str]) -> bool:
    if not name:
        return False
    from pytest_tfperf.console.measured_test import named

    return test in named(name, tests)


def _accepting(session: Session, result: SessionResult) -> Iterator[Line | str]:
    """What can be accepted of the test that `--tfperf-accept` names, and the command."""
    if not (name := session.settings.of(ACCEPT)):
        return
    from pytest_tfperf.features.baselines.accept import CONFIRMED
    from pytest_tfperf.lines import command
    from pytest_tfperf.reports.numbers import counted

    measured = [m for m in result.alone if _is_named(name, m.test, session.selection)]
    if not measured:
        yield f"--tfperf-accept={name}: no test that this session measured alone has this name"
    for m in measured:
        if not any(verdict.outcome in CONFIRMED for verdict in m.verdicts):
            yield f"{m.test} is {m.outcome or 'not judged'}: no change is confirmed, so there is nothing to accept"
        elif (lacking := lacking_runs(session, m)) > 0:
            yield f"{m.test}: {counted(lacking, 'run')} are lacking for a baseline, because others were disturbed"
        else:
            yield command("accept", session.settings.rerun.accepting(m.test, m.session), "if the change is intended")


ACCEPT: Final[Setting[str]] = Setting(
    name="accept",
    default="",
    parse=str,
    help="take so many further runs of this test that `tfperf baselines accept` can make them its baseline",
    metavar="TEST",
    of_one_session=True,
    excludes={
        "update_baselines": "that records the baseline at once",
        "inject_slowdown": "the slowdown would become the baseline",
        "smoke": "one window is no baseline",
    },
)

FEATURE: Final = Feature(settings=(ACCEPT,), files="*.csv", lacking_runs=lacking_runs, session_ended=session_ended)
