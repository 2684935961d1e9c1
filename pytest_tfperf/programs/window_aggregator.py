"""Makes windows from readings."""

from __future__ import annotations

import math

from pytest_tfperf.core.run import Window
from pytest_tfperf.core.throughput import worst_loss
from pytest_tfperf.programs.clock import Clock
from pytest_tfperf.programs.counter import Counter
from pytest_tfperf.programs.reading import Kind, Reading

_MOST_RATES_KEPT = 1000


class WindowAggregator:
    """Makes windows of at least so many seconds from readings.

    Rates within one window are averaged as if each stood for the same work, because a program that buffers its output
    prints many at once. Windows are weighted by the time that they took. So all windows together give all examples over
    all seconds, whether the program prints every ten steps or every ten seconds.

    Args:
        now: when the program was started.
        examples_per_step: units in a step.
        least_seconds: the shortest window.

    Attributes:
        readings: how many readings there were.
        rates: the first of the rates as they were printed.
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
        """What rates and the time between their steps make of a step, where lines name steps."""
        return self._clock.units_per_step

    def take(self, now: float, reading: Reading) -> bool:
        """Add a reading; returns whether it tells something new.

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
                self._undo_mean(reading.step, value)
            case Kind.MEAN_SECONDS:
                self._undo_mean(reading.step, per_step / value)
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
        """The window of the readings since the last one; None if they are too short for a window."""
        seconds = self._seconds if self._counts else now - self._begin
        return self._window(now) if seconds >= self._least_seconds else None

    def rest(self, now: float) -> Window | None:
        """The window of the readings after the last one, when the program has ended; `now` is when the last one came.

        Counted steps are left out: the last ones may have been held back.
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

    def _undo_mean(self, step: int, rate: float) -> None:
        """Add a rate that is the mean since the first step: subtract what the lines before have counted."""
        before, self._mean = self._mean, (step, rate)
        if before is None or step <= before[0]:  # a new measurement begins
            steps, each = step, step / rate
        else:
            steps = step - before[0]
            each = step / rate - before[0] / before[1]
        if each > 0:
            self._steps += steps
            self._seconds += each * self._examples_per_step
        else:  # lost in the rounding; the next line covers these steps too
            self._mean = before
