"""The effects of a session on its tests: their common drift, and the standard deviation between sessions of one test.

The standard deviation is learnt from a machine's history (rule 2).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import RunValue, hodges_lehmann, run_value, scatter
from pytest_tfperf.core.verdict import LOSSES, Noise, Outcome
from pytest_tfperf.judging.noise import baseline_variance

MIN_TESTS = 8
"""With fewer tests the median can't separate the machine from the tests themselves."""

MIN_OTHERS = 2
"""With fewer other tests it can't be told whether the others changed, too."""

FIRST_WINDOWS = 20
"""The drift uses each test's first windows only: runs that stop early on good news would bias it."""


_GROWN = 1.7  # times: the scatter of eight tests whose noise did not grow is hardly ever so much larger

_APART = 2.5  # standard deviations between the two groups of a session in which some tests lost something
_LEAST_OF_GROUP = 0.4  # the share of the tests in the smaller group; with fewer the median lies in the other group


@dataclass(frozen=True, slots=True)
class CommonDrift:
    """The drift common to all tests of a session."""

    log: float = 0.0  # the median over tests, in log throughput; 0 where it isn't known
    tests: int = 0  # the number of the session's tests
    error: float = 0.0  # the median's standard error, from the scatter of the tests around it
    # How many times as much runs differ as when the baselines were recorded, by the scatter of the tests around the
    # drift; 1 if about as much.
    growth: float = 1.0

    @property
    def is_known(self) -> bool:
        """Whether enough tests show the drift."""
        return self.tests >= MIN_TESTS


def of_first_windows(run: Run) -> RunValue:
    """Return the throughput of a run's first windows alone."""
    return run_value(replace(run, windows=run.windows[:FIRST_WINDOWS], stated_examples_per_sec=None))


@dataclass(frozen=True, slots=True)
class NoiseOfChanges:
    """The standard deviations of a test's change by noise alone, the common drift taken out."""

    of_runs: float  # by the differences between fresh runs, of the session and of the baseline
    others: float  # by a run's windows, and by what a session does to a single test

    @property
    def total(self) -> float:
        """Both together."""
        return math.hypot(self.of_runs, self.others)

    def growth(self, scatter: float) -> float:
        """Return how many times as much runs differ where tests scatter by this; 1 if noise explains it."""
        if scatter <= _GROWN * self.total:
            return 1.0
        return math.sqrt(scatter**2 - self.others**2) / self.of_runs


def common_drift(changes: Collection[float], noise: NoiseOfChanges | None = None) -> CommonDrift:
    """Return the drift of a session, which is the median of its tests, or of one of two groups of them.

    A change of the code that slows half of the tests down leaves two groups. The drift is then that of the group nearer
    to its baselines: code that lost something is more likely than code that gained on a machine that became slower.

    `changes` are of the tests' first windows against their baselines. Without `noise` all tests are one group.
    """
    if len(changes) < MIN_TESTS:
        return CommonDrift(tests=len(changes))
    alike = _nearer_group(sorted(changes), math.inf if noise is None else _APART * noise.total)
    seen = scatter(alike)
    error = seen * math.sqrt(math.pi / 2 / len(alike))
    growth = 1.0 if noise is None else noise.growth(seen)
    return CommonDrift(statistics.median(alike), len(changes), error, growth)


def _nearer_group(changes: Sequence[float], apart: float) -> Sequence[float]:
    """Return the group nearer to 0 where the sorted changes are two groups of about one size; else all changes."""
    least = math.ceil(_LEAST_OF_GROUP * len(changes))
    gaps = {cut: changes[cut] - changes[cut - 1] for cut in range(least, len(changes) - least + 1)}
    cut = max(gaps, key=lambda cut: gaps[cut])
    if gaps[cut] <= apart:
        return changes
    return min(changes[:cut], changes[cut:], key=lambda group: abs(statistics.median(group)))


def noise_of_changes(
    rows: Iterable[tuple[Noise, int]], *, within_runs: float, between_sessions: float
) -> NoiseOfChanges:
    """Return the noise of a change, in the median over tests.

    `rows` have the noise of each test's baseline and the number of its runs; `within_runs` is the standard error of a
    run from its first windows.
    """
    of_runs = statistics.median(noise.between_runs**2 * (1 + baseline_variance(runs)) for noise, runs in rows)
    return NoiseOfChanges(math.sqrt(of_runs), math.hypot(within_runs, between_sessions))


def change_of_others(changes: Collection[float]) -> float | None:
    """Return the median change of a session's other tests where they are too few for a common drift; else None."""
    return statistics.median(changes) if MIN_OTHERS <= len(changes) < MIN_TESTS - 1 else None


# Between sessions

GRID = tuple(step / 1000 for step in range(51))
"""The standard deviations that are weighed against each other: 0 to 5 % by 0.1 %."""

_PRIOR = 0.003  # half-normal up to 2 %, where the drift common to all tests is taken out
_MOST = 0.02
_PRIOR_OF_FEW_TESTS = 0.01  # where that can't be: the scale of an inverse chi-square prior
_DEGREES_OF_FEW_TESTS = 4  # degrees of freedom of that prior

_LOST_SOMETHING = 0.1  # share of the measurements that may hold a real loss or gain
_LOSS = 0.05  # about the size of such a loss or gain

_REPORTED = (*LOSSES, Outcome.IMPROVED)
_LEFT = 0.25  # of a reported change: a session that shows no more than this measured without it

# Share of the posterior below the largest deviation that a threshold allows for. With few tests its tail is long.
_UPPER = 0.95
_UPPER_OF_FEW_TESTS = 0.5
_UPPER_OF_SHARED = 0.9  # for a test that is as slow as the others: the session is the likely cause

_SESSIONS_NOT_LEARNT = 3  # the latest sessions may hold the very loss to be detected
_MOST_ERRORS = 1.5  # of the row: the most that its sessions may correct it by
_SESSIONS_LEARNT = 10  # then the baseline is frozen, so that it does not follow a slow decline


@dataclass(frozen=True, slots=True)
class SessionVariance:
    """The posterior of the standard deviation between a test's sessions."""

    weights: tuple[float, ...]  # of each standard deviation in `GRID`; they add up to 1
    is_of_few: bool = False  # the session's tests are too few to take out the drift that they have in common

    @property
    def mean(self) -> float:
        """Its expected value, in log throughput."""
        return math.fsum(weight * sigma for weight, sigma in zip(self.weights, GRID, strict=True))

    @property
    def upper(self) -> float:
        """The largest standard deviation that a threshold allows for."""
        return self._quantile(_UPPER_OF_FEW_TESTS if self.is_of_few else _UPPER)

    @property
    def upper_of_shared(self) -> float:
        """The same, for a slowdown that the session's other tests show, too, and that no common drift explains."""
        return self._quantile(_UPPER_OF_SHARED if self.is_of_few else _UPPER)

    @property
    def assumed(self) -> SessionVariance:
        """The variance that is assumed of such a session without any history."""
        return session_variance(tests=1 if self.is_of_few else MIN_TESTS)

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
    """The committed baseline, refined by good sessions."""

    offset: float  # what to add to the log of the committed baseline
    runs_variance: float  # the baseline's uncertainty from its runs, in units of the variance between runs
    sessions_variance: float  # its uncertainty from its sessions, in units of the variance between sessions


def session_variance(
    rows: Iterable[tuple[Noise, int, Sequence[SessionChanges]]] = (), *, tests: int = MIN_TESTS
) -> SessionVariance:
    """Return the posterior on `GRID`.

    Args:
        rows: each baseline's noise, its runs, and the earlier sessions judged against it, oldest first.
        tests: the number of the session's tests; if it is below `MIN_TESTS`, their common drift can't be taken out, and
            is part of the variance between sessions of each test.
    """
    # Few tests show mostly what a session does to all of them: together they say as much as one of them, and a single
    # session that differs is no variance yet.
    are_few = tests < MIN_TESTS
    known = [
        (noise, baseline_runs, learnt)
        for noise, baseline_runs, past in rows
        if len(learnt := teaching(past)) > (1 if are_few else 0)
    ]
    independent = 1.0 / max(len(known), 1) if are_few else 1.0
    log_weights = [_log_prior(sigma, tests) for sigma in GRID]
    for noise, baseline_runs, past in known:
        sessions = [(hodges_lehmann(s.changes), len(s.changes)) for s in past]
        for index, sigma in enumerate(GRID):
            if log_weights[index] > -math.inf:
                likelihood = _log_likelihood(sessions, sigma, noise.between_runs, baseline_runs)
                log_weights[index] += independent * likelihood
    most = max(log_weights)
    weights = [math.exp(log_weight - most) for log_weight in log_weights]
    return SessionVariance(tuple(weight / math.fsum(weights) for weight in weights), is_of_few=are_few)


def teaching(past: Sequence[SessionChanges]) -> list[SessionChanges]:
    """Return the sessions of a row that say something of its noise, in their order.

    What a test was reported for is evidence of a change of that test. So a reported session teaches nothing, and
    neither do the sessions after it until one measures without the change. If that session measured the same code, the
    code had not changed, and the reported sessions were noise: then they teach, too.
    """
    learnt: list[SessionChanges] = []
    reported: list[SessionChanges] = []
    for session in past:
        if not session.changes:
            continue
        change = hodges_lehmann(session.changes)
        if session.outcome in _REPORTED:
            reported.append(session)
        elif not reported:
            learnt.append(session)
        elif all(_is_without(change, hodges_lehmann(earlier.changes)) for earlier in reported):
            learnt += [earlier for earlier in reported if earlier.code and earlier.code == session.code]
            learnt.append(session)
            reported = []
    return learnt


def _is_without(change: float, reported: float) -> bool:
    """Whether at most a quarter of the reported change is left."""
    return change * math.copysign(1.0, reported) <= _LEFT * abs(reported)


def learnt_baseline(noise: Noise, baseline_runs: int, past: Sequence[SessionChanges], sigma: float) -> LearntBaseline:
    """Return the weighted mean of the committed baseline and the first ten good sessions, oldest first in `past`.

    The last three sessions don't count, as they may hold a loss that is not confirmed yet. A single figure, such as a
    document's, stays as it is. Weights are inverse variances, with `sigma` between sessions. Sessions further from the
    row than its own error explains are a change of the test, which only a new recording accepts.
    """
    older = past[:-_SESSIONS_NOT_LEARNT]
    of_row = baseline_variance(baseline_runs)
    if baseline_runs <= 1 or not older:
        return LearntBaseline(0.0, of_row, 1.0)
    good = [s for s in teaching(older) if s.outcome is Outcome.PASS][:_SESSIONS_LEARNT]
    parts = [(0.0, of_row), *((hodges_lehmann(s.changes), 1 / len(s.changes)) for s in good)]
    weights = [1 / (noise.between_runs**2 * variance + sigma**2) for _, variance in parts]
    shares = [weight / math.fsum(weights) for weight in weights]
    offset = math.fsum(share * change for share, (change, _) in zip(shares, parts, strict=True))
    most = _MOST_ERRORS * math.sqrt(noise.between_runs**2 * of_row + sigma**2)
    return LearntBaseline(
        offset=max(-most, min(offset, most)),
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
    sessions: Sequence[tuple[float, int]], sigma: float, between_runs: float, baseline_runs: int
) -> float:
    """Return the log likelihood of one row's sessions, each given the sessions before it.

    All of the sessions share the row's error, which they help to estimate.
    """
    row, uncertain = 0.0, between_runs**2 * baseline_variance(baseline_runs) + sigma**2
    total = 0.0
    for change, runs in sessions:
        own = between_runs**2 / runs + sigma**2
        total += _log_density(change - row, uncertain + own)
        known = uncertain / (uncertain + own)
        row, uncertain = row + known * (change - row), uncertain * (1 - known)
    return total


def _log_density(change: float, variance: float) -> float:
    """Return the log density of a mixture: most tests lost nothing, a few may have."""
    square, of_loss = change * change, variance + _LOSS**2
    same = math.exp(-square / (2 * variance)) / math.sqrt(variance)
    lost = math.exp(-square / (2 * of_loss)) / math.sqrt(of_loss)
    return math.log((1 - _LOST_SOMETHING) * same + _LOST_SOMETHING * lost + 1e-300)
