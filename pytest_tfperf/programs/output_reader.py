"""Reads a program's lines, explains lines that it can't read, and decides when to give up on the program."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pytest_tfperf.core.command import SAY_HOW_MANY, Command, RateIs
from pytest_tfperf.programs.formats import FORMATS, FormatLines
from pytest_tfperf.programs.own_formats import FieldLines, ParsedLines, PatternLines
from pytest_tfperf.programs.progress_lines import Bars, KerasLines, looks_like_progress
from pytest_tfperf.programs.reading import Kind, LeftOut, Reading, Unread, Unreadable, counters_in, shown, step_in
from pytest_tfperf.programs.series import FirstSeries, form_of
from pytest_tfperf.programs.unit_lines import StepLines, UnitLines

SHOWN_LINES = 5
_MOST_UNREAD_SHARE = 0.1
_MOST_OF_A_LINE = 2048  # known formats have shorter lines, and searching longer ones takes long
_LEAST_UNREAD = 3

_Read = Callable[[str], Reading | Unread | LeftOut | None]


@dataclass(frozen=True, slots=True)
class _Format:
    """A way to read a line.

    Args:
        name: for the user.
        read: returns a line's reading.
        unfinished: returns the reading of a line without an end; None where such lines can't be read.
        form: returns the text that all lines of a series have in common.
        is_guarded: it refuses lines of other formats, so that these need not be tried first.
    """

    name: str
    read: _Read
    unfinished: _Read | None = None
    form: Callable[[str], str] = lambda _: ""
    is_guarded: bool = True


class Reader:
    """Reads a program's lines, all by the format that is recognised first.

    Args:
        command: says how to read them.
        devices: the number of devices that it runs on, for rates "per GPU".

    Attributes:
        first_lines: the beginnings of the first lines that are not empty.
        lines: the number of lines.
        saw_steps: a line counts or times steps, and the command does not say how many units a step holds.
        read_as: the name of the format that was recognised; "" before.
        unread: the first lines with a rate that could not be read, and why.
        unread_count: the number of such lines.
    """

    def __init__(self, command: Command, devices: int = 1) -> None:
        self._command = command
        self._field = FieldLines(command.reads.field) if command.reads.field else None
        self._formats = self._formats_of(command, devices)
        self._series = None if command.reads.parse is not None else FirstSeries(is_described=self._is_described)
        self._named_average = ""
        self._read = 0
        self.first_lines: list[str] = []
        self.lines = 0
        self.saw_steps = False
        self.read_as = ""
        self.unread: list[tuple[str, str]] = []
        self.unread_count = 0

    @property
    def _is_described(self) -> bool:
        reads = self._command.reads
        return bool(reads.pattern or reads.field or reads.parse)

    def _formats_of(self, command: Command, devices: int) -> Sequence[_Format]:
        reads, unit = command.reads, command.counted
        if self._field is not None:
            return [_Format("field", self._field.read, form=lambda line: " ".join(sorted(counters_in(line))))]
        if reads.pattern:
            return [_Format("pattern", PatternLines(reads.pattern).read, form=form_of)]
        if reads.parse is not None:
            return [_Format("parse", ParsedLines(reads.parse).read)]
        counts = reads.examples_per_step is not None
        keras, bars = KerasLines(), Bars(unit)
        return [
            _Format("Keras' progress lines", keras.read, keras.read_unfinished),
            _Format("a progress bar", bars.read, bars.read_unfinished),
            *(
                _Format(of.name, FormatLines(of, unit, devices, counts_batches=counts).read)
                for of in FORMATS
                if of.can_serve(unit)
            ),
            _Format(f"{unit}/s", UnitLines(unit, devices).read, form=form_of, is_guarded=False),
            _Format("steps", StepLines().read, form=form_of, is_guarded=False),
        ]

    def read(self, line: str) -> Reading | None:
        """The reading of a line; None for a line without one.

        Raises:
            Unreadable: the output can't be read as a whole.
        """
        self.lines += 1
        if len(self.first_lines) < SHOWN_LINES and line.strip():
            self.first_lines.append(shown(line))
        return self._recognised(line if self._is_described else line[:_MOST_OF_A_LINE], self._formats)

    def read_unfinished(self, line: str) -> Reading | None:
        """The reading of a line that has no end yet, such as a progress line, which the next line ends."""
        formats = [replace(each, read=each.unfinished) for each in self._formats if each.unfinished is not None]
        return self._recognised(line, formats, is_whole=False) if formats else None

    def note(self) -> str:
        """A note for the measurement on lines that were not read, or on averages; "" for none."""
        notes = []
        if self.unread_count:
            line, why = self.unread[0]
            counted = (
                "1 line with a rate was" if self.unread_count == 1 else f"{self.unread_count} lines with a rate were"
            )
            notes.append(f"{counted} not read: {why}: {line!r}")
        if self._series is not None and self._series.left_out:
            notes.append(f"lines of evaluation that were left out: {self._series.left_out}")
        if self._series is not None and self._series.others:
            notes.append(f"lines of another series that were left out: {self._series.others}")
        if self._named_average:
            notes.append(
                f'{self._named_average!r} names an average: give rate_is="average" if it is one since the first step, '
                'and "recent" if not'
            )
        return "; ".join(notes)

    def nothing_read(self) -> str:
        """Why no line has a reading, with what was expected."""
        command, reads = self._command, self._command.reads
        if self._field is not None and self._field.fields:
            known = ", ".join(self._field.fields)
            return f"no JSON line has a number in the field {reads.field!r}; they have {known}"
        if reads.field:
            return f"no line is a JSON object, in which the field {reads.field!r} would be read"
        if reads.pattern:
            return f"no line matches the pattern {reads.pattern!r}"
        if reads.parse is not None:
            return "parse= returned None for each line"
        if self.unread:
            return f"no line has a rate that is plain: {self.unread[0][1]}"
        if self.saw_steps:
            return "it prints steps and no rate"
        return f"no line has a rate in {command.unit}"

    def next_step(self) -> str:
        """The arguments that would let the lines be read."""
        if self.unread:
            return (
                "print it in another way, or give reads=Reads(pattern=...) or parse=, a function that reads such a line"
            )
        if self.saw_steps:
            return SAY_HOW_MANY
        bars = "" if self._command.terminal else "; terminal=True if it draws a bar in a terminal only"
        return (
            "give reads=Reads(pattern=...), field=... or parse=..., or examples=N for a program that prints no rate"
            f"{bars}"
        )

    def _recognised(self, line: str, formats: Sequence[_Format], *, is_whole: bool = True) -> Reading | None:
        are_steps = False
        for each in formats:
            reading = each.read(line)
            if reading is None:
                continue
            if isinstance(reading, LeftOut):
                if reading.why and not self._read:
                    self._show(line, reading.why)
                break
            if not each.is_guarded and not are_steps and looks_like_progress(line):
                reading = Unread("it looks like a progress bar, and is not drawn as one that is known")
            if isinstance(reading, Unread):
                self._skip(line, reading.why)
                return None
            if reading.kind.is_of_steps and self._command.counted_per_step is None:
                self.saw_steps = are_steps = True  # the program may print its own rate, too
                continue
            reading = replace(reading, line=line)
            if not self._is_of_first_series(reading, each.form(line), is_whole=is_whole):
                return None
            self.read_as = each.name
            if is_whole:
                self._formats = [each]
            self._read += 1
            return self._as_the_user_says(reading)
        return None

    def _is_of_first_series(self, reading: Reading, form: str, *, is_whole: bool) -> bool:
        # A bar may be drawn under other names before its first step.
        if self._series is None or (reading.kind.is_counter and reading.value == 0):
            return True
        said = reading.line if self._field is None else self._field.series(reading.line)
        return self._series.accept(reading, said, form, is_whole=is_whole)

    def _as_the_user_says(self, reading: Reading) -> Reading:
        """The reading, for `rate_is="average"` as a mean since the first step; lines without a counter count steps."""
        if self._command.reads.rate_is != RateIs.AVERAGE:
            if reading.is_named_average and self._command.reads.rate_is is None:
                self._named_average = self._named_average or shown(reading.line)
            return reading
        step = step_in(reading.line) or self._read
        match reading.kind:
            case Kind.RATE:
                return replace(reading, kind=Kind.MEAN_RATE, step=step)
            case Kind.SECONDS:
                return replace(reading, kind=Kind.MEAN_SECONDS, step=step)
            case Kind.STEP_RATE if reading.value > 0:
                return replace(reading, kind=Kind.MEAN_SECONDS, value=1 / reading.value, step=step)
        return reading

    def _show(self, line: str, why: str) -> None:
        if len(self.unread) < SHOWN_LINES:
            self.unread.append((shown(line), why))

    def _skip(self, line: str, why: str) -> None:
        self.unread_count += 1
        self._show(line, why)
        if self._read and self.unread_count >= _LEAST_UNREAD and self.unread_count > _MOST_UNREAD_SHARE * self._read:
            raise Unreadable(
                f"{self.unread_count} lines with a rate can't be read, beside {self._read} that can: {why}",
                "give reads=Reads(pattern=...) or parse= that reads all of them",
                [text for text, _ in self.unread],
            )


_START_SECONDS = 10.0  # from the first line; a program may say at its start what it does, and pause as long
_PRINTING_SECONDS = 40.0  # from the first line, for a program that goes on printing
_SILENT_SECONDS = 120.0  # for one that fell silent: it may still load its data and compile
_LEAST_BURSTS = 5
_PAUSE = 0.5  # between two bursts

_BUFFER = 4096
_SILENCE = 2.0


class Patience:
    """Decides by the clock when to give up on a program whose lines can't be read.

    Args:
        now: when the program was started, in seconds.
        first_within: seconds from the first line in which a reading is expected; None for 40 s if it goes on printing,
            and two minutes if it falls silent.

    Attributes:
        has_output: the program has printed something, if only the beginning of a line.
    """

    def __init__(self, now: float, first_within: float | None) -> None:
        self._printed_at = now
        self._first_within = first_within
        self._first_at: float | None = None
        self._bursts = 0
        self._is_buffered = False
        self.has_output = False

    def printed(self, now: float, size: int, *, lines: int) -> None:
        """Note that the program has just printed `size` bytes; in all `lines` lines."""
        since, self._printed_at, self.has_output = now - self._printed_at, now, True
        self._is_buffered |= since > _SILENCE and size >= _BUFFER
        if self._first_at is None and lines:
            self._first_at = now
        self._bursts += self.is_past_start(now) and since >= _PAUSE

    def waited(self, now: float) -> float:
        """Seconds since the first line."""
        return 0.0 if self._first_at is None else now - self._first_at

    def is_past_start(self, now: float) -> bool:
        """Whether the first line came so long ago that a rate was to be expected."""
        return self.waited(now) >= _START_SECONDS

    def silent(self, now: float) -> float:
        """Seconds since the program last printed, or since its start."""
        return now - self._printed_at

    def has_paused(self, now: float) -> bool:
        """Whether the program has been silent for longer than between the lines of most programs."""
        return self.silent(now) >= _START_SECONDS

    def left(self, now: float) -> float:
        """Seconds until the program is ended without a reading; inf for a program that has printed nothing."""
        if self._first_at is None:
            return math.inf
        goes_on = self._bursts >= _LEAST_BURSTS and not self.has_paused(now)
        limit = _PRINTING_SECONDS if goes_on else _SILENT_SECONDS
        return (limit if self._first_within is None else self._first_within) - self.waited(now)

    @property
    def buffering(self) -> str:
        """A further next step for a program that prints much at once after a silence; else ""."""
        if not self._is_buffered:
            return ""
        return "; its output seems to be buffered: start it by `stdbuf -oL`, or set PYTHONUNBUFFERED=1"
