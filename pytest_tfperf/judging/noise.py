"""How much fresh runs of one workload differ on one machine, learnt from all of the machine's baselines.

Five runs say little about their own spread, and a test by that alone would miss any loss below 10 %. The rows of one
machine are noisy for the same reasons, so each row's variance is drawn towards the machine's: limma's moderated
variance (Smyth 2004, "Linear models and empirical Bayes methods", section 6.2).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline, Key

# The DGX-1 document ran two one-GPU columns twice: 228/227 and 219/223, at most 1.8 % apart. Two runs that differ by
# 1.8 % have a standard deviation of 1.8 / sqrt(2).
PUBLISHED_SPREAD = 0.018 / math.sqrt(2)

_SPELL = -math.log1p(-0.05)

# Equal readings from a coarse source are no proof of a noiseless machine.
_LEAST_SPREAD = 0.001


@dataclass(frozen=True, slots=True)
class Noise:
    """The spread that a verdict reckons with.

    Args:
        spread: standard deviation between fresh runs' log throughputs.
        degrees_of_freedom: how well it is known; inf where it is assumed.
        source: in words, for the result.
        between_nights: standard deviation of what a night does to all runs of a test alike; 0 where it is credited.
    """

    spread: float
    degrees_of_freedom: float
    source: str
    between_nights: float = 0.0


def without_spells(log_rates: Sequence[float]) -> list[float]:
    """A baseline's runs without those that fell into a slow spell of the machine, in their order.

    A shared machine loses a fifth of its speed for some seconds, now and then; one such run among five would double the
    spread and blind the row. Left out is what lies below the median by more than 5 % and by more than 3.5 robust
    standard deviations; where that is more than a third of the runs, it is how the machine is, and all stay.
    """
    middle = statistics.median(log_rates)
    scatter = 1.4826 * statistics.median(abs(rate - middle) for rate in log_rates)
    line = middle - max(_SPELL, 3.5 * scatter)
    kept = [rate for rate in log_rates if rate >= line]
    return kept if len(log_rates) - len(kept) <= len(log_rates) / 3 else list(log_rates)


def noise_of(baseline: Baseline, rows: Iterable[Baseline]) -> Noise:
    """The noise to reckon with for `baseline`, one of the machine's `rows`.

    A row without a spread borrows the machine's; a machine without any gets what the DGX-1 document shows.
    """
    known = {r.key: (r.spread, r.runs - 1) for r in rows if r.spread is not None and r.runs >= 2}
    if not known:
        return Noise(PUBLISHED_SPREAD, math.inf, "assumed, as the DGX-1 document's runs do")
    return _moderated(baseline.key, known)


def _moderated(key: Key, known: dict[Key, tuple[float, int]]) -> Noise:
    prior_df, prior_variance = _prior([(max(s, _LEAST_SPREAD) ** 2, df) for s, df in known.values()])
    spread, df = known.get(key, (0.0, 0))
    # All runs together are the most that can be known (limma's eBayes caps it so too).
    most = float(sum(df for _, df in known.values()))
    if math.isinf(prior_df) or len(known) == 1:
        return Noise(math.sqrt(prior_variance), most, _source(key, known))
    pooled = (prior_df * prior_variance + df * max(spread, _LEAST_SPREAD) ** 2) / (prior_df + df)
    return Noise(math.sqrt(pooled), min(prior_df + df, most), _source(key, known))


def _source(key: Key, known: Collection[Key]) -> str:
    if len(known) == 1:
        return "this row's own runs" if key in known else "the one row of this machine that has several runs"
    return f"{len(known)} rows of this machine" + ("" if key in known else ", this one has no spread of its own")


def _prior(rows: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Degrees of freedom and variance that the machine's rows have in common (Smyth 2004, method of moments)."""
    from scipy.special import digamma, polygamma

    if len(rows) == 1:  # nothing shows how rows differ
        return 0.0, rows[0][0]
    centred = [math.log(v) - float(digamma(df / 2)) + math.log(df / 2) for v, df in rows]
    mean = statistics.fmean(centred)
    excess = statistics.variance(centred) - statistics.fmean(float(polygamma(1, df / 2)) for _, df in rows)
    if excess <= 0:  # the rows differ no more than chance makes them: one variance for all
        return math.inf, sum(v * df for v, df in rows) / sum(df for _, df in rows)
    prior_df = 2 * _inverse_trigamma(excess)
    return prior_df, math.exp(mean + float(digamma(prior_df / 2)) - math.log(prior_df / 2))


def _inverse_trigamma(value: float) -> float:
    from scipy.optimize import brentq
    from scipy.special import polygamma

    if value < 1e-6:  # trigamma(x) = 1/x from there on
        return 1 / value
    return float(brentq(lambda x: float(polygamma(1, x)) - value, 1e-6, 1e8))
