"""How much fresh runs of one workload differ on one machine, learnt from all of the machine's baselines.

Five runs say little about their own standard deviation. The rows of one machine are noisy for the same reasons, so each
row's variance is drawn towards the machine's: limma's moderated variance (Smyth 2004, "Linear models and empirical
Bayes methods", section 6.2).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.throughput import scatter
from pytest_tfperf.core.verdict import Noise

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
    most = float(sum(freedom for _, freedom in known.values()))
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
