"""How many steps a run takes, in tf_cnn_benchmarks' words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_tfperf.errors import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much a run measures.

    Args:
        steps: the most steps that are timed (its `num_batches`).
        warmup_steps: the least steps before them that are not timed (its `num_warmup_batches`).
        max_seconds: timing ends here even where steps are left, but not before three windows: fewer have no error.
        counts_readings: what a user's command prints is counted, in the place of steps.
        until_end: a user's command is read to its end, whatever `steps` says.

    Raises:
        WorkloadError: no steps to time, or a negative warm-up.
    """

    steps: int = 100
    warmup_steps: int = 10
    max_seconds: float = math.inf
    counts_readings: bool = False
    until_end: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            what = "reading" if self.counts_readings else "step"
            raise WorkloadError(f"{what}s={self.steps!r}: at least one {what} must be timed")
        if not isinstance(self.warmup_steps, int) or self.warmup_steps < 0:
            raise WorkloadError(f"warmup_steps={self.warmup_steps!r}: give a whole number of steps, 0 or more")


ONE_WINDOW = Plan(steps=1, warmup_steps=0)
"""What a smoke run measures: does the test start at all?"""
