"""The drift since the baselines were recorded that all tests of a session have in common."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection
from dataclasses import dataclass, replace

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import run_value, scatter
from pytest_tfperf.core.verdict import Noise
from pytest_tfperf.judging.thresholds import baseline_variance

MIN_TESTS = 8
"""With fewer tests the median can't separate the machine from the tests themselves."""

MIN_OTHERS = 2
"""With fewer other tests it can't be told whether the others changed, too."""

FIRST_WINDOWS = 20
"""The drift uses each test's first windows only: runs that stop early on good news would bias it."""


_GROWN = 1.7  # times: eight tests scatter by less around their median if their noise did not grow


@dataclass(frozen=True, slots=True)
class CommonDrift:
    """The drift common to all tests of a session.

    Args:
        log: the median over tests, in log throughput; 0 where it isn't known.
        tests: the number of tests in the median.
        error: the median's standard error, from the scatter of the tests around it.
    """

    log: float = 0.0
    tests: int = 0
    error: float = 0.0

    @property
    def scatter(self) -> float:
        """The standard deviation of the tests around it."""
        return self.error / _error_of_median(self.tests) if self.tests else 0.0

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


def common_drift(changes: Collection[float]) -> CommonDrift:
    """Return the drift of a session whose tests' first windows differ from their baselines by `changes`."""
    if len(changes) < MIN_TESTS:
        return CommonDrift(tests=len(changes))
    error = scatter(changes) * _error_of_median(len(changes))
    return CommonDrift(statistics.median(changes), len(changes), error)


def growth_of_noise(drift: CommonDrift, rows: Collection[tuple[Noise, int]], *, others: float) -> float:
    """Return how many times as much runs differ in this session as when their baselines were recorded; 1 if alike.

    Args:
        drift: of all tests, each of which has run once.
        rows: the noise of each test's baseline, and the number of its runs.
        others: the variance of the tests around the drift that is not between runs: of windows, and between sessions.
    """
    if not drift.is_known:
        return 1.0
    recorded = statistics.median(noise.between_runs for noise, _ in rows)
    of_row = 1 + statistics.median(baseline_variance(runs) for _, runs in rows)
    today = math.sqrt(max(0.0, drift.scatter**2 - others) / of_row)
    return today / recorded if today > _GROWN * recorded else 1.0


def _error_of_median(tests: int) -> float:
    """Return the standard error of a median, in standard deviations."""
    return math.sqrt(math.pi / 2 / tests)


def change_of_others(changes: Collection[float]) -> float | None:
    """Return the median change of a session's other tests where they are too few for a common drift; else None.

    Args:
        changes: of the other tests' first windows against their baselines.
    """
    return statistics.median(changes) if MIN_OTHERS <= len(changes) < MIN_TESTS - 1 else None
