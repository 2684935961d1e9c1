"""What a session knows of its comparisons with another side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

RUNS_OF_A_COMPARISON: Final = 6
"""Runs that most comparisons take: two in each of the least pairs that decide."""


class ComparedTests:
    """Which tests were compared with the other side, where a session has one.

    Attributes:
        are_wanted: whether each check is a comparison.
        alone: of each test whose other side had nothing to compare with, the reasons of its checks.
    """

    def __init__(self) -> None:
        self.are_wanted = False
        self.alone: dict[str, list[str]] = {}

    def measured_alone(self, test: str, why: str) -> None:
        """A check of the test had nothing to compare with."""
        reasons = self.alone.setdefault(test, [])
        reasons += [] if why in reasons else [why]

    def seconds_of(self, tests: Sequence[str], history: History) -> Mapping[str, float]:
        """Seconds that a run of each test took last; or its comparison, or would take by the time of its last run."""
        runs = history.seconds_of(tests)
        if not self.are_wanted:
            return runs
        guesses = {test: RUNS_OF_A_COMPARISON * seconds for test, seconds in runs.items()}
        return guesses | history.seconds_of_comparisons(tests)

    def are_missing(self, results: Iterable[Comparison | Measurement]) -> bool:
        """Whether checks were to be compared, and none was; a `throughput.compare` knows no other side."""
        return self.are_wanted and not any(isinstance(one, Comparison) and one.against_other_side for one in results)

    def lines(self, results: Iterable[Comparison | Measurement]) -> list[str]:
        """A line for each reason why a test was measured alone, and one if nothing was compared."""
        lines = [f"{test}: measured, not compared: {why}" for test, reasons in self.alone.items() for why in reasons]
        return [*lines, "NOTHING WAS COMPARED, so the session ends with 6"] if self.are_missing(results) else lines
