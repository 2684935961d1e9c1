"""Two sets of figures that were measured at different times, compared: sessions, exports or revisions of baselines.

Not to be confused with a `Comparison`, whose sides were measured interleaved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.noise import Noise


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One workload on one side.

    Args:
        machine: the machine's key, "" where the source does not say.
        key: workload id and topology.
        unit: what is counted.
        log_rate: natural logarithm of the throughput.
        runs: fresh runs that it rests on.
        error: standard error of one run's logarithm from its windows; 0 where it isn't known.
        noise: between fresh runs and sessions; None where the source knows none.
        name: what the test calls the workload; "" for no name of its own.
        environment: software and settings, name -> version.
    """

    machine: str
    key: Key
    unit: str
    log_rate: float
    runs: int
    error: float = 0.0
    noise: Noise | None = None
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


class Movement(StrEnum):
    """Whether a workload moved by more than noise explains; the values are what a table shows."""

    SLOWER = "slower"
    FASTER = "faster"
    NONE = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One workload on both sides.

    Args:
        a, b: its figures.
        ratio: b / a.
        low, high: its 95 % confidence interval.
        noise: the change in its direction, a positive fraction, that noise explains beyond what all have in common.
        movement: whether it moved by more than that.
    """

    a: Figure
    b: Figure
    ratio: float
    low: float
    high: float
    noise: float
    movement: Movement


@dataclass(frozen=True, slots=True, kw_only=True)
class SideComparison:
    """All workloads of two sides.

    Args:
        ratios: the workloads that both sides have: slower ones first, then faster ones.
        common: the change that all have in common, a fraction; None where too few workloads show it.
        common_low, common_high: its 95 % confidence interval; 0 without one.
        only_a, only_b: the figures that the other side lacks.
        other_units: workloads that count different things on both sides.
    """

    ratios: tuple[Ratio, ...]
    common: float | None
    common_low: float
    common_high: float
    only_a: tuple[Figure, ...]
    only_b: tuple[Figure, ...]
    other_units: tuple[tuple[Figure, Figure], ...]

    @property
    def moved(self) -> tuple[Ratio, ...]:
        """Those that moved by more than noise explains."""
        return tuple(one for one in self.ratios if one.movement is not Movement.NONE)

    def is_slower_than(self, tolerance: float) -> bool:
        """Whether a workload, or what all have in common, is slower by more than a fraction and than noise explains.

        What all have in common does not count in a workload's own change, as in a session.
        """
        least = (1 - tolerance) * (1 + (self.common or 0.0))
        alone = any(one.ratio < least for one in self.ratios if one.movement is Movement.SLOWER)
        return alone or (self.common is not None and self.common_high < -tolerance)
