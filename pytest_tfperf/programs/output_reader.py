"""Reads one program's lines, tells the series of rates in one output apart, and says what it could not read."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from pytest_tfperf.core.command import SAY_HOW_MANY, Command, RateIs
from pytest_tfperf.programs.formats import FORMATS, Bars, FormatLines, KerasLines
from pytest_tfperf.programs.own_formats import FieldLines, ParsedLines, PatternLines, rate_field
from pytest_tfperf.programs.reading import NUMBER, Kind, LeftOut, Reading, Unread, Unreadable
from pytest_tfperf.programs.unit_lines import StepLines, UnitLines

SHOWN_LINES = 5
SHOWN_COLUMNS = 160
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
        self._sources = None if command.reads.parse is not None else Sources(is_described=self._is_described)
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
            self.first_lines.append(line.strip()[:SHOWN_COLUMNS])
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
        if self._sources is not None and self._sources.left_out:
            notes.append(f"lines of evaluation that were left out: {self._sources.left_out}")
        if self._sources is not None and self._sources.others:
            notes.append(f"lines of another series that were left out: {self._sources.others}")
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
                self._named_average = self._named_average or line.strip()[:SHOWN_COLUMNS]
            return self._as_average(found, line) if self._command.reads.rate_is == RateIs.AVERAGE else found
        if not self._read:
            self._rate_field = self._rate_field or rate_field(line)
            if other := _ANY_RATE.search(line) or _ANY_LABELLED_RATE.search(line):
                self._unit_rates[other["unit"]] += 1
        return None

    def _is_of_first_series(self, line: str, found: Reading, *, is_whole: bool) -> bool:
        is_counter = found.kind in (Kind.STEP, Kind.EXAMPLES)
        # A bar may be drawn under other names before its first step.
        if self._sources is None or (is_counter and found.value == 0):
            return True
        said = line if self._field is None else self._field.series(line)
        return self._sources.accept(line, said, is_whole=is_whole, is_counter=is_counter)

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
            self.unread.append((line.strip()[:SHOWN_COLUMNS], why))
        if self._read and self.unread_count >= _LEAST_UNREAD and self.unread_count > _MOST_UNREAD_SHARE * self._read:
            shown = "".join(f"\n  | {text}" for text, _ in self.unread)
            raise Unreadable(
                f"{self.unread_count} lines with a rate can't be read, beside {self._read} that can: {why}{shown}",
                "give reads=Reads(pattern=...) or parse= that reads all of them",
            )


_METRIC = r"(?:loss|acc|top|ppl|perplexity|err|metric|score|f1|auc|psnr|map)"
# "train", "eval_step" and "eval_images", but neither "train_loss" nor "val loss".
_MODE = re.compile(
    rf"\b(train|eval|valid|val(?!ue)|test|predict|infer)[a-z]{{0,8}}(?:_(?!{_METRIC})[a-z]{{1,20}})*\b(?! ?{_METRIC})",
    re.IGNORECASE,
)
# "val_loss" and the like, of which a line of training may tell the last value, and a plain "loss".
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
_COUNTER = re.compile(r"\b(?:step|iter|iteration|it|batch|global_step)s?\W{0,3}(\d{1,12})(?!\d|\s?%)", re.IGNORECASE)
_MOST_OF_OTHERS = 10  # lines of several other series
_LEAST_OF_ANOTHER = 3  # lines of a second series; one or two may be a total at the end
_LEAST_READINGS = 80  # from which a running average can be told


def step_in(line: str) -> int | None:
    """The step that a line names; None if it names none."""
    found = _COUNTER.search(line)
    return None if found is None else int(found[1])


def _modes_of_metrics(said: str) -> set[str]:
    return {(found[1] or "").lower() for found in _METRIC_OF.finditer(said)}


class Sources:
    """Lets the lines of one series pass.

    The first series is the program's. Lines that say that they are of evaluation are left out where the first ones are
    not. A second series of another kind is refused: an average of both would be neither.

    Args:
        is_described: the user's own pattern or field finds the lines, so that only ranks and evaluation matter.

    Attributes:
        left_out: how many lines of evaluation were left out.
    """

    def __init__(self, *, is_described: bool = False) -> None:
        self._is_described = is_described
        self._first: tuple[str, str] | None = None
        self._first_line = ""
        self._names_training = False
        self._others: Counter[tuple[str, str]] = Counter()
        self._step: int | None = None
        self._advanced = self._repeated = 0
        self.left_out = 0

    @property
    def others(self) -> int:
        """How many lines of another series were left out, which are too few to be one."""
        return self._others.total()

    def accept(self, line: str, said: str, *, is_whole: bool = True, is_counter: bool = False) -> bool:
        """Whether a line with a rate is one of the first series.

        Args:
            line: as the program printed it.
            said: what of it may say of which series it is.
            is_whole: it has its end; one that has none yet comes once more.
            is_counter: its value is a counter, which may be printed twice.

        Raises:
            Unreadable: a second series is there.
        """
        key = self._series(said)
        if self._first is None:
            self._first, self._first_line = key, line
            self._names_training = key[0] == "train" or bool({"train", ""} & _modes_of_metrics(said))
        if key == self._first:
            if is_whole and not is_counter:
                self._require_new_step(line)
            return True
        if key[0] in _EVALUATION and self._first[0] not in _EVALUATION:
            self.left_out += is_whole
            return False
        self._others[key] += is_whole
        if self._others[key] >= _LEAST_OF_ANOTHER or self.others >= _MOST_OF_OTHERS:
            self._refuse(line, by_rank=key[1] != self._first[1])
        return False

    def _series(self, said: str) -> tuple[str, str]:
        found, rank = _MODE.search(said), _RANK.search(said)
        mode = found[1].lower() if found else ""
        modes = _modes_of_metrics(said)
        if not mode and self._names_training and modes and not modes & {"train", ""}:
            mode = "eval"
        if self._is_described and mode not in _EVALUATION:
            mode = ""
        return mode, (rank[1] or rank[2]) if rank else ""

    def _require_new_step(self, line: str) -> None:
        """Refuse an output in which most steps stand twice: two processes print into it without saying which."""
        step, before = step_in(line), self._step
        if step is None:
            return
        self._step = step
        self._repeated += step == before
        self._advanced += step != before
        # A number that never changes, as "batch 32", is no counter.
        if min(self._repeated, self._advanced) >= _LEAST_OF_ANOTHER and self._repeated > 0.7 * self._advanced:
            raise Unreadable(
                f"most steps have several lines, as {line.strip()[:SHOWN_COLUMNS]!r}: several processes seem to print "
                "into one output",
                "let one process print the rate of all, or give reads=Reads(pattern=...) that finds one line of a step",
            )

    def _refuse(self, line: str, *, by_rank: bool) -> None:
        shown = " and ".join(repr(each.strip()[:SHOWN_COLUMNS]) for each in (self._first_line, line))
        ranks = "let one rank print the rate of all, or " if by_rank else ""
        if self._is_described:
            step = f"{ranks}give parse=, a function that returns None for the lines of all others"
        else:
            step = f"{ranks}give reads=Reads(pattern=...) that finds the lines of one of them"
        raise Unreadable(
            f"two series of rates are in one output: {shown}",
            step,
        )


def is_running_average(rates: Sequence[float]) -> bool:
    """Whether successive rates look like averages since the first one.

    The k-th average differs from the one before by a k-th of one value's deviation: such differences shrink like 1/k.
    Undone, the values are as scattered early as late, and neighbours are not correlated. Recent rates, undone in
    the same way, are correlated by about -1/2; rates that settle after a cold start are correlated strongly at first.
    benchmarks/averages.py measures both errors.
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
