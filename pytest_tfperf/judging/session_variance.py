"""The standard deviation between sessions of one test, learnt from a machine's history (rule 2)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.verdict import Noise, Outcome
from pytest_tfperf.judging.common_drift import MIN_TESTS
from pytest_tfperf.judging.thresholds import baseline_variance

GRID = tuple(step / 1000 for step in range(51))
"""The standard deviations that are weighed against each other: 0 to 5 % by 0.1 %."""

_PRIOR = 0.003  # half-normal up to 2 %, where the drift common to all tests is taken out
_MOST = 0.02
_PRIOR_OF_FEW_TESTS = 0.01  # where it can't be: an inverse chi-square prior with
_DEGREES_OF_FEW_TESTS = 4

_LOST_SOMETHING = 0.1  # share of the measurements that may hold a real loss or gain,
_LOSS = 0.05  # of about this size

_CHANGED = (Outcome.REGRESSED, Outcome.IMPROVED)
_CHANGES_BEGIN = 0.03  # share of the sessions in which a real change of a test begins

# How much of the posterior lies below what a threshold allows for. That of few tests has a long upper tail.
_UPPER = 0.95
_UPPER_OF_FEW_TESTS = 0.5
_UPPER_OF_SHARED = 0.95  # for a test that is as slow as the others: the session is the likely cause

_SESSIONS_NOT_LEARNT = 3  # the latest may hold the very loss that is looked for
_SESSIONS_LEARNT = 10  # then the baseline is frozen: one that followed for ever would follow a slow decline


@dataclass(frozen=True, slots=True)
class SessionVariance:
    """The posterior of the standard deviation between a test's sessions.

    Args:
        weights: of each standard deviation in `GRID`; they add up to 1.
        below_upper: how much of them lies below `upper`.
    """

    weights: tuple[float, ...]
    below_upper: float = _UPPER

    @property
    def mean(self) -> float:
        """Its expected value, in log throughput."""
        return math.fsum(weight * sigma for weight, sigma in zip(self.weights, GRID, strict=True))

    @property
    def upper(self) -> float:
        """The most that a threshold allows for."""
        return self._quantile(self.below_upper)

    @property
    def upper_of_shared(self) -> float:
        """The same for a slowdown that the session's other tests show, too, where nothing takes it out."""
        return self._quantile(max(self.below_upper, _UPPER_OF_SHARED))

    def _quantile(self, share: float) -> float:
        """Between two points of the grid."""
        below = 0.0
        for index, weight in enumerate(self.weights):
            if weight > 0 and below + weight >= share:
                return max(0.0, GRID[index] - GRID[1] * (below + weight - share) / weight)
            below += weight
        return GRID[-1]


@dataclass(frozen=True, slots=True)
class LearntBaseline:
    """The committed baseline, refined by good sessions.

    Args:
        offset: what to add to the log of the committed baseline.
        runs_variance: what the runs behind it leave uncertain, in units of the variance between runs.
        sessions_variance: what the sessions behind it leave uncertain, in units of the variance between sessions.
    """

    offset: float
    runs_variance: float
    sessions_variance: float


def session_variance(
    rows: Iterable[tuple[Noise, int, Sequence[SessionChanges]]] = (), *, tests: int = MIN_TESTS
) -> SessionVariance:
    """The posterior on `GRID`.

    Args:
        rows: each baseline's noise, its runs, and the earlier sessions judged against it, oldest first.
        tests: how many the session has; where they are fewer than `MIN_TESTS`, the drift common to all of them can't be
            taken out, and is part of what a session does to each.
    """
    log_weights = [_log_prior(sigma, tests) for sigma in GRID]
    for noise, baseline_runs, past in rows:
        seen = [(hodges_lehmann(one.changes), len(one.changes), one.outcome) for one in past if one.changes]
        for index, sigma in enumerate(GRID):
            log_weights[index] += _log_likelihood(seen, sigma, noise.between_runs, baseline_runs)
    most = max(log_weights)
    weights = [math.exp(log_weight - most) for log_weight in log_weights]
    return SessionVariance(
        tuple(weight / math.fsum(weights) for weight in weights),
        below_upper=_UPPER if tests >= MIN_TESTS else _UPPER_OF_FEW_TESTS,
    )


def learnt_baseline(noise: Noise, baseline_runs: int, past: Sequence[SessionChanges], sigma: float) -> LearntBaseline:
    """The weighted mean of the committed baseline and the first ten good sessions, oldest first in `past`.

    The last three sessions don't count, as they may hold a loss that is not confirmed yet. A single figure, such as a
    document's, stays as it is. Weights are inverse variances, with `sigma` between sessions.
    """
    parts = [(0.0, baseline_variance(baseline_runs))]
    if baseline_runs > 1:
        good = [s for s in past[:-_SESSIONS_NOT_LEARNT] if s.outcome is Outcome.PASS and s.changes]
        parts += [(hodges_lehmann(s.changes), 1 / len(s.changes)) for s in good[:_SESSIONS_LEARNT]]
    weights = [1 / (noise.between_runs**2 * variance + sigma**2) for _, variance in parts]
    shares = [weight / math.fsum(weights) for weight in weights]
    return LearntBaseline(
        offset=math.fsum(share * change for share, (change, _) in zip(shares, parts, strict=True)),
        runs_variance=math.fsum(share**2 * variance for share, (_, variance) in zip(shares, parts, strict=True)),
        sessions_variance=math.fsum(share**2 for share in shares),
    )


def _log_prior(sigma: float, tests: int) -> float:
    if tests >= MIN_TESTS:
        return -((sigma / _PRIOR) ** 2) / 2 if sigma <= _MOST else -math.inf
    if sigma == 0:
        return -math.inf
    ratio = _PRIOR_OF_FEW_TESTS / sigma
    return (_DEGREES_OF_FEW_TESTS + 1) * math.log(ratio) - _DEGREES_OF_FEW_TESTS * ratio**2 / 2


def _log_likelihood(
    seen: Sequence[tuple[float, int, Outcome]], sigma: float, between_runs: float, baseline_runs: int
) -> float:
    """Of one row's sessions, each given those before it: all of them share the row's error, which they make known.

    A test that regressed or improved most likely did so for a cause of its own, and stays so until someone mends it or
    accepts it. So how much it changed says nothing of other sessions, and it counts once, however long it lasts; a
    session in doubt does not end it, and counts as any other.
    Otherwise each large loss would widen the thresholds of all tests, and a lasting one would hide itself.
    """
    row, uncertain = 0.0, between_runs**2 * baseline_variance(baseline_runs) + sigma**2
    total, before = 0.0, None
    for change, runs, outcome in seen:
        own = between_runs**2 / runs + sigma**2
        if outcome not in _CHANGED:
            total += _log_density(change - row, uncertain + own)
            known = uncertain / (uncertain + own)
            row, uncertain = row + known * (change - row), uncertain * (1 - known)
        elif outcome is not before:
            total += _log_share_beyond(abs(change - row), uncertain + own)
        if outcome is not Outcome.INCONCLUSIVE:
            before = outcome
    return total


def _log_share_beyond(change: float, variance: float) -> float:
    """The probability that a session changes by so much, or by `_LOSS`, in logs: by the machine or for a cause."""
    without = math.erfc(min(change, _LOSS) / math.sqrt(2 * variance)) / 2 if variance else 0.0
    return math.log((1 - _CHANGES_BEGIN) * without + _CHANGES_BEGIN)


def _log_density(change: float, variance: float) -> float:
    """Of a mixture: most tests lost nothing, a few may have."""
    same, lost = (math.exp(-(change**2) / (2 * v)) / math.sqrt(v) for v in (variance, variance + _LOSS**2))
    return math.log((1 - _LOST_SOMETHING) * same + _LOST_SOMETHING * lost + 1e-300)
