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
_PRIOR_OF_FEW_TESTS = 0.01  # where that can't be: the scale of an inverse chi-square prior
_DEGREES_OF_FEW_TESTS = 4  # degrees of freedom of that prior

_LOST_SOMETHING = 0.1  # share of the measurements that may hold a real loss or gain
_LOSS = 0.05  # about the size of such a loss or gain

_CHANGED = (Outcome.REGRESSED, Outcome.IMPROVED)
_CHANGES_BEGIN = 0.03  # share of the sessions in which a real change of a test begins

# Share of the posterior below the largest deviation that a threshold allows for. With few tests its tail is long.
_UPPER = 0.95
_UPPER_OF_FEW_TESTS = 0.5
_UPPER_OF_SHARED = 0.95  # for a test that is as slow as the others: the session is the likely cause

_SESSIONS_NOT_LEARNT = 3  # the latest sessions may hold the very loss to be detected
_SESSIONS_LEARNT = 10  # then the baseline is frozen, so that it does not follow a slow decline


@dataclass(frozen=True, slots=True)
class SessionVariance:
    """The posterior of the standard deviation between a test's sessions.

    Args:
        weights: of each standard deviation in `GRID`; they add up to 1.
        below_upper: the share of the weights below `upper`.
    """

    weights: tuple[float, ...]
    below_upper: float = _UPPER

    @property
    def mean(self) -> float:
        """Its expected value, in log throughput."""
        return math.fsum(weight * sigma for weight, sigma in zip(self.weights, GRID, strict=True))

    @property
    def upper(self) -> float:
        """The largest standard deviation that a threshold allows for."""
        return self._quantile(self.below_upper)

    @property
    def upper_of_shared(self) -> float:
        """The same, for a slowdown that the session's other tests show, too, and that no common drift explains."""
        return self._quantile(max(self.below_upper, _UPPER_OF_SHARED))

    def _quantile(self, share: float) -> float:
        """Interpolate between two points of the grid."""
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
        runs_variance: the baseline's uncertainty from its runs, in units of the variance between runs.
        sessions_variance: its uncertainty from its sessions, in units of the variance between sessions.
    """

    offset: float
    runs_variance: float
    sessions_variance: float


def session_variance(
    rows: Iterable[tuple[Noise, int, Sequence[SessionChanges]]] = (), *, tests: int = MIN_TESTS
) -> SessionVariance:
    """Return the posterior on `GRID`.

    Args:
        rows: each baseline's noise, its runs, and the earlier sessions judged against it, oldest first.
        tests: the number of the session's tests; if it is below `MIN_TESTS`, their common drift can't be taken out, and
            is part of the variance between sessions of each test.
    """
    log_weights = [_log_prior(sigma, tests) for sigma in GRID]
    for noise, baseline_runs, past in rows:
        sessions = [(hodges_lehmann(s.changes), len(s.changes), s.outcome) for s in past if s.changes]
        for index, sigma in enumerate(GRID):
            if log_weights[index] > -math.inf:
                log_weights[index] += _log_likelihood(sessions, sigma, noise.between_runs, baseline_runs)
    most = max(log_weights)
    weights = [math.exp(log_weight - most) for log_weight in log_weights]
    return SessionVariance(
        tuple(weight / math.fsum(weights) for weight in weights),
        below_upper=_UPPER if tests >= MIN_TESTS else _UPPER_OF_FEW_TESTS,
    )


def learnt_baseline(noise: Noise, baseline_runs: int, past: Sequence[SessionChanges], sigma: float) -> LearntBaseline:
    """Return the weighted mean of the committed baseline and the first ten good sessions, oldest first in `past`.

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
    sessions: Sequence[tuple[float, int, Outcome]], sigma: float, between_runs: float, baseline_runs: int
) -> float:
    """Return the log likelihood of one row's sessions, each given the sessions before it.

    All of the sessions share the row's error, which they help to estimate. A test that regressed or improved most
    likely did so for a cause of its own, and stays changed until someone mends or accepts the change. So the size of
    the change says nothing about other sessions, and the change counts once, however long it lasts; an INCONCLUSIVE
    session does not end it, and counts as any other session. Otherwise each large loss would widen the thresholds of
    all tests, and a lasting loss would hide itself.
    """
    row, uncertain = 0.0, between_runs**2 * baseline_variance(baseline_runs) + sigma**2
    total, before = 0.0, None
    for change, runs, outcome in sessions:
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
    """Return the log probability of a change by at least this, or by `_LOSS` if less: by noise or for a cause."""
    without = math.erfc(min(change, _LOSS) / math.sqrt(2 * variance)) / 2 if variance else 0.0
    return math.log((1 - _CHANGES_BEGIN) * without + _CHANGES_BEGIN)


def _log_density(change: float, variance: float) -> float:
    """Return the log density of a mixture: most tests lost nothing, a few may have."""
    square, of_loss = change * change, variance + _LOSS**2
    same = math.exp(-square / (2 * variance)) / math.sqrt(variance)
    lost = math.exp(-square / (2 * of_loss)) / math.sqrt(of_loss)
    return math.log((1 - _LOST_SOMETHING) * same + _LOST_SOMETHING * lost + 1e-300)
