"""The values of figures that a program prints, each at a fixed point of the output: a step, a reading or the end."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pytest_tfperf.core.figure import LOSS, Figure, Takes
from pytest_tfperf.programs.own_formats import (
    ABSENT,
    json_object,
    number_in_group,
    require_whole_number,
    value_of,
)
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable, number_in, shown, step_in

_SHOWN_FIELDS = 5
_NEVER_NEGATIVE = ("bytes", "s", "ms")

_EPOCH: Final = re.compile(r"\bepochs?\W{0,3}\d{1,12}/\d{1,12}", re.IGNORECASE)
_OF_TOTAL: Final = re.compile(r"(?<![\w./:-])(\d{1,12})/\d{1,12}(?![\w./:-])", re.ASCII)

_SECONDS: Final = dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s")
_TIMES: Final = {**_SECONDS, "us": "us", "µs": "us", "ns": "ns", "ms": "ms", "min": "min", "h": "h"}
_BYTES: Final = {**dict.fromkeys(("B", "byte", "bytes"), "bytes"), **{f"{k}B": f"{k}B" for k in "KkMGT"}}
_SIZES: Final = {**_BYTES, **{f"{k}iB": f"{k}iB" for k in "KMGT"}}
_UNITS: Final = {**_TIMES, **_SIZES}
_UNIT_FOLLOWS: Final = re.compile(rf"\s?({'|'.join(_UNITS)})(?![\w/])")


@dataclass(frozen=True, slots=True)
class FigureValue:
    """A figure's value in a run, and where the program printed it, as "at step 400"; "" for a measured figure."""

    value: float
    place: str = ""


@dataclass(frozen=True, slots=True)
class _Printed:
    """A printed value, the step that its line names, and the last step that the output had named by then."""

    value: float
    own_step: float | None
    step: float | None


class FigureLines:
    """The values of figures that a program prints, and of its loss.

    Args:
        figures: all figures of the task; measured figures are passed over.
        loss_reading: the number of the reading whose loss counts, from 1, as each run has at least so many; None where
            each run is read to its end, so that the last loss counts.
    """

    def __init__(self, figures: Sequence[Figure], loss_reading: int | None = None) -> None:
        self._figures = [figure for figure in figures if figure.is_read or figure.name == LOSS]
        self._loss_reading = loss_reading
        self._values: dict[str, list[_Printed]] = {figure.name: [] for figure in self._figures}
        self._patterns = {figure.name: re.compile(figure.pattern) for figure in self._figures if figure.pattern}
        self._fields: dict[str, None] = {}
        self._step: float | None = None
        self._last_step = -math.inf

    def take(self, line: str, reading: Reading | None = None, *, is_whole: bool = True) -> None:
        """Keep the value of each figure that a line has.

        Args:
            line: as the program printed it.
            reading: of the line, which may have a loss.
            is_whole: the line has its end; fields and patterns are not searched in an unfinished line.

        Raises:
            Unreadable: the line has something that can't be the value of a figure.
        """
        if not self._figures:
            return
        own_step = _step_of(line, reading)
        if own_step is not None:
            self._step, self._last_step = own_step, max(own_step, self._last_step)
        fields = json_object(line) if is_whole else None
        for name in (fields or ()) if len(self._fields) < _SHOWN_FIELDS else ():
            self._fields.setdefault(shown(name))
        for figure in self._figures:
            if not is_whole and figure.is_read:
                continue
            if (value := self._value_in(figure, line, fields, reading)) is not None:
                self._keep(figure, _Printed(value, own_step, self._step))

    def _keep(self, figure: Figure, printed: _Printed) -> None:
        values = self._values[figure.name]
        # A progress line is drawn once more when it ends.
        if not figure.is_read and values and printed.own_step is not None and printed.own_step == values[-1].own_step:
            values.pop()
        values.append(printed)

    @property
    def are_complete(self) -> bool:
        """Whether each figure has its final value."""
        return all(self._is_complete(figure) for figure in self._figures)

    @property
    def are_ahead(self) -> bool:
        """Whether a figure is read at a step that the output will probably still reach."""
        return self._step is not None and any(map(self._is_ahead, self._figures))

    def _is_ahead(self, figure: Figure) -> bool:
        if figure.at_step is None or self._is_complete(figure):
            return False
        # After its step, a figure that was not printed before can't be interpolated any more.
        return self._last_step < figure.at_step or bool(self._values[figure.name])

    def _is_complete(self, figure: Figure) -> bool:
        values = self._values[figure.name]
        if figure.at_step is None:
            return len(values) >= self._least(figure)
        if figure.takes is Takes.MEDIAN:
            return self._last_step >= figure.at_step
        return any(printed.step is not None and printed.step >= figure.at_step for printed in values)

    def _least(self, figure: Figure) -> int:
        """The number of values that it needs."""
        if figure.name != LOSS or figure.takes is not Takes.LAST or self._loss_reading is None:
            return 1
        return self._loss_reading

    def values(self, *, required: bool = True) -> dict[str, FigureValue]:
        """Each figure's value; a loss that no line names is left out.

        Args:
            required: refuse a figure without a value; else it is left out.

        Raises:
            Unreadable: a figure that is required has no value, or none at its step.
        """
        final: dict[str, FigureValue] = {}
        for figure in self._figures:
            values = self._values[figure.name]
            is_missing = len(values) < (1 if figure.at_step else self._least(figure))
            if is_missing and not (required and figure.is_read):
                continue
            if is_missing:
                raise self._never_printed(figure, len(values))
            has_step = figure.at_step is not None
            final[figure.name] = self._at_step(figure, values) if has_step else self._counted(figure, values)
        return final

    def _counted(self, figure: Figure, values: Sequence[_Printed]) -> FigureValue:
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
        """The value at the figure's own step, interpolated between the lines before and after it.

        Raises:
            Unreadable: no line names a step, or the printed steps don't reach it.
        """
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
        what = f"the {'field' if figure.field else 'pattern'}"
        return Unreadable(
            f"the figure {figure.name} was {f'printed only {count} times' if count else 'never printed'}: "
            f"{self._expected(figure)}",
            "let the program print it earlier, give reads=Reads(until_end=True) to read the program to its end, or "
            f"correct {what}",
        )

    def _expected(self, figure: Figure) -> str:
        if figure.pattern:
            return f"lines were searched for the pattern {figure.pattern!r}"
        known = f"; they have {', '.join(self._fields)}" if self._fields else ""
        return f"JSON lines were searched for the field {figure.field!r}{known}"

    def _value_in(self, figure: Figure, line: str, fields: object, reading: Reading | None) -> float | None:
        if figure.field:
            value = value_of(fields, figure.field)
            return None if value is ABSENT else _number(figure, number_in(value), value, line)
        if figure.pattern:
            return self._matched(figure, line)
        is_counter_at_0 = reading is not None and reading.kind in (Kind.STEP, Kind.EXAMPLES) and reading.value == 0
        if reading is None or is_counter_at_0:
            return None
        if reading.loss is None and value_of(fields, LOSS) is None:
            raise _no_value(figure, None, "which is no number", line)
        return reading.loss

    def _matched(self, figure: Figure, line: str) -> float | None:
        match = self._patterns[figure.name].search(line)
        if match is None:
            return None
        group = next(iter(match.re.groupindex))
        if (text := match[group]) is None:
            return None
        value = _number(figure, number_in_group(text), text, line)
        require_whole_number(line, match, group)
        _require_own_unit(figure, text, line, match.end(group))
        return value


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


def _number(figure: Figure, value: float | None, text: object, line: str) -> float:
    if value is None:
        raise _no_value(figure, text, "which is no number", line)
    if not math.isfinite(value) or (value < 0 and figure.unit in _NEVER_NEGATIVE):
        raise _no_value(figure, text, "which can't be its value", line)
    return value


def _no_value(figure: Figure, text: object, why: str, line: str) -> Unreadable:
    said = "null" if text is None else f"{text!r:.40}"
    return Unreadable(
        f"the figure {figure.name} is {said}, {why}, in the line {shown(line)!r}",
        "look for the cause in the program; a pattern or field that finds something else reads that",
    )


def _require_own_unit(figure: Figure, text: str, line: str, end: int) -> None:
    """Refuse a value that another unit follows than the figure's: programs may go from "980 ms" to "1.2 s".

    Raises:
        Unreadable: the units differ; says what to write.
    """
    match = _UNIT_FOLLOWS.match(line, end)
    if match is None:
        return
    unit = figure.unit or ""
    own, printed = _UNITS.get(unit, unit), _UNITS[match[1]]
    if own != printed:
        raise Unreadable(
            f"the figure {figure.name} is {text}{match[0]} in the line {shown(line)!r}, and its unit is {unit!r}",
            f"let the program always print one unit, and give that: Figure({figure.name!r}, unit={printed!r}, ...)",
        )
