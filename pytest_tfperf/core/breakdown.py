"""Where a measurement's time went: whether its input was the limit, and what of the devices' arithmetic it used."""

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
"""Training that takes this much of what its pipeline gives by itself waits for it: both are measured to a few per cent,
at different moments."""

MOST_OF_THE_CORES = 0.5
"""Where pipeline and training share the cores, the one that takes more of them is the limit."""

TRAINING_PASSES = 3
"""Forward, and backward to the inputs and to the weights: each as many multiply-adds."""


class Bound(StrEnum):
    """What more of would make it faster."""

    INPUT = "input-bound"
    COMPUTE = "compute-bound"


class Slower(StrEnum):
    """Which part of a regressed step lost its throughput."""

    PIPELINE = "the input pipeline"
    STEP = "the training step"
    BOTH = "both the input pipeline and the training step"
    TOGETHER = "neither part by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Figures of one measurement; None is what is not known.

    Args:
        input: how the steps came by their batches.
        bound: the limit.
        pipeline_images_per_sec: what the pipeline gives by itself; the median of the workers'.
        device_data_images_per_sec: what the same training gives on one batch that lies on the devices; measured after
            a regression only.
        multiply_adds_per_image: of a step.
        products_fraction: of the devices' measured rate of matrix products.
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
    """What the trial's workers found out, held against the throughput; None where none was asked, as in a log."""
    known = [run.step_profile for run in runs if run.step_profile is not None]
    if not known:
        return None
    work = _median(known, lambda parts: parts.forward_multiply_adds)
    rate = _median(known, lambda parts: parts.products_multiply_adds_per_sec)
    return Breakdown(
        input=known[0].input,
        bound=_bound(known, images_per_sec),
        pipeline_images_per_sec=_median(known, lambda parts: parts.pipeline_images_per_sec),
        device_data_images_per_sec=device_data_images_per_sec,
        multiply_adds_per_image=None if work is None else round(work * passes(workload)),
        products_fraction=products_fraction(work, rate, images_per_sec, workload),
    )


def passes(workload: Workload) -> int:
    """How many times a step of it takes the multiply-adds of a forward pass."""
    return 1 if workload.forward_only else TRAINING_PASSES


def products_fraction(
    forward_multiply_adds: float | None, rate: float | None, images_per_sec: float, workload: Workload
) -> float | None:
    """The share that `images_per_sec` takes of a rate of matrix products; None where either isn't known."""
    if forward_multiply_adds is None or rate is None:
        return None
    return forward_multiply_adds * passes(workload) * images_per_sec / rate


def slower_part(found: Breakdown, images_per_sec: float, reference: float) -> Slower | None:
    """Which part lost its throughput, where `images_per_sec` fell below `reference`; None where that is not known.

    No part was ever slower than the whole: when the reference was measured, each gave at least as much by itself. A
    part that gives less tonight has slowed down. The line is drawn midway, as all three figures are of short runs.
    """
    if found.input is not Input.FETCHED:
        return Slower.STEP if found.input is Input.RESIDENT else Slower.PIPELINE
    pipeline, step = found.pipeline_images_per_sec, found.device_data_images_per_sec
    if pipeline is None or step is None:
        return None
    midway = math.sqrt(images_per_sec * reference)
    match pipeline < midway, step < midway:
        case True, True:
            return Slower.BOTH
        case True, False:
            return Slower.PIPELINE
        case False, True:
            return Slower.STEP
        case _:
            return Slower.TOGETHER


def _bound(known: Sequence[StepProfile], images_per_sec: float) -> Bound | None:
    if known[0].input is not Input.FETCHED:
        return Bound.COMPUTE if known[0].input is Input.RESIDENT else Bound.INPUT
    rate = _median(known, lambda parts: parts.pipeline_images_per_sec)
    if rate is None:
        return None
    cores = _median(known, lambda parts: parts.cores)
    busy = _median(known, lambda parts: parts.pipeline_core_seconds_per_image)
    share = 0.0 if cores is None or busy is None else busy * images_per_sec / cores
    waits = images_per_sec >= AT_THE_PIPELINES_RATE * rate
    return Bound.INPUT if waits or share > MOST_OF_THE_CORES else Bound.COMPUTE


def _median(known: Sequence[StepProfile], fact: Callable[[StepProfile], float | None]) -> float | None:
    told = [value for parts in known if (value := fact(parts)) is not None]
    return statistics.median(told) if told else None
