"""Noise: the standard deviation between runs, and the slowdowns from which a test is suspected and from which it fails.

Slowdowns are natural logarithms of throughput. Five runs say little about their own standard deviation. The rows of
one machine are noisy for the same reasons, so each row's variance is drawn towards the machine's: limma's moderated
variance (Smyth 2004, "Linear models and empirical Bayes methods", section 6.2).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.throughput import scatter
from pytest_tfperf.core.verdict import Noise, Tolerance

FALSE_ALARMS = 0.01
"""How often noise alone may fail a session: shared among its tests, or by rule 1 among its suspects."""

DOUBTS = 0.05
"""How often noise alone may leave a session with an INCONCLUSIVE test."""

SUSPICION = 1.5
"""In standard errors: a test is suspected if its slowdown exceeds both this noise and the tolerance less this noise."""

TO_BE_FOUND = -math.log1p(-0.05) + math.log1p(-0.02)
"""A loss that noise must not let pass unsuspected, in excess of the tolerance: 5 % where 2 % is accepted.

It applies only where there is a reference environment, which can confirm the loss. A test that is too noisy to show
such a loss by itself is suspected unless it is so much faster that the loss is unlikely.
"""

DETECTION = 2.05
"""Standard errors beyond the threshold at which a slowdown is detected: 98 times in 100 by the screen and again by the
decision, so about 95 in 100 by both. benchmarks/verdict.py holds the result against simulated sessions."""

TOO_NOISY_TO_GATE = 0.25
"""The least slowdown that a gate must detect: no row is recorded whose runs differ too much for it (with five runs, a
standard deviation of 7 %), and no pass counts if noise, and not the tolerance, puts the threshold beyond it."""

MEDIAN_VARIANCE = 1.07
"""The variance of a Hodges-Lehmann median of normal values, in variances of their mean."""


def accepted_slowdown(tolerance: Tolerance) -> float:
    """Return the tolerance's lower bound as a positive logarithm; inf where any drop is accepted."""
    return math.inf if tolerance.lower is None else -math.log1p(tolerance.lower)


def accepted_rise(tolerance: Tolerance) -> float:
    """Return the tolerance's upper bound as a logarithm; inf where any rise is accepted."""
    return math.inf if tolerance.upper is None else math.log1p(tolerance.upper)


def is_blind(threshold: float, accepted: float) -> bool:
    """Whether noise widens a threshold so far beyond the tolerance that a pass says nothing; both are logarithms."""
    return threshold > max(accepted, -math.log1p(-TOO_NOISY_TO_GATE))


def suspicion(accepted: float, error: float, to_be_found: float = math.inf) -> float:
    """Return the slowdown from which a value with this standard error is suspected; below 0, a speed-up clears it."""
    noise = SUSPICION * error
    return max(min(noise, accepted + to_be_found - DETECTION * error), accepted - noise)


def detectable(accepted: float, error: float) -> float:
    """Return the change that one run against a row shows with 98 % power, in the unit of the arguments."""
    return suspicion(accepted, error) + DETECTION * error


def baseline_variance(runs: int) -> float:
    """Return the variance of a baseline, the Hodges-Lehmann median of its runs, in variances between runs."""
    return MEDIAN_VARIANCE / runs if runs > 1 else 1.0


def screen_error(between_runs: float, baseline_runs: int) -> float:
    """Return the standard error of the difference between one run and a baseline of `baseline_runs` runs."""
    return between_runs * math.sqrt(1 + baseline_variance(baseline_runs))


@cache
def quantile(degrees_of_freedom: float, upper_tail: float) -> float:
    """Return Student's t quantile that is exceeded with the probability `upper_tail`."""
    from scipy.special import stdtrit

    return -float(stdtrit(min(degrees_of_freedom, _MANY), upper_tail))


_MANY = 1e6  # degrees of freedom from which t is normal; scipy's functions don't take inf


ASSUMED_BETWEEN_RUNS = 0.018 / math.sqrt(2)
"""The standard deviation between runs where nothing was measured.

The DGX-1 document ran two one-GPU columns twice: 228/227 and 219/223, at most 1.8 % apart, and two runs that differ by
1.8 % have a standard deviation of 1.8 / sqrt(2).
"""

_ASSUMED_FREEDOM = 8.0  # degrees of freedom of the assumption, beside those of the measurements

_LEAST_BETWEEN_RUNS = 0.001  # equal readings from a coarse source are no proof of a noiseless machine

_SLOW_RUN = -math.log1p(-0.05)


def mean_square(errors: Iterable[float]) -> float | None:
    """The mean square of runs' standard errors; None where no run has enough windows for one."""
    known = [error**2 for error in errors if math.isfinite(error)]
    return statistics.fmean(known) if known else None


def without_slow_runs(log_rates: Sequence[float]) -> list[float]:
    """Leave out a baseline's runs that fell into a slow period of the machine; the others keep their order.

    A shared machine sometimes loses a fifth of its speed for some seconds. One such run among five would double the
    standard deviation, and the row would detect little. A run is left out if it is below the median by more than 5 %
    and by more than 3.5 robust standard deviations. If more than a third of the runs are so slow, all stay.
    """
    least = statistics.median(log_rates) - max(_SLOW_RUN, 3.5 * scatter(log_rates))
    kept = [rate for rate in log_rates if rate >= least]
    return kept if len(log_rates) - len(kept) <= len(log_rates) / 3 else list(log_rates)


def noise_of(baseline: Baseline, rows: Iterable[Baseline]) -> Noise:
    """Return the noise to allow for when judging against `baseline`, one of the machine's `rows`.

    A row that doesn't know its own standard deviation borrows the machine's; a machine without any gets the value from
    the DGX-1 document.
    """
    known = {
        row.key: (max(row.between_runs, _LEAST_BETWEEN_RUNS) ** 2, row.runs - 1)
        for row in rows
        if row.between_runs is not None and row.runs >= 2
    }
    if not known:
        return Noise(between_runs=ASSUMED_BETWEEN_RUNS, degrees_of_freedom=math.inf)
    prior_freedom, prior_variance = _prior(tuple(known.values()))
    # All runs together are the most that can be known (limma's eBayes caps it so too).
    _, freedoms = zip(*known.values(), strict=True)
    most = float(sum(freedoms))
    if math.isinf(prior_freedom) or len(known) == 1:
        return Noise(between_runs=math.sqrt(prior_variance), degrees_of_freedom=most, rows=len(known))
    if baseline.key not in known:  # rows that differ much say little about another row
        return replace(with_assumption(prior_variance, prior_freedom), rows=len(known))
    variance, freedom = known[baseline.key]
    pooled = (prior_freedom * prior_variance + freedom * variance) / (prior_freedom + freedom)
    degrees = min(prior_freedom + freedom, most)
    return Noise(between_runs=math.sqrt(pooled), degrees_of_freedom=degrees, rows=len(known))


def with_assumption(variance: float, degrees_of_freedom: float) -> Noise:
    """Return the noise from a variance between runs, pooled with the noise assumed for any machine.

    The assumption counts as eight degrees of freedom: two runs alone leave their noise so uncertain that the threshold
    would be a third of the throughput.
    """
    both = _ASSUMED_FREEDOM + degrees_of_freedom
    pooled = (_ASSUMED_FREEDOM * ASSUMED_BETWEEN_RUNS**2 + degrees_of_freedom * variance) / both
    return Noise(between_runs=math.sqrt(pooled), degrees_of_freedom=both)


@cache  # each of a session's tests asks with the same rows
def _prior(rows: tuple[tuple[float, int], ...]) -> tuple[float, float]:
    """Degrees of freedom and variance that the machine's rows have in common (Smyth 2004, method of moments)."""
    if len(rows) == 1:  # nothing shows how rows differ
        return 0.0, rows[0][0]

    from scipy.special import digamma, polygamma  # it takes half a second to import

    centred = [math.log(v) - float(digamma(df / 2)) + math.log(df / 2) for v, df in rows]
    mean = statistics.fmean(centred)
    excess = statistics.variance(centred) - statistics.fmean(float(polygamma(1, df / 2)) for _, df in rows)
    if excess <= 0:  # the rows differ no more than chance makes them: one variance for all
        return math.inf, sum(v * df for v, df in rows) / sum(df for _, df in rows)
    prior_freedom = 2 * _inverse_trigamma(excess)
    return prior_freedom, math.exp(mean + float(digamma(prior_freedom / 2)) - math.log(prior_freedom / 2))


def _inverse_trigamma(value: float) -> float:
    from scipy.optimize import brentq
    from scipy.special import polygamma

    if value < 1e-6:  # trigamma(x) = 1/x from there on
        return 1 / value
    return float(brentq(lambda x: float(polygamma(1, x)) - value, 1e-6, 1e8))
