"""The breakdown of a step's time: whether the input was the limit, and how much of the arithmetic rate was used."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_tfperf.core.profile import Input


class Bound(StrEnum):
    """What limits the throughput."""

    INPUT = "input-bound"
    COMPUTE = "compute-bound"
    STEP = "step-bound"  # compute or exchange: GPUs of one process exchange gradients within a step
    COMMUNICATION = "communication-bound"


class Slower(StrEnum):
    """What slowed down in a step that regressed."""

    PIPELINE = "the input pipeline"
    STEP = "the training step"
    BOTH = "both the input pipeline and the training step"
    TOGETHER = "neither part by itself"
    EXCHANGE = "the communication between the ranks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """A rank that the others wait for.

    Args:
        rank, host: which it is, and where.
        slower: how much longer its step takes than that of the fastest rank, each by itself; 0.4 for 40 %.
    """

    rank: int
    host: str
    slower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Where one measurement's time went; None is what is not known.

    Args:
        input: how the steps got their batches.
        bound: what limits the throughput.
        pipeline_examples_per_sec: what the pipeline gives while nothing is trained; the median over workers.
        device_data_examples_per_sec: what the same training gives on one batch that stays on the devices; measured
            after a regression only.
        products_fraction: the throughput as a fraction of what the devices' measured rate of matrix products allows.
        alone_examples_per_sec: what all ranks would give without the exchange, at the pace of the slowest one.
        exchange_fraction: the part of a step that the exchange between the ranks takes.
        straggler: the slowest rank, where the others wait for it.
        slower: the part that slowed down in a throughput that regressed; None where none did, or it is not known which.
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
