"""The numbers that the user describes by a pattern, a field of JSON lines or a function: the rate, and figures.

A figure is read at a fixed point of the output: a step, a reading or the end.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from pytest_tfperf.core.figure import LOSS, Figure, Takes, over_steps
from pytest_tfperf.programs.reading import (
    CUT,
    SEPARATORS,
    Kind,
    Reading,
    Unreadable,
    loss_in,
    number_in,
    shown,
    step_in,
)

_SHOWN_FIELDS = 5
_NUMBER_GOES_ON = re.compile(rf"\d|\.\d|[eE][+-]?\d|\s?[kKMG](?![A-Za-z0-9])|{CUT}")
# The sign of "loss: -0.5", but not the dash of "loss-0.5".
_NUMBER_BEGINS_BEFORE = re.compile(r"\d\.?$|(?:^|[\s=:(\[,|])-$")
_PUNCTUATION = ",;:.)]}|'\""
_THOUSANDS_FOLLOW = re.compile(rf"[{SEPARATORS}]\d{{3}}(?!\d)|:\d\d(?!\d)")  # or the minutes of "1:30"
_NEVER_NEGATIVE = ("bytes", "s", "ms")

_EPOCH: Final = re.compile(r"\bepochs?\W{0,3}\d{1,12}/\d{1,12}", re.IGNORECASE)
_OF_TOTAL: Final = re.compile(r"(?<![\w./:-])(\d{1,12})/\d{1,12}(?![\w./:-])", re.ASCII)

_SECONDS: Final = dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s")
_TIMES: Final = {**_SECONDS, "us": "us", "µs": "us", "ns": "ns", "ms": "ms", "min": "min", "h": "h"}
_BYTES: Final = {**dict.fromkeys(("B", "byte", "bytes"), "bytes"), **{f"{k}B": f"{k}B" for k in "KkMGT"}}
_SIZES: Final = {**_BYTES, **{f"{k}iB": f"{k}iB" for k in "KMGT"}}
_UNITS: Final = {**_TIMES, **_SIZES}
_UNIT_FOLLOWS: Final = re.compile(rf"\s?({'|'.join(_UNITS)})(?![\w/])")


class Number(NamedTuple):
    """The value of the field, or the text of the group, as a pattern or a field finds it in a line."""

    text: object
    number: float | None  # None for a text that is no number
    before: str  # the line before the group, or the field's name
    behind: str  # the rest of the line behind the group
    loss: float | None  # that the line has in a group or field of that name, or names in its text


class OwnLines:
    """Reads the number in a field of JSON lines or, without a field, in the group of a pattern that is not `loss`."""

    def __init__(self, field: str, pattern: str) -> None:
        self._field, self._pattern = field, re.compile(pattern)
        self._group = next((group for group in self._pattern.groupindex if group != LOSS), LOSS)
        self.fields: dict[str, None] = {}  # names of fields in JSON lines that lack this field

    def find(self, line: str) -> Number | None:
        """The number, whatever it means; None for a line without the field or the pattern."""
        return self._in_json(line) if self._field else self._in_text(line)

    def _in_json(self, line: str) -> Number | None:
        if (fields := json_object(line)) is None:
            return None
        value = value_of(fields, self._field)
        if (number := number_in(value)) is None and len(self.fields) < _SHOWN_FIELDS:
            self.fields |= dict.fromkeys(map(shown, fields))
        return None if value is ABSENT else Number(value, number, self._field, "", number_in(fields.get(LOSS)))

    def _in_text(self, line: str) -> Number | None:
        match = self._pattern.search(line)
        if match is None or (text := match[self._group]) is None:
            return None
        # The group may also have the comma or the bracket behind the number.
        if (number := number_in(text.rstrip(_PUNCTUATION))) is not None:
            _require_whole_number(line, match, self._group)
        loss = number_in(match[LOSS]) if LOSS in self._pattern.groupindex else loss_in(line)
        begin, end = match.span(self._group)
        return Number(text, number, line[:begin], line[end:], loss)


def _require_whole_number(line: str, match: re.Match[str], group: str) -> None:
    """Refuse a group of a pattern if the number begins before the group, or goes on behind it."""
    begin, end = match.span(group)
    before, behind = line[:begin], line[end:]
    # Where the pattern itself matches the comma behind the group, as in "632.9,120", the comma separates two numbers.
    is_separated = end < match.end()
    is_cut_at_a_comma = begin == match.start() and re.search(r"\d,$", before)
    if (
        _NUMBER_BEGINS_BEFORE.search(before)
        or is_cut_at_a_comma
        or _NUMBER_GOES_ON.match(behind)
        or (not is_separated and _THOUSANDS_FOLLOW.match(behind))
    ):
        raise Unreadable(
            f"the group {group} has {match[group]!r} of {shown(line)!r}, a part of a number only",
            rf"let the group take all of it, as (?P<{group}>[-+]?[\d.,'_]+(?:[eE][+-]?\d+)?(?:\s?[kKMG]\b)?)",
        )


@lru_cache(maxsize=1)  # the rate and each figure may ask for the same line
def json_object(line: str) -> dict[str, object] | None:
    """The JSON object that begins in a line; None without an object."""
    begin = line.find("{")
    if begin < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(line, begin)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


ABSENT: Final = object()
"""The value of a missing field; a JSON null is None."""


def value_of(fields: object, field: str) -> object:
    """The value of a field; "train.loss" is a key of that name, or else the key `loss` inside of `train`."""
    if not isinstance(fields, dict):
        return ABSENT
    if field in fields:
        return fields[field]
    names = field.split(".")
    for count in range(len(names) - 1, 0, -1):
        inner = value_of(fields.get(".".join(names[:count])), ".".join(names[count:]))
        if inner is not ABSENT:
            return inner
    return ABSENT


def read_by(parse: Callable[[str], float | None], line: str) -> Reading | None:
    """The reading of a line by the user's function; None where that returns None.

    Raises:
        Unreadable: the function raised, or did not return a number.
    """
    name = getattr(parse, "__name__", "parse")
    try:
        rate = parse(line)
    except Exception as error:
        raise Unreadable(
            f"parse={name} raised {type(error).__name__}: {error} for the line {shown(line)!r}",
            "let it return None for lines without a rate",
        ) from error
    if rate is None:
        return None
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        raise Unreadable(
            f"parse={name} returned {rate!r:.40} for the line {shown(line)!r}",
            "let it return a number of units per second, or None",
        )
    return Reading(Kind.RATE, float(rate), loss=loss_in(line))


class FigureValue(NamedTuple):
    """A figure's value in a run, and where the program printed it, as "at step 400"; "" for a measured figure."""

    value: float
    place: str = ""


class _Printed(NamedTuple):
    """A printed value, the step that its line names, and the last step that the output had named by then."""

    value: float
    own_step: float | None
    step: float | None


class FigureLines:
    """The values of figures that a program prints, and of its loss; measured figures are passed over."""

    def __init__(self, figures: Sequence[Figure], loss_reading: int | None = None, *, may_lack: bool = False) -> None:
        self._figures = [figure for figure in figures if figure.is_read or figure.name == LOSS]
        self._may_lack = may_lack  # a figure that is never printed is left out, and is no error
        self._loss_reading = loss_reading  # the number of the reading whose loss counts, from 1; None for the last
        self._values: dict[str, list[_Printed]] = {figure.name: [] for figure in self._figures}
        self._lines = {figure.name: OwnLines(figure.field, figure.pattern) for figure in self._figures}
        self._counted = {figure.name: re.compile(figure.counts) for figure in self._figures if figure.counts}
        self._counts = dict.fromkeys(self._counted, 0)
        self._step: float | None = None
        self._last_step = -math.inf

    def take(self, line: str, reading: Reading | None = None, *, steps: int | None = None) -> None:
        """Keep the value of each figure that a line has.

        `steps` is how many steps had ended when the line was printed, where the program is measured by its steps; what
        lines say about steps does not count then. After the last line, an empty one tells the steps of the run.

        Raises:
            Unreadable: the line has something that can't be the value of a figure.
        """
        if not self._figures:
            return
        own_step = _step_of(line, reading) if steps is None else None
        ended = self._last_step if steps is None else steps
        if (step := own_step if steps is None else steps) is not None:
            self._step, self._last_step = step, max(step, self._last_step)
        for figure in self._figures:
            if figure.counts:
                is_counted = figure.at_step is None or ended < figure.at_step
                self._counts[figure.name] += is_counted and bool(self._counted[figure.name].search(line))
                continue
            value = self._found(figure, line) if figure.is_read else _loss_of(figure, line, reading)
            if value is None:
                continue
            values = self._values[figure.name]
            # A bar is drawn once more when it ends.
            if not figure.is_read and values and own_step is not None and own_step == values[-1].own_step:
                values.pop()
            values.append(_Printed(value, own_step, self._step))

    @property
    def are_complete(self) -> bool:
        """Whether each figure has its final value."""
        return all(self._is_complete(figure) for figure in self._figures)

    @property
    def are_ahead(self) -> bool:
        """Whether a figure is read at a step that the output will probably still reach."""
        return self._step is not None and any(map(self._is_ahead, self._figures))

    def _is_ahead(self, figure: Figure) -> bool:
        if figure.last_step is None or self._is_complete(figure):
            return False
        # After its step, a figure that was not printed before can't be interpolated any more.
        return self._last_step < figure.last_step or bool(self._values[figure.name])

    def _is_complete(self, figure: Figure) -> bool:
        values = self._values[figure.name]
        if figure.last_step is None:
            return bool(figure.counts) or len(values) >= self._least(figure)
        if figure.counts or figure.at_step is None or figure.takes is Takes.MEDIAN:
            return self._last_step >= figure.last_step
        return any(printed.step is not None and printed.step >= figure.at_step for printed in values)

    def _least(self, figure: Figure) -> int:
        """The number of values that it needs."""
        if figure.name != LOSS or figure.takes is not Takes.LAST or self._loss_reading is None:
            return 1
        return self._loss_reading

    def values(self) -> dict[str, FigureValue]:
        """Each figure's value; a loss that no line names is left out, and so is any figure that may be lacking.

        Raises:
            Unreadable: a figure that must not be lacking has no value, or one that was printed has none at its step.
        """
        final: dict[str, FigureValue] = {}
        for figure in self._figures:
            values = self._values[figure.name]
            if figure.counts:
                final[figure.name] = self._count(figure)
            elif len(values) >= (1 if figure.last_step else self._least(figure)):
                value = self._at_its_place if figure.last_step is None else self._at_step
                final[figure.name] = self._mean(figure, values) if figure.steps else value(figure, values)
            elif figure.is_read and not self._may_lack:
                raise self._never_printed(figure, len(values))
        return final

    def _count(self, figure: Figure) -> FigureValue:
        """The number of lines, which no further line can change."""
        count = float(self._counts[figure.name])
        if figure.at_step is None:
            return FigureValue(count, "at the end")
        if self._step is None:
            raise Unreadable(
                f"the figure {figure.name} counts lines up to step {figure.at_step}, and no line names a step",
                "let the program print its step, as in 'step 400', or leave at_step out",
            )
        if self._last_step < figure.at_step:
            raise Unreadable(
                f"the figure {figure.name} counts lines up to step {figure.at_step}, and the last step was "
                f"{self._last_step:g}",
                "give an earlier at_step, or let the program run longer",
            )
        return FigureValue(count, f"up to step {figure.at_step}")

    def _mean(self, figure: Figure, values: Sequence[_Printed]) -> FigureValue:
        """The mean of what was printed at the figure's own steps."""
        first, last = figure.steps or (0, 0)
        inside = [printed.value for printed in values if printed.step is not None and first <= printed.step <= last]
        place = over_steps((first, last))
        if self._step is None:
            raise Unreadable(
                f"the figure {figure.name} is the mean {place}, and no line names a step",
                "let the program print its step, as in 'step 400', or leave steps out",
            )
        if not inside or self._last_step < last:
            seen = f"the last step was {self._last_step:g}" if inside else "it was printed at none of them"
            raise Unreadable(
                f"the figure {figure.name} is the mean {place}, and {seen}",
                "give other steps, or let the program print it there",
            )
        return FigureValue(statistics.fmean(inside), place)

    def _at_its_place(self, figure: Figure, values: Sequence[_Printed]) -> FigureValue:
        match figure.takes:
            case Takes.FIRST:
                counted, place = values[:1], "at its first value"
            case Takes.LAST if self._least(figure) > 1:
                counted, place = values[: self._least(figure)], f"at reading {self._least(figure)}"
            case _:
                counted, place = values, "at the end"
        last = counted[-1]
        is_median = figure.takes is Takes.MEDIAN
        value = statistics.median(printed.value for printed in counted) if is_median else last.value
        return FigureValue(value, place if last.own_step is None else f"at step {last.own_step:g}")

    def _at_step(self, figure: Figure, values: Sequence[_Printed]) -> FigureValue:
        """The value at the figure's own step, interpolated between the lines before and after it."""
        step, place = figure.at_step or 0, f"at step {figure.at_step}"
        points = [(printed.step, printed.value) for printed in values if printed.step is not None]
        if not points:
            raise Unreadable(
                f"the figure {figure.name} is read {place}, and no line names a step",
                "let the program print its step, as in 'step 400', or leave at_step out",
            )
        up_to = [value for at, value in points if at <= step]
        if figure.takes is Takes.MEDIAN and up_to and self._last_step >= step:
            return FigureValue(statistics.median(up_to), place)
        if figure.takes is Takes.LAST and (value := _interpolated(points, step)) is not None:
            return FigureValue(value, place)
        first, last = points[0][0], max(at for at, _ in points)
        raise Unreadable(
            f"the figure {figure.name} is read {place}, and was printed from step {first:g} to step {last:g}",
            f"give an at_step between them, or {'print it earlier' if first > step else 'let the program run longer'}",
        )

    def _never_printed(self, figure: Figure, count: int) -> Unreadable:
        what, sought = "pattern", f"lines were searched for the pattern {figure.pattern!r}"
        if figure.field:
            what, sought = "field", f"JSON lines were searched for the field {figure.field!r}"
            if fields := ", ".join(self._lines[figure.name].fields):
                sought += f"; they have {fields}"
        return Unreadable(
            f"the figure {figure.name} was {f'printed only {count} times' if count else 'never printed'}: {sought}",
            "let the program print it earlier, give until_end=True in Reads(...) to read the program to its end, or "
            f"correct the {what}",
        )

    def _found(self, figure: Figure, line: str) -> float | None:
        """The value that the figure's own field or pattern finds."""
        if (found := self._lines[figure.name].find(line)) is None:
            return None
        value = found.number
        if value is None:
            raise _no_value(figure, found.text, "which is no number", line)
        if not math.isfinite(value) or (value < 0 and figure.unit in _NEVER_NEGATIVE):
            raise _no_value(figure, found.text, "which can't be its value", line)
        _require_own_unit(figure, found, line)
        return value


def _loss_of(figure: Figure, line: str, reading: Reading | None) -> float | None:
    """The loss of a reading, unless it is of a counter that has not begun."""
    if reading is None or (reading.kind is Kind.STEP and reading.value == 0):
        return None
    if reading.loss is None and value_of(json_object(line), LOSS) is None:
        raise _no_value(figure, None, "which is no number", line)
    return reading.loss


def _interpolated(points: Sequence[tuple[float, float]], step: float) -> float | None:
    """The value at a step, interpolated between printed steps; None beyond them."""
    for at, value in points:
        if at == step:
            return value
    for (before, low), (after, high) in pairwise(points):
        if before < step < after:
            return low + (high - low) * (step - before) / (after - before)
    return None


def _step_of(line: str, reading: Reading | None) -> float | None:
    """The step that a line names; None if it names none."""
    if reading is not None and reading.kind is Kind.STEP:
        return reading.value
    if reading is not None and reading.step:
        return reading.step
    if (named := step_in(line)) is not None:
        return named
    counters = _OF_TOTAL.findall(_EPOCH.sub("", line))
    return int(counters[0]) if len(counters) == 1 else None


def _no_value(figure: Figure, text: object, why: str, line: str) -> Unreadable:
    said = "null" if text is None else f"{text!r:.40}"
    return Unreadable(
        f"the figure {figure.name} is {said}, {why}, in the line {shown(line)!r}",
        "look for the cause in the program; a pattern or field that finds something else reads that",
    )


def _require_own_unit(figure: Figure, found: Number, line: str) -> None:
    """Refuse a value that another unit follows than the figure's: programs may go from "980 ms" to "1.2 s"."""
    match = _UNIT_FOLLOWS.match(found.behind)
    if match is None:
        return
    unit = figure.unit or ""
    own, printed = _UNITS.get(unit, unit), _UNITS[match[1]]
    if own != printed:
        raise Unreadable(
            f"the figure {figure.name} is {found.text}{match[0]} in the line {shown(line)!r}, and its unit is {unit!r}",
            f"let the program always print one unit, and give that: Figure({figure.name!r}, unit={printed!r}, ...)",
        )
