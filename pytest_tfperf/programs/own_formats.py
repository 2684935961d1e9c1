"""Reads lines as the user describes them: by a pattern, a field of JSON lines or a function of a line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Final

from pytest_tfperf.programs.reading import SEPARATORS, Kind, Reading, Unread, Unreadable, loss_in, number_in, shown

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
    """Reads the number in a pattern's group.

    Args:
        pattern: has a group of `READ_BY_GROUP`, and may have the group `loss`.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern)
        self._group = next(group for group in self._pattern.groupindex if group != "loss")

    def read(self, line: str) -> Reading | Unread | None:
        """The reading of a line; None where the pattern does not match.

        Raises:
            Unreadable: the group holds a part of a number only.
        """
        match = self._pattern.search(line)
        if match is None or (text := match[self._group]) is None:
            return None
        value = number_in_group(text)
        if value is None:
            return Unread(f"the group {self._group} has {text!r:.40}, which is no number")
        require_whole_number(line, match, self._group)
        if self._group == "seconds" and _MILLISECONDS_FOLLOW.match(line[match.end(self._group) :]):
            raise Unreadable(
                f"the group seconds has {text} of {shown(line)!r}, which are not seconds",
                "name the group milliseconds, or give parse=, a function of a line",
            )
        loss = number_in(match["loss"]) if "loss" in self._pattern.groupindex else loss_in(line)
        if self._group == "rate":
            return Reading(Kind.RATE, value, loss=loss)
        if self._group == "step":
            return Reading(Kind.STEP, value, loss=loss) if math.isfinite(value) else None
        return Reading(Kind.SECONDS, value / (1000 if self._group == "milliseconds" else 1), loss=loss)


def number_in_group(text: str) -> float | None:
    """The number in a pattern's group, which may also have the comma or the bracket behind the number."""
    return number_in(text.rstrip(_PUNCTUATION))


def require_whole_number(line: str, match: re.Match[str], group: str) -> None:
    """Return if a group of a pattern has all digits of a number.

    Raises:
        Unreadable: the number begins before the group, or goes on behind it.
    """
    begin, end = match.span(group)
    before, behind = line[:begin], line[end:]
    # Where the pattern itself matches the comma behind the group, as in "632.9,120", the comma separates two numbers.
    is_separated = end < match.end()
    if (
        _NUMBER_BEGINS_BEFORE.search(before)
        or _NUMBER_GOES_ON.match(behind)
        or (not is_separated and _THOUSANDS_FOLLOW.match(behind))
    ):
        raise Unreadable(
            f"the group {group} has {match[group]!r} of {shown(line)!r}, a part of a number only",
            rf"let the group take all of it, as (?P<{group}>[-+]?[\d.,'_]+(?:[eE][+-]?\d+)?(?:\s?[kKMG]\b)?)",
        )


class FieldLines:
    """Reads a field of JSON lines.

    Args:
        field: "train.rate" for a field of that name, or for `rate` inside of `train`.

    Attributes:
        fields: names of fields in lines that lack this field.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self.fields: dict[str, None] = {}

    def read(self, line: str) -> Reading | None:
        """The reading of a JSON object with a number in the field; None for any other line."""
        if (fields := json_object(line)) is None:
            return None
        if (rate := number_in(value_of(fields, self._field))) is None:
            for name in fields if len(self.fields) < _SHOWN_FIELDS else ():
                self.fields.setdefault(shown(str(name)))
            return None
        return Reading(Kind.RATE, rate, loss=number_in(fields.get("loss")))

    def series(self, line: str) -> str:
        """The values of the fields that name a line's rank, or its mode such as evaluation."""
        fields = json_object(line) or {}
        ranks = [f"rank {fields[name]}" for name in _RANK_FIELDS if name in fields]
        return " ".join([*ranks, *(str(fields[name]) for name in _MODE_FIELDS if isinstance(fields.get(name), str))])


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


def rate_fields(line: str) -> list[str]:
    """The fields of a JSON line that seem to hold a rate."""
    fields = json_object(line) or {}
    return [name for name, value in fields.items() if number_in(value) is not None and _LIKE_A_RATE.search(name)]


class ParsedLines:
    """Reads by the user's function.

    Args:
        parse: returns a line's rate, or None.
    """

    def __init__(self, parse: Callable[[str], float | None]) -> None:
        self._parse = parse

    def read(self, line: str) -> Reading | None:
        """The reading of a line; None where the function returns None.

        Raises:
            Unreadable: the function raised, or did not return a number.
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
