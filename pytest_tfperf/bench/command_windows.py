"""Makes windows from what a user's command prints, until its throughput is known well enough."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from pytest_tfperf.bench.windows import MIN_WINDOWS_FOR_ERROR, WINDOW_SECONDS, Enough, Observer, in_steady_state
from pytest_tfperf.core.command import SAY_HOW_MANY, Command
from pytest_tfperf.core.plan import Plan
from pytest_tfperf.core.readings import Kind, LineSplitter, Reader, Reading, worst_loss
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.workers.command_run import CommandRun
from pytest_tfperf.workers.failures import SHOWN_LINES

WARMUP_READINGS = 1
"""The first reading contains the program's start and compilation."""

_LEAST, _MOST = 1e-12, 1e15  # a printed number outside this range is no rate, and no time of a step


class CommandWindows:
    """The windows of one run of a command.

    Args:
        program: the running program.
        command: says how to read what the program prints.
        slowdown: fraction of the throughput to take off on purpose.
        clock: returns the time in seconds.
    """

    def __init__(
        self, program: CommandRun, command: Command, slowdown: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._program = program
        self._command = command
        self._slowdown = slowdown
        self._clock = clock
        self._reader = Reader(command)
        self._meter = Meter(clock(), command.counted_per_step or 1)
        self._windows = self._read()
        self._warmup: list[Window] = []
        self._advanced_at = clock()  # the time of the last reading that told something new

    def warm_up(self, plan: Plan) -> None:
        """Wait for the readings that are not timed.

        Raises:
            MeasurementError: the program prints nothing usable, ended in an error, or hangs.
        """
        self._warmup += islice(self._windows, plan.warmup_steps)

    def time(self, plan: Plan, observer: Observer, enough: Enough = lambda _: False) -> Run:
        """Read until the plan's readings are spent, `enough` says so, or the program ends.

        Raises:
            as `warm_up`, and if it ended before its throughput could be known.
        """
        windows: list[Window] = []
        started = self._clock()
        for window in self._windows:
            windows.append(window)
            run = self._run(self._warmup, windows)
            observer.window(run, plan)
            if self._command.until_end:
                continue
            spent = self._clock() - started >= plan.max_seconds
            if len(windows) >= plan.steps or (spent and len(windows) >= MIN_WINDOWS_FOR_ERROR):
                break
            if len(windows) % 10 == 0 and enough(in_steady_state(run)):
                break
        warmup = self._warmup
        if len(windows) < min(MIN_WINDOWS_FOR_ERROR, plan.steps):
            self._refuse_too_few(len(warmup) + len(windows))
            if not windows:  # the only window there is, although it contains start and compilation
                warmup, windows = [], warmup
        run = in_steady_state(self._run(warmup, windows))
        observer.ended(run)
        return run

    def _run(self, warmup: Sequence[Window], windows: Sequence[Window]) -> Run:
        return Run(
            windows=tuple(windows),
            examples_per_step=self._command.counted_per_step or 1,
            warmup=tuple(warmup),
            environment=self._program.environment,
            log=self._program.log,
            fetches=True,  # the program may wait for its data, so all examples are divided by all seconds
            unit=self._command.unit,
        )

    def _read(self) -> Iterator[Window]:
        """The windows, until the program ends."""
        meter = self._meter
        for now, readings in self._chunks():
            for reading in readings:
                if reading.value == 0 and not meter.readings:
                    continue  # printed before the first step
                self._require_possible(reading)
                if meter.take(now, reading):
                    self._advanced_at = now
                # Readings of one chunk form one window, except the warm-up, which may be the first of many.
                if (meter.readings == WARMUP_READINGS or reading is readings[-1]) and (window := meter.window(now)):
                    yield self._slowed(window)
        if window := meter.rest(self._clock()):
            yield self._slowed(window)
        if bad := self._program.ended_badly():
            raise self._program.failure(
                f"the program {bad} after {counted(meter.readings, 'reading')}",
                "fix the cause that its output shows"
                + ("; it must end with status 0" if self._command.until_end else ""),
            )
        if not meter.readings:
            raise self._nothing("it printed nothing usable before it ended")

    def _chunks(self) -> Iterator[tuple[float, list[Reading]]]:
        """The readings of each piece of output, and when it was printed.

        Raises:
            Hung: no reading told anything new for too long.
        """
        program, splitter = self._program, LineSplitter()
        printed_at = read_at = -math.inf
        while (data := program.read(self._advanced_at + program.silence_seconds - self._clock())) != b"":
            now = self._clock()
            if data is None or now - self._advanced_at > program.silence_seconds:
                printed, read = printed_at > self._advanced_at, read_at > self._advanced_at
                raise self._silent(printed=printed, read=read)
            found = [self._reader.read(line) for line in splitter.feed(data)]
            found.append(self._reader.read_unfinished(splitter.unfinished))
            readings = [reading for reading in found if reading is not None]
            printed_at = now
            read_at = now if readings else read_at
            yield now, readings
        if last := self._reader.read(splitter.unfinished):
            yield self._clock(), [last]

    def _silent(self, *, printed: bool, read: bool) -> MeasurementError:
        """The error for a program that hangs: did it print anything meanwhile, and was anything read from it?"""
        what = "printed nothing that can be read" if printed else "printed nothing"
        if read:
            what = "printed only readings that did not advance"
        fact = f"the program {what} for {self._program.silence_seconds:g} s and was ended"
        if self._reader.first_lines and not self._meter.readings and not read:
            fact += f"; {self._reader.nothing_read()}{self._first_lines()}"
        return self._program.hung(fact)

    def _nothing(self, fact: str) -> MeasurementError:
        if not self._reader.first_lines:
            return self._program.failure("it printed nothing at all", "let it print its rate to stdout or stderr")
        if self._reader.saw_steps:
            return self._program.failure("it prints steps and no rate", SAY_HOW_MANY)
        fact = f"{fact}: {self._reader.nothing_read()}{self._first_lines()}"
        return self._program.failure(fact, "docs/own-scripts.md lists what can be read")

    def _first_lines(self) -> str:
        """The first lines of a program that printed more than an error shows of its log."""
        if self._reader.lines <= SHOWN_LINES:
            return ""
        return "\nits first lines:\n" + "\n".join(f"  | {line}" for line in self._reader.first_lines)

    def _require_possible(self, reading: Reading) -> None:
        if reading.kind is not Kind.STEP and not _LEAST < reading.value < _MOST:
            what = "time of a step" if reading.kind is Kind.SECONDS else "rate"
            raise self._program.failure(
                f"it printed {reading.value:g} as its {what}, which can't be one",
                "look for the cause in the program; a pattern that matches another number reads that",
            )

    def _refuse_too_few(self, readings: int) -> None:
        if readings == 0:
            raise self._program.failure(
                "it printed too little before it ended: two lines with a counter make one reading",
                "let it print more often or run longer",
            )
        if not self._command.until_end:
            raise self._program.failure(
                f"the program ended after {counted(readings, 'reading')}, of which the first is warm-up and "
                f"{MIN_WINDOWS_FOR_ERROR} more are needed: one alone has no error estimate",
                "let it print more often or run longer, or give until_end=True to take what it prints in one run",
            )

    def _slowed(self, window: Window) -> Window:
        return Window(window.steps, window.seconds / (1 - self._slowdown), window.loss)


class Meter:
    """Makes windows of at least about `WINDOW_SECONDS` from readings.

    Rates within one window are averaged as if each stood for the same work, because a program that buffers its output
    prints many at once. Windows are weighted by the time that they took. So all windows together give all examples over
    all seconds, whether the program prints every ten steps or every ten seconds.

    Args:
        now: when the program was started.
        examples_per_step: units in a step.

    Attributes:
        readings: how many readings there were.
    """

    def __init__(self, now: float, examples_per_step: int) -> None:
        self._begin = now
        self._examples_per_step = examples_per_step
        self._counts = False
        self._rates: list[float] = []
        self._steps, self._seconds = 0.0, 0.0
        self._losses: list[float | None] = []
        self._counter: tuple[float, float] | None = None
        self._mean: tuple[int, float] | None = None
        self.readings = 0

    def take(self, now: float, reading: Reading) -> bool:
        """Add a reading; returns whether it tells something new."""
        self._losses.append(reading.loss)
        self._counts = reading.kind is Kind.STEP
        match reading.kind:
            case Kind.RATE:
                self._rates.append(reading.value)
            case Kind.SECONDS:
                self._rates.append(self._examples_per_step / reading.value)
            case Kind.MEAN_RATE:
                self._undo_mean(reading)
            case Kind.STEP:
                if self._counter is not None and reading.value == self._counter[0]:
                    return False  # the same line, printed again
                self.readings += 1
                return self._count(now, reading.value)
        self.readings += 1
        return True

    def window(self, now: float) -> Window | None:
        """The window of the readings since the last one; None if they are too short for a window."""
        seconds = self._seconds if self._counts else now - self._begin
        return self._window(now) if seconds >= WINDOW_SECONDS else None

    def rest(self, now: float) -> Window | None:
        """The window of the readings after the last one, when the program has ended.

        Counted steps are left out: the last lines may have been printed all at once.
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

    def _undo_mean(self, reading: Reading) -> None:
        """Add a rate of tf_cnn_benchmarks, which is the mean since the first step: subtract the lines before."""
        before, self._mean = self._mean, (reading.step, reading.value)
        if before is None or reading.step <= before[0]:  # a new measurement begins
            steps, each = reading.step, reading.step / reading.value
        else:
            steps = reading.step - before[0]
            each = reading.step / reading.value - before[0] / before[1]
        if each > 0:
            self._steps += steps
            self._seconds += each * self._examples_per_step
        else:  # lost in the rounding; the next line covers these steps too
            self._mean = before

    def _count(self, now: float, step: float) -> bool:
        """Add the steps since the last line, and the time. A counter that falls starts again, as in Keras' epochs."""
        before, self._counter = self._counter, (step, now)
        if before is None:
            return True
        if step > before[0]:
            self._steps += step - before[0]
            self._seconds += now - before[1]
        return step > before[0]
