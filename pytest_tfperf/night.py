"""What a night's tests have in common: the shift of the whole machine, and the nights before."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection
from dataclasses import dataclass

from pytest_tfperf.throughput import hodges_lehmann
from pytest_tfperf.trial import Attempt

PREFIX_WINDOWS = 20
"""The shift is taken from each test's first windows only: values of runs that stopped early on good news are biased."""

LEAST_TESTS = 8
"""Fewer tests can't tell the machine from themselves."""


@dataclass(frozen=True, slots=True)
class Night:
    """What an earlier night measured of one workload, against today's reference.

    Args:
        drops: each fresh run's log throughput less the reference's and less that night's common shift.
        doubtful: the night ended INCONCLUSIVE (or was held): tonight starts with three runs.
    """

    drops: tuple[float, ...]
    doubtful: bool = False

    @property
    def centre(self) -> float:
        """The Hodges-Lehmann median of the runs' drops, as a throughput's images per second are."""
        return hodges_lehmann(self.drops)


def common_shift(drops: Collection[float]) -> float | None:
    """The median over tests of what `prefix_drop` gives of each; None for fewer than eight tests."""
    return statistics.median(drops) if len(drops) >= LEAST_TESTS else None


def prefix_drop(attempt: Attempt, reference: float) -> float:
    """A first run's median log throughput over its first windows, less the reference's."""
    windows = attempt.windows[:PREFIX_WINDOWS]
    rates = [math.log(attempt.images_per_step * w.steps / w.seconds) for w in windows]
    return statistics.median(rates) - math.log(reference)
