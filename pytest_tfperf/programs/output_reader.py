"""Reads one program's lines, and says what it could not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_tfperf.core.command import SAY_HOW_MANY, Command, RateIs
from pytest_tfperf.programs.formats import FORMATS, FormatLines
from pytest_tfperf.programs.own_formats import FieldLines, ParsedLines, PatternLines, rate_field
from pytest_tfperf.programs.progress_lines import Bars, KerasLines
from pytest_tfperf.programs.reading import NUMBER, Kind, LeftOut, Reading, Unread, Unreadable, shown
from pytest_tfperf.programs.series import FirstSeries, step_in
from pytest_tfperf.programs.unit_lines import StepLines, UnitLines

SHOWN_LINES = 5
_MOST_UNREAD_SHARE = 0.1
_MOST_OF_A_LINE = 2048  # longer ones are no line of a known format, and searching them takes long
_LEAST_UNREAD = 3

_ANY_UNIT = r"(?P<unit>(?!\w?i?B/|bytes?/|[TG]?FLOPS?/)[A-Za-z]{2,20})\s?/\s?s(?:ec(?:ond)?)?\b"
_ANY_RATE = re.compile(rf"{NUMBER}[kKMG]?\s?{_ANY_UNIT}", re.IGNORECASE)
_ANY_LABELLED_RATE = re.compile(rf"(?<![\w/]){_ANY_UNIT}['\")\]]{{0,2}}\s{{0,9}}[:=]?\s{{0,9}}{NUMBER}", re.IGNORECASE)

_Read = Callable[[str], Reading | Unread | LeftOut | None]


class Reader:
    """Reads one program's lines; the format that is recognised first stays.

    Args:
        command: says how to read them.
        devices: how many devices it runs on, for rates "per GPU".

    Attributes:
        first_lines: the beginnings of the first lines that are not empty.
        lines: how many there were.
        saw_steps: there was a line of steps, and nobody said how many units a step holds.
        read_as: the name of the format that was recognised; "" before.
        unread: lines with a rate that could not be read, and why.
    """

    def __init__(self, command: Command, devices: int = 1) -> None:
        self._command = command
        self._keras, self._bars = KerasLines(), Bars(command.unit)
        self._field = FieldLines(command.reads.field) if command.reads.field else None
        self._formats = self._formats_of(command, devices)
        self._series = None if command.reads.parse is not None else FirstSeries(is_described=self._is_described)
        self._named_average = ""
        self._unit_rates: Counter[str] = Counter()
        self._rate_field = ""
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

    def _formats_of(self, command: Command, devices: int) -> Sequence[tuple[str, _Read]]:
        reads, unit = command.reads, command.unit
        if self._field is not None:
            return [("field", self._field.read)]
        if reads.pattern:
            return [("pattern", PatternLines(reads.pattern).read)]
        if reads.parse is not None:
            return [("parse", ParsedLines(reads.parse).read)]
        counts = command.reads.examples_per_step is not None
        named = [
            (of.name, FormatLines(of, unit, devices, counts_batches=counts).read)
            for of in FORMATS
            if of.can_serve(unit)
        ]
        return [
            ("Keras' progress lines", self._keras.read),
            ("a progress bar", self._bars.read),
            *named,
            (f"{unit}/s", UnitLines(unit, devices).read),
            ("steps", StepLines().read),
        ]

    def read(self, line: str) -> Reading | None:
        """What a line says; None for one that says nothing of the kind.

        Raises:
            Unreadable: the output can't be read as a whole.
        """
        self.lines += 1
        if len(self.first_lines) < SHOWN_LINES and line.strip():
            self.first_lines.append(shown(line))
        return self._recognised(line if self._is_described else line[:_MOST_OF_A_LINE], self._formats)

    def read_unfinished(self, line: str) -> Reading | None:
        """As `read` for a line that has no end yet, as a progress line, which the next one ends."""
        progress: dict[_Read, _Read] = {
            self._keras.read: self._keras.read_unfinished,
            self._bars.read: self._bars.read_unfinished,
        }
        formats = [(name, progress[read]) for name, read in self._formats if read in progress]
        return self._recognised(line, formats, is_whole=False) if formats else None

    def note(self) -> str:
        """What a reader of the measurement should know of lines that were not read, or of averages; "" for nothing."""
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
        """Why no line said anything: what was expected."""
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
        return f"no line has a rate in {command.unit}/s"

    def next_step(self) -> str:
        """What to give so that the lines can be read."""
        if self.unread:
            return (
                "print it in another way, or give reads=Reads(pattern=...) or parse=, a function that reads such a line"
            )
        if self.saw_steps:
            return SAY_HOW_MANY
        if self.likely_unit:
            return f"give unit='{self.likely_unit}/s', which {self._unit_rates[self.likely_unit]} of its lines have"
        if self._rate_field and not self._is_described:
            return f"give reads=Reads(field={self._rate_field!r}), which its JSON lines have"
        return "give reads=Reads(pattern=...), field=... or parse=..., or examples=N for a program that prints no rate"

    @property
    def likely_unit(self) -> str:
        """The unit that most lines name, where none is in the one that was given; "" for none."""
        if self._is_described or not self._unit_rates:
            return ""
        unit = self._unit_rates.most_common(1)[0][0]
        return "" if unit == self._command.unit else unit

    def _recognised(self, line: str, formats: Sequence[tuple[str, _Read]], *, is_whole: bool = True) -> Reading | None:
        for name, read in formats:
            found = read(line)
            if found is None:
                continue
            if isinstance(found, LeftOut):
                return None
            if isinstance(found, Unread):
                self._skip(line, found.why)
                return None
            if found.kind.is_of_steps and self._command.counted_per_step is None:
                self.saw_steps = True  # the program may print its own rate in another line
                continue
            if not self._is_of_first_series(line, found, is_whole=is_whole):
                return None
            self.read_as = name
            if is_whole:
                self._formats = [(name, read)]
            self._read += 1
            if found.is_named_average and self._command.reads.rate_is is None:
                self._named_average = self._named_average or shown(line)
            return self._as_average(found, line) if self._command.reads.rate_is == RateIs.AVERAGE else found
        if not self._read:
            self._rate_field = self._rate_field or rate_field(line)
            if other := _ANY_RATE.search(line) or _ANY_LABELLED_RATE.search(line):
                self._unit_rates[other["unit"]] += 1
        return None

    def _is_of_first_series(self, line: str, found: Reading, *, is_whole: bool) -> bool:
        is_counter = found.kind in (Kind.STEP, Kind.EXAMPLES)
        # A bar may be drawn under other names before its first step.
        if self._series is None or (is_counter and found.value == 0):
            return True
        said = line if self._field is None else self._field.series(line)
        return self._series.accept(line, said, is_whole=is_whole, is_counter=is_counter)

    def _as_average(self, found: Reading, line: str) -> Reading:
        """The reading as a mean since the first step; without a counter, lines stand for as many steps each."""
        step = step_in(line) or self._read
        match found.kind:
            case Kind.RATE:
                return replace(found, kind=Kind.MEAN_RATE, step=step)
            case Kind.SECONDS:
                return replace(found, kind=Kind.MEAN_SECONDS, step=step)
        return found

    def _skip(self, line: str, why: str) -> None:
        self.unread_count += 1
        if len(self.unread) < SHOWN_LINES:
            self.unread.append((shown(line), why))
        if self._read and self.unread_count >= _LEAST_UNREAD and self.unread_count > _MOST_UNREAD_SHARE * self._read:
            lines = "".join(f"\n  | {text}" for text, _ in self.unread)
            raise Unreadable(
                f"{self.unread_count} lines with a rate can't be read, beside {self._read} that can: {why}{lines}",
                "give reads=Reads(pattern=...) or parse= that reads all of them",
            )
