"""The numbers that thresholds are made of, as docs/statistics.md promises them."""

from __future__ import annotations

import math

import pytest
import scipy.stats

from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.noise import (
    DETECTION,
    DOUBTS,
    FALSE_ALARMS,
    TO_BE_FOUND,
    accepted_rise,
    accepted_slowdown,
    baseline_variance,
    quantile,
    suspicion,
)


def test_noise_fails_one_session_in_a_hundred_and_leaves_five_in_doubt() -> None:
    assert (FALSE_ALARMS, DOUBTS) == (0.01, 0.05)


def test_a_loss_of_five_per_cent_is_to_be_found_where_two_are_accepted() -> None:
    accepted = accepted_slowdown(Tolerance.of(0.02))
    assert math.exp(-(accepted + TO_BE_FOUND)) == pytest.approx(0.95)


def test_a_slowdown_that_is_detected_exceeds_its_threshold_98_times_in_100() -> None:
    assert scipy.stats.norm.cdf(DETECTION) == pytest.approx(0.98, abs=0.001)


@pytest.mark.parametrize(("runs", "variance"), [(1, 1.0), (2, 1.07 / 2), (5, 1.07 / 5)])
def test_the_variance_of_a_baseline_is_that_of_its_median(runs: int, variance: float) -> None:
    assert baseline_variance(runs) == pytest.approx(variance)


def test_both_ends_of_the_tolerance_are_positive_logarithms_or_open() -> None:
    tolerance = Tolerance(-0.1, 0.2)
    assert (accepted_slowdown(tolerance), accepted_rise(tolerance)) == pytest.approx((-math.log(0.9), math.log(1.2)))
    assert (accepted_slowdown(Tolerance(None, None)), accepted_rise(Tolerance(None, None))) == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(0.001, 0.02 - 0.0015, id="the tolerance less 1.5 standard errors"),
        pytest.param(0.012, 0.018, id="1.5 standard errors"),
        pytest.param(0.03, 0.02 + 0.03 - 2.05 * 0.03, id="what must not pass unsuspected"),
    ],
)
def test_a_test_is_suspected_by_its_tolerance_or_noise_whichever_is_the_tighter_bound(
    error: float, expected: float
) -> None:
    assert suspicion(0.02, error, to_be_found=0.03) == pytest.approx(expected)


def test_quantiles_are_students_and_of_many_degrees_of_freedom_normal() -> None:
    assert quantile(7, 0.01) == pytest.approx(scipy.stats.t.isf(0.01, 7))
    assert quantile(math.inf, 0.01) == pytest.approx(scipy.stats.norm.isf(0.01), rel=1e-5)
