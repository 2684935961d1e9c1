"""Reads a user's own figures from the lines of a program."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence

from pytest_tfperf.core.figure import Figure, Takes
from pytest_tfperf.programs.given import at_path, json_object
from pytest_tfperf.programs.reading import Unreadable, number_in

_SHOWN_COLUMNS = 160
_SHOWN_FIELDS = 5
_NEVER_NEGATIVE = ("bytes", "s", "ms")


class FigureLines:
    """The values of figures that have a field or a pattern.

    Args:
        figures: others are left out.
    """

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._figures = [figure for figure in figures if figure.is_read]
        self._values: dict[str, list[float]] = {figure.name: [] for figure in self._figures}
        self._patterns = {figure.name: re.compile(figure.pattern) for figure in self._figures if figure.pattern}
        self._fields: dict[str, None] = {}

    def take(self, line: str) -> None:
        """Keep what a line says of each figure.

        Raises:
            Unreadable: it has something in the place of a figure that can't be its value.
        """
        if not self._figures:
            return
        found = json_object(line)
        for name in (found or ()) if len(self._fields) < _SHOWN_FIELDS else ():
            self._fields.setdefault(name[:_SHOWN_COLUMNS])
        for figure in self._figures:
            if (value := self._text_of(figure, line, found)) is not None:
                self._values[figure.name].append(_number(figure, value, line))

    def values(self, first: Mapping[str, int], *, required: bool = True) -> dict[str, float]:
        """Each figure's value.

        Args:
            first: of figures by name, which value counts, from 1; of all others their own `takes` says it.
            required: refuse a figure without a value; else it is left out.

        Raises:
            Unreadable: a figure that is required has no value.
        """
        return {
            figure.name: self._value(figure, first.get(figure.name))
            for figure in self._figures
            if required or len(self._values[figure.name]) >= first.get(figure.name, 1)
        }

    def _value(self, figure: Figure, number: int | None) -> float:
        values = self._values[figure.name]
        if len(values) < (number or 1):
            raise Unreadable(
                f"the figure {figure.name} was {f'printed only {len(values)} times' if values else 'never printed'}: "
                f"{self._expected(figure)}",
                "let the program print it earlier, give reads=Reads(until_end=True) to read the program to its end, or "
                f"correct the {'field' if figure.field else 'pattern'}",
            )
        if number is not None:
            return values[number - 1]
        return statistics.median(values) if figure.takes is Takes.MEDIAN else values[-1]

    def _expected(self, figure: Figure) -> str:
        if figure.pattern:
            return f"lines were searched for the pattern {figure.pattern!r}"
        known = f"; they have {', '.join(self._fields)}" if self._fields else ""
        return f"JSON lines were searched for the field {figure.field!r}{known}"

    def _text_of(self, figure: Figure, line: str, found: object) -> object:
        if figure.field:
            return at_path(found, figure.field.split("."))
        match = self._patterns[figure.name].search(line)
        return None if match is None else match[next(iter(match.re.groupindex))]


def _number(figure: Figure, text: object, line: str) -> float:
    value = number_in(text)
    if value is not None and math.isfinite(value) and (value >= 0 or figure.unit not in _NEVER_NEGATIVE):
        return value
    why = "which is no number" if value is None else "which can't be its value"
    raise Unreadable(
        f"the figure {figure.name} is {text!r:.40}, {why}, in the line {line.strip()[:_SHOWN_COLUMNS]!r}",
        "look for the cause in the program; a pattern or field that finds something else reads that",
    )
