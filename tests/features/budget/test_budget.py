"""Which tests a budget leaves, and in which order they run."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.selection import SelectedTest, Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.features.budget.plugin import Candidate, candidates, choose, named_left_out, select
from tests.helpers.measurements import interleaved, measurement, verdict

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def past(test: str, outcome: str = "PASS", session: str = "s1", time: str = "2026-02-28T03:00:00+00:00") -> PastResult:
    return PastResult(
        id="1",
        session=session,
        time=time,
        test=test,
        machine="box",
        workload="w",
        topology="1x1",
        unit="images",
        value=1.0,
        low=1.0,
        high=1.0,
        outcome=Outcome(outcome),
        runs=1,
        seconds=1.0,
    )


TESTS = st.lists(
    st.builds(
        Candidate,
        test=st.text(max_size=5),
        seconds=st.floats(0, 1e4),
        is_important=st.booleans(),
        is_unsettled=st.booleans(),
        measured=st.none() | st.datetimes(timezones=st.just(UTC)),
    ),
    unique_by=lambda one: one.test,
)
BUDGETS = st.floats(0.1, 1e5)


# Laws


@given(TESTS, BUDGETS)
def test_no_test_is_lost_or_doubled(tests: list[Candidate], budget: float) -> None:
    choice = choose(tests, budget, NOW)
    assert sorted(one.test for one in (*choice.run, *choice.left_out)) == sorted(one.test for one in tests)


@given(TESTS, BUDGETS)
def test_the_budget_holds_unless_one_test_alone_exceeds_it(tests: list[Candidate], budget: float) -> None:
    run = choose(tests, budget, NOW).run
    assert math.fsum(one.seconds for one in run) <= budget * (1 + 1e-9) or len(run) == 1


@given(TESTS, BUDGETS)
def test_unsettled_tests_run_first(tests: list[Candidate], budget: float) -> None:
    unsettled = [one.is_unsettled for one in choose(tests, budget, NOW).run]
    assert unsettled == sorted(unsettled, reverse=True)


@given(TESTS, BUDGETS)
def test_something_always_runs(tests: list[Candidate], budget: float) -> None:
    assert bool(choose(tests, budget, NOW).run) is bool(tests)


@given(TESTS)
def test_a_budget_for_all_leaves_none_out(tests: list[Candidate]) -> None:
    assert choose(tests, 1e9, NOW).left_out == ()


# The order


def test_the_order_is_doubt_then_waiting_then_importance() -> None:
    tests = [
        Candidate(test="other", seconds=1, measured=days_ago(1)),
        Candidate(test="important", seconds=1, measured=days_ago(1), is_important=True),
        Candidate(test="waits for weeks", seconds=1, measured=days_ago(20)),
        Candidate(test="never measured", seconds=1),
        Candidate(test="with a clock ahead", seconds=1, measured=days_ago(-300)),
        Candidate(test="unsettled", seconds=1, measured=days_ago(1), is_unsettled=True),
    ]
    order = [one.test for one in choose(tests, 100, NOW).run]
    assert order == ["unsettled", "never measured", "with a clock ahead", "waits for weeks", "important", "other"]


def test_among_equals_the_one_that_waits_longest_is_first() -> None:
    tests = [Candidate(test=str(days), seconds=1, measured=days_ago(days)) for days in (1, 3, 2)]
    assert [one.test for one in choose(tests, 2, NOW).run] == ["3", "2"]


def test_a_shorter_test_takes_the_place_of_one_that_does_not_fit() -> None:
    tests = [Candidate(test="long", seconds=100), Candidate(test="short", seconds=5)]
    choice = choose(tests, 10, NOW)
    assert ([one.test for one in choice.run], [one.test for one in choice.left_out]) == (["short"], ["long"])


# What the history tells


def test_a_test_is_unsettled_if_any_call_of_its_last_session_was() -> None:
    results = [
        past("a", "REGRESSED", "s2"),
        past("a", "PASS", "s2"),
        past("b", "REGRESSED", "s1"),
        past("b", "PASS", "s2"),
    ]
    found = candidates({"a": 1.0, "b": 1.0}, past=results)
    assert [one.is_unsettled for one in found] == [True, False]


@pytest.mark.parametrize(
    ("value", "outcome"), [(2.6, Outcome.REGRESSED), (None, Outcome.INVALID)], ids=["regressed", "not measured"]
)
def test_a_test_that_failed_by_a_figure_is_unsettled(tmp_path: Path, value: float | None, outcome: Outcome) -> None:
    selection = Selection(SelectedTest(id=test) for test in ("a", "b"))
    settings = Settings(dir=tmp_path, of_features={"budget": 1.0})
    context = Session(settings=settings, selection=selection)
    loss = Verdict(figure=Figure("loss"), value=value, outcome=outcome, reason=Reason.CONFIRMED)
    for test, figures in (("a", ()), ("b", (loss,))):
        context.history.append(
            measurement(test=test, verdict=verdict(), figures=figures, time=datetime.now(UTC).isoformat())
        )
    choice = select(context, {"a": 1.0, "b": 1.0}, ())
    assert choice is not None
    assert choice.run == ("b",)


def test_a_provisional_regression_is_a_doubt() -> None:
    (found,) = candidates({"a": 1.0}, past=[replace(past("a", "REGRESSED"), is_provisional=True)])
    assert found.is_unsettled


def test_a_time_that_can_not_be_read_counts_as_never_measured() -> None:
    results = [past("a"), past("b", time="yesterday")]
    found = candidates({"a": 1.0, "b": 1.0}, important=["a"], past=results)
    assert [one.test for one in choose(found, 2.0, NOW).run] == ["b", "a"]


def test_a_test_that_failed_without_a_measurement_is_unsettled() -> None:
    (found,) = candidates({"a": 1.0}, failed=["a"])
    assert found.is_unsettled


def test_a_test_that_compares_was_measured_when_it_compared() -> None:
    (found,) = candidates({"a": 1.0}, past=[PastResult.of(interleaved(test="a", time="2026-02-28T03:00:00+00:00"))])
    assert found.measured == datetime(2026, 2, 28, 3, tzinfo=UTC)
    assert found.is_unsettled  # it is REGRESSED


def test_an_old_comparison_does_not_hide_a_newer_regression() -> None:
    compared = interleaved(Outcome.PASS, test="a", session="s1", time="2026-02-25T03:00:00+00:00")
    (found,) = candidates({"a": 1.0}, past=[past("a", "REGRESSED", session="s2"), PastResult.of(compared)])
    assert found.is_unsettled


# What is said


def test_a_test_longer_than_the_budget_says_so() -> None:
    assert named_left_out({"t.py::a": 90.0, "t.py::b": 20.0}, 60.0) == (
        "--tfperf-budget of 1 min leaves out 2 tests of about 1 min 50 s: "
        "t.py::a (alone about 1 min 30 s, longer than the budget), t.py::b"
    )
