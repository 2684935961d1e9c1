"""`--tfperf-budget`: which tests a session measures, and in which order, if there is not enough time for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.selection import Choice
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import Feature

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.past import PastResult

BUDGET: Final[Setting[float | None]] = Setting(
    name="budget",
    default=None,
    parse=parse.duration,
    help="measure the most informative tests that fit into this time, and leave out the rest",
    metavar="TIME",
    of_one_session=True,
)


def select(context: Session, seconds: Mapping[str, float], failed: Collection[str]) -> Choice | None:
    """Choose the most informative tests that fit; tests that can't run here take no time, and stay.

    Without a history that can be read, tests look as if they had never been measured.
    """
    budget, history = context.settings.of(BUDGET), context.history
    if budget is None:
        return None
    now, remarks = datetime.now(UTC), []
    past: list[PastResult] = []
    try:
        for session in history.earlier.last_sessions(seconds):
            past += history.results(session=session)
            past += history.figure_results(session=session)
            past += history.results(session=session, is_interleaved=True)
    except TfperfError as error:
        remarks.append(f"{BUDGET.spelled} chose without a part of the history: {error}")
    known = candidates(
        seconds, important=[test for test in seconds if context.selection[test].is_important], failed=failed, past=past
    )
    run, left_out = choose(known, budget, now)
    return Choice(
        run=tuple(candidate.test for candidate in run),
        left_out={candidate.test: candidate.seconds for candidate in left_out},
        limit_seconds=budget,
        option=BUDGET.spelled,
        remarks=tuple(remarks),
    )


def remarks(settings: Settings, left_out: Mapping[str, float], in_brief: bool) -> list[str]:
    """Say which tests were left out."""
    budget = settings.of(BUDGET) or 0.0
    return [(counted_left_out if in_brief else named_left_out)(left_out, budget)] if left_out else []


LONG: Final = timedelta(days=7)
"""A test that was not measured for this long comes before important ones, so that no test waits for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A test that may be measured.

    Args:
        test: pytest's node id.
        seconds: how long it will probably take, with its confirmation.
        is_important: it is marked `important`.
        is_unsettled: its last outcome was bad news, or it failed.
        measured: when it was last measured; None for never.
    """

    test: str
    seconds: float
    is_important: bool = False
    is_unsettled: bool = False
    measured: datetime | None = None


class Chosen(NamedTuple):
    """The tests to run, the most informative first, and the tests left out."""

    run: tuple[Candidate, ...]
    left_out: tuple[Candidate, ...]


def choose(candidates: Iterable[Candidate], budget_seconds: float, now: datetime) -> Chosen:
    """Take the tests in the order of how much their result tells, and leave out each that would exceed the budget.

    The order is: unsettled; never measured, or not for a week; important; the others. Within a group, the test that has
    waited longest is first. If no test fits, the first one runs alone.
    """
    ordered = sorted(candidates, key=lambda candidate: _rank(candidate, now))
    run: list[Candidate] = []
    left_out: list[Candidate] = []
    total = 0.0
    for candidate in ordered:
        if total + candidate.seconds <= budget_seconds:
            run.append(candidate)
            total += candidate.seconds
        else:
            left_out.append(candidate)
    if left_out and not run:
        run.append(left_out.pop(0))
    return Chosen(tuple(run), tuple(left_out))


def candidates(
    seconds: Mapping[str, float],
    *,
    important: Collection[str] = (),
    failed: Collection[str] = (),
    past: Iterable[PastResult] = (),
) -> list[Candidate]:
    """A candidate for each test.

    Args:
        seconds: how long each test will probably take.
        important: the tests that are marked `important`.
        failed: the tests that failed last time, for whatever reason.
        past: results of earlier sessions in any order, of throughputs and figures; results with an injected slowdown
            are ignored.
    """
    from pytest_tfperf.core.past import moment

    last: dict[str, list[PastResult]] = {}
    for result in sorted(past, key=lambda result: moment(result.time)):
        if result.is_slowed_on_purpose:
            continue
        before = last.get(result.test, [])
        same_session = bool(before) and before[0].session == result.session  # a test may make several calls
        last[result.test] = [*before, result] if same_session else [result]
    return [
        Candidate(
            test=test,
            seconds=expected,
            is_important=test in important,
            is_unsettled=test in failed or any(map(_is_unsettled, last.get(test, ()))),
            measured=moment(last[test][-1].time) if test in last else None,
        )
        for test, expected in seconds.items()
    ]


def _is_unsettled(one: PastResult) -> bool:
    from pytest_tfperf.core.verdict import BAD_NEWS

    return any(outcome in BAD_NEWS for outcome in one.outcomes)


def _rank(candidate: Candidate, now: datetime) -> tuple[int, float]:
    waited = float("inf")
    if candidate.measured is not None and candidate.measured <= now:  # a time ahead of the clock says nothing
        waited = (now - candidate.measured).total_seconds()
    if candidate.is_unsettled:
        group = 0
    elif waited > LONG.total_seconds():
        group = 1
    else:
        group = 2 if candidate.is_important else 3
    return group, -waited


def counted_left_out(left_out: Mapping[str, float], budget: float) -> str:
    """How many tests there is no time for; `left_out` has the seconds that each would take."""
    return f"{_how_many(left_out, budget)}; the end of the session names them"


def named_left_out(left_out: Mapping[str, float], budget: float) -> str:
    """The same with the tests' names, in one line. A test that is longer than the whole budget is marked."""
    from pytest_tfperf.reports.numbers import duration

    names = (
        f"{test} (alone about {duration(seconds)}, longer than the budget)" if seconds > budget else test
        for test, seconds in left_out.items()
    )
    return f"{_how_many(left_out, budget)}: {', '.join(names)}"


def _how_many(left_out: Mapping[str, float], budget: float) -> str:
    from pytest_tfperf.reports.numbers import counted, duration

    tests = counted(len(left_out), "test")
    return f"--tfperf-budget of {duration(budget)} leaves out {tests} of about {duration(sum(left_out.values()))}"


FEATURE: Final = Feature(settings=(BUDGET,), select=select, remarks=remarks)
