"""Which losses `--tfperf-fail-on-drift` fails a session for: those that are neither over nor accepted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.past import Value
from pytest_tfperf.features.changes.plugin import lasting_losses
from tests.helpers.past_results import changed, past_figure, past_result, past_results, quiet_tests

SESSIONS, AT = 80, 50
LAST = f"s{SESSIONS - 1}"


def log_rates(*steps: tuple[int, float]) -> NDArray[np.float64]:
    """One test's log rates, with these steps."""
    values = quiet_tests(1, SESSIONS)["test_0"]
    for at, size in steps:
        values[at:] += size
    return values


def sizes(results: list[Value], session: str = LAST) -> list[int]:
    """The losses, in whole percent."""
    return [round(one.size * 100) for one in lasting_losses(results, session, {})]


def recorded_at(results: list[Value], session: int) -> list[Value]:
    """The same, as if the baseline had been recorded again before this session."""
    later = {f"s{number}" for number in range(session, SESSIONS)}
    return [changed(one, baseline=970.0) if one.session in later else one for one in results]


@pytest.mark.parametrize(
    ("steps", "slowdowns"),
    [
        pytest.param([(AT, -0.03)], [-3], id="a slowdown"),
        pytest.param([(AT, 0.03)], [], id="a speed-up"),
        pytest.param([(AT, -0.03), (65, 0.03)], [], id="fixed"),
        pytest.param([(AT, -0.06), (65, 0.02)], [-6], id="fixed by a third"),
        pytest.param([(AT, -0.06), (SESSIONS - 5, 0.06)], [], id="fixed five sessions ago, which are no change yet"),
        pytest.param([(AT, -0.015)], [], id="less than the tolerance"),
        pytest.param([(20, -0.013), (AT, -0.013)], [-1], id="more than the tolerance in two steps"),
    ],
)
def test_a_slowdown_lasts_until_most_of_it_is_mended(steps: list[tuple[int, float]], slowdowns: list[int]) -> None:
    assert sizes(past_results({"test_0": log_rates(*steps)})) == slowdowns


@pytest.mark.parametrize(("tolerance", "slowdowns"), [(0.01, [-3]), (0.05, []), (math.inf, [])])
def test_a_slowdown_within_the_tests_own_tolerance_is_none(tolerance: float, slowdowns: list[int]) -> None:
    results = past_results({"test_0": log_rates((AT, -0.03))})
    accepted = {("test_0", results[0].key): tolerance}
    assert [round(one.size * 100) for one in lasting_losses(results, LAST, accepted)] == slowdowns


@given(st.sets(st.integers(10, SESSIONS - 1), max_size=10), st.floats(0.03, 0.2))
@settings(max_examples=20, deadline=None)  # 60 sessions each
def test_days_of_load_are_no_slowdown(days: set[int], size: float) -> None:
    apart = [day for day in days if day - 1 not in days and day - 2 not in days]  # at most two of five are slow
    values = log_rates()
    values[apart] -= size
    for night in range(20, SESSIONS):
        assert sizes(past_results({"test_0": values[: night + 1]}), f"s{night}") == []


@pytest.mark.parametrize(("recorded", "slowdowns"), [(70, []), (30, [-3])], ids=["after it", "before it"])
def test_only_a_baseline_that_was_recorded_after_a_slowdown_accepts_it(recorded: int, slowdowns: list[int]) -> None:
    assert sizes(recorded_at(past_results({"test_0": log_rates((AT, -0.03))}), recorded)) == slowdowns


def test_only_what_was_slower_before_a_first_baseline_is_accepted_by_it() -> None:
    results = past_results({"test_0": log_rates((AT, -0.03))}, baseline=None)
    assert (sizes(recorded_at(results, 30)), sizes(recorded_at(results, SESSIONS - 1))) == ([-3], [])


def test_a_test_that_was_never_judged_against_a_recorded_baseline_is_left_out() -> None:
    assert sizes(past_results({"test_0": log_rates((AT, -0.03))}, baseline=None, outcome="")) == []


def test_a_test_that_is_only_measured_by_now_is_left_out() -> None:
    results = past_results({"test_0": log_rates((AT, -0.03))})
    assert sizes([changed(one, baseline=None, outcome="") if one.session == LAST else one for one in results]) == []


def test_a_decline_that_goes_on_after_a_new_baseline_lasts() -> None:
    slope = -0.04 / 30 * np.maximum(np.arange(SESSIONS) - 20, 0)
    assert lasting_losses(recorded_at(past_results({"test_0": log_rates() + slope}), 50), LAST, {})


def test_a_test_that_the_session_did_not_measure_is_left_out() -> None:
    results = past_results({"test_0": log_rates((AT, -0.03)), "test_1": log_rates()})
    today = past_result(SESSIONS, "test_1", 0.0)
    assert sizes([*results, today], today.session) == []


def test_the_machine_is_accepted_when_most_baselines_were_recorded_again() -> None:
    step = np.where(np.arange(SESSIONS) < AT, 0, -0.05)
    results = past_results({test: one + step for test, one in quiet_tests(10, SESSIONS).items()})
    few = [new if new.test < "test_3" else old for old, new in zip(results, recorded_at(results, 70), strict=True)]
    assert (sizes(results), sizes(few), sizes(recorded_at(results, 70))) == ([-5], [-5], [])


def test_tests_without_recorded_baselines_have_no_say_in_what_accepts_a_slowdown_of_the_machine() -> None:
    step = np.where(np.arange(SESSIONS) < AT, 0, -0.05)
    results = past_results({test: one + step for test, one in quiet_tests(10, SESSIONS).items()})
    unjudged = [changed(one, baseline=None) if one.test > "test_2" else one for one in results]
    accepted = [changed(one, baseline=None) if one.test > "test_2" else one for one in recorded_at(results, 70)]
    assert (sizes(unjudged), sizes(accepted)) == ([-5], [])


def test_a_machine_without_recorded_baselines_is_left_out() -> None:
    step = np.where(np.arange(SESSIONS) < AT, 0, -0.05)
    series = {test: one + step for test, one in quiet_tests(10, SESSIONS).items()}
    assert sizes(past_results(series, baseline=None)) == []


# Figures


def figure_losses(name: str, *levels: float, recorded_at: int = 0, recorded: float = 100.0) -> list[int]:
    """Of a figure with 20 sessions at each level, whose baseline is 100, and was recorded again before a session."""
    values = [level for level in levels for _ in range(20)]
    before = past_figure(Figure(name, absolute=1.0), values, baseline=100.0)
    after = past_figure(Figure(name, absolute=1.0), values, baseline=recorded)
    results = before[:recorded_at] + after[recorded_at:] if recorded_at else before
    return sizes(results, results[-1].session)


@pytest.mark.parametrize(
    ("levels", "losses"),
    [
        pytest.param((100, 110), [10], id="more"),
        pytest.param((100, 90), [], id="less"),
        pytest.param((100, 110, 101), [], id="mended"),
        pytest.param((100, 120, 115), [20], id="mended by a quarter"),
        pytest.param((100, 50, 60), [20], id="a part of what was won"),
    ],
)
def test_a_figure_is_lost_while_it_is_away_from_its_level_before(levels: tuple[float, ...], losses: list[int]) -> None:
    assert figure_losses("peak_memory", *levels) == losses


@pytest.mark.parametrize(
    ("levels", "losses"),
    [
        pytest.param((100, 110), [10], id="higher"),
        pytest.param((100, 90), [-10], id="lower"),
        pytest.param((100, 110, 100), [], id="back"),
        pytest.param((110, 100), [], id="back to its baseline"),
    ],
)
def test_a_figure_that_should_stay_the_same_is_lost_while_it_is_away_from_its_baseline(
    levels: tuple[float, ...], losses: list[int]
) -> None:
    assert figure_losses("loss", *levels) == losses


@pytest.mark.parametrize("name", ["peak_memory", "loss"])
def test_a_baseline_that_was_recorded_after_it_accepts_a_figures_change(name: str) -> None:
    assert figure_losses(name, 100, 110, recorded_at=30, recorded=110.0) == []


def test_a_figure_without_a_recorded_baseline_is_left_out() -> None:
    values = [100.0] * 20 + [110.0] * 20
    assert sizes(past_figure(Figure("loss", limit=200.0, absolute=1.0), values, baseline=None), "s39") == []


def test_figures_have_no_say_in_what_accepts_a_slowdown_of_the_machine() -> None:
    step = np.where(np.arange(SESSIONS) < AT, 0, -0.05)
    rates = past_results({test: one + step for test, one in quiet_tests(10, SESSIONS).items()})
    figures = [
        changed(one, test=f"test_{number}")
        for number in range(10)
        for one in past_figure(Figure("loss"), [1.0] * SESSIONS, baseline=1.0)
    ]
    assert sizes([*recorded_at(rates, 70), *figures]) == []
