"""The limit of a training step, and the part of the step that slowed down, from the profiles of its runs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.measurement import MATMUL, Measurement, recorded_with
from pytest_tfperf.core.profile import Bound, Breakdown, Input, Slower, StepProfile, Straggler
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.workload import Workload

AT_THE_PIPELINES_RATE = 0.9
"""Training that reaches this fraction of its pipeline's own rate waits for the pipeline. Both rates are measured to a
few per cent, at different times."""

MOST_OF_THE_CORES = 0.5
"""Where pipeline and training share the cores, the input is the limit if the pipeline takes more than this fraction."""

MOST_OF_THE_STEP = 0.5
"""The exchange between ranks is the limit of a step where it takes more than this fraction of it."""

STRAGGLES = 0.1
"""A rank whose step alone takes this fraction longer than that of the fastest rank is a straggler: the others wait."""


def breakdown(
    runs: Sequence[Run], examples_per_sec: float, workload: Subject, device_data_examples_per_sec: float | None = None
) -> Breakdown | None:
    """Return the breakdown of runs that gave `examples_per_sec`; None without profiles: for a log, or a command."""
    profiles = [run.step_profile for run in runs if run.step_profile is not None]
    if not profiles or isinstance(workload, Command):
        return None
    alone = _alone(runs)
    exchange = None if alone is None else max(0.0, 1 - examples_per_sec / alone)
    work = _median_of(profiles, "forward_multiply_adds")
    rate = _median_of(profiles, "products_multiply_adds_per_sec")
    return Breakdown(
        input=profiles[0].input,
        bound=_bound(profiles, examples_per_sec, exchange),
        alone_examples_per_sec=alone,
        exchange_fraction=exchange,
        straggler=_straggler(profiles),
        pipeline_examples_per_sec=_median_of(profiles, "pipeline_examples_per_sec"),
        device_data_examples_per_sec=device_data_examples_per_sec,
        products_fraction=products_fraction(work, rate, examples_per_sec, workload),
    )


_MATMUL_NOISE = 0.2  # a busy machine's sessions, on two cores with a load average of 15, differ by 14 %


def matmul_rate(runs: Sequence[Run]) -> float | None:
    """Return the devices' rate of matrix products in multiply-adds a second, the median over runs; None if unknown."""
    profiles = [run.step_profile for run in runs if run.step_profile is not None]
    return _median_of(profiles, "products_multiply_adds_per_sec")


def matmul_change(measurements: Iterable[Measurement]) -> float | None:
    """Return the median change of the matmul rate since the tests' rows were recorded; None if it is within noise."""
    changes = []
    for m in measurements:
        row, now = m.verdict.baseline if m.verdict else None, matmul_rate(m.runs)
        with suppress(ValueError, ZeroDivisionError):
            if now is not None and row is not None and (then := recorded_with(row).get(MATMUL)):
                changes.append(now / float(then) - 1)
    change = _median(changes)
    return change if change is not None and abs(change) > _MATMUL_NOISE else None


def passes(workload: Workload) -> int:
    """Return how many times a step computes the multiply-adds of a forward pass.

    Training computes as many for the gradients of the inputs, and as many for the gradients of the weights.
    """
    return 1 if workload.forward_only else 3


def products_fraction(
    forward_multiply_adds: float | None, rate: float | None, examples_per_sec: float, workload: Workload
) -> float | None:
    """Return the fraction of a rate of matrix products that `examples_per_sec` needs; None if either is unknown."""
    if forward_multiply_adds is None or rate is None:
        return None
    return forward_multiply_adds * passes(workload) * examples_per_sec / rate


def of_a_slowdown(measured: Breakdown, examples_per_sec: float, expected: float) -> Breakdown:
    """Add the part that slowed down, where the throughput fell from `expected` to `examples_per_sec`."""
    return replace(measured, slower=slower_part(measured, examples_per_sec, expected))


def slower_part(measured: Breakdown, examples_per_sec: float, expected: float) -> Slower | None:
    """Return the part that slowed down if the throughput fell from `expected` to `examples_per_sec`; None if not known.

    When `expected` was measured, pipeline and training step each reached at least this throughput by themselves. A part
    that now falls below it has slowed down. The threshold is the geometric mean of the two throughputs, because all
    figures come from short runs.
    """
    threshold = math.sqrt(examples_per_sec * expected)
    if measured.alone_examples_per_sec is not None:
        return _slower_of_ranks(measured, measured.alone_examples_per_sec, threshold)
    if measured.input is Input.OWN:
        return None
    if measured.input is not Input.FETCHED:
        return Slower.STEP if measured.input is Input.RESIDENT else Slower.PIPELINE
    pipeline, step = measured.pipeline_examples_per_sec, measured.device_data_examples_per_sec
    if pipeline is None or step is None:
        return None
    if pipeline < threshold:
        return Slower.BOTH if step < threshold else Slower.PIPELINE
    return Slower.STEP if step < threshold else Slower.TOGETHER


def _slower_of_ranks(measured: Breakdown, alone: float, threshold: float) -> Slower | None:
    """Return the part that slowed down in a job of several ranks, which give `alone` examples/s without the exchange.

    When the expected throughput was measured, the ranks were faster without the exchange, but how much faster is not
    known. So the exchange is named only if it takes most of the step, and the step only if it is too slow by itself.
    """
    if measured.pipeline_examples_per_sec is not None and measured.pipeline_examples_per_sec < threshold:
        return Slower.BOTH if alone < threshold else Slower.PIPELINE
    if alone < threshold:
        return Slower.STEP
    return Slower.EXCHANGE if measured.bound is Bound.COMMUNICATION and measured.straggler is None else None


def _alone(runs: Sequence[Run]) -> float | None:
    """Examples/s of all ranks without the exchange, at the slowest rank's pace; the median over runs."""
    return _median(
        [
            run.examples_per_step / max(rank.seconds for rank in run.step_profile.ranks)
            for run in runs
            if run.step_profile is not None and run.step_profile.ranks
        ]
    )


def _straggler(profiles: Sequence[StepProfile]) -> Straggler | None:
    """The rank that is slowest in the median over runs, if it is slower than the fastest by more than `STRAGGLES`."""
    runs = [profile.ranks for profile in profiles if profile.ranks]
    if not runs or len({len(ranks) for ranks in runs}) > 1:
        return None
    seconds = [statistics.median(rank.seconds for rank in ranks) for ranks in zip(*runs, strict=True)]
    rank = seconds.index(max(seconds))
    slower = seconds[rank] / min(seconds) - 1
    return Straggler(rank=rank, host=runs[0][rank].host, slower=slower) if slower > STRAGGLES else None


def _bound(profiles: Sequence[StepProfile], examples_per_sec: float, exchange: float | None) -> Bound | None:
    if exchange is not None and exchange > MOST_OF_THE_STEP:
        return Bound.COMMUNICATION
    if profiles[0].input is Input.OWN:
        return None
    step = Bound.STEP if exchange is None and profiles[0].exchanges else Bound.COMPUTE
    if profiles[0].input is not Input.FETCHED:
        return step if profiles[0].input is Input.RESIDENT else Bound.INPUT
    rate = _median_of(profiles, "pipeline_examples_per_sec")
    if rate is None:
        return None
    cores = _median_of(profiles, "cores")
    core_seconds = _median_of(profiles, "pipeline_core_seconds_per_example")
    share = 0.0 if cores is None or core_seconds is None else core_seconds * examples_per_sec / cores
    waits = examples_per_sec >= AT_THE_PIPELINES_RATE * rate
    return Bound.INPUT if waits or share > MOST_OF_THE_CORES else step


def _median_of(profiles: Iterable[StepProfile], name: str) -> float | None:
    """Return the median of a field of the profiles that know it."""
    return _median([value for profile in profiles if (value := getattr(profile, name)) is not None])


def _median(known: Sequence[float]) -> float | None:
    return statistics.median(known) if known else None
