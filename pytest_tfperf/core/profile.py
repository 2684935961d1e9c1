"""Where a step's time goes: its parts by themselves, its operations under the profiler, and the breakdown of both.

A worker measures the parts after its last window.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MOST_KEPT = 50
"""The most operations that a measurement keeps; a large model has thousands."""

MOST_NAMED = 10
"""The most operations that a message names."""

# A fraction of the largest growth. All operations vary a little, and an added layer must not be lost among them.
_WORTH_NAMING = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """An operation of a step, over all devices and threads of a process."""

    name: str  # in the graph, without the prefix of loop and replica: "resnet20_1/conv2d_1/convolution"
    type: str  # TensorFlow's or XLA's, "Conv2D"; "kernel" where only a GPU kernel is known
    seconds: float  # its own time in a step, without the operations inside it
    count: float  # how often it ran in a step


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """An operation that takes longer than in the baseline's step, or the other side's; the fields are as in `OpTime`.

    If it was not among the operations kept of that, `before_seconds` is an upper bound, and `is_at_most` is true.
    """

    name: str
    type: str
    before_seconds: float
    seconds: float
    is_at_most: bool = False
    before_count: float = 0.0  # how often it ran in a step
    count: float = 0.0

    @property
    def growth_seconds(self) -> float:
        """The time that it adds to a step."""
        return self.seconds - self.before_seconds


def largest(ops: Sequence[OpTime]) -> tuple[OpTime, ...]:
    """Return the operations with most time of their own, `MOST_KEPT` at most."""
    return tuple(sorted(ops, key=lambda op: (-op.seconds, op.name, op.type))[:MOST_KEPT])


def grown(now: Sequence[OpTime], before: Sequence[OpTime]) -> tuple[Growth, ...]:
    """Return the operations whose time grew most, `MOST_NAMED` at most.

    Both are as `largest` returns them. An operation is identified by its name, because TensorFlow may run it by another
    kernel, of another type.
    """
    least = before[-1].seconds if len(before) >= MOST_KEPT else 0.0
    then, types = _by_name(before, "seconds"), {op.name: op.type for op in reversed(now)}
    counts_then, counts = _by_name(before, "count"), _by_name(now, "count")
    growths = [
        Growth(
            name=name,
            type=types[name],
            before_seconds=then.get(name, least),
            seconds=seconds,
            is_at_most=name not in then and least > 0,
            before_count=counts_then.get(name, 0.0),
            count=counts[name],
        )
        for name, seconds in _by_name(now, "seconds").items()
    ]
    in_order = sorted(growths, key=lambda growth: (-growth.growth_seconds, growth.name))
    smallest = _WORTH_NAMING * max(0.0, in_order[0].growth_seconds) if in_order else 0.0
    return tuple(growth for growth in in_order[:MOST_NAMED] if growth.growth_seconds > smallest)


def _by_name(ops: Sequence[OpTime], field: str) -> dict[str, float]:
    sums: dict[str, float] = {}
    for op in ops:
        sums[op.name] = sums.get(op.name, 0.0) + getattr(op, field)
    return sums


MOST_XSPACE_BYTES: Final = 256 * 2**20
"""The most bytes of an XSpace message that is sent; compressed, a message of the wire could hold gigabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The trace of a process, whose host TensorFlow names, as it sends it to the driver; `ops` are all that ran.

    `xspace` is the profiler's XSpace message, compressed with zlib and in base64; where it is too large to send it is
    "", and `fault` says so.
    """

    host: str
    steps: int
    ops: tuple[OpTime, ...]
    xspace: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The profile that a measurement keeps."""

    folder: str = ""  # the trace's folder, relative to pytest's rootdir if it is inside; "" where there is no trace
    logdir: str = ""  # the folder of all traces, for TensorBoard
    fault: str = ""  # why there is no trace
    steps: int = 0
    ops: tuple[OpTime, ...] = ()  # the operations with most time of their own; of several ranks those of rank 0
    # the operations whose time grew most since the baseline was recorded, or over the other side
    grown: tuple[Growth, ...] = ()

    @property
    def command(self) -> str:
        """The command that opens the trace."""
        return f"tensorboard --logdir {shlex.quote(self.logdir)}"


class Input(StrEnum):
    """How a step gets its batches."""

    RESIDENT = "resident"  # each device keeps one batch, and uses it in every step
    FETCHED = "fetched"
    ALONE = "alone"  # fetched, and nothing is trained
    OWN = "own"  # unknown: the training is a user's object


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """The time of a rank, and its host, for a step without the exchange, while no other rank exchanges either."""

    host: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProfile:
    """A worker's measurements of its step; None for what could not be measured."""

    input: Input  # how its steps get their batches
    # the rate of the steps' own pipeline, over all replicas, while nothing is trained; None if no batches are fetched
    pipeline_examples_per_sec: float | None = None
    # CPU time of this pipeline on the cores that train; None if GPUs train
    pipeline_core_seconds_per_example: float | None = None
    cores: int | None = None  # the number of cores that train; None if GPUs train
    # of an example (a token where tokens are counted), in convolutions and matrix products
    forward_multiply_adds: int | None = None
    # rate of all devices in large matrix products of the workload's precision; measured on one device, once a session
    products_multiply_adds_per_sec: float | None = None
    # whether GPUs or nodes exchange gradients within a step; its time is known for `ranks` only
    exchanges: bool = False
    ranks: tuple[RankStep, ...] = ()  # by rank, if several train together


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

    `slower` is how much longer its step takes than the fastest rank's, both without the exchange; 0.4 for 40 %.
    """

    rank: int
    host: str
    slower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """How a measurement's time was spent; None for what is not known."""

    input: Input  # how the steps got their batches
    bound: Bound | None = None
    # rate of the pipeline while nothing is trained; the median over workers
    pipeline_examples_per_sec: float | None = None
    # rate of the same training on one batch that stays on the devices; measured only after a regression
    device_data_examples_per_sec: float | None = None
    # the throughput as a fraction of the rate that the devices' matrix products would allow
    products_fraction: float | None = None
    # rate of all ranks without the exchange, at the pace of the slowest rank
    alone_examples_per_sec: float | None = None
    exchange_fraction: float | None = None  # fraction of a step that the exchange between the ranks takes
    straggler: Straggler | None = None  # the slowest rank, where the others wait for it
    # the part that slowed down, where the throughput regressed; None otherwise, or where it is not known
    slower: Slower | None = None
