"""Lasting changes in one series: laws that hold for any series, and promises of docs/statistics.md."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pytest_tfperf.judging.change_points import Shape, alarms, shapes, split

Values = NDArray[np.float64]

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = st.integers(0, 120)
BEFORE = 40


def noise(seed: int, count: int, cv: float = 0.01) -> Values:
    return np.random.default_rng(seed).normal(0, cv, count)


def even_noise(seed: int, count: int) -> Values:
    """Without tails, so that a law holds in every example."""
    return np.random.default_rng(seed).permutation(np.linspace(-0.005, 0.005, count))


def found(values: Values) -> list[Shape]:
    return shapes(values, alarms(values))


def wild(seed: int, count: int) -> Values:
    """Noise with heavy tails and some steps, so that laws are also tried where something is found."""
    random = np.random.default_rng(seed)
    steps = np.where(random.random(count) < 0.03, random.normal(0, 0.05, count), 0.0)
    return random.standard_t(3, count) * 0.01 + np.cumsum(steps)


@given(SEEDS, COUNTS, st.integers(-5 * 2**10, 5 * 2**10))
@settings(max_examples=50, deadline=None)
def test_another_unit_of_the_rates_changes_nothing(seed: int, count: int, factor: int) -> None:
    # Multiples of powers of two add without rounding, which could decide between two nearly equal starts of a step.
    values, log_factor = np.round(wild(seed, count) * 2**30) / 2**30, factor / 2**10
    assert [(a.first, a.found) for a in alarms(values)] == [(a.first, a.found) for a in alarms(values + log_factor)]


@given(SEEDS, COUNTS)
@settings(max_examples=50, deadline=None)
def test_up_and_down_are_judged_alike(seed: int, count: int) -> None:
    values = wild(seed, count)
    down = [(one.first, one.last, one.found, -one.size, -one.high, -one.low) for one in found(-values)]
    assert down == [
        pytest.approx((one.first, one.last, one.found, one.size, one.low, one.high)) for one in found(values)
    ]


@example(seed=231, count=111, until=77)
@given(SEEDS, COUNTS, st.integers(0, 120))
@settings(max_examples=50, deadline=None)
def test_what_was_found_stays_found_when_sessions_come_in(seed: int, count: int, until: int) -> None:
    values = wild(seed, count)
    whole = [(a.first, a.found) for a in alarms(values) if a.found < until]
    assert [(a.first, a.found) for a in alarms(values[:until])] == whole


@given(st.integers(0, 300), st.floats(-10, 10))
def test_a_constant_series_has_no_change(count: int, value: float) -> None:
    assert alarms(np.full(count, value)) == []


@given(SEEDS, st.integers(20, 120), st.data(), st.floats(-2, 2))
@settings(max_examples=50, deadline=None)
def test_one_outlier_of_any_size_is_no_change(seed: int, count: int, data: st.DataObject, outlier: float) -> None:
    values = even_noise(seed, count)
    before = alarms(values)
    values[data.draw(st.integers(0, count - 1))] += outlier
    assert before or alarms(values) == []


@given(st.integers(BEFORE, 100), st.floats(0.05, 2), st.sampled_from([-1, 1]))
@settings(max_examples=50, deadline=None)
def test_two_bad_sessions_are_no_change(at: int, size: float, sign: int) -> None:
    values = noise(1, 120)
    values[at : at + 2] += sign * size
    assert alarms(values) == []


@given(SEEDS, st.integers(15, 100), st.integers(10, 100), st.sampled_from([-1, 1]))
@settings(max_examples=50, deadline=None)
def test_a_large_step_is_found_at_its_place(seed: int, before: int, after: int, sign: int) -> None:
    values = even_noise(seed, before + after)
    values[before:] += sign * 0.2
    near = [one for one in found(values) if abs(one.first - before) <= 1]
    assert [math.copysign(1, one.size) for one in near] == [sign]
    assert near[0].size == pytest.approx(sign * 0.2, abs=0.02)


@given(SEEDS, st.integers(20, 100), st.floats(0.01, 0.2), st.sampled_from([-1, 1]))
@settings(max_examples=50, deadline=None)
def test_a_step_is_not_put_at_a_session_that_did_the_opposite(seed: int, at: int, outlier: float, sign: int) -> None:
    values = even_noise(seed, 120) - sign * 0.1 * (np.arange(120) >= at)
    values[at - 1] += sign * outlier  # the last session before the step, which a bounded distance puts on either side
    assert [one.first for one in found(values) if abs(one.size) > 0.05] == [at]


def test_a_series_with_frequent_bad_sessions_must_be_bad_for_longer_until_it_changed() -> None:
    often_bad, never_bad = noise(1, 67, cv=0.005), noise(1, 67, cv=0.005)
    often_bad[5:60:6] -= 0.08
    for values in (often_bad, never_bad):
        values[60:66] -= 0.08
    assert [len(alarms(values[:66])) for values in (often_bad, never_bad)] == [0, 1]


def test_one_of_many_tests_must_be_slower_for_longer_until_it_changed() -> None:
    waited: dict[int, list[int]] = {1: [], 50: []}
    for seed in range(20):
        values = noise(seed, 90)
        values[60:] -= 0.03
        for tests, found_at in waited.items():
            found_at.append(alarms(values, tests)[0].found)
    assert all(many >= alone for alone, many in zip(*waited.values(), strict=True))
    assert sum(waited[50]) > sum(waited[1])


def test_a_change_begins_before_it_is_found() -> None:
    for seed in range(50):
        values = wild(seed, 120)
        assert all(one.first <= one.found for one in found(values))


def test_a_change_below_half_a_percent_is_not_reported() -> None:
    values = noise(1, 300, cv=0.001)
    values[100:] -= 0.003
    assert alarms(values) == []


def test_a_step_of_a_quiet_series_is_found() -> None:
    values = noise(1, 60, cv=0.0003)
    values[BEFORE:] -= 0.02
    assert [(one.first, one.is_slow) for one in found(values)] == [(BEFORE, False)]


def test_a_slow_spell_that_ends_is_two_changes() -> None:
    values = noise(1, 120, cv=0.005)
    values[60:75] -= 0.05
    assert [(one.first, one.size < 0) for one in found(values)] == [(60, True), (75, False)]


def test_a_slow_decline_is_one_change_of_many_sessions() -> None:
    values = noise(1, 180, cv=0.005)
    values[60:] -= 0.02 / 30 * np.minimum(np.arange(120), 90)
    (decline,) = found(values)
    assert decline.is_slow
    assert decline.first == pytest.approx(60, abs=10)
    assert decline.last == pytest.approx(150, abs=10)
    assert decline.low < -0.06 < decline.high


def test_a_step_is_no_slow_decline() -> None:
    sizes = [found(np.concatenate((noise(seed, 60), noise(seed + 100, 60) - 0.03))) for seed in range(30)]
    assert sum(one.is_slow for changes in sizes for one in changes) <= 1


def test_the_interval_of_a_step_holds_its_size() -> None:
    held = 0
    for seed in range(100):
        values = noise(seed, 160)
        values[80:] -= 0.05
        (step,) = found(values)
        held += step.low <= -0.05 <= step.high
    assert held >= 88


# Promises, each with a generous bound


def correlated(random: np.random.Generator) -> Values:
    """A year whose neighbours have a correlation of 0.3."""
    values = random.normal(0, 0.01, 365)
    for index in range(1, 365):
        values[index] += 0.3 * values[index - 1]
    return values


@pytest.mark.parametrize(
    ("year", "most"),
    [
        pytest.param(lambda random: random.normal(0, 0.01, 365), 3, id="normal noise"),
        pytest.param(lambda random: random.standard_t(3, 365) * 0.01, 3, id="heavy tails"),
        pytest.param(correlated, 5, id="correlated neighbours"),
    ],
)
def test_a_year_of_fifty_tests_has_few_false_alarms(year: Callable[[np.random.Generator], Values], most: int) -> None:
    random = np.random.default_rng(1)
    assert sum(len(alarms(year(random))) for _ in range(50)) <= most


def delays(loss: Values, cv: float) -> list[float]:
    """Sessions until each of 50 losses is found."""
    waited = []
    for seed in range(50):
        values = noise(seed, 60 + len(loss), cv)
        values[60:] += loss
        waited.append(min((one.found - 59 for one in alarms(values) if one.found >= 60), default=math.inf))
    return sorted(waited)


@pytest.mark.parametrize(
    ("loss", "cv", "sessions"), [(0.05, 0.01, 7), (0.03, 0.01, 9), (0.02, 0.01, 14), (0.01, 0.005, 14)]
)
def test_most_losses_are_found_within_days(loss: float, cv: float, sessions: int) -> None:
    assert delays(np.full(120, -loss), cv)[25] <= sessions


def test_a_loss_of_two_percent_a_month_is_found_within_six_weeks() -> None:
    assert delays(-0.02 / 30 * np.arange(120), 0.01)[25] <= 42


@pytest.mark.parametrize("values", [[0.0, 9.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0, -9.0, 1.0]])
def test_a_value_far_beyond_a_level_moves_no_step(values: list[float]) -> None:
    assert split(np.array(values), 0.0, 1.0) == 4
