"""Which of several changes in a row brought a slowdown, found by comparisons that may be wrong. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.judging.pairs import ErrorRates, PairsDecision

TOTAL_ERROR: Final = 0.05
"""How often a whole search may end at the wrong change.

Every comparison gets an equal share: the first one, which finds how much was lost; one for each halving; and the last
one, of the change that was found with the state before it. So the errors add up to this at most, and no answer is
trusted more than another.
"""

MOST_PAIRS: Final = 60
"""Pairs of a comparison before its likelier answer counts: at 4 % between runs, halves of 10 % need about 20."""


class Side(StrEnum):
    """Where a state lies."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a comparison of a state with the good one said.

    Args:
        side: where the state lies; skipped if it can't be measured.
        is_sure: whether the comparison was decided, and not only likelier than its opposite.
        ratio, low, high: of the state over the good one, with the interval; NaN if it was skipped.
        pairs: how many it took.
        why: why it was skipped.
        may_pass: whether that may be different the next time: the machine was disturbed or short of memory, a worker
            hung or was killed. Code that raises or is missing, and packages that can't be installed, are the state's.
    """

    side: Side
    is_sure: bool = True
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan
    pairs: int = 0
    why: str = ""
    may_pass: bool = False


def answer_of(decision: PairsDecision, threshold: Tolerance, pairs: int) -> Answer:
    """The answer that a decision gives; where it is undecided, the likelier one."""
    is_lower = decision.ratio < 1 + (threshold.lower or 0.0)
    sides = {Outcome.REGRESSED: Side.BAD, Outcome.PASS: Side.GOOD, Outcome.IMPROVED: Side.GOOD}
    side = sides.get(decision.outcome, Side.BAD if is_lower else Side.GOOD)
    return Answer(
        side=side,
        is_sure=decision.outcome in sides,
        ratio=decision.ratio,
        low=decision.low,
        high=decision.high,
        pairs=pairs,
    )


def threshold_of(ratio: float) -> Tolerance:
    """Half of the loss, as logarithms: what lost more lies behind the change, what lost less before it."""
    return Tolerance(math.sqrt(ratio) - 1, None)


def comparisons(states: int) -> int:
    """The most comparisons of a search, if nothing is skipped.

    >>> comparisons(32)
    7
    """
    return 2 + math.ceil(math.log2(states)) if states > 1 else 2


def error_rates(states: int) -> ErrorRates:
    """The share of one comparison in either direction, among so many states that may be the first bad one."""
    share = TOTAL_ERROR / comparisons(states)
    return ErrorRates(false_alarms=share, false_passes=share)


@dataclass(frozen=True, slots=True)
class Search:
    """A search among the states 1 to `states`: 0 is good, and the last one is bad.

    Args:
        states: how many may be the first bad one.
        answers: what is known of each state that was compared.
    """

    states: int
    answers: Mapping[int, Answer]

    @property
    def good(self) -> int:
        """The last state before the change, as far as is known."""
        return max((i for i, one in self.answers.items() if one.side is Side.GOOD and i < self.bad), default=0)

    @property
    def bad(self) -> int:
        """The first state behind the change, as far as is known."""
        return min((i for i, one in self.answers.items() if one.side is Side.BAD), default=self.states)

    @property
    def next(self) -> int | None:
        """The state to compare next: the middle one, or the nearest to it that can be measured; None at the end."""
        skipped = {i for i, one in self.answers.items() if one.side is Side.SKIPPED}
        left = [i for i in range(self.good + 1, self.bad) if i not in skipped]
        middle = (self.good + self.bad) / 2
        return min(left, key=lambda i: abs(i - middle), default=None)

    @property
    def candidates(self) -> range:
        """The states that may be the first bad one: one of them where none was skipped beside it."""
        return range(self.good + 1, self.bad + 1)
