"""What a night's tests have in common: the shift of them all, who made it, and the nights before."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.canary import Moved
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import hodges_lehmann, run_value

PREFIX_WINDOWS = 20
"""The shift is taken from each test's first windows only: values of runs that stopped early on good news are biased."""

LEAST_TESTS = 8
"""Fewer tests can't tell the machine from themselves."""

ORDINARY = 0.03
"""A shift up to this is taken for the night's own; three times what nights differ by on a quiet machine."""

UNFIT = 0.15
"""A machine that lost more than this itself is not the one that the baselines were recorded on."""

NIGHTS_DIFFER = 0.01
"""What nights differ by, as long as a history doesn't tell; with the weight of so many nights:"""
_NIGHTS_EXPECTED = 4

NIGHTS_TO_LEARN = 10
"""So many good nights after a baseline make its level more exact; then it is frozen."""

_NIGHTS_NOT_LEARNT = 3
_ERRORS = 2.0  # standard errors of the canaries' mean: restless ones neither accuse nor acquit


@dataclass(frozen=True, slots=True)
class Level:
    """What a drop is measured from.

    Args:
        offset: the level's log throughput less the committed reference's.
        runs: fresh runs that it rests on.
        nights: in which these ran.
    """

    offset: float
    runs: int
    nights: int = 1


@dataclass(frozen=True, slots=True)
class Night:
    """What an earlier night measured of one workload, against today's reference.

    Args:
        drops: each fresh run's log throughput less the reference's and less what was credited.
        doubtful: the night ended INCONCLUSIVE (or was held): tonight starts with three runs.
        good: the night ended PASS: it says where this workload's level is.
    """

    drops: tuple[float, ...]
    doubtful: bool = False
    good: bool = False

    @property
    def centre(self) -> float:
        """The Hodges-Lehmann median of the runs' drops, as a throughput's images per second are."""
        return hodges_lehmann(self.drops)

    def against(self, level: Level) -> Night:
        """The same night, its drops measured from that level."""
        return replace(self, drops=tuple(drop - level.offset for drop in self.drops))


class Cause(StrEnum):
    """Who made a night's common shift."""

    NIGHT = "night"
    MACHINE = "machine"
    SOFTWARE = "software"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Shift:
    """What all tests of a night have in common, in differences of log throughputs.

    Args:
        common: the median over tests; 0 for too few tests.
        tests: over how many.
        cause: `night` up to `ORDINARY`; beyond it what the canaries say, `unknown` where they can't.
        canaries: how far each canary moved since the baselines, by its name in words.
        waits: the tests that tell are still to come.
    """

    common: float = 0.0
    tests: int = 0
    cause: Cause = Cause.NIGHT
    canaries: Mapping[str, Moved] = field(default_factory=dict)
    waits: bool = False

    @property
    def credited(self) -> float:
        """What is not held against a test: a shift that is the night's or the machine's, and no other."""
        return self.common if self.cause in (Cause.NIGHT, Cause.MACHINE) else 0.0

    @property
    def unfit(self) -> bool:
        """Whether the machine is so much slower than its baselines that nothing can be held against them."""
        return self.cause is Cause.MACHINE and self.common < math.log1p(-UNFIT)


NO_SHIFT = Shift()
"""Of a session with too few tests."""


def shift_of(drops: Collection[float], canaries: Mapping[str, Moved]) -> Shift:
    """The shift of a night whose tests' first windows differ from their references by `drops` (`prefix_drop`).

    A loss of all tests alike is the machine's only where the canaries, which know nothing of TensorFlow, lost at least
    half as much; else it would hide a slower TensorFlow.
    """
    if len(drops) < LEAST_TESTS:
        return NO_SHIFT
    common = statistics.median(drops)
    return Shift(common, len(drops), _cause(common, canaries), canaries)


def level_of(baseline_runs: int, nights: Sequence[Night]) -> Level:
    """The baseline's level, made more exact by the first good nights after it, oldest first in `nights`.

    Five runs leave the reference uncertain by half of what a single run is. The last three nights don't count, as they
    may hold the very loss that is looked for, and after `NIGHTS_TO_LEARN` it is frozen: a level that followed for ever
    would follow a slow decline. A single published figure stays as it is.
    """
    if baseline_runs < 2:
        return Level(0.0, baseline_runs)
    good = [night for night in nights[:-_NIGHTS_NOT_LEARNT] if night.good][:NIGHTS_TO_LEARN]
    drops = [drop for night in good for drop in night.drops]
    return Level(math.fsum(drops) / (baseline_runs + len(drops)), baseline_runs + len(drops), 1 + len(good))


def nights_differ(nights: Sequence[Night], spread: float) -> float:
    """The standard deviation between a test's nights, beyond what its runs explain, where nothing is credited.

    `NIGHTS_DIFFER` is averaged with what the nights show; the last three don't count, as in `level_of`.
    """
    known = nights[:-_NIGHTS_NOT_LEARNT]
    if len(known) < 2:
        return NIGHTS_DIFFER
    explained = spread**2 * statistics.fmean(1 / len(night.drops) for night in known)
    seen = max(statistics.variance(night.centre for night in known) - explained, 0.0)
    weight = len(known) - 1
    return math.sqrt((_NIGHTS_EXPECTED * NIGHTS_DIFFER**2 + weight * seen) / (_NIGHTS_EXPECTED + weight))


def prefix_drop(attempt: Run, baseline: Baseline) -> float:
    """A first run's log throughput over its first windows, less what the reference's runs had over theirs."""
    return prefix(attempt) - math.log(baseline.reference) - baseline.prefix


def prefix(attempt: Run) -> float:
    """A run's log throughput over its first windows alone: clocks fall while a machine warms up."""
    return run_value(replace(attempt, windows=attempt.windows[:PREFIX_WINDOWS], stated_images_per_sec=None)).log_rate


def _cause(common: float, canaries: Mapping[str, Moved]) -> Cause:
    if abs(common) <= -math.log1p(-ORDINARY):
        return Cause.NIGHT
    if not canaries:
        return Cause.UNKNOWN
    way = math.copysign(1, common) * statistics.fmean(canary.by for canary in canaries.values())
    error = math.hypot(*(canary.error for canary in canaries.values())) / len(canaries)
    if way >= abs(common) / 2 and way > _ERRORS * error:
        return Cause.MACHINE
    return Cause.SOFTWARE if way + _ERRORS * error < abs(common) / 2 else Cause.UNKNOWN
