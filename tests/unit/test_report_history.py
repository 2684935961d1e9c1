"""Since when a test is slower: the results in a row that are nearer to today's than to the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from measurements import measurement

from pytest_tfperf.reports.page.past import Past, as_result, spell

ONE = as_result(measurement())


def days(*rates: float) -> int:
    """How many of the last results belong to the spell, where the reference is 100."""
    return len(spell([replace(ONE, examples_per_sec=rate) for rate in rates], 100.0))


def test_the_first_slow_result_is_a_spell_of_one() -> None:
    assert days(100, 101, 99, 90) == 1


def test_a_spell_begins_with_its_first_slow_result() -> None:
    assert days(100, 101, 90, 91, 89) == 3


@pytest.mark.parametrize("good", [100.0, 130.0])
def test_one_good_result_ends_a_spell(good: float) -> None:
    assert days(100, 90, 91, good, 90, 89) == 2


def test_a_slow_result_by_itself_before_does_not_begin_it() -> None:
    assert days(100, 90, 100, 100, 90, 89) == 2


def test_a_gain_has_a_spell_too() -> None:
    assert days(100, 101, 110, 111) == 2


def test_a_test_that_was_always_slow_has_no_beginning() -> None:
    assert days(90, 90, 90) == 3


def test_a_restless_series_is_slow_since_the_last_session_that_was_nearer_to_its_baseline() -> None:
    rates = [3829, 4054, 3621, 2068, 2053, 3661, 1475, 2520, 1558, 2319, 1224, 1694, 1867]
    found = spell([replace(ONE, examples_per_sec=float(rate)) for rate in rates], 3834.0)
    assert [one.examples_per_sec for one in found] == rates[6:]


def session_before(*tests_of_sessions: int) -> str:
    """The session before the last one; each measured so many tests, a day after the one before."""
    days = [
        [
            measurement(test=f"t.py::t{number}", session=f"s{day}", time=f"2026-01-{day + 1:02}T03:00:00+00:00")
            for number in range(count)
        ]
        for day, count in enumerate(tests_of_sessions)
    ]
    past = Past.of([as_result(one) for measured in days for one in measured], days[-1])
    return next((one.session for one in past.before(days[-1]).values()), "none")


def test_a_rerun_of_one_test_by_hand_is_no_session_before() -> None:
    assert session_before(10, 1, 4, 10) == "s0"


def test_a_session_of_half_of_the_tests_is_the_session_before() -> None:
    assert session_before(10, 5, 10) == "s1"


def test_after_nothing_but_reruns_there_is_no_session_before() -> None:
    assert session_before(1, 1, 10) == "none"
