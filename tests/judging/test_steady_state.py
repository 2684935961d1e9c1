"""When a run has settled."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.run import Window
from pytest_tfperf.judging.steady_state import LEAST_WINDOWS, settled_from, why_not_steady
from pytest_tfperf.reports.invalid import disturbance_fact

NOISE = random.Random(1)


def windows(*rates: float, scatter: float = 0.01) -> list[Window]:
    """Windows of one step at these rates, scattered by a per cent."""
    return [Window(1, 1 / (rate * (1 + NOISE.gauss(0, scatter)))) for rate in rates]


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


def test_steps_that_fetch_batches_may_have_two_speeds() -> None:
    assert why_not_steady(TWO_SPEEDS, fetches=True) is None


@pytest.mark.parametrize(
    "made", [windows(*[100.0] * 60), windows(*[100.0] * 60, scatter=0.2), FALLING[: LEAST_WINDOWS - 1]]
)
def test_a_steady_noisy_or_short_run_is_accepted(made: list[Window]) -> None:
    assert why_not_steady(made) is None
