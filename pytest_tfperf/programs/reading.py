"""The values that a line is read as: a `Reading`, or `Unread` with the reason; numbers, losses and steps in a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.lines import Line, LineKind, without_passwords

SEPARATORS = ",'_\u2019\u00a0\u2009\u202f"
"""Separators of thousands. A plain space is one, too, but it also stands between two numbers."""

_DIGITS = (
    rf"(?:[1-9]\d{{0,2}}(?:[{SEPARATORS}]\d{{3}}){{1,6}}(?:\.\d{{1,30}})?|\d{{1,20}}(?:\.\d{{0,30}})?|\.\d{{1,30}})"
    r"(?:[eE][+-]?\d{1,3})?"
)
NUMBER = rf"(?:[+-]?(?:{_DIGITS}|nan|inf(?:inity)?))"
"""A regular expression for a number, to be used with re.ASCII and re.IGNORECASE."""

_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_WHOLE = re.compile(rf"\s*(?P<number>{NUMBER})\s?(?P<factor>[kKMG]?)\s*", re.ASCII | re.IGNORECASE)


def to_float(number: str, factor: str = "") -> float:
    """The value of a text that `NUMBER` matches, times k, M or G."""
    return float(re.sub(f"[{SEPARATORS}]", "", number)) * _FACTORS[factor.lower()]


def number_in(value: object) -> float | None:
    """A number, also as a text such as "1,500" or "1.5k"; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        try:
            return float(value)
        except OverflowError:
            return None
    match = _WHOLE.fullmatch(value)
    # "m" would be a thousandth.
    return None if match is None or match["factor"] == "m" else to_float(match["number"], match["factor"])


# With the word before it, as in "aux loss: 0.01 | loss: 2.3".
_LOSS = re.compile(
    rf"(?P<of>\b[a-z]{{1,20}}[ -])?\bloss['\"]?\s{{0,9}}[:=]\s{{0,9}}[\[(]?(?P<loss>{NUMBER})(?!\w|\.\d)",
    re.ASCII | re.IGNORECASE,
)
_GOES_ON = re.compile(rf"[{SEPARATORS}]\d")
_OF_TRAINING = ("", "train", "training", "total", "lm", "step", "batch", "mean", "avg", "average", "running")


class Kind(Enum):
    """The meaning of a reading's value."""

    RATE = "rate"
    MEAN_RATE = "mean rate"  # since the first step, over the reading's number of steps
    STEP = "step"
    SECONDS = "seconds"  # of a step
    MEAN_SECONDS = "mean seconds"  # of a step, since the first step


@dataclass(frozen=True, slots=True)
class Reading:
    """The value in a line: units or steps per second, a number of steps or of units, or seconds."""

    kind: Kind
    value: float
    step: int = 0  # the number of steps of a mean
    loss: float | None = None  # None where the line has none
    line: str = field(default="", compare=False)  # for messages


class Unread(NamedTuple):
    """A line with a rate that can't be read, or can be read in two ways."""

    why: str  # in words that may follow "because"


def loss_in(line: str) -> float | None:
    """The loss that a line names, of several that of training; None if it names none."""
    losses = [match for match in _LOSS.finditer(line) if "." in match["loss"] or not _GOES_ON.match(line, match.end())]
    of_training = [match for match in losses if (match["of"] or "").rstrip(" -").lower() in _OF_TRAINING]
    return to_float((of_training or losses)[0]["loss"]) if losses else None


_COUNTED = r"(?P<number>\d{1,3}(?:,\d{3})+|\d{1,12})(?!\d|[.,]\d|\s?(?:%|(?:[mun\u00b5]?s|sec|seconds?)\b))"
_COUNTER = re.compile(rf"\b(?:step|iter|iteration|it|global_step)s?\W{{0,3}}{_COUNTED}", re.IGNORECASE)
# "Batch [20]" and "batch 20/100", but not the size in "batch=32" or "batch 256/8 devices".
_BATCH = re.compile(
    rf"\bbatch(?:es)?(?P<before>\W{{0,4}}){_COUNTED}(?:\s?(?:/|of)\s?(?P<total>\d{{1,12}}))?", re.IGNORECASE
)


def step_in(line: str) -> int | None:
    """The step that a line names; None if it names none."""
    if (match := _COUNTER.search(line)) is not None:
        return _whole(match["number"])
    if (match := _BATCH.search(line)) is None:
        return None
    step, total = _whole(match["number"]), _whole(match["total"] or "0")
    return step if step <= total or (not total and "[" in match["before"]) else None


def _whole(number: str) -> int:
    return int(number.replace(",", ""))


class Unreadable(Exception):
    """The output as a whole can't be read, or would be read wrongly, as some of its lines show."""

    def __init__(self, fact: str, next_step: str, lines: Iterable[str] = ()) -> None:
        super().__init__(fact)
        self.fact = fact
        self.next_step = next_step
        self.lines = tuple(Line(line, kind=LineKind.LOG) for line in lines)


@contextmanager
def worded_by(failure: Callable[..., MeasurementError]) -> Iterator[None]:
    """Turn output that can't be read into a failure of its program, with the end of the output."""
    try:
        yield
    except Unreadable as error:
        raise failure(error.fact, error.next_step, *error.lines) from error


def shown(line: str) -> str:
    """The part of a line that messages show, without passwords."""
    return without_passwords(line).strip()[:160]


MOST_OF_A_LINE = 2**16
"""Characters of a line that are read; the rest is dropped, so that output without line ends takes no memory."""

CUT = "\u2026"
"""The end of a line that is longer."""

_COLOURS = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,9}[@-~]")
_LINE_ENDS = re.compile(rb"[\n\r\x08]+")

LINE_END = re.compile(rb"(?:\x1b\[[0-?]{0,40}[ -/]{0,9}[@-~]){0,9}[\n\r\x08]+")
"""Matches the end of a line, or a step back in it, perhaps behind colours: such output adds nothing to the line."""


class LineSplitter:
    """Splits a program's output into lines, at line ends and where the program begins to overwrite a line.

    It holds at most one line, and of that at most `MOST_OF_A_LINE`.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The lines that end in `data`, without colours."""
        *ended, rest = _LINE_ENDS.split(data)
        if not ended:
            self._rest = (self._rest + rest[: MOST_OF_A_LINE + 1])[: MOST_OF_A_LINE + 1]
            return []
        ended[0] = self._rest + ended[0]
        self._rest = rest[: MOST_OF_A_LINE + 1]
        return [_text(line) for line in ended if line]

    @property
    def unfinished(self) -> str:
        """The line that has no end yet."""
        return _text(self._rest)


def _text(line: bytes) -> str:
    text = line[:MOST_OF_A_LINE].decode("utf-8", errors="replace")
    return _COLOURS.sub("", text) + CUT * (len(line) > MOST_OF_A_LINE)
