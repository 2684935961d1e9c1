"""An acknowledged loss: a team knows of it, and it fails nothing until its end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A known loss of one figure of a test on one machine, and the date until which it fails nothing.

    Changes are fractions of a throughput, -0.13 for 13 % slower; of any other figure they are in the figure's unit.

    Args:
        machine: the machine's key.
        test: pytest's node id.
        figure: "throughput" or the name of another figure.
        change: the change that was acknowledged, without the drift common to all tests.
        worst: the worse end of its 95 % confidence interval.
        until: the last day on which it holds.
        why: the reason, for people.
    """

    machine: str
    test: str
    figure: str
    change: float
    worst: float
    until: date
    why: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What there is one acknowledgement of: a figure of a test on a machine."""
        return self.machine, self.test, self.figure

    def holds_on(self, day: date) -> bool:
        """Whether its end has not come."""
        return day <= self.until

    def days_left(self, day: date) -> int:
        """The days from one day until its end; negative past the end."""
        return (self.until - day).days

    def is_as_bad_as(self, change: float) -> bool:
        """Whether a change is no worse than the acknowledged one may have been, in the same direction."""
        sign = math.copysign(1.0, self.change)
        return sign * change <= sign * self.worst
