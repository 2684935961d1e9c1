"""What one line of a program says: a `Reading`, or why it can't be read, `Unread`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

SEPARATORS = ",'_\u2019\u00a0\u2009\u202f"
"""What stands between groups of thousands. A plain space does, too, but it also stands between two numbers."""

_DIGITS = (
    rf"(?:[1-9]\d{{0,2}}(?:[{SEPARATORS}]\d{{3}}){{1,6}}(?:\.\d{{1,30}})?|\d{{1,20}}(?:\.\d{{0,30}})?|\.\d{{1,30}})"
    r"(?:[eE][+-]?\d{1,3})?"
)
NUMBER = rf"(?:[+-]?(?:{_DIGITS}|nan|inf(?:inity)?))"
"""A regular expression for one number, to be used with re.ASCII and re.IGNORECASE."""

BEGIN = rf"(?<![\w.+-])(?<!\d[{SEPARATORS}])"
"""Before a number: not in the middle of a word or of another number."""

END = rf"(?!\w|[.{SEPARATORS}]\d)"
"""After a number, as `BEGIN`."""

_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_WHOLE = re.compile(rf"\s*(?P<number>{NUMBER})\s?(?P<factor>[kKMG]?)\s*", re.ASCII | re.IGNORECASE)


def to_float(number: str, factor: str = "") -> float:
    """The value of a text that `NUMBER` matches, times k, M or G."""
    return float(re.sub(f"[{SEPARATORS}]", "", number)) * _FACTORS[factor.lower()]


def number_in(value: object) -> float | None:
    """A number, also where it is written as a text such as "1,500" or "1.5k"; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        try:
            return float(value)
        except OverflowError:
            return None
    found = _WHOLE.fullmatch(value)
    # "m" would be a thousandth.
    return None if found is None or found["factor"] == "m" else to_float(found["number"], found["factor"])


# A word before it says of what: "aux loss: 0.01 | loss: 2.3".
_LOSS = re.compile(
    rf"(?P<of>\b[a-z]{{1,20}}[ -])?\bloss['\"]?\s{{0,9}}[:=]\s{{0,9}}[\[(]?(?P<loss>{NUMBER})(?!\w|\.\d)",
    re.ASCII | re.IGNORECASE,
)
_GOES_ON = re.compile(rf"[{SEPARATORS}]\d")
_OF_TRAINING = ("", "train", "training", "total", "lm", "step", "batch", "mean", "avg", "average", "running")


class Kind(Enum):
    """What a reading's value is."""

    RATE = "rate"
    MEAN_RATE = "mean rate"  # since the first step; the step says of how many
    STEP = "step"
    EXAMPLES = "examples"  # so many since the start
    SECONDS = "seconds"  # that one step takes
    MEAN_SECONDS = "mean seconds"  # that one step took since the first one
    STEP_RATE = "step rate"  # steps per second

    @property
    def is_of_steps(self) -> bool:
        """Whether it says nothing of units until someone says how many units a step holds."""
        return self in (Kind.STEP, Kind.SECONDS, Kind.MEAN_SECONDS, Kind.STEP_RATE)

    @property
    def is_counter(self) -> bool:
        """Whether it counts, so that its lines are timed by when they come."""
        return self in (Kind.STEP, Kind.EXAMPLES)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one line says.

    Args:
        kind: what `value` is.
        value: units or steps per second, a number of steps or of units, or seconds.
        step: of a mean: of how many steps.
        loss: None where the line has none.
        is_named_average: the line calls it an average, of whatever.
        is_of_training: lines of evaluation are known, and this is none.
        line: for messages.
    """

    kind: Kind
    value: float
    step: int = 0
    loss: float | None = None
    is_named_average: bool = False
    is_of_training: bool = False
    line: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Unread:
    """A line that has a rate, but can't be read, or can be read in two ways.

    Args:
        why: in words that follow "because".
    """

    why: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that counts something else: the bar of a download, or of evaluation.

    Args:
        why: for the user, where no other line says anything; "" where the line shows it.
    """

    why: str = ""


def loss_in(line: str) -> float | None:
    """The loss that a line names, that of training where it names several; None if there is none."""
    found = [one for one in _LOSS.finditer(line) if "." in one["loss"] or not _GOES_ON.match(line, one.end())]
    of_training = [one for one in found if (one["of"] or "").rstrip(" -").lower() in _OF_TRAINING]
    return to_float((of_training or found)[0]["loss"]) if found else None


class Unreadable(Exception):
    """The output can't be read as a whole, or it would be read wrongly.

    Args:
        fact: what was found, after "the program printed" and the like.
        next_step: what the user can give instead.
    """

    def __init__(self, fact: str, next_step: str) -> None:
        super().__init__(fact)
        self.fact = fact
        self.next_step = next_step


def shown(line: str) -> str:
    """What a message shows of a line."""
    return line.strip()[:160]


MOST_OF_A_LINE = 2**16
"""Characters of a line that are read; the rest is dropped, so that a program without line ends takes no memory."""

_COLOURS = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,9}[@-~]")
_LINE_ENDS = re.compile(rb"[\n\r\x08]+")

LINE_END = re.compile(rb"(?:\x1b\[[0-?]{0,40}[ -/]{0,9}[@-~]){0,9}[\n\r\x08]+")
"""What ends a line, or goes back in it, perhaps behind colours: output that begins so adds nothing to the line."""


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


def _text(line: bytes) -> str:
    return _COLOURS.sub("", line[:MOST_OF_A_LINE].decode("utf-8", errors="replace"))
