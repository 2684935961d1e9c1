"""Reads a program's lines by the format and of the series that come first, and explains lines that it can't read."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pytest_tfperf.core.command import SAY_HOW_MANY, Command, RateIs, Reads
from pytest_tfperf.programs.formats import FORMATS
from pytest_tfperf.programs.own_formats import OwnLines, read_by, series_in_json
from pytest_tfperf.programs.progress_lines import Bars, KerasLines, looks_like_progress
from pytest_tfperf.programs.reading import Kind, LeftOut, Reading, Unread, Unreadable, counters_in, shown, step_in
from pytest_tfperf.programs.unit_lines import read_rate, read_steps

SHOWN_LINES = 5
_MOST_UNREAD_SHARE = 0.1
_MOST_OF_A_LINE = 2048  # known formats have shorter lines, and searching longer ones takes long
_LEAST_UNREAD = 3

_Read = Callable[[str], Reading | Unread | LeftOut | None]


class _Format(NamedTuple):
    """A way to read a line, by the name that users see."""

    name: str
    read: _Read
    unfinished: _Read | None = None  # reads a line without an end; None where such lines can't be read
    form: Callable[[str], str] = lambda _: ""  # returns the text that all lines of a series have in common
    is_guarded: bool = True  # it refuses lines of other formats, so that these need not be tried first


class Reader:
    """Reads a program's lines, all by the format that is recognised first; rates "per GPU" are of all devices."""

    def __init__(self, command: Command, devices: int = 1) -> None:
        self._command = command
        self._reads = reads = command.reads or Reads()
        self._own = OwnLines(reads.field, reads.pattern)
        self._formats = self._formats_of(command, devices)
        self._is_described = bool(reads.pattern or reads.field or reads.parse)
        self._series = FirstSeries(is_described=self._is_described)
        self._named_average = ""
        self._read = self._unread = 0  # numbers of lines
        self._saw_steps = False  # a line counts or times steps, and their size is not given
        self.first_lines: list[str] = []  # the beginnings of those that are not empty
        self.lines = 0
        self.read_as = ""  # the name of the format that was recognised
        self.unread: list[tuple[str, str]] = []  # the first lines with a rate that could not be read, and why

    def _formats_of(self, command: Command, devices: int) -> Sequence[_Format]:
        reads, unit = self._reads, command.counted
        if reads.field:
            return [_Format("field", self._own.read, form=lambda line: " ".join(sorted(counters_in(line))))]
        if reads.pattern:
            return [_Format("pattern", self._own.read, form=form_of)]
        if reads.parse is not None:
            return [_Format("parse", partial(read_by, reads.parse))]
        counts = command.examples_per_step is not None
        keras, bars = KerasLines(), Bars(unit)
        return [
            _Format("Keras' progress lines", keras.read, keras.read_unfinished),
            _Format("a progress bar", bars.read, bars.read_unfinished),
            *(
                _Format(of.name, partial(of.read, unit=unit, devices=devices, counts_batches=counts))
                for of in FORMATS
                if of.can_serve(unit)
            ),
            _Format(f"{unit}/s", partial(read_rate, unit=unit, devices=devices), form=form_of, is_guarded=False),
            _Format("steps", read_steps, form=form_of, is_guarded=False),
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
        formats = [way._replace(read=way.unfinished) for way in self._formats if way.unfinished is not None]
        return self._recognised(line, formats, is_whole=False) if formats else None

    def note(self) -> str:
        """A note for the measurement on lines that were not read, or on averages; "" for none."""
        notes = []
        if self._unread:
            line, why = self.unread[0]
            counted = "1 line with a rate was" if self._unread == 1 else f"{self._unread} lines with a rate were"
            notes.append(f"{counted} not read: {why}: {line!r}")
        if self._series.left_out:
            notes.append(f"lines of evaluation that were left out: {self._series.left_out}")
        if self._series.others:
            notes.append(f"lines of another series that were left out: {self._series.others}")
        if self._named_average:
            notes.append(
                f'{self._named_average!r} names an average: give rate_is="average" if it is one since the first step, '
                'and "recent" if not'
            )
        return "; ".join(notes)

    def nothing_read(self) -> str:
        """Why no line has a reading, with what was expected."""
        reads = self._reads
        if self._own.fields:
            known = ", ".join(self._own.fields)
            return f"no JSON line has a number in the field {reads.field!r}; they have {known}"
        if reads.field:
            return f"no line is a JSON object, in which the field {reads.field!r} would be read"
        if reads.pattern:
            return f"no line matches the pattern {reads.pattern!r}"
        if reads.parse is not None:
            return "parse= returned None for each line"
        if self.unread:
            return f"no line has a rate that is plain: {self.unread[0][1]}"
        if self._saw_steps:
            return "it prints steps and no rate"
        return f"no line has a rate in {self._command.unit}"

    def next_step(self) -> str:
        """The arguments that would let the lines be read."""
        if self.unread:
            return (
                "print it in another way, or give reads=Reads(pattern=...) or parse=, a function that reads such a line"
            )
        if self._saw_steps:
            return SAY_HOW_MANY
        bars = "" if self._command.terminal else "; terminal=True if it draws a bar in a terminal only"
        return (
            "give reads=Reads(pattern=...), field=... or parse=..., or examples=N for a program that prints no rate"
            f"{bars}"
        )

    def _recognised(self, line: str, formats: Sequence[_Format], *, is_whole: bool = True) -> Reading | None:
        are_steps = False
        for way in formats:
            reading = way.read(line)
            if reading is None:
                continue
            if isinstance(reading, LeftOut):
                if reading.why and not self._read:
                    self._show(line, reading.why)
                break
            if not way.is_guarded and not are_steps and looks_like_progress(line):
                reading = Unread("it looks like a progress bar, and is not drawn as one that is known")
            if isinstance(reading, Unread):
                self._skip(line, reading.why)
                return None
            if reading.kind.is_of_steps and self._command.counted_per_step is None:
                self._saw_steps = are_steps = True  # the program may print its own rate, too
                continue
            reading = replace(reading, line=line)
            if not self._is_of_first_series(reading, way.form(line), is_whole=is_whole):
                return None
            self.read_as = way.name
            if is_whole:
                self._formats = [way]
            self._read += 1
            return self._as_the_user_says(reading)
        return None

    def _is_of_first_series(self, reading: Reading, form: str, *, is_whole: bool) -> bool:
        reads = self._reads
        # A bar may be drawn under other names before its first step.
        if reads.parse is not None or (reading.kind.is_counter and reading.value == 0):
            return True
        said = series_in_json(reading.line) if reads.field else reading.line
        return self._series.accept(reading, said, form, is_whole=is_whole)

    def _as_the_user_says(self, reading: Reading) -> Reading:
        """The reading, for `rate_is="average"` as a mean since the first step; lines without a counter count steps."""
        if self._reads.rate_is != RateIs.AVERAGE:
            if reading.is_named_average and self._reads.rate_is is None:
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
        self._unread += 1
        self._show(line, why)
        if self._read and self._unread >= _LEAST_UNREAD and self._unread > _MOST_UNREAD_SHARE * self._read:
            raise Unreadable(
                f"{self._unread} lines with a rate can't be read, beside {self._read} that can: {why}",
                "give reads=Reads(pattern=...) or parse= that reads all of them",
                [text for text, _ in self.unread],
            )


_METRIC = r"(?:loss|acc|top|ppl|perplexity|err|metric|score|f1|auc|psnr|map)"
# "train", "eval_step" and "eval_images", but neither "train_loss" nor "val loss".
_MODE = re.compile(
    rf"\b(train|eval|valid|val(?!ue)|test|predict|infer)[a-z]{{0,8}}(?:_(?!{_METRIC})[a-z]{{1,20}})*\b(?! ?{_METRIC})",
    re.IGNORECASE,
)
# "val_loss" and the like, whose last value a line of training may have, and a plain "loss".
_METRIC_OF = re.compile(
    rf"\b(?:(train|eval|valid|val|test)[a-z]{{0,8}}[ _/-]{_METRIC}|(?<![a-z] )loss\b)", re.IGNORECASE
)
_EVALUATION = ("eval", "valid", "val", "test", "predict", "infer")
# Neither "tokens/s/device: 166.2" nor "GPU: 97 %".
_RANK = re.compile(
    r"(?<![a-z]/)(?<!per )\b(?:rank|local_rank|worker|gpu|device|process|replica|node)\W{0,3}(\d{1,4})\b"
    r"(?!\.\d|,\d{3}(?!\d)|\s?(?:%|\u00b0|[CW]\b|[kMGT]i?B\b))"
    r"|^\[(?:\d+,|default|rank)?(\d+)\](?:<std\w+>)?:",
    re.IGNORECASE,
)
_MOST_OF_OTHERS = 10  # lines of several other series
_LEAST_OF_ANOTHER = 3  # lines of a second series; one or two may be a total at the end
# Numbers, and units that change with their size: "950 ms/step" and "1.1 s/step", "3.6 it/s" and "1.2 s/it".
_VARIES = re.compile(
    r"\d+ days?\b|[+-]?(?:\d[\d.,:]*(?:e[+-]?\d+)?(?:\s?(?:[kmg]|[mun\u00b5]?s(?:ec)?|it)(?![a-z]))?|"
    r"(?<![a-z])(?:nan|inf)\b)(?:/(?:s|it)\b)?|\s",
    re.IGNORECASE,
)
_SUMMARY = re.compile(r"epoch|mean|average|avg|total|overall|summary|final|best", re.IGNORECASE)


def form_of(line: str) -> str:
    """A line without its numbers, which is the same for all lines of a series."""
    return _VARIES.sub("", line)


def _modes_of_metrics(said: str) -> set[str]:
    return {(metric[1] or "").lower() for metric in _METRIC_OF.finditer(said)}


class FirstSeries:
    """Accepts the lines of the first series in an output, which is taken for the program's training.

    Lines that name evaluation are left out if the first lines don't, and so are lines of another form, such as the mean
    of an epoch between the rates of its steps. A second series of another kind is refused: an average of both would be
    neither. Where the user's own pattern or field selects the lines (`is_described`), only ranks and evaluation matter.
    """

    def __init__(self, *, is_described: bool) -> None:
        self._is_described = is_described
        self._first: tuple[str, str] | None = None
        self._first_line = self._form = ""
        self._counters: frozenset[str] = frozenset()
        self._is_average = False
        self._names_training = False
        self._others: Counter[tuple[str, str]] = Counter()
        self._order = StepOrder()
        self._step: int | None = None
        self._of_other_form = self._in_a_row = self._taken = 0
        self.left_out = 0  # lines of evaluation

    @property
    def others(self) -> int:
        """The number of other lines that were left out, too few to be a series."""
        return self._others.total() + self._of_other_form

    def accept(self, reading: Reading, said: str, form: str, *, is_whole: bool = True) -> bool:
        """Whether a line with a rate belongs to the first series; an unfinished line comes once more.

        Args:
            said: the text that may name its series.
            form: of the line; "" where all lines have the same form.

        Raises:
            Unreadable: there is a second series.
        """
        key, line = self._series(said), reading.line
        if self._first is None:
            self._first = key
            self._names_training = key[0] == "train" or bool({"train", ""} & _modes_of_metrics(said))
            self._begin(reading, form)
        if key == self._first:
            return self._is_next(reading, form) if is_whole else True
        if key[0] in _EVALUATION and self._first[0] not in _EVALUATION:
            self.left_out += is_whole
            return False
        self._others[key] += is_whole
        if self._others[key] >= _LEAST_OF_ANOTHER or self._others.total() >= _MOST_OF_OTHERS:
            self._refuse(line, by_rank=key[1] != self._first[1])
        return False

    def _series(self, said: str) -> tuple[str, str]:
        named, rank = _MODE.search(said), _RANK.search(said)
        mode = named[1].lower() if named else ""
        modes = _modes_of_metrics(said)
        if not mode and self._names_training and modes and not modes & {"train", ""}:
            mode = "eval"
        if self._is_described and mode not in _EVALUATION:
            mode = ""
        return mode, (rank[1] or rank[2]) if rank else ""

    def _begin(self, reading: Reading, form: str) -> None:
        self._first_line, self._form, self._taken = reading.line, form, 0
        self._counters, self._is_average = counters_in(reading.line), reading.is_named_average

    def _is_next(self, reading: Reading, form: str) -> bool:
        """Whether it is the next line of the series, and no summary of earlier lines."""
        line = reading.line
        if reading.kind.is_counter:
            is_drawn_again = reading.kind is Kind.STEP and looks_like_progress(line)
            self._order.take(reading.value, line, "" if is_drawn_again else form_of(line))
            return True
        step = step_in(line)
        if form != self._form and not self._is_a_variant(reading, step, form):
            self._of_other_form += 1
            self._in_a_row += 1
            if self._taken > 1 or self._in_a_row < _LEAST_OF_ANOTHER:
                if self._in_a_row >= _MOST_OF_OTHERS:
                    self._refuse(line, by_rank=False)
                return False
            self._begin(reading, form)  # the first line was alone, and a first reading is warm-up
        self._in_a_row = 0
        self._taken += 1
        if step is not None:
            self._order.take(step, line, form_of(line))
            self._step = step
        return True

    def _is_a_variant(self, reading: Reading, step: int | None, form: str) -> bool:
        """Whether a line of another form only adds to the first line or lacks its end, or goes on with its counters."""
        short, long = sorted((form, self._form), key=len)
        if self._counters:
            is_alike = counters_in(reading.line) == self._counters and step != self._step
        else:
            is_alike = long.startswith(short) and not _SUMMARY.search(long.removeprefix(short))
        return is_alike and reading.is_named_average == self._is_average

    def _refuse(self, line: str, *, by_rank: bool) -> None:
        both = " and ".join(repr(shown(of)) for of in (self._first_line, line))
        ranks = "let one rank print the rate of all, or " if by_rank else ""
        if self._is_described:
            step = f"{ranks}give parse=, a function that returns None for the lines of all others"
        else:
            step = f"{ranks}give reads=Reads(pattern=...) that finds the lines of one of them"
        raise Unreadable(f"two series of rates are in one output: {both}", step)


_LEAST = 3  # lines that one process can't have printed
_MOST_REPEATED = 0.7  # of the lines that advance
_MOST_DISORDERED = 0.1  # of all lines


class StepOrder:
    """The steps of a series of lines in the order of the output; refuses steps of several processes.

    The steps of a single process rise, and may begin anew with each epoch. Those of several are mostly repeated; or a
    step falls by less than half, or to a later step than it fell to before, and rises at once above the highest step.
    """

    def __init__(self) -> None:
        self._step: float | None = None
        self._line = ""
        self._forms: set[str] = set()  # of the lines of this step
        self._highest = 0.0
        self._lowest = math.inf  # the step of the last line that fell
        self._is_behind = False  # whether that step is later than the step of the line that fell before it
        self._lines = self._advanced = self._repeated = self._disordered = 0

    def take(self, step: float, line: str, form: str) -> None:
        """Add a line's step. Only lines of one form repeat it; the form is "" for a line that may be drawn again."""
        last, self._step = self._step, step
        last_line, self._line = self._line, line
        self._lines += 1
        if step == last:
            self._repeated += form in self._forms
            # A number that never changes, such as "batch 32", is no counter.
            is_repeated = min(self._repeated, self._advanced) >= _LEAST
            if is_repeated and self._repeated > _MOST_REPEATED * self._advanced:
                raise _several("most steps have several lines", last_line, line)
        else:
            self._advanced += 1
            self._forms.clear()
            if last is not None and (last / 2 < step < last or (self._is_behind and last < self._highest < step)):
                self._disordered += 1
                if self._disordered >= _LEAST and self._disordered > _MOST_DISORDERED * self._lines:
                    raise _several("its steps fall and rise again", last_line, line)
        # Each epoch begins with the same step; another process that is far behind continues.
        self._is_behind = last is not None and self._lowest < step < last
        if last is not None and step < last:
            self._lowest = step
        self._forms |= {form} - {""}
        self._highest = max(self._highest, step)


def _several(fact: str, *lines: str) -> Unreadable:
    both = " and ".join(repr(shown(line)) for line in lines)
    return Unreadable(
        f"{fact}, as {both}: several processes seem to print into one output",
        "let one process print the rate of all, or give reads=Reads(pattern=...) that finds the lines of one; if they "
        "are of one process, print what tells them apart, or give parse=, a function of a line that returns its rate",
    )
