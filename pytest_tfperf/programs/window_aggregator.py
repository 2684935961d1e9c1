"""Windows from readings: rates are averaged, and counters of steps are timed by when their lines come."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.throughput import worst_loss
from pytest_tfperf.programs.checks import BY_STEPS, LEAST_PAUSES, PAUSE, Checks, two_levels
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, shown

_MOST_KEPT = 1000


class Stated(NamedTuple):
    """A window of what lines state."""

    begin: float  # in seconds
    end: float
    per_sec: float  # units
    is_counted: bool  # by a counter, and not by a printed rate or time


Confirms = Callable[[Sequence[Stated], Command], bool]
"""Returns whether another measurement shows what was stated; raises `Unreadable` where that shows something else."""


class WindowAggregator:
    """Makes windows of a least duration from readings.

    Rates within one window are averaged as if each stood for the same work, because a program that buffers its output
    prints many at once. Windows are weighted by the time that they took. So all windows together give all examples over
    all seconds, whether the program prints every ten steps or every ten seconds.
    """

    def __init__(self, now: float, command: Command, least_seconds: float) -> None:
        self._begin = now  # in seconds: when the program was started, and then the end of the last window
        self._per_step = command.counted_per_step or 1
        self._least_seconds = least_seconds
        self._counts = False
        self._rates: list[float] = []
        self._steps, self._seconds = 0.0, 0.0
        self._losses: list[float | None] = []
        self._counter = Counter()
        # Steps and seconds between two lines, and the later one.
        self._timed: deque[tuple[float, float, str]] = deque(maxlen=_MOST_KEPT)
        self._mean: tuple[int, float] | None = None
        self._command, self._stated = command, list[Stated]()
        self.checks = Checks(command, least_seconds)
        self.readings = 0

    def take(self, now: float, reading: Reading) -> bool:
        """Add a reading; returns whether it advances.

        Raises:
            Unreadable: several processes print.
        """
        self._losses.append(reading.loss)
        self._counts = reading.kind is Kind.STEP
        self.checks.take(reading)
        match reading.kind:
            case Kind.RATE:
                self._add(now, reading.value, reading.line)
            case Kind.SECONDS:
                self._add(now, self._per_step / reading.value, reading.line)
            case Kind.MEAN_RATE:
                self._undo_mean(now, reading, reading.value)
            case Kind.MEAN_SECONDS:
                self._undo_mean(now, reading, self._per_step / reading.value)
            case Kind.STEP:
                timed = self._counter.take(now, reading.value)
                if timed is None:
                    return False
                self._steps += timed[0]
                self._seconds += timed[1]
                self._timed.append((*timed, reading.line))
        self.readings += 1
        return True

    def conclude(self, ambiguous: str, confirms: Confirms) -> None:
        """Refuse readings that contradict one another; see `Checks.conclude`."""
        _require_few_pauses([timed for timed in self._timed if timed[0] > 0])
        if confirms(self._stated, self._command):
            return
        counted = [window.per_sec / self._per_step for window in self._stated if window.is_counted]
        if levels := two_levels(counted):
            slow, fast = (
                statistics.median(rate for rate, level in zip(counted, levels, strict=True) if level is of)
                for of in (False, True)
            )
            raise Unreadable(
                f"its counter runs at {slow:.4g} and {fast:.4g} steps/s in turn: one speed may be of evaluation",
                f"let the pattern find the lines of training only; or {BY_STEPS}",
            )
        self.checks.conclude(ambiguous)

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
            steps_per_sec = rate / self._per_step
            steps = max(1, round((now - self._begin) * steps_per_sec))
            window = Window(steps, steps / steps_per_sec, worst_loss(self._losses))
        elif self._steps > 0 and self._seconds > 0:
            steps = max(1, round(self._steps))  # a counter of epochs has fractions
            window = Window(steps, self._seconds * (steps / self._steps), worst_loss(self._losses))
        else:
            return None
        per_sec = window.steps * self._per_step / window.seconds
        if len(self._stated) < _MOST_KEPT:
            self._stated.append(Stated(self._begin, now, per_sec, self._counts))
        self._begin, self._rates, self._losses = now, [], []
        self._steps, self._seconds = 0.0, 0.0
        return window

    def _add(self, now: float, rate: float, line: str) -> None:
        self._rates.append(rate)
        self.checks.take_rate(now, rate, line, is_printed=True)

    def _undo_mean(self, now: float, reading: Reading, rate: float) -> None:
        """Add a rate that is the mean since the first step, less the steps and the time of the lines before."""
        step = reading.step
        before, self._mean = self._mean, (step, rate)
        if before is None or step <= before[0]:  # a new measurement begins
            steps, seconds = step, step / rate
        else:
            steps = step - before[0]
            seconds = step / rate - before[0] / before[1]
        if seconds > 0:
            self._steps += steps
            self._seconds += seconds * self._per_step
            self._timed.append((steps, seconds, reading.line))
            self.checks.take_rate(now, steps / seconds, reading.line, is_printed=False)
        else:  # lost in the rounding; the next line covers these steps too
            self._mean = before


_ONE_STEP = 1.5  # an increment up to here is no jump; it may be a fraction of an epoch


class Counter:
    """Steps and seconds between the lines of a counter.

    The last line of an epoch may differ: a counter that goes by many steps can jump to its total, without the time of
    these steps, or after an evaluation. So they are held back until the counter goes on. A single step is no jump.
    """

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None  # step and time of the last line
        self._held = (0.0, 0.0)
        self._jumps = False

    def take(self, now: float, step: float) -> tuple[float, float] | None:
        """The steps and seconds to add; None for a line that is printed again, or begins anew."""
        before = self._before
        if before is not None and step == before[0]:
            return None
        self._before = (step, now)
        if before is None:
            return 0.0, 0.0
        if step < before[0]:  # as in each of Keras' epochs
            self._held, self._jumps = (0.0, 0.0), False
            return None
        held, since = self._held, (step - before[0], now - before[1])
        self._jumps |= since[0] > _ONE_STEP
        steps, seconds = held if self._jumps else since
        self._held = since if self._jumps else (0.0, 0.0)
        return steps, seconds


_LEAST_TIMED = 10  # lines
_MOST_PAUSED = 0.2  # of all time


def _require_few_pauses(timed_steps: Sequence[tuple[float, float, str]]) -> None:
    """Refuse steps whose time is to a good part that of pauses, as for evaluation."""
    if len(timed_steps) < _LEAST_TIMED:
        return
    usual = statistics.median(seconds / steps for steps, seconds, _ in timed_steps)
    pauses = [timed for timed in timed_steps if timed[1] > PAUSE * timed[0] * usual]
    extra = math.fsum(seconds - steps * usual for steps, seconds, _ in pauses)
    share = extra / math.fsum(seconds for _, seconds, _ in timed_steps)
    if usual > 0 and len(pauses) >= LEAST_PAUSES and share > _MOST_PAUSED:
        raise Unreadable(
            f"{len(pauses)} pauses between its lines take {share:.0%} of the time, as before "
            f"{shown(pauses[-1][2])!r}: they may be evaluation, or checkpoints",
            f"{BY_STEPS}; or let the program print a recent rate of training alone",
        )
