"""Reads what the user describes: a rate by a pattern, a field of JSON lines or a function of a line; and figures."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence

from pytest_tfperf.core.figure import Figure, Takes
from pytest_tfperf.programs.reading import (
    SEPARATORS,
    Kind,
    Reading,
    Unread,
    Unreadable,
    loss_in,
    number_in,
    shown,
)

_SHOWN_FIELDS = 5
_RANK_FIELDS = ("rank", "local_rank", "worker", "process", "process_index")
_MODE_FIELDS = ("split", "mode", "phase", "stage")
_NUMBER_GOES_ON = re.compile(r"\d|\.\d|[eE][+-]?\d|\s?[kKMG](?![A-Za-z0-9])")
_THOUSANDS_FOLLOW = re.compile(rf"[{SEPARATORS}]\d{{3}}(?!\d)")
_LIKE_A_RATE = re.compile(r"per_?s|/s|throughput|speed|^[tfqi]ps$", re.IGNORECASE)
_MILLISECONDS_FOLLOW = re.compile(r"\s?(?:ms|us|\u00b5s|ns)\b")


class PatternLines:
    """Reads what a pattern's group finds.

    Args:
        pattern: with one of the groups `READ_BY_GROUP`, and maybe `loss`.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._group = next(group for group in self._pattern.groupindex if group != "loss")

    def read(self, line: str) -> Reading | Unread | None:
        """What a line says.

        Raises:
            Unreadable: the group holds a part of a number only.
        """
        found = self._pattern.search(line)
        if found is None or (text := found[self._group]) is None:
            return None
        value = number_in(text)
        if value is None:
            return Unread(f"the group {self._group} has {text!r:.40}, which is no number")
        self._require_whole_number(line, found)
        loss = number_in(found["loss"]) if "loss" in self._pattern.groupindex else loss_in(line)
        if self._group == "rate":
            return Reading(Kind.RATE, value, loss=loss)
        if self._group == "step":
            return Reading(Kind.STEP, value, loss=loss) if math.isfinite(value) else None
        return Reading(Kind.SECONDS, value / (1000 if self._group == "milliseconds" else 1), loss=loss)

    def _require_whole_number(self, line: str, found: re.Match[str]) -> None:
        begin, end = found.span(self._group)
        before, behind = line[:begin], line[end:]
        # The pattern may match a comma behind the group itself, as that of "632.9,120": then it separates two numbers.
        is_separated = end < found.end()
        if (
            re.search(r"\d\.?$", before)
            or _NUMBER_GOES_ON.match(behind)
            or (not is_separated and _THOUSANDS_FOLLOW.match(behind))
        ):
            raise Unreadable(
                f"the group {self._group} has {found[self._group]!r} of {shown(line)!r}, a part of a number only",
                rf"let the group take all of it, as (?P<{self._group}>[\d.,'_]+(?:[eE][+-]?\d+)?\s?[kKMG]?)",
            )
        if self._group == "seconds" and _MILLISECONDS_FOLLOW.match(behind):
            raise Unreadable(
                f"the group seconds has {found['seconds']} of {shown(line)!r}, which are not seconds",
                "name the group milliseconds, or give parse=, a function of a line",
            )


class FieldLines:
    """Reads a field of JSON lines.

    Args:
        field: "train.rate" for the field `rate` inside of `train`.

    Attributes:
        fields: names that the lines have, where none had this one.
    """

    def __init__(self, field: str) -> None:
        self._path = field.split(".")
        self.fields: dict[str, None] = {}

    def read(self, line: str) -> Reading | None:
        """What a line says; None for one that is no JSON object with a number in the field."""
        if (found := json_object(line)) is None:
            return None
        if (rate := number_in(at_path(found, self._path))) is None:
            for name in found if len(self.fields) < _SHOWN_FIELDS else ():
                self.fields.setdefault(shown(str(name)))
            return None
        return Reading(Kind.RATE, rate, loss=number_in(found.get("loss")))

    def series(self, line: str) -> str:
        """What a line says of its rank, and of evaluation: the names and values of a few fields."""
        found = json_object(line) or {}
        ranks = [f"rank {found[name]}" for name in _RANK_FIELDS if name in found]
        return " ".join([*ranks, *(str(found[name]) for name in _MODE_FIELDS if isinstance(found.get(name), str))])


def json_object(line: str) -> dict[str, object] | None:
    """The JSON object that begins in a line; None for a line without one."""
    begin = line.find("{")
    if begin < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(line, begin)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def at_path(found: object, path: Sequence[str]) -> object:
    """The value inside of nested objects; None where there is none."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def rate_field(line: str) -> str:
    """The field of a JSON line that seems to hold a rate; "" for none."""
    names = [name for name, value in (json_object(line) or {}).items() if number_in(value) is not None]
    return next((name for name in names if _LIKE_A_RATE.search(name)), "")


class ParsedLines:
    """Reads by the user's function.

    Args:
        parse: returns a line's rate, or None.
    """

    def __init__(self, parse: Callable[[str], float | None]) -> None:
        self._parse = parse

    def read(self, line: str) -> Reading | None:
        """What a line says.

        Raises:
            Unreadable: the function raised, or returned something else.
        """
        name = getattr(self._parse, "__name__", "parse")
        try:
            rate = self._parse(line)
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
            self._fields.setdefault(shown(name))
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
        f"the figure {figure.name} is {text!r:.40}, {why}, in the line {shown(line)!r}",
        "look for the cause in the program; a pattern or field that finds something else reads that",
    )
