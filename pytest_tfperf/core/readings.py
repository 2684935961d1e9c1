"""What a training program prints, read line by line: its rate, a counter of its steps, or the time of a step.

Text comes in, values come out; nothing here knows a process or a clock.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from pytest_tfperf.core.command import SAY_HOW_MANY, Command

MOST_OF_A_LINE = 2**16
"""Characters of a line that are read; the rest is dropped, so that a program without line ends takes no memory."""

_SHOWN_LINES = 5
_SHOWN_COLUMNS = 160

_DIGITS = r"(?:\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,30})?|\d{1,20}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?"
_NUMBER = rf"(?:[+-]?(?:{_DIGITS}|nan|inf(?:inity)?))"
# Not in the middle of another number, "1 234.5" and "1'234.5" with their separators among them.
_SEPARATOR = r"[ '\u2019\u00a0\u2009\u202f]"
_BEGIN = rf"(?<![\w.,+-])(?!(?<=\d{_SEPARATOR})\d{{3}}(?!\d))"
_END = rf"(?!\w|[.,]\d|{_SEPARATOR}\d{{3}}(?!\d))"

_COLOURS = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,9}[@-~]")
_LINE_ENDS = re.compile(rb"[\n\r\x08]+")
_LOSS = re.compile(rf"\bloss['\"]?\s{{0,9}}[:=]\s{{0,9}}(?P<loss>{_NUMBER})(?![\w.])", re.ASCII | re.IGNORECASE)

# "120/500 ━━━━ 12s 31ms/step - loss: 0.3", and "500/500 - 15s - 31ms/step" of verbose=2.
_KERAS = re.compile(
    r"(?:^|\s)(?P<step>\d{1,12})/(?P<total>\d{1,12}|Unknown)\s(?P<between>[^/]{0,120}?)\d{1,9}(?:us|µs|ms|s)/step",
    re.ASCII,
)
_KERAS_EPOCH = re.compile(r"Epoch \d{1,9}/\d{1,9}\s{0,9}", re.ASCII)


class Kind(Enum):
    """What a reading's value is."""

    RATE = "rate"
    MEAN_RATE = "mean rate"  # since the first step; the step says of how many
    STEP = "step"
    SECONDS = "seconds"  # that one step takes


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line says.

    Args:
        kind: what `value` is.
        value: units per second, a number of steps, or seconds.
        step: of a mean rate.
        loss: None where the line has none.
    """

    kind: Kind
    value: float
    step: int = 0
    loss: float | None = None


class LineSplitter:
    """Cuts what a program writes into lines, at the line ends and where it writes over the same line again.

    It holds no more than one line, and of that no more than `MOST_OF_A_LINE`.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in `data`, without colours."""
        *ended, rest = _LINE_ENDS.split(data)
        if not ended:
            self._rest = (self._rest + rest[:MOST_OF_A_LINE])[:MOST_OF_A_LINE]
            return []
        ended[0] = self._rest + ended[0]
        self._rest = rest[:MOST_OF_A_LINE]
        return [_text(line) for line in ended if line]

    @property
    def unfinished(self) -> str:
        """The line that has no end yet."""
        return _text(self._rest)


class Reader:
    """Reads one program's lines; the format that is recognised first stays.

    Args:
        command: says how to read them.

    Attributes:
        first_lines: the beginnings of the first lines that are not empty.
        lines: how many there were.
        saw_steps: there was a line of Keras, and nobody said how many units a step holds.
    """

    def __init__(self, command: Command) -> None:
        self._command = command
        self._keras = KerasLines()
        self._formats = _formats(command, self._keras)
        self._json_fields: dict[str, None] = {}
        self.first_lines: list[str] = []
        self.lines = 0
        self.saw_steps = False

    def read(self, line: str) -> Reading | None:
        """What a line says; None for one that says nothing of the kind."""
        self.lines += 1
        if len(self.first_lines) < _SHOWN_LINES and line.strip():
            self.first_lines.append(line.strip()[:_SHOWN_COLUMNS])
        return self._json(line) if self._command.field else self._recognised(line, self._formats)

    def read_unfinished(self, line: str) -> Reading | None:
        """As `read` for a line that has no end yet: Keras ends its progress line with the next one."""
        if self._keras.read not in self._formats or len(line) > _SHOWN_COLUMNS * 4:
            return None
        found = _KERAS.search(line)
        if found is None or _is_whole_epoch(found):
            return None
        return self._recognised(line, [self._keras.read])

    def _recognised(self, line: str, formats: Sequence[_Read]) -> Reading | None:
        for read in formats:
            if (reading := read(line)) is None:
                continue
            if reading.kind is Kind.STEP and self._command.counted_per_step is None:
                self.saw_steps = True  # the program may print its own rate in another line
                continue
            self._formats = [read]
            return reading
        return None

    def nothing_read(self) -> str:
        """Why no line said anything: what was expected."""
        command = self._command
        if command.field and self._json_fields:
            return f"no JSON line has a number in the field {command.field!r}; they have {', '.join(self._json_fields)}"
        if command.field:
            return f"no line is a JSON object, in which the field {command.field!r} would be read"
        if command.pattern:
            return f"no line matches the pattern {command.pattern!r}"
        if self.saw_steps:
            return f"it prints steps and no rate: {SAY_HOW_MANY}"
        return (
            f"no line has a rate. Known are '12.3 {command.unit}/s', '{command.unit}/s: 12.3', Keras' progress lines "
            "and tf_cnn_benchmarks' step lines; for others give pattern= or field="
        )

    def _json(self, line: str) -> Reading | None:
        begin = line.find("{")
        if begin < 0:
            return None
        try:
            found, _ = json.JSONDecoder().raw_decode(line, begin)
        except (ValueError, RecursionError):
            return None
        value: object = found
        for name in self._command.field.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        if (rate := _number(value)) is None:
            for name in found if len(self._json_fields) < _SHOWN_LINES else ():
                self._json_fields.setdefault(str(name)[:_SHOWN_COLUMNS])
            return None
        return Reading(Kind.RATE, rate, loss=_number(found.get("loss")))


def worst_loss(losses: Iterable[float | None]) -> float | None:
    """The last loss, but the first that is no number where there is one."""
    known = [loss for loss in losses if loss is not None]
    return next((loss for loss in known if not math.isfinite(loss)), known[-1] if known else None)


_Read = Callable[[str], Reading | None]


def _formats(command: Command, keras: KerasLines) -> Sequence[_Read]:
    if command.field:
        return []
    if command.pattern:
        return [_read_by(re.compile(command.pattern))]
    return [_read_tf_cnn(command.unit), keras.read, _read_unit(command.unit)]


def _read_tf_cnn(unit: str) -> _Read:
    """Reads "10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848": a mean since the first timed step."""
    step_line = re.compile(
        rf"(?<![\w.])(?P<step>[1-9]\d{{0,11}})\s{{1,9}}{re.escape(unit)}/sec:\s{{0,9}}(?P<mean>{_NUMBER})\s{{0,9}}\+/-"
        rf"[^)]{{0,80}}\)\s{{0,9}}(?P<loss>{_NUMBER}(?!\S))?",
        re.ASCII | re.IGNORECASE,
    )

    def read(line: str) -> Reading | None:
        found = step_line.search(line) if "+/-" in line else None
        if found is None:
            return None
        loss = _float(found["loss"]) if found["loss"] else None
        return Reading(Kind.MEAN_RATE, _float(found["mean"]), int(found["step"]), loss)

    return read


class KerasLines:
    """Reads Keras' progress lines as a counter.

    The total of the first line is that of `fit`. Lines with another one, such as those of `evaluate` and `predict`, are
    left out. A data set of unknown length has a total from the second epoch on.

    Where a line is all that an epoch prints, its steps count on from epoch to epoch: with verbose=2, and where an epoch
    has one step.
    """

    def __init__(self) -> None:
        self._total = ""
        self._epoch_begins = False
        self._counts_on: bool | None = None  # known from the first line on
        self._finished, self._step = 0, 0

    def read(self, line: str) -> Reading | None:
        """What a line says; None for one that is no progress of `fit`."""
        if _KERAS_EPOCH.fullmatch(line.lstrip()):
            self._epoch_begins = True
            return None
        found = _KERAS.search(line) if "/step" in line else None
        if found is None or not self._is_of_fit(found["total"]):
            return None
        step = int(found["step"])
        if self._counts_on is None:
            self._counts_on = self._epoch_begins and found["step"] == found["total"]
        if _is_whole_epoch(found) or (self._counts_on and self._epoch_begins):
            self._finished += self._step
        elif not self._counts_on:
            self._finished = 0
        self._step, self._epoch_begins = step, False
        return Reading(Kind.STEP, self._finished + step, loss=_loss(line))

    def _is_of_fit(self, total: str) -> bool:
        if not self._total or (self._total == "Unknown" and self._epoch_begins):
            self._total = total
        return total == self._total


def _is_whole_epoch(found: re.Match[str]) -> bool:
    """Whether a line of Keras is the only one of its epoch, as verbose=2 prints it."""
    return found["between"].startswith("- ")


def _read_unit(unit: str) -> _Read:
    """Reads '12.3 images/s' and 'images/s: 12.3', with '/sec', '/second' and ' per second', too."""
    each = rf"{re.escape(unit)}\s?(?:/|per)\s?s(?:ec(?:ond)?)?"
    after = re.compile(rf"{_BEGIN}(?P<rate>{_NUMBER})\s{{0,3}}{each}(?![\w/]|\sper\b)", re.ASCII | re.IGNORECASE)
    before = re.compile(
        rf"(?<!\w){each}\b['\"]?\s{{0,3}}[:=]\s{{0,9}}(?P<rate>{_NUMBER}){_END}", re.ASCII | re.IGNORECASE
    )
    word = unit.lower()

    def read(line: str) -> Reading | None:
        if word not in line.lower():
            return None
        found = after.search(line) or before.search(line)
        return None if found is None else Reading(Kind.RATE, _float(found["rate"]), loss=_loss(line))

    return read


def _read_by(pattern: re.Pattern[str]) -> _Read:
    """Reads what the pattern's group finds; what is no number there is no reading."""

    def read(line: str) -> Reading | None:
        found = pattern.search(line)
        groups = found.groupdict() if found else {}
        value = next((_number(groups[name]) for name in groups if name != "loss"), None)
        if value is None:
            return None
        loss = _number(groups["loss"]) if "loss" in groups else _loss(line)
        if "rate" in groups:
            return Reading(Kind.RATE, value, loss=loss)
        if "step" in groups:
            return Reading(Kind.STEP, value, loss=loss) if math.isfinite(value) else None
        return Reading(Kind.SECONDS, value / (1000 if "milliseconds" in groups else 1), loss=loss)

    return read


def _loss(line: str) -> float | None:
    found = _LOSS.search(line)
    return None if found is None else _float(found["loss"])


def _float(text: str) -> float:
    return float(text.replace(",", ""))


def _number(value: object) -> float | None:
    """A number, also where it is written as a text; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return _float(value) if isinstance(value, str) else float(value)
    except (ValueError, OverflowError):
        return None


def _text(line: bytes) -> str:
    return _COLOURS.sub("", line[:MOST_OF_A_LINE].decode("utf-8", errors="replace"))
