"""An acknowledged loss: a team knows of it, and it fails nothing until its end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Final

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.errors import TfperfError

ENDS_SOON_DAYS: Final = 14
"""Days before the end of an acknowledgement from which its owner is told."""

MOST_DAYS: Final = 366
"""The most days until the end of an acknowledgement: a year."""

WORSE_FROM: Final = 1.3
"""How far a change must be beyond the acknowledged one to be worse, in half widths of the 95 % interval of their
difference: more than one, because an acknowledgement is compared with many sessions."""

RECOVERED_FROM: Final = 1.5
"""The same for a change that is better: more, because a loss seems larger than it is in a session that is red for it.

benchmarks/acknowledged.py counts how often either is wrong.
"""


class Standing(StrEnum):
    """What an acknowledgement means for the verdict that it is attached to."""

    HOLDS = "holds"
    """The loss is the acknowledged one, or less, and the end has not come."""
    ENDED = "ended"
    WORSE = "worse"
    """The loss is worse than the acknowledged one by more than noise explains."""
    RECOVERED = "recovered"
    """It passes, and is better than what was acknowledged by more than noise explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """A known loss of one figure of a test's call on one machine, and the date until which it fails nothing.

    Changes are fractions of a throughput, -0.13 for 13 % slower; of any other figure they are in the figure's unit.

    Raises:
        TfperfError: `worst` is better than `change`, or one of them is 0 or no finite number.
    """

    machine: str
    test: str  # pytest's node id
    # workload, topology: of the call, as in the key of its baseline
    workload: str
    topology: str
    figure: str  # "throughput" or the name of another figure
    change: float  # the change that was acknowledged, without the drift common to all tests
    worst: float  # the worse end of its 95 % confidence interval
    until: date  # the last day on which it holds
    why: str  # the reason, for people

    def __post_init__(self) -> None:
        if not (0 < self._loss(self.change) <= self._loss(self.worst) < math.inf):  # else it might cover any loss
            raise TfperfError(f"change {self.change:g} and worst {self.worst:g} are no loss and its worse end")

    @property
    def key(self) -> tuple[str, ...]:
        """The value that it is about, which has one acknowledgement at most; files are sorted by it."""
        return self.test, self.figure, self.machine, self.workload, self.topology

    @property
    def call(self) -> str:
        """The workload and topology in words."""
        return f"{self.workload} on {self.topology}"

    def is_of(self, machine: str, test: str, key: Key) -> bool:
        """Whether it is about a figure of this call."""
        return (self.machine, self.test, self.workload, self.topology) == (machine, test, *key[:2])

    def days_left(self, day: date) -> int:
        """Return the days from one day until the last on which it holds; negative past the end."""
        return (self.until - day).days

    def covers(self, interval: tuple[float, float]) -> bool:
        """Whether a change, by its 95 % interval, is in the acknowledged direction, and not worse beyond noise."""
        return max(map(self._loss, interval)) > 0 and not self._excess(interval) > WORSE_FROM

    def is_better(self, interval: tuple[float, float]) -> bool:
        """Whether a change, by its 95 % interval, is better than the acknowledged one beyond noise."""
        return self._excess(interval) < -RECOVERED_FROM

    def seems_changed(self, interval: tuple[float, float]) -> bool:
        """Whether a change, by its 95 % interval, is apart from the acknowledged one, so that more runs may tell."""
        return abs(self._excess(interval)) > 1

    def _excess(self, interval: tuple[float, float]) -> float:
        """Return how much worse a change is than the acknowledged one, in half widths of their difference's interval.

        Both were measured with noise, and the variances of independent values add up. To wait until the intervals no
        longer overlap would add standard deviations, and let a further loss of half a threshold pass for ever.
        """
        better, worse = sorted(map(self._loss, interval))
        known = self._loss(self.change)
        noise = math.hypot((worse - better) / 2, self._loss(self.worst) - known)
        excess = (better + worse) / 2 - known
        return excess / noise if noise else math.copysign(math.inf, excess) if excess else 0.0

    def _loss(self, change: float) -> float:
        """Return a change as a positive number where it has the acknowledged direction."""
        return math.copysign(1.0, self.change) * change
