"""One outcome of six, what is accepted, and the numbers that led to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pytest_tfperf.core.baseline import PUBLISHED_TOLERANCE, Baseline, Provenance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import NO_SHIFT, Level, Shift
from pytest_tfperf.judging.noise import Noise


class Outcome(StrEnum):
    """The six outcomes."""

    PASS = "PASS"
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The change that is accepted, as signed fractions; None is unbounded, as ReFrame writes it."""

    lower: float | None = -0.02
    upper: float | None = 0.02

    def __post_init__(self) -> None:
        if self.lower is not None and not -1 < self.lower < 0:
            raise TfperfError(f"tolerance: lower {self.lower!r} must lie between -1 and 0, as -0.05 for 5 % (or None)")
        if self.upper is not None and not 0 < self.upper < math.inf:
            raise TfperfError(f"tolerance: upper {self.upper!r} must be above 0, as 0.05 for 5 % (or None)")

    @classmethod
    def of(cls, value: float | tuple[float | None, float | None] | Self) -> Self:
        """0.05 is (-0.05, 0.05); a pair is lower and upper."""
        if isinstance(value, cls):
            return value
        if isinstance(value, tuple):
            if len(value) != 2:
                raise TfperfError(f"tolerance={value!r}: give one fraction, 0.05, or a pair, (-0.05, None)")
            return cls(*value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise TfperfError(f"tolerance={value!r}: give a fraction between 0 and 1, 0.05 for 5 %")
        return cls(-value, value)

    def within(self, baseline: Baseline) -> Self:
        """This tolerance with the baseline's own bounds in the place of ours where its row has some."""
        lower, upper = baseline.lower, baseline.upper
        if baseline.provenance is Provenance.PUBLISHED:
            lower = -PUBLISHED_TOLERANCE if lower is None else lower
            upper = PUBLISHED_TOLERANCE if upper is None else upper
        return type(self)(
            self.lower if lower is None else (None if math.isinf(lower) else lower),
            self.upper if upper is None else (None if math.isinf(upper) else upper),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One outcome, with the numbers that led to it.

    Args:
        outcome: one of six.
        reason: one sentence.
        baseline: what it was held against; None where there was none.
        floor: the baseline is a document's figure for a weaker machine: only a drop below it counts.
        change: fraction against the reference, -0.13 for 13 % slower.
        lower, upper: images per second between which it passes unremarked tonight; None where unbounded.
        tolerance: what was accepted.
        threshold: the drop, a positive fraction, that so many runs tell from noise: the tolerance, or more.
        fails_at: the same for the runs that decide where a drop is suspected: the confirmed drop that fails.
        noise: what the runs are known to differ by.
        smallest_loss: the loss that would have been caught about 95 times in 100, with as many runs as that takes.
        shift: what all tests of the night have in common.
        credited: what of it was taken out of the drop, a difference of log throughputs.
        level: where the reference is by now, with the good nights after it.
        runs_wanted: fresh runs in all that it would take to decide; 0 when decided.
    """

    outcome: Outcome
    reason: str = ""
    baseline: Baseline | None = None
    floor: bool = False
    change: float | None = None
    lower: float | None = None
    upper: float | None = None
    tolerance: Tolerance | None = None
    threshold: float | None = None
    fails_at: float | None = None
    noise: Noise | None = None
    smallest_loss: float | None = None
    shift: Shift = NO_SHIFT
    credited: float = 0.0
    level: Level | None = None
    runs_wanted: int = 0

    @property
    def waits(self) -> bool:
        """Whether it waits for the other tests of the night: what they have in common is not known yet."""
        return self.shift.waits
