"""Two versions of a machine's baselines, as two branches recorded them, merged row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeVar

from pytest_tfperf.core.baseline import Baseline, Key

Part = TypeVar("Part")


class Side(StrEnum):
    """The sides of a merge, in git's words."""

    OURS = "ours"
    THEIRS = "theirs"

    @property
    def other(self) -> Side:
        """The other side."""
        return Side.THEIRS if self is Side.OURS else Side.OURS


@dataclass(frozen=True, slots=True)
class ChangedTwice:
    """A row that each side changed in its own way.

    Args:
        kept: the row of the merged file.
        side: the side that it is of.
        dropped: the other side's row; None where that side deleted it.
    """

    kept: Baseline
    side: Side
    dropped: Baseline | None


def merge(
    base: Mapping[Key, Baseline], ours: Mapping[Key, Baseline], theirs: Mapping[Key, Baseline]
) -> tuple[dict[Key, Baseline], list[ChangedTwice]]:
    """Return the merged rows, and those that both sides changed.

    What one side alone changed or deleted is as that side has it. Of two recordings the newer one is kept, of the same
    day ours; a row that one side deleted and the other changed is kept. `lower` and `upper` are merged by themselves,
    because a recording keeps them.

    Args:
        base: the rows of the last common commit; none where both sides added the file.
        ours, theirs: the rows of the two sides.
    """
    rows: dict[Key, Baseline] = {}
    twice: list[ChangedTwice] = []
    for key in dict.fromkeys((*ours, *theirs)):
        before, one, other = base.get(key), ours.get(key), theirs.get(key)
        if one is not None and other is not None:
            side = Side.THEIRS if other.date > one.date else Side.OURS
            rows[key] = _merged(before, one, other, side)
            if any(_both_changed(before and part(before), part(one), part(other)) for part in _PARTS):
                twice.append(ChangedTwice(rows[key], side, one if side is Side.THEIRS else other))
        elif (changed := one or other) is not None and changed != before:
            rows[key] = changed
            if before is not None:
                twice.append(ChangedTwice(changed, Side.OURS if one else Side.THEIRS, None))
    return rows, twice


def _merged(before: Baseline | None, ours: Baseline, theirs: Baseline, newer: Side) -> Baseline:
    def of(part: Callable[[Baseline], Part]) -> Part:
        old, one, other = before and part(before), part(ours), part(theirs)
        is_theirs = newer is Side.THEIRS if _both_changed(old, one, other) else one == old
        return other if is_theirs else one

    return replace(of(_recording), lower=of(_lower), upper=of(_upper))


def _both_changed(before: object, ours: object, theirs: object) -> bool:
    return before != ours != theirs != before


def _recording(row: Baseline) -> Baseline:
    return replace(row, lower=None, upper=None)


def _lower(row: Baseline) -> float | None:
    return row.lower


def _upper(row: Baseline) -> float | None:
    return row.upper


_PARTS: Final[tuple[Callable[[Baseline], object], ...]] = (_recording, _lower, _upper)
"""What is merged by itself: the recording, and the bounds that a user wrote."""
