"""How the output of a user's own program is read: the `Reads` that `check_command` accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pytest_tfperf.errors import WorkloadError, known_names, unknown

READ_BY_GROUP = ("rate", "step", "seconds", "milliseconds")
"""Groups of which a pattern has one: units per second, a counter of steps, or the time that a step takes."""

SAY_HOW_MANY = (
    "say how many units a step holds over all devices with reads=Reads(examples_per_step=N), or count unit='steps/s'"
)
"""The next step where steps or their times are read, and rates are wanted."""


class RateIs(StrEnum):
    """What a printed rate stands for."""

    RECENT = "recent"
    AVERAGE = "average"  # since the first step, as tf_cnn_benchmarks and timm's benchmark.py print it


class TimedFrom(StrEnum):
    """Where the time of `Reads.examples` begins."""

    START = "start"
    FIRST_OUTPUT = "first output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """How a program's output is read. Without arguments, lines of the known formats are.

    At most one of `pattern`, `field`, `parse` and `examples` is given.

    Args:
        pattern: a regular expression with one named group `rate`, `step`, `seconds` or `milliseconds`, and maybe
            `loss`.
        field: the field of JSON lines that holds the rate, "train.rate" for one inside of `train`.
        parse: a function of a line that returns the rate in units per second, or None for a line without one.
        examples_per_step: units in a step, over all devices, where the program prints steps or their times.
        rate_is: "average" for a rate since the first step, which is undone; "recent" for one that is none, although it
            looks like one. None: formats known to print averages are undone, and what looks like one is refused.
        until_end: read until the program ends; a rate that is printed only once is then enough.
        examples: units that the program works through in all; its whole run is timed then, and nothing is read.
        timed_from: where that time begins: "start" or "first output".
        first_within: seconds in which the first reading is expected once the program prints; None: 40 s, while lines
            keep coming.

    Raises:
        WorkloadError: an argument that is not allowed; says what to write.
    """

    pattern: str = ""
    field: str = ""
    parse: Callable[[str], float | None] | None = None
    examples_per_step: int | None = None
    rate_is: RateIs | str | None = None
    until_end: bool = False
    examples: int | None = None
    timed_from: TimedFrom | str = TimedFrom.FIRST_OUTPUT
    first_within: float | None = None

    def __post_init__(self) -> None:
        for name in ("examples_per_step", "examples"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise WorkloadError(f"{name}={value!r} must be a whole number from 1")
        for name in ("pattern", "field"):
            if not isinstance(getattr(self, name), str):
                raise WorkloadError(f"{name}={getattr(self, name)!r} must be a text")
        if self.parse is not None and not callable(self.parse):
            raise WorkloadError(f"parse={self.parse!r} must be a function of a line that returns the rate or None")
        if self.rate_is is not None and self.rate_is not in list(RateIs):
            raise WorkloadError(
                f"rate_is: {unknown('value', self.rate_is)}", next_step=known_names(self.rate_is, RateIs)
            )
        if self.timed_from not in list(TimedFrom):
            known = known_names(self.timed_from, TimedFrom)
            raise WorkloadError(f"timed_from: {unknown('value', self.timed_from)}", next_step=known)
        if self.first_within is not None and not (isinstance(self.first_within, int | float) and self.first_within > 0):
            raise WorkloadError(f"first_within={self.first_within!r} must be a number of seconds above 0")
        ways = [name for name in ("pattern", "field", "parse", "examples") if getattr(self, name)]
        if len(ways) > 1:
            raise WorkloadError(f"{' and '.join(ways)} are given: give the one that tells the rate")
        if self.pattern:
            _require_one_group(self.pattern)

    @property
    def reads_to_the_end(self) -> bool:
        """Whether the program runs to its end."""
        return self.until_end or self.examples is not None


def _require_one_group(pattern: str) -> None:
    try:
        groups = re.compile(pattern).groupindex
    except (re.error, RecursionError, OverflowError) as error:
        raise WorkloadError(f"pattern={pattern!r} is no regular expression: {error}") from None
    if others := [group for group in groups if group not in (*READ_BY_GROUP, "loss")]:
        known = known_names(others[0], (*READ_BY_GROUP, "loss"))
        raise WorkloadError(f"pattern: {unknown('group', others[0])}", next_step=known)
    found = [group for group in READ_BY_GROUP if group in groups]
    if len(found) != 1:
        have = f"has the groups {' and '.join(found)}" if found else "has no named group"
        raise WorkloadError(
            f"pattern={pattern!r} {have}: it must have one of {', '.join(READ_BY_GROUP)}, as in "
            r"r'speed (?P<rate>[\d.]+)'"
        )
