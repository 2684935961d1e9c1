"""Since when a test is slower: the results in a row that are nearer to today's than to the reference."""

from __future__ import annotations

import pytest

from pytest_tfperf.core.past import Value
from pytest_tfperf.features.page.past import Past, spell
from tests.helpers.measurements import measurement

ONE = Value.of(measurement())


@pytest.mark.parametrize(
    ("rates", "length"),
    [
        ((100, 101, 99, 90), 1),
        ((100, 101, 90, 91, 89), 3),
        ((100, 90, 91, 100, 90, 89), 2),
        ((100, 90, 91, 130, 90, 89), 2),
        ((100, 90, 100, 100, 90, 89), 2),
        ((100, 101, 110, 111), 2),
        ((90, 90, 90), 3),
    ],
    ids=[
        *("first slow result", "several", "one good result ends it", "one fast result ends it"),
        *("single slow result before", "gain", "always slow"),
    ],
)
def test_a_spell_has_the_last_results_on_one_side_of_the_reference(rates: tuple[float, ...], length: int) -> None:
    assert len(spell([ONE._replace(value=rate) for rate in rates], 100.0)) == length


def test_a_restless_series_is_slow_since_the_last_session_that_was_nearer_to_its_baseline() -> None:
    rates = [3829, 4054, 3621, 2068, 2053, 3661, 1475, 2520, 1558, 2319, 1224, 1694, 1867]
    found = spell([ONE._replace(value=float(rate)) for rate in rates], 3834.0)
    assert [one.value for one in found] == rates[6:]


@pytest.mark.parametrize(
    ("tests_of_sessions", "session_before"),
    [((10, 1, 4, 10), "s0"), ((10, 5, 10), "s1"), ((1, 1, 10), None)],
    ids=["reruns by hand", "half of the tests", "nothing but reruns"],
)
def test_the_session_before_has_at_least_half_of_the_tests(
    tests_of_sessions: tuple[int, ...], session_before: str | None
) -> None:
    days = [
        [
            measurement(test=f"t.py::t{number}", session=f"s{day}", time=f"2026-01-{day + 1:02}T03:00:00+00:00")
            for number in range(count)
        ]
        for day, count in enumerate(tests_of_sessions)
    ]
    past = Past.of([Value.of(one) for measured in days for one in measured], days[-1])
    assert [one.session for one in past.before(days[-1]).values()] == ([session_before] if session_before else [])
