"""The breakdown of a step's time: whether the input was the limit, and how much of the arithmetic rate was used."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_tfperf.core.run import Run
from pytest_tfperf.core.step_profile import Input, StepProfile
from pytest_tfperf.core.workload import Workload

AT_THE_PIPELINES_RATE = 0.9
"""Training that reaches this fraction of its pipeline's own rate waits for it. Both rates are measured to a few per
cent, at different times."""

MOST_OF_THE_CORES = 0.5
"""Where pipeline and training share the cores, the input is the limit if the pipeline takes more than this fraction."""


class Bound(StrEnum):
    """What limits the throughput."""

    INPUT = "input-bound"
    COMPUTE = "compute-bound"


class Slower(StrEnum):
    """What slowed down in a step that regressed."""

    PIPELINE = "the input pipeline"
    STEP = "the training step"
    BOTH = "both the input pipeline and the training step"
    TOGETHER = "neither part by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Where one measurement's time went; None is what is not known.

    Args:
        input: how the steps got their batches.
        bound: what limits the throughput.
        pipeline_images_per_sec: what the pipeline gives while nothing is trained; the median over workers.
        device_data_images_per_sec: what the same training gives on one batch that stays on the devices; measured after
            a regression only.
        multiply_adds_per_image: of a whole step, forward and backward.
        products_fraction: images/s as a fraction of what the devices' measured rate of matrix products allows.
    """

    input: Input
    bound: Bound | None = None
    pipeline_images_per_sec: float | None = None
    device_data_images_per_sec: float | None = None
    multiply_adds_per_image: int | None = None
    products_fraction: float | None = None


def breakdown(
    runs: Sequence[Run], images_per_sec: float, workload: Workload, device_data_images_per_sec: float | None = None
) -> Breakdown | None:
    """The breakdown of runs that gave `images_per_sec`; None if none of them was profiled, as in a log."""
    profiles = [run.step_profile for run in runs if run.step_profile is not None]
    if not profiles:
        return None
    work = _median(profiles, lambda profile: profile.forward_multiply_adds)
    rate = _median(profiles, lambda profile: profile.products_multiply_adds_per_sec)
    return Breakdown(
        input=profiles[0].input,
        bound=_bound(profiles, images_per_sec),
        pipeline_images_per_sec=_median(profiles, lambda profile: profile.pipeline_images_per_sec),
        device_data_images_per_sec=device_data_images_per_sec,
        multiply_adds_per_image=None if work is None else round(work * passes(workload)),
        products_fraction=products_fraction(work, rate, images_per_sec, workload),
    )


def passes(workload: Workload) -> int:
    """How many times a step takes the multiply-adds of a forward pass.

    Training takes them again for the gradients of the inputs, and for those of the weights.
    """
    return 1 if workload.forward_only else 3


def products_fraction(
    forward_multiply_adds: float | None, rate: float | None, images_per_sec: float, workload: Workload
) -> float | None:
    """The fraction of a rate of matrix products that `images_per_sec` needs; None if work or rate is unknown."""
    if forward_multiply_adds is None or rate is None:
        return None
    return forward_multiply_adds * passes(workload) * images_per_sec / rate


def slower_part(found: Breakdown, images_per_sec: float, reference: float) -> Slower | None:
    """What slowed down if the throughput fell from `reference` to `images_per_sec`; None if that is not known.

    When the reference was measured, pipeline and training step by themselves each gave at least as much as both
    together. A part that now gives less has slowed down. The threshold is the geometric mean of the two throughputs,
    because all figures come from short runs.
    """
    if found.input is not Input.FETCHED:
        return Slower.STEP if found.input is Input.RESIDENT else Slower.PIPELINE
    pipeline, step = found.pipeline_images_per_sec, found.device_data_images_per_sec
    if pipeline is None or step is None:
        return None
    threshold = math.sqrt(images_per_sec * reference)
    match pipeline < threshold, step < threshold:
        case True, True:
            return Slower.BOTH
        case True, False:
            return Slower.PIPELINE
        case False, True:
            return Slower.STEP
        case _:
            return Slower.TOGETHER


def _bound(profiles: Sequence[StepProfile], images_per_sec: float) -> Bound | None:
    if profiles[0].input is not Input.FETCHED:
        return Bound.COMPUTE if profiles[0].input is Input.RESIDENT else Bound.INPUT
    rate = _median(profiles, lambda profile: profile.pipeline_images_per_sec)
    if rate is None:
        return None
    cores = _median(profiles, lambda profile: profile.cores)
    core_seconds = _median(profiles, lambda profile: profile.pipeline_core_seconds_per_image)
    share = 0.0 if cores is None or core_seconds is None else core_seconds * images_per_sec / cores
    waits = images_per_sec >= AT_THE_PIPELINES_RATE * rate
    return Bound.INPUT if waits or share > MOST_OF_THE_CORES else Bound.COMPUTE


def _median(profiles: Sequence[StepProfile], figure: Callable[[StepProfile], float | None]) -> float | None:
    known = [value for profile in profiles if (value := figure(profile)) is not None]
    return statistics.median(known) if known else None
