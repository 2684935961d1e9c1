"""Reads what the user describes: a pattern, a field of JSON lines, or a function of a line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence

from pytest_tfperf.programs.reading import SEPARATORS, Kind, Reading, Unread, Unreadable, loss_in, number_in

_SHOWN_FIELDS = 5
_SHOWN_COLUMNS = 160
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
                f"the group {self._group} has {found[self._group]!r} of {_shown(line)}, a part of a number only",
                rf"let the group take all of it, as (?P<{self._group}>[\d.,'_]+(?:[eE][+-]?\d+)?\s?[kKMG]?)",
            )
        if self._group == "seconds" and _MILLISECONDS_FOLLOW.match(behind):
            raise Unreadable(
                f"the group seconds has {found['seconds']} of {_shown(line)}, which are not seconds",
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
                self.fields.setdefault(str(name)[:_SHOWN_COLUMNS])
            return None
        return Reading(Kind.RATE, rate, loss=number_in(found.get("loss")))


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
                f"parse={name} raised {type(error).__name__}: {error} for the line {_shown(line)}",
                "let it return None for lines without a rate",
            ) from error
        if rate is None:
            return None
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise Unreadable(
                f"parse={name} returned {rate!r:.40} for the line {_shown(line)}",
                "let it return a number of units per second, or None",
            )
        return Reading(Kind.RATE, float(rate), loss=loss_in(line))


def _shown(line: str) -> str:
    return repr(line.strip()[:_SHOWN_COLUMNS])
