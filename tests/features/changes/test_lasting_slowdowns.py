"""Which slowdowns `--tfperf-fail-on-drift` fails a session for: those that are neither over nor accepted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from past_results import past_result, past_results, quiet_tests

from pytest_tfperf.core.past import PastResult
from pytest_tfperf.features.changes.plugin import lasting_slowdowns

SESSIONS, AT = 80, 50
LAST = f"s{SESSIONS - 1}"


def log_rates(*steps: tuple[int, float]) -> NDArray[np.float64]:
    """One test's log rates, with these steps."""
    values = quiet_tests(1, SESSIONS)["test_0"]
    for at, size in steps:
        values[at:] += size
    return values


def sizes(results: list[PastResult], session: str = LAST) -> list[int]:
    """The slowdowns, in whole percent."""
    return [round(one.size * 100) for one in lasting_slowdowns(results, session)]


def recorded_at(results: list[PastResult], session: int) -> list[PastResult]:
    """The same, as if the baseline had been recorded again before this session."""
    later = {f"s{number}" for number in range(session, SESSIONS)}
    return [replace(one, reference=970.0) if one.session in later else one for one in results]


@pytest.mark.parametrize(
    ("steps", "slowdowns"),
    [
        pytest.param([(AT, -0.03)], [-3], id="a slowdown"),
        pytest.param([(AT, 0.03)], [], id="a speed-up"),
        pytest.param([(AT, -0.03), (65, 0.03)], [], id="fixed"),
        pytest.param([(AT, -0.06), (65, 0.02)], [-6], id="fixed by a third"),
    ],
)
def test_a_slowdown_lasts_until_most_of_it_is_mended(steps: list[tuple[int, float]], slowdowns: list[int]) -> None:
    assert sizes(past_results({"test_0": log_rates(*steps)})) == slowdowns


@pytest.mark.parametrize(("recorded", "slowdowns"), [(70, []), (30, [-3])], ids=["after it", "before it"])
def test_only_a_baseline_that_was_recorded_after_a_slowdown_accepts_it(recorded: int, slowdowns: list[int]) -> None:
    assert sizes(recorded_at(past_results({"test_0": log_rates((AT, -0.03))}), recorded)) == slowdowns


def test_only_what_was_slower_before_a_first_baseline_is_accepted_by_it() -> None:
    results = past_results({"test_0": log_rates((AT, -0.03))}, reference=None)
    assert (sizes(recorded_at(results, 30)), sizes(recorded_at(results, SESSIONS - 1))) == ([-3], [])


def test_a_test_that_was_never_judged_against_a_recorded_baseline_is_left_out() -> None:
    assert sizes(past_results({"test_0": log_rates((AT, -0.03))}, reference=None, outcome="")) == []


def test_a_test_that_is_only_measured_by_now_is_left_out() -> None:
    results = past_results({"test_0": log_rates((AT, -0.03))})
    assert sizes([replace(one, reference=None, outcome="") if one.session == LAST else one for one in results]) == []


def test_a_decline_that_goes_on_after_a_new_baseline_lasts() -> None:
    slope = -0.04 / 30 * np.maximum(np.arange(SESSIONS) - 20, 0)
    assert lasting_slowdowns(recorded_at(past_results({"test_0": log_rates() + slope}), 50), LAST)


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
    unjudged = [replace(one, reference=None) if one.test > "test_2" else one for one in results]
    accepted = [replace(one, reference=None) if one.test > "test_2" else one for one in recorded_at(results, 70)]
    assert (sizes(unjudged), sizes(accepted)) == ([-5], [])


def test_a_machine_without_recorded_baselines_is_left_out() -> None:
    step = np.where(np.arange(SESSIONS) < AT, 0, -0.05)
    series = {test: one + step for test, one in quiet_tests(10, SESSIONS).items()}
    assert sizes(past_results(series, reference=None)) == []
