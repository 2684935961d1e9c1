"""The decision on pairs' ratios: its laws, and how often it errs."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.judging.pairs import MIN_PAIRS, PAIRS_THAT_TELL, decide, share, trimmed_mean
from pytest_tfperf.judging.thresholds import FALSE_ALARMS

TWO_PERCENT = Tolerance(-0.02, 0.02)
EVEN = Tolerance(-0.02, 1 / 0.98 - 1)
"""As wide upwards as downwards, in logarithms."""

WORST_FIRST = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.IMPROVED)

ratios = st.lists(st.floats(-0.5, 0.5).map(lambda x: round(x, 6)), min_size=1, max_size=20)


def goodness(log_ratios: list[float], tolerance: Tolerance = TWO_PERCENT) -> int:
    return WORST_FIRST.index(decide(log_ratios, tolerance, 20).outcome)


@given(ratios, st.floats(0, 1))
def test_a_faster_b_never_fares_worse(log_ratios: list[float], more: float) -> None:
    assert goodness([x + more for x in log_ratios]) >= goodness(log_ratios)


@given(ratios, st.floats(0.001, 0.3), st.floats(0.001, 0.2))
def test_a_wider_tolerance_never_fails_what_a_narrower_one_does_not(
    log_ratios: list[float], narrow: float, more: float
) -> None:
    narrower, wider = (decide(log_ratios, Tolerance(-drop, None), 20) for drop in (narrow, narrow + more))
    assert WORST_FIRST.index(wider.outcome) >= WORST_FIRST.index(narrower.outcome)


@given(ratios)
def test_swapping_the_sides_mirrors_the_interval(log_ratios: list[float]) -> None:
    there, back = (decide(values, EVEN, 20) for values in (log_ratios, [-x for x in log_ratios]))
    assert there.ratio * back.ratio == pytest.approx(1)
    if len(log_ratios) >= MIN_PAIRS:
        assert there.low * back.high == pytest.approx(1)


@given(ratios)
def test_regressed_one_way_is_improved_the_other_way(log_ratios: list[float]) -> None:
    there, back = (decide(values, EVEN, 20) for values in (log_ratios, [-x for x in log_ratios]))
    assert (there.outcome is Outcome.REGRESSED) == (back.outcome is Outcome.IMPROVED)


@given(ratios, st.integers(20, 60))
def test_more_interim_tests_make_each_stricter(log_ratios: list[float], most: int) -> None:
    few, many = decide(log_ratios, TWO_PERCENT, 20), decide(log_ratios, TWO_PERCENT, most)
    assert many.low <= few.low
    assert many.high >= few.high


@given(ratios)
def test_what_fails_lies_wholly_below_the_tolerance(log_ratios: list[float]) -> None:
    found = decide(log_ratios, TWO_PERCENT, 20)
    assert found.low <= found.ratio <= found.high
    if found.outcome is Outcome.REGRESSED:
        assert found.high < 0.98
    if found.outcome in (Outcome.PASS, Outcome.IMPROVED):
        assert found.low > 0.98


def test_pairs_that_agree_decide_whatever_else_the_machine_did() -> None:
    """Ratios of a program that mostly waits, on a machine whose cores others take now from one side, now from both."""
    log_ratios = [-0.182 + 0.0005 * (-1) ** n for n in range(6)]
    assert decide(log_ratios, Tolerance(-0.05, 0.05), 20, window_error=1.3).outcome is Outcome.REGRESSED
    assert decide(log_ratios[:5], Tolerance(-0.05, 0.05), 20, window_error=1.3).outcome is Outcome.INCONCLUSIVE


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=MIN_PAIRS - 1))
def test_one_or_two_pairs_decide_nothing(log_ratios: list[float]) -> None:
    found = decide(log_ratios, TWO_PERCENT, 20)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert (found.low, found.high) == (0, math.inf)


few_ratios = st.lists(st.floats(-0.5, 0.5), min_size=MIN_PAIRS, max_size=PAIRS_THAT_TELL - 1)


@given(few_ratios, st.floats(0, 0.2), st.floats(0.001, 0.2))
def test_restless_windows_widen_the_interval_of_few_pairs(log_ratios: list[float], error: float, more: float) -> None:
    calm, restless = (decide(log_ratios, TWO_PERCENT, 20, window_error=e) for e in (error, error + more))
    assert restless.low < calm.low
    assert restless.high > calm.high


@given(st.lists(st.floats(-0.5, 0.5), min_size=PAIRS_THAT_TELL, max_size=20), st.floats(0, 0.2), st.floats(0.001, 0.2))
def test_what_may_have_biased_all_pairs_widens_the_interval(log_ratios: list[float], one: float, more: float) -> None:
    narrow, wide = (decide(log_ratios, TWO_PERCENT, 20, bias=b) for b in (one, one + more))
    assert wide.low < narrow.low
    assert wide.high > narrow.high


def test_three_pairs_that_happen_to_agree_are_not_certain() -> None:
    """They do not differ, so only what pairs are expected to differ by keeps the interval open."""
    found = decide([-0.03] * MIN_PAIRS, TWO_PERCENT, 20)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.low < 0.95


def test_what_is_expected_yields_to_many_pairs() -> None:
    few, many = (decide([0.001, -0.001] * n, TWO_PERCENT, 400, window_error=0.1) for n in (5, 200))
    assert math.log(many.high / many.low) < math.log(few.high / few.low) / 20


@pytest.mark.parametrize(("most", "expected"), [(3, 0.01), (4, 0.005), (5, 0.01 / 3), (18, 0.01 / 8)])
def test_few_looks_share_the_error_evenly_and_many_by_the_root_of_their_number(most: int, expected: float) -> None:
    assert share(0.01, most) == pytest.approx(expected)


@pytest.mark.parametrize(("count", "expected"), [(9, 10 / 9), (10, 0.0)])
def test_from_ten_on_one_value_at_either_end_is_cut_off(count: int, expected: float) -> None:
    assert trimmed_mean([10.0, *[0.0] * (count - 1)]) == pytest.approx(expected)


def test_the_mean_of_the_rest_is_no_winsorised_one() -> None:
    assert trimmed_mean([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.5, 100.0]) == pytest.approx(36.5 / 8)


def test_an_unbounded_drop_never_fails() -> None:
    assert decide([-3.0, -3.1, -2.9, -3.0], Tolerance(None, None), 20).outcome is Outcome.PASS


def test_one_wild_pair_of_four_is_no_regression() -> None:
    assert decide([0.001, -0.002, -0.6, 0.0], TWO_PERCENT, 20).outcome is Outcome.INCONCLUSIVE


def test_from_ten_pairs_on_one_wild_pair_is_cut_off() -> None:
    calm = [0.001, -0.002, 0.0, 0.003, -0.001, 0.002, -0.003, 0.001, 0.0]
    assert decide([*calm, -0.6], TWO_PERCENT, 20).outcome is Outcome.PASS


@pytest.mark.parametrize(("truth", "between_pairs"), [(-0.02, 0.005), (-0.02, 0.028), (0.0, 0.07)])
def test_testing_after_each_pair_keeps_the_false_alarms_below_their_bound(truth: float, between_pairs: float) -> None:
    """They are the most at the tolerance itself; A against A stays below.

    3 standard errors of the simulation are allowed.
    """
    draw, trials = random.Random(4), 500
    alarms = sum(_ever(draw, math.log1p(truth), between_pairs, Outcome.REGRESSED) for _ in range(trials))
    assert alarms / trials <= FALSE_ALARMS + 3 * math.sqrt(FALSE_ALARMS / trials)


def test_a_loss_of_five_percent_is_detected_where_workers_differ_by_one() -> None:
    draw, trials = random.Random(4), 200
    found = sum(_ever(draw, math.log(0.95), 0.01 * math.sqrt(2), Outcome.REGRESSED) for _ in range(trials))
    assert found / trials >= 0.95


def _ever(draw: random.Random, truth: float, between_pairs: float, outcome: Outcome) -> bool:
    """Whether a comparison that ends with its first decision, or at 20 pairs, ends so."""
    log_ratios: list[float] = []
    while len(log_ratios) < 20:
        log_ratios.append(draw.gauss(truth, between_pairs))
        found = decide(log_ratios, TWO_PERCENT, 20).outcome
        if found is not Outcome.INCONCLUSIVE:
            return found is outcome
    return False
