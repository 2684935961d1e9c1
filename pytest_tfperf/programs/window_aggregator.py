"""Windows from readings: rates are averaged, and counters of steps are timed by when their lines come."""

from __future__ import annotations

import math

from pytest_tfperf.core.run import Window
from pytest_tfperf.core.throughput import worst_loss
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, shown
from pytest_tfperf.programs.recent_rates import Clock

_MOST_RATES_KEPT = 1000


class WindowAggregator:
    """Makes windows of a least duration from readings.

    Rates within one window are averaged as if each stood for the same work, because a program that buffers its output
    prints many at once. Windows are weighted by the time that they took. So all windows together give all examples over
    all seconds, whether the program prints every ten steps or every ten seconds.

    Args:
        now: when the program was started.
        examples_per_step: units in a step.
        least_seconds: the shortest window.

    Attributes:
        readings: the number of readings.
        rates: the first rates, as they were printed.
    """

    def __init__(self, now: float, examples_per_step: int, least_seconds: float) -> None:
        self._begin = now
        self._examples_per_step = examples_per_step
        self._least_seconds = least_seconds
        self._counts = False
        self._rates: list[float] = []
        self._steps, self._seconds = 0.0, 0.0
        self._losses: list[float | None] = []
        self._counter = Counter()
        self._clock = Clock(least_seconds)
        self._mean: tuple[int, float] | None = None
        self.readings = 0
        self.rates: list[float] = []

    @property
    def units_per_step(self) -> list[float]:
        """As in `Clock`."""
        return self._clock.units_per_step

    def require_means_of_equal_work(self) -> None:
        """As in `Clock`."""
        self._clock.require_means_of_equal_work()

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
                self._clock.require_time(now, value, reading.line)
            case Kind.STEP_RATE:
                self._add(now, value * per_step, reading.line)
                self._clock.require_time(now, 1 / value, reading.line)
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
        """The window of the readings after the last window, at the program's end; `now` is the last reading's time.

        Counted steps are left out: the last of them may have been held back.
        """
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
        self._clock.compare_rate(now, rate, line)
        if len(self.rates) < _MOST_RATES_KEPT:
            self.rates.append(rate)

    def _undo_mean(self, now: float, step: int, rate: float) -> None:
        """Add a rate that is the mean since the first step, less the steps and the time of the lines before."""
        before, self._mean = self._mean, (step, rate)
        if before is None or step <= before[0]:  # a new measurement begins
            steps, each = step, step / rate
            self._clock.forget_means()
        else:
            steps = step - before[0]
            each = step / rate - before[0] / before[1]
        self._clock.compare_mean(now, step / rate)
        if each > 0:
            self._steps += steps
            self._seconds += each * self._examples_per_step
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
        self._speeds: list[float] = []  # of the last sweeps
        self._lasted: list[float] = []

    def take(self, now: float, step: float, line: str, *, is_of_training: bool = False) -> tuple[float, float] | None:
        """The steps and seconds to add; None for a line that is printed again, or begins anew.

        Args:
            now: when the line came, in seconds.
            step: as the line counts it.
            line: for the message.
            is_of_training: known not to be of evaluation, so that it may run at any speed.

        Raises:
            Unreadable: the counter runs at two speeds in turn.
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
        (steps, seconds), self._sweep = self._sweep, (0.0, 0.0)
        if steps <= 0 or seconds <= 0:
            return
        self._speeds = [*self._speeds[1 - _LEAST_SWEEPS :], steps / seconds]
        self._lasted = [*self._lasted[1 - _LEAST_SWEEPS :], seconds]
        if len(self._speeds) < _LEAST_SWEEPS or min(self._lasted[0], self._lasted[-1]) < _LEAST_SECONDS:
            return
        first, second, third = map(math.log, self._speeds)
        if abs(first - third) < _ONE_SPEED and second - max(first, third) > _TWO_SPEEDS:
            speeds = " and ".join(f"{speed:.4g}" for speed in self._speeds[:2])
            raise Unreadable(
                f"its counter runs at {speeds} steps/s in turn, before {shown(line)!r}: one seems to be of evaluation",
                "let each bar or line say of what it is, as tqdm(desc='Validation') does, or give reads="
                "Reads(pattern=...) that finds those of training",
            )
