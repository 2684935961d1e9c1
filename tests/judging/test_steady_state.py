"""When a run has settled."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.run import Window
from pytest_tfperf.judging.validity import LEAST_WINDOWS, settled_from, why_not_steady
from pytest_tfperf.reports.invalid import disturbance_fact


def windows(*rates: float, scatter: float = 0.01) -> list[Window]:
    """Windows of one step at these rates, scattered by a per cent: the same for the same rates."""
    noise = random.Random(1)
    return [Window(1, 1 / (rate * (1 + noise.gauss(0, scatter)))) for rate in rates]


def test_a_slow_start_is_discarded() -> None:
    assert settled_from(windows(*[50.0] * 5, *[100.0] * 45)) == 5


@given(st.integers(0, 2**32))
def test_at_most_a_third_is_discarded(seed: int) -> None:
    draw = random.Random(seed)
    assert settled_from([Window(1, draw.uniform(0.01, 0.1)) for _ in range(60)]) <= 20


@pytest.mark.parametrize(
    "made",
    [windows(*[100.0] * 60), windows(*[50.0] * 5, *[100.0] * 10), windows(*[120.0] * 10, *[100.0] * 40)],
    ids=["steady from the start", "too few windows", "a fast start is no warm-up"],
)
def test_nothing_is_discarded_without_a_reason(made: list[Window]) -> None:
    assert settled_from(made) == 0


def test_a_fast_start_is_discarded_where_batches_lay_ready() -> None:
    assert settled_from(windows(*[120.0] * 10, *[100.0] * 40), fetches=True) == 10


def test_twenty_windows_are_enough_to_see_a_slow_start() -> None:
    made = windows(*[50.0] * 5, *[100.0] * 15)
    assert (settled_from(made), settled_from(made[:-1])) == (5, 0)


def test_a_start_that_is_longer_than_a_third_is_discarded_up_to_there_only() -> None:
    assert settled_from(windows(*[50.0] * 20, *[100.0] * 40)) == 20
    assert settled_from(windows(*[50.0] * 21, *[100.0] * 39)) < 21


FALLING = windows(*(130 - number for number in range(60)))
TWO_SPEEDS = windows(*[100.0, 100.0, 70.0] * 20)


@pytest.mark.parametrize(
    ("made", "fact"),
    [(FALLING, "never settled: the throughput falls by"), (TWO_SPEEDS, "never settled: 20 windows are 30 % slower")],
    ids=["drift", "two modes"],
)
def test_a_run_that_never_settles_says_why(made: list[Window], fact: str) -> None:
    found = why_not_steady(made)
    assert found is not None
    assert disturbance_fact(found).startswith(fact)


@pytest.mark.parametrize(("fast", "expected"), [(14, False), (15, True), (45, True), (46, False)])
def test_two_speeds_are_two_from_a_quarter_of_the_windows_on(fast: int, expected: bool) -> None:
    spread = [100.0 if number * fast % 60 < fast else 70.0 for number in range(60)]
    assert spread.count(100.0) == fast
    assert (why_not_steady(windows(*spread)) is not None) is expected


def test_steps_that_fetch_batches_may_have_two_speeds() -> None:
    assert why_not_steady(TWO_SPEEDS, fetches=True) is None


@pytest.mark.parametrize(
    "made", [windows(*[100.0] * 60), windows(*[100.0] * 60, scatter=0.2), FALLING[: LEAST_WINDOWS - 1]]
)
def test_a_steady_noisy_or_short_run_is_accepted(made: list[Window]) -> None:
    assert why_not_steady(made) is None
