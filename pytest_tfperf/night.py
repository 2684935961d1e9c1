"""What a night's tests have in common: the shift of them all, who made it, and the nights before."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_tfperf.canary import Moved
from pytest_tfperf.throughput import hodges_lehmann
from pytest_tfperf.trial import Attempt

PREFIX_WINDOWS = 20
"""The shift is taken from each test's first windows only: values of runs that stopped early on good news are biased."""

LEAST_TESTS = 8
"""Fewer tests can't tell the machine from themselves."""

ORDINARY = 0.03
"""A shift up to this is taken for the night's own; three times what nights differ by on a quiet machine."""

UNFIT = 0.15
"""A machine that lost more than this itself is not the one that the baselines were recorded on."""

LASTING = 0.015
"""A shift beyond this that each of three nights has is none of any one night's."""

_LASTING_NIGHTS = 3
_ERRORS = 2.0  # standard errors of the canaries' mean: restless ones neither accuse nor acquit


@dataclass(frozen=True, slots=True)
class Night:
    """What an earlier night measured of one workload, against today's reference.

    Args:
        drops: each fresh run's log throughput less the reference's and less what was credited.
        doubtful: the night ended INCONCLUSIVE (or was held): tonight starts with three runs.
        shift: what that night's tests had in common; 0 for too few tests.
        credited: what of it was not held against this one.
    """

    drops: tuple[float, ...]
    doubtful: bool = False
    shift: float = 0.0
    credited: float = 0.0

    @property
    def centre(self) -> float:
        """The Hodges-Lehmann median of the runs' drops, as a throughput's images per second are."""
        return hodges_lehmann(self.drops)

    def crediting(self, credited: float) -> Night:
        """The same night, had this been credited."""
        return replace(self, drops=tuple(drop + self.credited - credited for drop in self.drops), credited=credited)


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


def without_what_lasts(nights: Sequence[Night]) -> Sequence[Night]:
    """The same nights, none of which is credited with what they all have.

    A shift that two nights before and tonight had alike is none of any one night's: where each of three lost more than
    `LASTING`, the least of their shifts is held against the test.
    """
    shifts = [night.shift for night in nights]
    if len(nights) < _LASTING_NIGHTS or max(shifts) > -LASTING:
        return nights
    return [night.crediting(night.shift - max(shifts)) for night in nights]


def prefix_drop(attempt: Attempt, reference: float) -> float:
    """A first run's median log throughput over its first windows, less the reference's."""
    windows = attempt.windows[:PREFIX_WINDOWS]
    rates = [math.log(attempt.images_per_step * w.steps / w.seconds) for w in windows]
    return statistics.median(rates) - math.log(reference)


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
