"""What changed for good over a history's sessions: of each test by itself, and of the machine as a whole."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_tfperf.core.change import Change
from pytest_tfperf.core.past_result import PastResult


def changes_of(results: Iterable[PastResult]) -> list[Change]:
    """The changes of each machine and of each of its tests, oldest first.

    Args:
        results: of any machines and tests, in any order.
    """
    del results  # the change points follow in the next commits
    return []
