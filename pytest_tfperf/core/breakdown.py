"""The breakdown of a step's time: its bottleneck, and how much of the devices' arithmetic rate it uses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_tfperf.core.profile import Input


class Bound(StrEnum):
    """The bottleneck of a training step."""

    INPUT = "input-bound"
    COMPUTE = "compute-bound"
    STEP = "step-bound"  # compute or exchange: GPUs of one process exchange gradients within a step
    COMMUNICATION = "communication-bound"


class Slower(StrEnum):
    """The part of a step that slowed down, where the throughput regressed."""

    PIPELINE = "the input pipeline"
    STEP = "the training step"
    BOTH = "both the input pipeline and the training step"
    TOGETHER = "neither part by itself"
    EXCHANGE = "the communication between the ranks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank that the others wait for.

    Args:
        rank, host: its number, and the host that it runs on.
        slower: how much longer its step takes than the fastest rank's, both without the exchange; 0.4 for 40 %.
    """

    rank: int
    host: str
    slower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """How a measurement's time was spent; None for what is not known.

    Args:
        input: how the steps got their batches.
        bound: the bottleneck.
        pipeline_examples_per_sec: rate of the pipeline while nothing is trained; the median over workers.
        device_data_examples_per_sec: rate of the same training on one batch that stays on the devices; measured only
            after a regression.
        products_fraction: the throughput as a fraction of the rate that the devices' matrix products would allow.
        alone_examples_per_sec: rate of all ranks without the exchange, at the pace of the slowest rank.
        exchange_fraction: fraction of a step that the exchange between the ranks takes.
        straggler: the slowest rank, where the others wait for it.
        slower: the part that slowed down, where the throughput regressed; None otherwise, or where it is not known.
    """

    input: Input
    bound: Bound | None = None
    pipeline_examples_per_sec: float | None = None
    device_data_examples_per_sec: float | None = None
    products_fraction: float | None = None
    alone_examples_per_sec: float | None = None
    exchange_fraction: float | None = None
    straggler: Straggler | None = None
    slower: Slower | None = None
