"""The summary of runs: examples per second, its confidence interval, and tf_cnn_benchmarks' statistics of windows."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_tfperf.core.run import Run

_TRIM = 0.2  # of the windows at either end: a neighbour's burst on a shared machine slows several windows in a row
_MAX_AUTOCORRELATION = 0.8
MIN_WINDOWS_FOR_ERROR = 3
"""The least windows of a run from which the error of their mean can be estimated."""


@dataclass(frozen=True, slots=True)
class RunValue:
    """The throughput of a run."""

    # natural logarithm of examples per second: the 20 % trimmed mean over windows, or where steps fetch their batches,
    # all examples divided by all seconds
    log_rate: float
    # standard error of `log_rate` from the windows alone, corrected for their autocorrelation, without the differences
    # between worker processes; inf where there are too few windows
    error: float
    windows: int

    @property
    def examples_per_sec(self) -> float:
        """The throughput in units per second."""
        return math.exp(self.log_rate)


@dataclass(frozen=True, slots=True)
class DivergedAt:
    """The first window whose loss was not finite."""

    run: int  # the run's number, from 1
    window: int  # the number of the timed window, from 1; 0 for the warm-up
    step: int  # the window's last step, counted from the first of the warm-up


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """The summary of one or more runs, which verdicts and reports use.

    Args:
        examples_per_sec: over all devices: the run's value (`run_value`), or the Hodges-Lehmann median of several runs.
        low: the lower end of the 95 % confidence interval. For a single run the interval covers within-run noise only,
            for several runs also the differences between them.
        high: the upper end of that interval.
        runs: the value of each run, in order.
        mean_examples_per_sec: images / mean seconds. This and the next two are as tf_cnn_benchmarks defines them, but
            over windows where it has steps (scripts/tf_cnn_benchmarks, `log_fn`).
        uncertainty: std(speeds) / sqrt(n).
        jitter: 1.4826 * MAD(speeds).
        steps: the number of timed steps in all runs.
        examples_per_step: batch size times replicas, in units.
        unit: the unit that is counted: "images", "examples", "tokens" or a program's own.
        compile_seconds: seconds of compilation in the first run; None for a log.
        loss: the last timed step's loss, or the first that is not finite; None for a log without losses.
        diverged: the first window whose loss was not finite, warm-up included; None where the loss is finite.
    """

    examples_per_sec: float
    low: float
    high: float
    runs: tuple[RunValue, ...]
    mean_examples_per_sec: float
    uncertainty: float
    jitter: float
    steps: int
    examples_per_step: int
    unit: str = "images"
    compile_seconds: float | None = None
    loss: float | None = None
    diverged: DivergedAt | None = None

    @property
    def is_diverged(self) -> bool:
        """Whether the loss became NaN or infinite, so that the throughput means nothing."""
        return self.loss is not None and not math.isfinite(self.loss)

    @property
    def windows(self) -> int:
        """The number of timed windows in all runs."""
        return sum(run.windows for run in self.runs)


def summarise(runs: Sequence[Run]) -> Throughput:
    """Summarise at least one run; each has at least one window."""
    values = tuple(map(run_value, runs))
    centre = hodges_lehmann([value.log_rate for value in values])
    half = _half_interval(values)
    windows = [w for run in runs for w in run.windows]
    loss = worst_loss(w.loss for w in windows)
    mean, uncertainty, jitter = window_statistics(runs)
    return Throughput(
        examples_per_sec=math.exp(centre),
        low=math.exp(centre - half),
        high=math.exp(centre + half),
        runs=values,
        mean_examples_per_sec=mean,
        uncertainty=uncertainty,
        jitter=jitter,
        steps=sum(w.steps for w in windows),
        examples_per_step=runs[0].examples_per_step,
        unit=runs[0].unit,
        compile_seconds=runs[0].compile_seconds,
        loss=loss,
        diverged=_diverged(runs) if loss is not None and not math.isfinite(loss) else None,
    )


def worst_loss(losses: Iterable[float | None]) -> float | None:
    """Return the first loss that is not finite, else the last: a NaN stays in all later steps."""
    last = None
    for loss in losses:
        if loss is not None and not math.isfinite(loss):
            return loss
        last = last if loss is None else loss
    return last


def _diverged(runs: Sequence[Run]) -> DivergedAt | None:
    for number, run in enumerate(runs, 1):
        steps = 0
        for index, window in enumerate((*run.warmup, *run.windows), 1 - len(run.warmup)):
            steps += window.steps
            if window.loss is not None and not math.isfinite(window.loss):
                return DivergedAt(number, max(index, 0), steps)
    return None


def run_value(run: Run) -> RunValue:
    """Return a run's value: the total where one is stated, else the robust mean of its windows' log rates.

    Where steps fetch their batches it is the plain total: an input pipeline that gives a file's batches at once and
    then waits for the next file stalls in few windows, and a trimmed mean would leave out exactly these.
    """
    if not run.windows and run.stated_examples_per_sec is not None:  # they did not travel with their session
        return RunValue(math.log(run.stated_examples_per_sec), math.inf, 0)
    rates = [math.log(run.rate(window)) for window in run.windows]
    value, error = _total(run) if run.fetches else robust_mean(rates)
    if run.stated_examples_per_sec is not None:
        value = math.log(run.stated_examples_per_sec)
    return RunValue(value, error, len(rates))


def _total(run: Run) -> tuple[float, float]:
    """Return the logarithm of all examples over all seconds, and its standard error: that of a step's mean time."""
    examples = sum(map(run.examples, run.windows))
    seconds = sum(w.seconds for w in run.windows)
    value = math.log(examples / seconds)
    if len(run.windows) < MIN_WINDOWS_FOR_ERROR:
        return value, math.inf
    relative = [examples / seconds / run.rate(window) for window in run.windows]
    return value, statistics.stdev(relative) / math.sqrt(len(relative)) * _inflation(relative)


def robust_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the 20 % trimmed mean of a series and its standard error; inf where there are too few values.

    The error is Yuen's for a trimmed mean: winsorised sd * sqrt(n) / h, with h values kept (for n a multiple of 5,
    sd / (0.6 sqrt(n))), times sqrt((1+r)/(1-r)), with r the lag-1 autocorrelation.
    """
    n, in_order = len(values), sorted(values)
    kept = _kept(n)
    cut = (n - kept) // 2
    mean = statistics.fmean(in_order[cut : n - cut])
    if n < MIN_WINDOWS_FOR_ERROR:
        return mean, math.inf
    winsorised = [min(max(value, in_order[cut]), in_order[n - 1 - cut]) for value in values]
    return mean, statistics.stdev(winsorised) * _inflation(winsorised) * math.sqrt(n) / kept


def window_statistics(runs: Sequence[Run]) -> tuple[float, float, float]:
    """Return mean rate, uncertainty and jitter by tf_cnn_benchmarks' formulas, with windows in place of steps."""
    windows = [(run, window) for run in runs for window in run.windows]
    speeds = [run.rate(window) for run, window in windows]
    mean = sum(run.examples(window) for run, window in windows) / sum(window.seconds for _, window in windows)
    return mean, statistics.pstdev(speeds) / math.sqrt(len(speeds)), scatter(speeds)


SD_OF_MAD: Final = 1.4826
"""The standard deviation of a normal distribution, in units of its median absolute deviation."""


def scatter(values: Collection[float]) -> float:
    """Return the median absolute deviation, scaled to the standard deviation of a normal distribution."""
    middle = statistics.median(values)
    return SD_OF_MAD * statistics.median(abs(value - middle) for value in values)


def hodges_lehmann(values: Sequence[float]) -> float:
    """Return the median of the means of all pairs, of a value with itself included (Hodges and Lehmann 1963).

    It is nearly as precise as the mean, and robust to an outlier.
    """
    return statistics.median((a + b) / 2 for i, a in enumerate(values) for b in values[i:])


def _inflation(values: Sequence[float]) -> float:
    """Return the factor by which autocorrelation increases the standard error of a mean."""
    r = min(max(_autocorrelation(values) + 1 / len(values), 0.0), _MAX_AUTOCORRELATION)
    return math.sqrt((1 + r) / (1 - r))


def _kept(windows: int) -> int:
    """Return the number of windows that the trimmed mean keeps."""
    return windows - 2 * int(_TRIM * windows)


def _autocorrelation(values: Sequence[float]) -> float:
    mean = statistics.fmean(values)
    squares = sum((v - mean) ** 2 for v in values)
    if squares == 0:
        return 0.0
    return sum((a - mean) * (b - mean) for a, b in itertools.pairwise(values)) / squares


def _half_interval(runs: Sequence[RunValue]) -> float:
    from scipy.special import stdtrit

    within = math.inf
    if all(math.isfinite(run.error) for run in runs):
        freedom = sum(_kept(run.windows) - 1 for run in runs)  # Yuen's: the windows kept, less one for each run
        within = math.sqrt(sum(run.error**2 for run in runs)) / len(runs) * float(stdtrit(freedom, 0.975))
    if len(runs) < 2:
        return within
    between = statistics.stdev([run.log_rate for run in runs]) / math.sqrt(len(runs))
    between *= float(stdtrit(len(runs) - 1, 0.975))
    return max(between, within) if math.isfinite(within) else between
