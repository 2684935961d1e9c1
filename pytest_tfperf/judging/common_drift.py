"""The drift since the baselines were recorded that all tests of a session have in common."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import run_value, scatter
from pytest_tfperf.core.verdict import Noise
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
    """The drift common to all tests of a session.

    Args:
        log: the median over tests, in log throughput; 0 where it isn't known.
        tests: the number of the session's tests.
        error: the median's standard error, from the scatter of the tests around it.
        growth: how many times as much runs differ as when the baselines were recorded, by the scatter of the tests
            around the drift; 1 if about as much.
    """

    log: float = 0.0
    tests: int = 0
    error: float = 0.0
    growth: float = 1.0

    @property
    def is_known(self) -> bool:
        """Whether enough tests show the drift."""
        return self.tests >= MIN_TESTS


def first_windows_change(run: Run, baseline: Baseline) -> float:
    """ln(images/s over the run's first windows / the baseline)."""
    return run_value(first_windows(run)).log_rate - math.log(baseline.value)


def first_windows(run: Run) -> Run:
    """Return a run with its first windows alone."""
    return replace(run, windows=run.windows[:FIRST_WINDOWS], stated_examples_per_sec=None)


@dataclass(frozen=True, slots=True)
class NoiseOfChanges:
    """The standard deviations of a test's change by noise alone, the common drift taken out.

    Args:
        of_runs: by the differences between fresh runs, of the session and of the baseline.
        others: by a run's windows, and by what a session does to a single test.
    """

    of_runs: float
    others: float

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

    Args:
        changes: of the tests' first windows against their baselines.
        noise: of a change; None takes all tests for one group.
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

    Args:
        rows: the noise of each test's baseline, and the number of its runs.
        within_runs: the standard error of a run from its first windows.
        between_sessions: the standard deviation between a test's sessions.
    """
    of_runs = statistics.median(noise.between_runs**2 * (1 + baseline_variance(runs)) for noise, runs in rows)
    return NoiseOfChanges(math.sqrt(of_runs), math.hypot(within_runs, between_sessions))


def change_of_others(changes: Collection[float]) -> float | None:
    """Return the median change of a session's other tests where they are too few for a common drift; else None.

    Args:
        changes: of the other tests' first windows against their baselines.
    """
    return statistics.median(changes) if MIN_OTHERS <= len(changes) < MIN_TESTS - 1 else None
