"""Reads what the user describes: a rate by a pattern, a field of JSON lines or a function of a line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Final

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
# The sign of "loss: -0.5", but not the dash of "loss-0.5".
_NUMBER_BEGINS_BEFORE = re.compile(r"\d\.?$|(?:^|[\s=:(\[,|])-$")
_PUNCTUATION = ",;:.)]}|'\""
_THOUSANDS_FOLLOW = re.compile(rf"[{SEPARATORS}]\d{{3}}(?!\d)|:\d\d(?!\d)")  # or the minutes of "1:30"
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
        value = number_in_group(text)
        if value is None:
            return Unread(f"the group {self._group} has {text!r:.40}, which is no number")
        require_whole_number(line, found, self._group)
        if self._group == "seconds" and _MILLISECONDS_FOLLOW.match(line[found.end(self._group) :]):
            raise Unreadable(
                f"the group seconds has {text} of {shown(line)!r}, which are not seconds",
                "name the group milliseconds, or give parse=, a function of a line",
            )
        loss = number_in(found["loss"]) if "loss" in self._pattern.groupindex else loss_in(line)
        if self._group == "rate":
            return Reading(Kind.RATE, value, loss=loss)
        if self._group == "step":
            return Reading(Kind.STEP, value, loss=loss) if math.isfinite(value) else None
        return Reading(Kind.SECONDS, value / (1000 if self._group == "milliseconds" else 1), loss=loss)


def number_in_group(text: str) -> float | None:
    """The number that a pattern's group has; the group may end with the comma or the bracket that follows it."""
    return number_in(text.rstrip(_PUNCTUATION))


def require_whole_number(line: str, found: re.Match[str], group: str) -> None:
    """Return if a group of a pattern has all digits of a number, and not a part of them.

    Raises:
        Unreadable: the number begins before the group, or goes on behind it.
    """
    begin, end = found.span(group)
    before, behind = line[:begin], line[end:]
    # The pattern may match a comma behind the group itself, as that of "632.9,120": then it separates two numbers.
    is_separated = end < found.end()
    if (
        _NUMBER_BEGINS_BEFORE.search(before)
        or _NUMBER_GOES_ON.match(behind)
        or (not is_separated and _THOUSANDS_FOLLOW.match(behind))
    ):
        raise Unreadable(
            f"the group {group} has {found[group]!r} of {shown(line)!r}, a part of a number only",
            rf"let the group take all of it, as (?P<{group}>[-+]?[\d.,'_]+(?:[eE][+-]?\d+)?(?:\s?[kKMG]\b)?)",
        )


class FieldLines:
    """Reads a field of JSON lines.

    Args:
        field: "train.rate" for a field of that name, or for `rate` inside of `train`.

    Attributes:
        fields: names that the lines have, where none had this one.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self.fields: dict[str, None] = {}

    def read(self, line: str) -> Reading | None:
        """What a line says; None for one that is no JSON object with a number in the field."""
        if (found := json_object(line)) is None:
            return None
        if (rate := number_in(value_of(found, self._field))) is None:
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


ABSENT: Final = object()
"""In the place of the value of a field that is not there; a JSON null is None."""


def value_of(found: object, field: str) -> object:
    """The value of a field; "train.loss" is a key of that name, or else the key `loss` inside of `train`."""
    if not isinstance(found, dict):
        return ABSENT
    if field in found:
        return found[field]
    names = field.split(".")
    for count in range(len(names) - 1, 0, -1):
        inner = value_of(found.get(".".join(names[:count])), ".".join(names[count:]))
        if inner is not ABSENT:
            return inner
    return ABSENT


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
