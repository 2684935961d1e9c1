"""Makes windows from readings."""

from __future__ import annotations

import math

from pytest_tfperf.core.run import Window
from pytest_tfperf.core.throughput import worst_loss
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, shown
from pytest_tfperf.programs.step_order import step_in

_MOST_RATES_KEPT = 1000
_LEAST_TIMES = 5
_MOST_OVER_THE_CLOCK = 1.25  # times are rounded, and lines are read a little late
_LATE_SECONDS = 1.0
_LEAST_SWEEPS = 3
_ONE_SPEED, _TWO_SPEEDS = math.log(1.1), math.log(1.25)
_ONE_STEP = 1.5  # a counter's increment up to here; it may be a fraction of an epoch


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
        units_per_step: what these rates make of the time between their steps, where lines name steps.
    """

    def __init__(self, now: float, examples_per_step: int, least_seconds: float) -> None:
        self._begin = now
        self._examples_per_step = examples_per_step
        self._least_seconds = least_seconds
        self._counts = False
        self._rates: list[float] = []
        self._steps, self._seconds = 0.0, 0.0
        self._losses: list[float | None] = []
        self._counter: tuple[float, float] | None = None
        self._held, self._jumps = (0.0, 0.0), False
        self._sweep = (0.0, 0.0)  # steps and seconds since the counter began anew
        self._paces: list[float] = []
        self._mean: tuple[int, float] | None = None
        self._paced: tuple[float, int | None] = (now, None)
        self._timed: tuple[float, str] | None = None
        self._times, self._stated, self._timed_step = 0, 0.0, 0
        self.readings = 0
        self.rates: list[float] = []
        self.units_per_step: list[float] = []

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
                self._add(now, value, reading)
            case Kind.SECONDS:
                self._add(now, per_step / value, reading)
                self._require_time(now, value, reading)
            case Kind.STEP_RATE:
                self._add(now, value * per_step, reading)
                self._require_time(now, 1 / value, reading)
            case Kind.MEAN_RATE:
                self._undo_mean(reading.step, value)
            case Kind.MEAN_SECONDS:
                self._undo_mean(reading.step, per_step / value)
            case Kind.STEP | Kind.EXAMPLES:
                step = value / (per_step if reading.kind is Kind.EXAMPLES else 1)
                if self._counter is not None and step == self._counter[0]:
                    return False  # the same line, printed again
                self.readings += 1
                return self._count(now, step, reading.line)
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

    def _add(self, now: float, rate: float, reading: Reading) -> None:
        self._rates.append(rate)
        if len(self.rates) >= _MOST_RATES_KEPT:
            return
        self.rates.append(rate)
        step, (since, first) = step_in(reading.line), self._paced
        if step is not None and (first is None or step < first):
            self._paced = (now, step)
        elif step is not None and first is not None and step > first and now - since >= self._least_seconds:
            self._paced = (now, step)
            self.units_per_step.append(rate * (now - since) / (step - first))

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

    def _count(self, now: float, step: float, line: str) -> bool:
        """Add the steps since the last line, and the time. A counter that falls starts again, as in Keras' epochs.

        Only the time between lines that are alike is that of their steps. The last line of an epoch may be another: a
        counter that goes by many steps can jump to its total, without the time of these steps or after an evaluation.
        So they are held back until the counter goes on; a single step is no jump.
        """
        before, self._counter = self._counter, (step, now)
        if before is None:
            return True
        if step < before[0]:
            self._held, self._jumps = (0.0, 0.0), False
            self._note_sweep(line)
            return False
        (steps, seconds), since = self._held, (step - before[0], now - before[1])
        self._jumps |= since[0] > _ONE_STEP
        if not self._jumps:
            steps, seconds = since
        self._held = since if self._jumps else (0.0, 0.0)
        self._steps += steps
        self._seconds += seconds
        self._sweep = (self._sweep[0] + steps, self._sweep[1] + seconds)
        return True

    def _note_sweep(self, line: str) -> None:
        """Refuse a counter that runs at two speeds in turn: it is that of training, and then of evaluation."""
        steps, seconds = self._sweep
        self._sweep = (0.0, 0.0)
        if steps <= 0 or seconds <= 0:
            return
        self._paces = [*self._paces[-2:], steps / seconds]
        if len(self._paces) < _LEAST_SWEEPS:
            return
        first, second, third = self._paces
        if (
            abs(math.log(first / third)) < _ONE_SPEED
            and min(abs(math.log(second / first)), abs(math.log(second / third))) > _TWO_SPEEDS
        ):
            raise Unreadable(
                f"its counter runs at two speeds in turn, {first:.4g}, {second:.4g} and {third:.4g} steps/s, before "
                f"{shown(line)!r}: one seems to be that of evaluation",
                "let each bar or line say of what it is, as tqdm(desc='Validation') does, or give reads="
                "Reads(pattern=...) that finds those of training",
            )

    def _require_time(self, now: float, seconds: float, reading: Reading) -> None:
        """Refuse times of a step that add up to more than has passed since the first lines.

        Each line stands for the steps since the one before, as far as it counts them, and else for one step.
        """
        before, self._timed_step = self._timed_step, step_in(reading.line) or 0
        steps = max(1, self._timed_step - before) if before else 1
        if self._timed is None:
            self._timed = (now, reading.line)
        since = now - self._timed[0]
        if since <= self._least_seconds:
            return  # these lines may have been printed together with the first
        self._times += 1
        self._stated += seconds * steps
        if self._times >= _LEAST_TIMES and self._stated > _MOST_OVER_THE_CLOCK * since + _LATE_SECONDS:
            raise Unreadable(
                f"the times of its steps add up to {self._stated:.1f} s, and only {since:.1f} s have passed from "
                f"{shown(self._timed[1])!r} to {shown(reading.line)!r}",
                "it may be the time since the start, or of many steps: read the counter beside it, as by "
                r"reads=Reads(pattern=r'step (?P<step>\d+)', examples_per_step=N); if several processes print, let one "
                "print the rate of all",
            )
