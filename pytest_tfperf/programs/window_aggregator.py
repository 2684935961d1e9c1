"""Windows from readings: rates are averaged, and counters of steps are timed by when their lines come.

Rates must be recent, by the time between lines and by the shape of averages, as an average hides most of a change.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from pytest_tfperf.core.run import Window
from pytest_tfperf.core.throughput import worst_loss
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, shown, step_in


class WindowAggregator:
    """Makes windows of a least duration from readings.

    Rates within one window are averaged as if each stood for the same work, because a program that buffers its output
    prints many at once. Windows are weighted by the time that they took. So all windows together give all examples over
    all seconds, whether the program prints every ten steps or every ten seconds.
    """

    def __init__(self, now: float, examples_per_step: int, least_seconds: float) -> None:
        self._begin = now  # in seconds: when the program was started, and then the end of the last window
        self._examples_per_step = examples_per_step
        self._least_seconds = least_seconds
        self._counts = False
        self._rates: list[float] = []
        self._steps, self._seconds = 0.0, 0.0
        self._losses: list[float | None] = []
        self._counter = Counter()
        self.clock = Clock(least_seconds)  # compares rates with the time between the lines
        self._mean: tuple[int, float] | None = None
        self.readings = 0
        self.rates: list[float] = []  # the first ones, as they were printed

    def take(self, now: float, reading: Reading) -> bool:
        """Add a reading; returns whether it advances.

        Raises:
            Unreadable: times of steps add up to more than has passed, or a counter has two speeds in turn.
        """
        self._losses.append(reading.loss)
        per_step, value = self._examples_per_step, reading.value
        self._counts = reading.kind.is_counter
        match reading.kind:
            case Kind.RATE:
                self._add(now, value, reading.line)
            case Kind.SECONDS:
                self._add(now, per_step / value, reading.line)
                self.clock.require_time(now, value, reading.line)
            case Kind.STEP_RATE:
                self._add(now, value * per_step, reading.line)
                self.clock.require_time(now, 1 / value, reading.line)
            case Kind.MEAN_RATE:
                self._undo_mean(now, reading.step, value)
            case Kind.MEAN_SECONDS:
                self._undo_mean(now, reading.step, per_step / value)
            case Kind.STEP | Kind.EXAMPLES:
                step = value / (per_step if reading.kind is Kind.EXAMPLES else 1)
                timed = self._counter.take(now, step, reading.line, is_of_training=reading.is_of_training)
                if timed is None:
                    return False
                self._steps += timed[0]
                self._seconds += timed[1]
        self.readings += 1
        return True

    def window(self, now: float) -> Window | None:
        """The window of the readings since the last window; None if they are too short for a window."""
        seconds = self._seconds if self._counts else now - self._begin
        return self._window(now) if seconds >= self._least_seconds else None

    def rest(self, now: float) -> Window | None:
        """The window after the last one, up to the last reading; counted steps may be held back, and are left out."""
        return self._window(now) if self._rates else None

    def _window(self, now: float) -> Window | None:
        if self._rates:
            rate = len(self._rates) / math.fsum(1 / rate for rate in self._rates)
            steps_per_sec = rate / self._examples_per_step
            steps = max(1, round((now - self._begin) * steps_per_sec))
            window = Window(steps, steps / steps_per_sec, worst_loss(self._losses))
        elif self._steps > 0 and self._seconds > 0:
            steps = max(1, round(self._steps))  # a counter of epochs has fractions
            window = Window(steps, self._seconds * (steps / self._steps), worst_loss(self._losses))
        else:
            return None
        self._begin, self._rates, self._losses = now, [], []
        self._steps, self._seconds = 0.0, 0.0
        return window

    def _add(self, now: float, rate: float, line: str) -> None:
        self._rates.append(rate)
        self.clock.compare_rate(now, rate, line)
        if len(self.rates) < _MOST_KEPT:
            self.rates.append(rate)

    def _undo_mean(self, now: float, step: int, rate: float) -> None:
        """Add a rate that is the mean since the first step, less the steps and the time of the lines before."""
        before, self._mean = self._mean, (step, rate)
        if before is None or step <= before[0]:  # a new measurement begins
            steps, seconds = step, step / rate
            self.clock.forget_means()
        else:
            steps = step - before[0]
            seconds = step / rate - before[0] / before[1]
        self.clock.compare_mean(now, step / rate)
        if seconds > 0:
            self._steps += steps
            self._seconds += seconds * self._examples_per_step
        else:  # lost in the rounding; the next line covers these steps too
            self._mean = before


_ONE_STEP = 1.5  # an increment up to here is no jump; it may be a fraction of an epoch
_LEAST_SWEEPS = 3
_LEAST_SECONDS = 1.0  # of an epoch: a busy machine makes shorter ones any multiple faster or slower
# Evaluation has no backward pass. On a busy machine an epoch may be slower than its neighbours, hardly twice as fast.
_ONE_SPEED, _TWO_SPEEDS = math.log(1.05), math.log(2)


class Counter:
    """Steps and seconds between the lines of a counter.

    The last line of an epoch may differ: a counter that goes by many steps can jump to its total, without the time of
    these steps, or after an evaluation. So they are held back until the counter goes on. A single step is no jump.
    """

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None  # step and time of the last line
        self._held = (0.0, 0.0)
        self._jumps = False
        self._sweep = (0.0, 0.0)  # steps and seconds since the counter began anew
        self._sweeps: list[tuple[float, float]] = []  # the last ones

    def take(self, now: float, step: float, line: str, *, is_of_training: bool = False) -> tuple[float, float] | None:
        """The steps and seconds to add; None for a line that is printed again, or begins anew.

        A line that `is_of_training`, and so not of evaluation, may run at any speed.
        """
        before = self._before
        if before is not None and step == before[0]:
            return None
        self._before = (step, now)
        if before is None:
            return 0.0, 0.0
        if step < before[0]:  # as in each of Keras' epochs
            self._held, self._jumps = (0.0, 0.0), False
            if not is_of_training:
                self._require_one_speed(line)
            return None
        held, since = self._held, (step - before[0], now - before[1])
        self._jumps |= since[0] > _ONE_STEP
        steps, seconds = held if self._jumps else since
        self._held = since if self._jumps else (0.0, 0.0)
        self._sweep = (self._sweep[0] + steps, self._sweep[1] + seconds)
        return steps, seconds

    def _require_one_speed(self, line: str) -> None:
        """Refuse a counter of both training and evaluation, whose lines differ in nothing but their speed."""
        sweep, self._sweep = self._sweep, (0.0, 0.0)
        if min(sweep) <= 0:
            return
        self._sweeps = [*self._sweeps[1 - _LEAST_SWEEPS :], sweep]
        if len(self._sweeps) < _LEAST_SWEEPS or min(self._sweeps[0][1], sweep[1]) < _LEAST_SECONDS:
            return
        per_sec = [steps / seconds for steps, seconds in self._sweeps]
        first, second, third = map(math.log, per_sec)
        if abs(first - third) < _ONE_SPEED and second - max(first, third) > _TWO_SPEEDS:
            raise Unreadable(
                f"its counter runs at {per_sec[0]:.4g} and {per_sec[1]:.4g} steps/s in turn, before {shown(line)!r}: "
                "one seems to be of evaluation",
                "let each bar or line say of what it is, as tqdm(desc='Validation') does, or give reads="
                "Reads(pattern=...) that finds those of training",
            )


_MOST_KEPT = 1000
_LEAST_TIMES = 5
_MOST_OVER_THE_CLOCK = 1.25  # times are rounded, and lines are read a little late
_LATE_SECONDS = 1.0
_LEAST_OF_A_THIRD = 3  # readings
_MOST_OF_ANOTHER = 1.25


class Clock:
    """Compares the rates and times that lines state with the time between the lines."""

    def __init__(self, least_seconds: float) -> None:
        self._least_seconds = least_seconds  # lines that come closer may have been printed together
        self._begun: tuple[float, int] | None = None  # time and step of the line to compare the next with
        self._first: tuple[float, str] | None = None
        self._step: int | None = None
        self._times, self._stated = 0, 0.0
        self.units_per_step: list[float] = []  # by a rate and the time between its steps, where lines name steps
        self._means: list[tuple[float, float]] = []

    def compare_mean(self, now: float, seconds: float) -> None:
        """Note the time since the start that an average states, up to a factor."""
        if self._means and now - self._means[-1][0] < self._least_seconds:
            self._means[-1] = (self._means[-1][0], seconds)
        elif len(self._means) < _MOST_KEPT:
            self._means.append((now, seconds))

    def forget_means(self) -> None:
        """Begin anew: these averages are over another first step."""
        self._means = []

    def require_means_of_equal_work(self) -> None:
        """Refuse averages whose lines stand for other work at the end than at first: undoing them goes wrong."""
        third = len(self._means) // 3
        if third < _LEAST_OF_A_THIRD:
            return
        first, last = self._means[: third + 1], self._means[-third - 1 :]
        # A pause changes the time of all lines, and rounding that of each line.
        changes = [of(last) / of(first) for of in (_seconds_of_all, _seconds_of_most) if of(first) > 0]
        if all(change < 1 / _MOST_OF_ANOTHER or change > _MOST_OF_ANOTHER for change in changes):
            raise Unreadable(
                f"if its rates are averages, its last lines stand for {changes[0]:.2g} times the work of the first",
                "the first lines may stand for steps that were not printed: read a counter, as by "
                r"reads=Reads(pattern=r'step (?P<step>\d+)')",
            )

    def compare_rate(self, now: float, rate: float, line: str) -> None:
        """Note the units in a step by this rate."""
        step = step_in(line)
        if step is None or len(self.units_per_step) >= _MOST_KEPT:
            return
        if self._begun is None or step < self._begun[1]:
            self._begun = (now, step)
        seconds, steps = now - self._begun[0], step - self._begun[1]
        if steps > 0 and seconds >= self._least_seconds:
            self._begun = (now, step)
            self.units_per_step.append(rate * seconds / steps)

    def require_time(self, now: float, seconds: float, line: str) -> None:
        """Add the time of a step, and refuse times that add up to more than has passed since the first line.

        It counts for all steps since the line before, or once if the line names no step.
        """
        before, self._step = self._step, step_in(line)
        steps = 1 if before is None or self._step is None else max(1, self._step - before)
        if self._first is None:
            self._first = (now, line)
        since = now - self._first[0]
        if since <= self._least_seconds:
            return
        self._times += 1
        self._stated += seconds * steps
        if self._times >= _LEAST_TIMES and self._stated > _MOST_OVER_THE_CLOCK * since + _LATE_SECONDS:
            raise Unreadable(
                f"the times of its steps add up to {self._stated:.1f} s, and only {since:.1f} s have passed from "
                f"{shown(self._first[1])!r} to {shown(line)!r}",
                "it may be the time since the start, or of many steps: read the counter beside it, as by "
                r"reads=Reads(pattern=r'step (?P<step>\d+)'); if several processes print, let one "
                "print the rate of all",
            )


def _seconds_of_all(means: Sequence[tuple[float, float]]) -> float:
    """Seconds that passed for each that is stated."""
    stated = means[-1][1] - means[0][1]
    return (means[-1][0] - means[0][0]) / stated if stated > 0 else math.inf


def _seconds_of_most(means: Sequence[tuple[float, float]]) -> float:
    """The same of the median line."""
    return statistics.median((b[0] - a[0]) / (b[1] - a[1]) if b[1] > a[1] else math.inf for a, b in pairwise(means))


_LEAST_READINGS = 80  # to recognise a running average by its noise
LEAST_OF_A_START = 10
"""Readings that are needed to recognise a running average by the time that the program's start took."""

_LEAST_CHANGE = 0.03
_ERRORS = 3.0
_CLOCKS = 0.01  # deviation of the units in a step by recent rates, because lines are read a little late
_ALIKE = (0.6, 1.6)  # ratio of the later half's slope to the slope of all
_MOST_OF_THE_CHANGE = 0.05  # the part that the start does not explain


def is_running_average(rates: Sequence[float], units_per_step: Sequence[float] = ()) -> bool:
    """Whether successive printed rates look like averages since the first one, also by the `units_per_step` of each."""
    if (third := len(units_per_step) // 3) >= _LEAST_OF_A_THIRD:
        units = [math.log(in_a_step) for in_a_step in units_per_step]
        if statistics.pstdev(units) < _CLOCKS:
            return False  # whatever they are, they agree with the clock
        # A recent rate changes with the time between steps, whatever the reason. An average does not.
        if _differ(units[:third], units[-third:]):
            return True
    return contains_a_start(rates) or averages_noise(rates)


def _differ(first: Sequence[float], last: Sequence[float]) -> bool:
    """Whether two series of logarithms differ by more than their errors."""
    change = abs(statistics.fmean(last) - statistics.fmean(first))
    error = math.sqrt(statistics.variance(first) / len(first) + statistics.variance(last) / len(last))
    return change > _LEAST_CHANGE and change > _ERRORS * error


def contains_a_start(rates: Sequence[float]) -> bool:
    """Whether the start's time is spread over ever more steps: the k-th average takes a + b/k seconds for a unit.

    The first reading may be of the first step alone, and so not belong to the series.
    """
    times = [1 / rate for rate in rates]
    return any(_falls_like_one_over_k(part) for part in (times, times[1:]))


def _falls_like_one_over_k(times: Sequence[float]) -> bool:
    if len(times) < LEAST_OF_A_START:
        return False
    shares = [1 / k for k in range(1, len(times) + 1)]
    line = statistics.linear_regression(shares, times)
    change = line.slope * (shares[0] - shares[-1])
    if line.intercept <= 0 or change < _LEAST_CHANGE * line.intercept:
        return False
    half = len(times) // 2
    later = statistics.linear_regression(shares[half:], times[half:])
    # Rates that settle after a cold start are steady in the later half; noise hides that of a small change.
    if change > line.intercept and not _ALIKE[0] < later.slope / line.slope < _ALIKE[1]:
        return False
    left = [each - line.intercept - line.slope * share for share, each in zip(shares, times, strict=True)]
    return statistics.pstdev(left) < _MOST_OF_THE_CHANGE * statistics.pstdev(times)


def averages_noise(rates: Sequence[float]) -> bool:
    """Whether the noise shrinks as that of an average over ever more values.

    The k-th average differs from the one before by a k-th of a value's deviation: such differences shrink like 1/k.
    Undone, the values are as scattered early as late, and neighbours are not correlated. Recent rates, undone in
    the same way, are correlated by about -1/2; rates that settle after a cold start are correlated strongly at first.
    """
    if len(rates) < _LEAST_READINGS:
        return False
    differences = [abs(b - a) for a, b in pairwise(rates)][2:]
    third = len(differences) // 3
    early, late = statistics.fmean(differences[:third]), statistics.fmean(differences[-third:])
    shrinks = statistics.fmean(1 / k for k in range(4, 4 + third)) / statistics.fmean(
        1 / k for k in range(len(rates) - third, len(rates))
    )
    if late <= 0 or early / late < math.sqrt(shrinks):
        return False
    undone = [k * b - (k - 1) * a for k, (a, b) in enumerate(pairwise(rates), 2)]
    half = len(undone) // 2
    return all(-0.25 < _neighbours_correlation(part) < 0.35 for part in (undone[2:half], undone[half:]))


def _neighbours_correlation(values: Sequence[float]) -> float:
    try:
        return statistics.correlation(values[:-1], values[1:])
    except statistics.StatisticsError:  # all are equal
        return 1.0
