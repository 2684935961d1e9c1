"""The windows of a user's command, made from its output until the throughput is known well enough."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from pytest_tfperf.core.command import Command, TimedFrom
from pytest_tfperf.core.figure import FIRST_STEP, PEAK_MEMORY, Figure
from pytest_tfperf.core.measurement import BY_OUTPUT, MEASURED
from pytest_tfperf.core.run import WINDOW_SECONDS, Enough, Plan, Run, Window, WindowObserver
from pytest_tfperf.core.throughput import MIN_WINDOWS_FOR_ERROR
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.validity import in_steady_state
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.command_run import Program
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.own_formats import FigureLines, FigureValue
from pytest_tfperf.programs.reading import LINE_END, Kind, LineSplitter, Reading, shown, worded_by
from pytest_tfperf.programs.window_aggregator import Confirms, WindowAggregator
from pytest_tfperf.reports.numbers import counted, duration
from pytest_tfperf.workers.failures import SHOWN_LINES, log_lines

WARMUP_READINGS = 1
"""The first reading contains the program's start and compilation."""

LOSS_READING = WARMUP_READINGS + MIN_WINDOWS_FOR_ERROR
"""The reading whose loss is judged where programs are ended early: each run has at least so many."""

_POLL_SECONDS = 1.0
_NOTICE_SECONDS = 20.0  # from the program's start: the progress shows it in its next line, after 30 s

_LEAST, _MOST = 1e-12, 1e15  # a printed number outside this range is no rate, and no time of a step


class CommandWindows:
    """The windows of a command's run.

    Args:
        devices: the number of devices that it runs on, over all nodes.
        slowdown: fraction of the throughput to take off on purpose.
        also: figures to read beside the throughput.
        may_lack_figures: a figure that is never printed is left out, and is no error.
        peak_memory: returns the most bytes that the program held, after its last window; None where that is not known.
        confirms: compares what the lines state with another measurement.
        notice: called again and again with what it waits for, while the first reading is late.
    """

    def __init__(
        self,
        program: Program,
        command: Command,
        *,
        devices: int = 1,
        slowdown: float = 0.0,
        also: Sequence[Figure] = (),
        may_lack_figures: bool = False,
        peak_memory: Callable[[], int | None] | None = None,
        confirms: Confirms = lambda *_: False,
        notice: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert command.reads is not None, "a command without reads is measured by its steps"
        self._program = program
        self._command = command
        self._reads = command.reads
        self._slowdown = slowdown
        self._clock = clock
        self._reader = Reader(command, devices)
        self._times_first_step = any(figure.name == FIRST_STEP for figure in also)
        self._peak_memory = peak_memory
        self._figures = FigureLines(
            also, None if self._reads.reads_to_the_end else LOSS_READING, may_lack=may_lack_figures
        )
        self._first_at: float | None = None
        self._started_at = clock()
        self._aggregator = WindowAggregator(clock(), command, WINDOW_SECONDS)
        first_within = math.inf if self._reads.reads_to_the_end else _FIRST_READING_SECONDS
        self._patience = Patience(clock(), command.first_within or first_within)
        self._confirms, self._notice = confirms, notice
        self._windows = self._read_or_timed()
        self._warmup: list[Window] = []
        self._advanced_at = clock()  # the time of the last reading that was no repetition

    def warm_up(self, plan: Plan) -> None:
        """Take the first readings, which are not timed.

        Raises:
            MeasurementError: the program prints nothing usable, ended in an error, or hangs.
        """
        self._warmup += islice(self._windows, plan.warmup_steps)

    def time(self, plan: Plan, observer: WindowObserver, enough: Enough = lambda _: False) -> Run:
        """Read until the plan's readings are spent, `enough` says so, or the program ends.

        A figure that is read at a later step is waited for.

        Raises:
            as `warm_up`, and if it ended before its throughput could be known, or without a figure that it must print.
        """
        windows: list[Window] = []
        started, ended_by_time = self._clock(), False
        for window in self._windows:
            windows.append(window)
            observer.window(run := self._run(self._warmup, windows), plan)
            if self._reads.reads_to_the_end:
                continue
            spent = self._clock() - started >= plan.max_seconds
            if len(windows) >= plan.steps or (spent and len(windows) >= MIN_WINDOWS_FOR_ERROR):
                if not self._figures.are_ahead:
                    ended_by_time = len(windows) < plan.steps
                    break
            elif len(windows) % 10 == 0 and self._figures.are_complete and enough(in_steady_state(run)):
                break
        warmup = self._warmup
        if len(windows) < min(MIN_WINDOWS_FOR_ERROR, plan.steps):
            self._refuse_too_few(len(warmup) + len(windows))
            if not windows:  # better than none, although it contains start and compilation
                warmup, windows = [], warmup
        with worded_by(self._program.failure):
            self._aggregator.conclude(self._reader.ambiguous, self._confirms)
        run = in_steady_state(replace(self._run(warmup, windows), ended_by_time=ended_by_time))
        observer.ended(run)
        return self._with_figures(run)

    def _with_figures(self, run: Run) -> Run:
        figures = {}
        if self._peak_memory is not None and (peak := self._peak_memory()) is not None:
            figures[PEAK_MEMORY] = FigureValue(float(peak))
        if self._first_at is not None and self._times_first_step:
            figures[FIRST_STEP] = FigureValue(self._first_at - self._started_at)
        with worded_by(self._program.failure):
            figures |= self._figures.values()
        return replace(
            run,
            figures={name: figure.value for name, figure in figures.items()},
            figure_places={name: figure.place for name, figure in figures.items() if figure.place},
        )

    def _run(self, warmup: Sequence[Window], windows: Sequence[Window]) -> Run:
        return Run(
            windows=tuple(windows),
            examples_per_step=self._command.counted_per_step or 1,
            warmup=tuple(warmup),
            environment={**self._program.environment, MEASURED: BY_OUTPUT},
            log=self._program.log,
            fetches=True,  # the program may wait for its data, so all examples are divided by all seconds
            unit=self._command.counted,
            not_read=self._reader.note(),
        )

    def _read_or_timed(self) -> Iterator[Window]:
        examples = self._reads.examples
        with worded_by(self._program.failure):
            for window in self._read() if examples is None else self._whole_run(examples):
                yield replace(window, seconds=window.seconds / (1 - self._slowdown))

    def _whole_run(self, examples: int) -> Iterator[Window]:
        program, started = self._program, self._advanced_at
        splitter = LineSplitter()
        while (data := program.read(started + program.silence_seconds - self._clock())) != b"":
            if data is None:
                raise program.hung(f"the program did not end within {program.silence_seconds:g} s and was ended")
            self._first_at = self._clock() if self._first_at is None else self._first_at
            for line in splitter.feed(data):
                self._figures.take(line)
        self._figures.take(splitter.unfinished)
        self._require_good_end()
        begin = started if self._reads.timed_from == TimedFrom.START else self._first_at
        if begin is None:
            raise program.failure(
                "it printed nothing, so there is no first output to time from", "give timed_from='start'"
            )
        if (seconds := self._clock() - begin) <= 0:
            raise program.failure("it ended with its first output, so it took no time", "give timed_from='start'")
        per_step = self._command.counted_per_step or 1
        steps = max(1, round(examples / per_step))
        yield Window(steps, seconds * steps * per_step / examples)

    def _read(self) -> Iterator[Window]:
        windows = self._aggregator
        for now, readings in self._chunks():
            for reading in readings:
                if not windows.readings and (reading.value == 0 or not math.isfinite(reading.value)):
                    if reading.value:  # 0 is printed before the first step
                        self._reader.skip(reading.line, f"{reading.value:g} before the first reading is no number")
                    continue
                self._require_possible(reading)
                if windows.take(now, reading):
                    self._advanced_at = now
                self._first_at = now if self._first_at is None else self._first_at
                # Readings of one chunk form one window, except the warm-up, which may be the first of many.
                if (windows.readings == WARMUP_READINGS or reading is readings[-1]) and (window := windows.window(now)):
                    yield window
        # After its last reading the program did not train, but saved its model, for example.
        if window := windows.rest(self._advanced_at):
            yield window
        self._require_good_end()
        if not windows.readings:
            raise self._nothing("it printed nothing usable before it ended")

    def _require_good_end(self) -> None:
        if bad := self._program.ended_badly():
            step = "fix the cause that its output shows"
            if "SIGKILL" in bad:
                step = "look for what killed it, then run the test again"
            step += "; it must end with status 0" if self._reads.reads_to_the_end else ""
            readings = counted(self._aggregator.readings, "reading")
            raise self._program.failure(f"the program {bad} after {readings}", step)

    def _chunks(self) -> Iterator[tuple[float, list[Reading]]]:
        """The readings of each piece of output, and when it was printed."""
        program, splitter = self._program, LineSplitter()
        printed_at = read_at = -math.inf
        while (data := program.read(min(_POLL_SECONDS, self._silence_left))) != b"":
            before, now = printed_at, self._clock()
            if self._silence_left <= 0:
                raise self._silent(printed=printed_at > self._advanced_at, read=read_at > self._advanced_at)
            if data is None:
                self._require_reading(now, has_read=read_at > -math.inf)
                continue
            # "\r12 images/s" and "\n12 images/s" are complete long before the next line ends them.
            end = LINE_END.match(data)
            if end and (readings := self._readings(splitter.feed(end[0]))):
                read_at = now
                yield before, readings
            readings = self._readings(splitter.feed(data[end.end() :] if end else data))
            printed_at = now
            read_at = now if readings else read_at
            self._patience.printed(now, len(data), lines=self._reader.lines)
            self._require_reading(now, has_read=read_at > -math.inf)
            yield now, readings
        if last := self._readings([splitter.unfinished]):
            yield printed_at, last

    @property
    def _silence_left(self) -> float:
        return self._advanced_at + self._program.silence_seconds - self._clock()

    def _require_reading(self, now: float, *, has_read: bool) -> None:
        """Say that the first reading is late, or give up on it."""
        if has_read:
            return
        left = self._patience.left(now)
        if left <= 0:
            raise self._nothing(f"{self._patience.seen(now)}, and was ended")
        if now - self._started_at < _NOTICE_SECONDS:
            return
        seen = self._patience.seen(now)
        if self._reader.first_lines and self._patience.is_past_start(now):
            seen += f": {self._reader.nothing_read()}; {self._reader.next_step()}"
        if (until := min(left, self._silence_left)) < math.inf:  # `tfperf read` never ends it for that
            seen += f"; it is ended in {duration(until)} without a reading"
        self._notice(seen)

    def _readings(self, lines: Sequence[str]) -> list[Reading]:
        readings = []
        for line in lines:
            readings.append(self._reader.read(line))
            self._figures.take(line, readings[-1])
        return [reading for reading in readings if reading is not None]

    def _silent(self, *, printed: bool, read: bool) -> MeasurementError:
        what = "printed nothing that can be read" if printed else "printed nothing"
        if read:
            what = "printed only readings that did not advance"
        fact = f"the program {what} for {self._program.silence_seconds:g} s and was ended"
        if self._reader.first_lines and not self._aggregator.readings and not read:
            return self._program.hung(f"{fact}; {self._reader.nothing_read()}", *self._first_lines())
        return self._program.hung(fact)

    def _nothing(self, fact: str) -> MeasurementError:
        if not self._reader.first_lines:
            return self._program.failure("it printed nothing at all", "let it print its rate to stdout or stderr")
        step = f"{self._reader.next_step()}; `tfperf read -- COMMAND` shows how each line is read"
        step += self._patience.buffering
        return self._program.failure(f"{fact}: {self._reader.nothing_read()}", step, *self._first_lines())

    def _first_lines(self) -> list[Line]:
        """The first lines of a program that printed more than an error shows of its log."""
        if self._reader.lines <= SHOWN_LINES:
            return []
        return [Line("its first lines:"), *log_lines(self._reader.first_lines)]

    def _require_possible(self, reading: Reading) -> None:
        if (reading.kind is not Kind.STEP or not math.isfinite(reading.value)) and not _LEAST < reading.value < _MOST:
            what = "rate"
            if reading.kind in (Kind.SECONDS, Kind.MEAN_SECONDS, Kind.STEP):
                what = "step" if reading.kind is Kind.STEP else "time of a step"
            raise self._program.failure(
                f"it printed {reading.value:g} as its {what}, which can't be one, in {shown(reading.line)!r}",
                "look for the cause in the program; a pattern that matches another number reads that",
            )

    def _refuse_too_few(self, readings: int) -> None:
        if readings == 0:
            raise self._program.failure(
                "it printed too little before it ended: three lines with a counter, in one epoch, make one reading",
                "let it print more often or run longer" + self._patience.buffering,
            )
        if not self._reads.reads_to_the_end:
            raise self._program.failure(
                f"the program ended after {counted(readings, 'reading')}, of which the first is warm-up and "
                f"{MIN_WINDOWS_FOR_ERROR} more are needed: one alone has no error estimate",
                "let it print more often or run longer, or give until_end=True in Reads(...) to take what it prints "
                "in one run" + self._patience.buffering,
            )


_START_SECONDS = 10.0  # from the first line; a program may say at its start what it does, and pause as long
_FIRST_READING_SECONDS = 120.0  # from the first line: it may still load its data and compile
_BUFFER = 4096
_SILENCE = 2.0


class Patience:
    """Decides when to give up on a program: `first_within` seconds after its first line without a reading."""

    def __init__(self, now: float, first_within: float) -> None:
        self._printed_at = now
        self._first_within = first_within
        self._first_at: float | None = None  # the time of the first line
        self._lines = 0
        self._is_buffered = self._has_output = False

    def printed(self, now: float, size: int, *, lines: int) -> None:
        """Note that the program has just printed `size` bytes; in all `lines` lines."""
        since, self._printed_at, self._has_output, self._lines = now - self._printed_at, now, True, lines
        self._is_buffered |= since > _SILENCE and size >= _BUFFER
        if self._first_at is None and lines:
            self._first_at = now

    def is_past_start(self, now: float) -> bool:
        """Whether the first line came so long ago that a rate was to be expected."""
        return self._first_at is not None and now - self._first_at >= _START_SECONDS

    def seen(self, now: float) -> str:
        """What the program has printed, in words."""
        silent = now - self._printed_at
        if self._first_at is None:
            begun = "begun a line, then printed" if self._has_output else "printed"
            return f"the program has {begun} nothing for {duration(silent)}"
        if silent >= _START_SECONDS:
            return f"the program printed {counted(self._lines, 'line')}, then nothing for {duration(silent)}"
        return f"the program has printed for {now - self._first_at:.0f} s"

    def left(self, now: float) -> float:
        """Seconds until the program is ended without a reading; inf for a program that has printed nothing."""
        return math.inf if self._first_at is None else self._first_within - (now - self._first_at)

    @property
    def buffering(self) -> str:
        """A further next step for a program that prints much at once after a silence; else ""."""
        if not self._is_buffered:
            return ""
        return "; its output seems to be buffered: start it by `stdbuf -oL`, or set PYTHONUNBUFFERED=1"
