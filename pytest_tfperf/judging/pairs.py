"""When the pairs of an interleaved comparison suffice to say which side is faster. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.judging.noise import ASSUMED_BETWEEN_RUNS
from pytest_tfperf.judging.thresholds import FALSE_ALARMS, accepted_rise, accepted_slowdown, quantile

MIN_PAIRS = 3
"""Pairs before the first test: two say nearly nothing about how much pairs differ."""

EXPECTED_PAIRS = 2
"""The weight, in pairs, of what is assumed about their scatter before the first pair: see `decide`."""

PAIRS_THAT_TELL = 6
"""From so many pairs on, their own spread tells what their windows and uneven disturbances can have done to them."""

_FALSE_PASSES = 0.025  # how often one that is slower by more passes; both ends of a 95 % interval have as much


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRates:
    """How often a comparison may be wrong, over all of its tests.

    Args:
        false_alarms: how often b is called REGRESSED, or IMPROVED, although it changed by no more than the tolerance.
            This holds where fresh workers differ by up to 2 %; at 4 % it is twice as often, A against A less
            (benchmarks/comparison.py).
        false_passes: how often b passes although it lost more.
    """

    false_alarms: float = FALSE_ALARMS
    false_passes: float = _FALSE_PASSES


_USUAL = ErrorRates()


# Interim tests of growing data resemble each other: m of them cost like 2 sqrt(m) independent ones. Found by simulating
# paths of t statistics for 5 to 50 pairs (50,000 to 200,000 each): none errs more than 0.99 % for 1 %, and 2.2 % for
# 2.5 %.
_COST_OF_TESTS = 2.0

# One pair at either end from so many on, two from twice as many. Fewer would leave too few: simulated, this keeps the
# error rates on normal pairs, and detects 97 losses of 5 % in 100 instead of 76 where a tenth of the pairs is outlying.
_TRIMMED_FROM = 10


@dataclass(frozen=True, slots=True)
class PairsDecision:
    """What the pairs so far say; INCONCLUSIVE asks for more.

    Args:
        ratio, low, high: of b / a, with its 95 % confidence interval.
        outcome: PASS, IMPROVED, REGRESSED or INCONCLUSIVE.
        reason: one sentence.
    """

    ratio: float
    low: float
    high: float
    outcome: Outcome
    reason: str


def decide(
    log_ratios: Sequence[float],
    tolerance: Tolerance,
    most_pairs: int,
    *,
    window_error: float = 0.0,
    bias: float = 0.0,
    error_rates: ErrorRates = _USUAL,
) -> PairsDecision:
    """Test the pairs so far against the tolerance; may be called after each pair, up to `most_pairs` of them.

    A t interval over pairs: windows of one pair share what sets its two processes apart, so only pairs are
    independent. From ten pairs on it is Yuen's, of the mean without a tenth of them at either end: on a busy machine
    some pairs are far off. Each test gets an equal share of the error that all may make together (Pocock's design, with
    nominal levels for t). REGRESSED takes an upper end below the tolerance at 1 %, PASS a lower end above it at 2.5 %,
    IMPROVED one above the upper tolerance at 1 %.

    Three pairs show little of their scatter, but more is known: their windows' errors, and that fresh workers differ by
    about 1 % on any machine (`ASSUMED_BETWEEN_RUNS`). That expectation counts as much as `EXPECTED_PAIRS` more pairs.
    From six pairs on it takes no larger error of windows than the spread of the pairs: ratios that agree to 0.1 %
    were not blurred by a busy machine, whatever its load says.

    Args:
        log_ratios: ln(b / a) of each pair, in order; at least one.
        tolerance: the drop and the rise of b that are accepted.
        most_pairs: after how many pairs it ends whatever they say: so many tests share the error.
        window_error: the standard error of a pair's log ratio from its windows, and from what disturbed one side only.
        bias: by how much disturbances of mostly one side can have changed the mean.
        error_rates: how often all tests together may be wrong.
    """
    mean, error, freedom = _centre(log_ratios, window_error, bias)
    shown = quantile(freedom, share(error_rates.false_passes, most_pairs)) * error if freedom else math.inf
    strict = quantile(freedom, share(error_rates.false_alarms, most_pairs)) * error if freedom else math.inf
    lower, upper = -accepted_slowdown(tolerance), accepted_rise(tolerance)
    pairs = f"{len(log_ratios)} fresh pair{'s' if len(log_ratios) > 1 else ''}"
    if mean + strict < lower:
        outcome, reason = Outcome.REGRESSED, f"slower by more than the tolerance in {pairs}"
    elif mean - strict > upper:
        outcome, reason = Outcome.IMPROVED, f"faster by more than the tolerance in {pairs}"
    elif mean - shown > lower:
        outcome, reason = Outcome.PASS, f"not slower by more than the tolerance in {pairs}"
    else:
        outcome, reason = Outcome.INCONCLUSIVE, f"too close to the tolerance to decide after {pairs}"
    return PairsDecision(math.exp(mean), math.exp(mean - shown), _exp(mean + shown), outcome, reason)


def share(error: float, most_pairs: int) -> float:
    """What one test may err, so that the tests after `MIN_PAIRS` to `most_pairs` pairs err `error` in all."""
    tests = most_pairs - MIN_PAIRS + 1
    return error / min(tests, _COST_OF_TESTS * math.sqrt(tests))


def spread(log_ratios: Sequence[float]) -> tuple[float, float]:
    """The variance of one log ratio and its degrees of freedom, by Yuen (1974): a wild pair hardly moves it.

    Divided by the number of pairs, it is the variance of their trimmed mean.
    """
    kept, winsorised = _trimmed(log_ratios)
    return statistics.variance(winsorised) * (len(winsorised) / len(kept)) ** 2, len(kept) - 1


def trimmed_mean(changes: Sequence[float]) -> float:
    """Their mean, from ten on without a tenth of them at either end; `spread` tells its variance."""
    return statistics.fmean(_trimmed(changes)[0])


def _centre(log_ratios: Sequence[float], window_error: float, bias: float) -> tuple[float, float, float]:
    """The trimmed mean, its standard error, degrees of freedom; 0 of them below `MIN_PAIRS`."""
    count, (kept, _) = len(log_ratios), _trimmed(log_ratios)
    mean = statistics.fmean(kept)
    if count < MIN_PAIRS:
        return mean, math.inf, 0
    seen, freedom = spread(log_ratios)
    of_windows = window_error**2 if count < PAIRS_THAT_TELL else min(window_error**2, seen)
    expected = 2 * ASSUMED_BETWEEN_RUNS**2 + of_windows
    variance = (EXPECTED_PAIRS * expected / len(kept) + freedom * seen / count) / (EXPECTED_PAIRS + freedom)
    return mean, math.hypot(math.sqrt(variance), bias), EXPECTED_PAIRS + freedom


def _trimmed(log_ratios: Sequence[float]) -> tuple[list[float], list[float]]:
    """Sorted, without a tenth at either end; and with the ends replaced by the outermost that are kept."""
    count, in_order = len(log_ratios), sorted(log_ratios)
    cut = count // _TRIMMED_FROM
    kept = in_order[cut : count - cut]
    return kept, [kept[0]] * cut + kept + [kept[-1]] * cut


def _exp(value: float) -> float:
    """For intervals so wide that their end is beyond every float."""
    return math.exp(value) if value < 700 else math.inf
