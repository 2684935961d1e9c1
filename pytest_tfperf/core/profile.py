"""What a worker measures after its last window: each part of its step by itself, and a few steps under the profiler."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MOST_KEPT = 50
"""Operations that a measurement keeps; a large model has thousands."""

MOST_NAMED = 10
"""Operations that a message names."""

# Of the largest growth. Every operation's time varies a little, and one added layer must not be lost among them.
_WORTH_NAMING = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTime:
    """One operation of a step, over all devices and threads of a process.

    Args:
        name: in the graph, without the loop and the replica that it belongs to: "resnet20_1/conv2d_1/convolution".
        type: TensorFlow's or XLA's, "Conv2D"; "kernel" where only a GPU kernel is known.
        seconds: its own time in one step, without the operations that ran inside it.
        count: how often it ran in one step.
    """

    name: str
    type: str
    seconds: float
    count: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """An operation that takes longer than when the baseline was recorded.

    Args:
        name, type: as in `OpTime`.
        before_seconds, seconds: its own time in one step, then and now.
        is_at_most: it was not among the operations kept then, so it took `before_seconds` at most.
    """

    name: str
    type: str
    before_seconds: float
    seconds: float
    is_at_most: bool = False

    @property
    def growth_seconds(self) -> float:
        """What it adds to a step."""
        return self.seconds - self.before_seconds


def largest(ops: Sequence[OpTime]) -> tuple[OpTime, ...]:
    """The operations with most time of their own, `MOST_KEPT` at most."""
    return tuple(sorted(ops, key=lambda op: (-op.seconds, op.name, op.type))[:MOST_KEPT])


def grown(now: Sequence[OpTime], before: Sequence[OpTime]) -> tuple[Growth, ...]:
    """The operations whose time grew most, `MOST_NAMED` at most.

    An operation is known by its name: TensorFlow may compute the same one by another kernel.

    Args:
        now, before: the largest of each, as `largest` gives them.
    """
    least = before[-1].seconds if len(before) >= MOST_KEPT else 0.0
    then, types = _by_name(before), {op.name: op.type for op in reversed(now)}
    found = [
        Growth(
            name=name,
            type=types[name],
            before_seconds=then.get(name, least),
            seconds=seconds,
            is_at_most=name not in then and least > 0,
        )
        for name, seconds in _by_name(now).items()
    ]
    in_order = sorted(found, key=lambda one: (-one.growth_seconds, one.name))
    smallest = _WORTH_NAMING * max(0.0, in_order[0].growth_seconds) if in_order else 0.0
    return tuple(one for one in in_order[:MOST_NAMED] if one.growth_seconds > smallest)


def _by_name(ops: Sequence[OpTime]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for op in ops:
        seconds[op.name] = seconds.get(op.name, 0.0) + op.seconds
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What one process traced; it crosses the wire.

    Args:
        host: where it ran, as TensorFlow names it.
        steps: traced.
        ops: every operation that ran.
        xspace: the profiler's XSpace message, compressed with zlib and in base64; "" where it is too large to send.
        fault: why `xspace` is empty.
    """

    host: str
    steps: int
    ops: tuple[OpTime, ...]
    xspace: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a measurement keeps.

    Args:
        folder: where the trace lies, relative to pytest's rootdir if it is inside; "" where there is none.
        logdir: the folder of all traces, for TensorBoard.
        fault: why there is no trace.
        steps: traced.
        ops: the operations with most time of their own; of several ranks those of rank 0.
        grown: the operations whose time grew most since the baseline was recorded.
    """

    folder: str = ""
    logdir: str = ""
    fault: str = ""
    steps: int = 0
    ops: tuple[OpTime, ...] = ()
    grown: tuple[Growth, ...] = ()

    @property
    def command(self) -> str:
        """Opens the trace."""
        return f"tensorboard --logdir {shlex.quote(self.logdir)}"


class Input(StrEnum):
    """How a step gets its batches."""

    RESIDENT = "resident"  # one batch lies on each device, and is used again in every step
    FETCHED = "fetched"
    ALONE = "alone"  # fetched, and nothing is trained on them
    OWN = "own"  # not known: the training is a user's object


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """How long one rank of several takes for a step without the exchange.

    Args:
        host: where it runs.
        seconds: of such a step, while the other ranks do the same.
    """

    host: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProfile:
    """One worker's measurements; None for what could not be measured.

    Args:
        input: how its steps get their batches.
        pipeline_examples_per_sec: the rate of the steps' own pipeline, over all replicas, while nothing is trained;
            None if no batches are fetched.
        pipeline_core_seconds_per_example: CPU time that this takes, of the cores that train; None if GPUs train.
        cores: the cores that train; None if GPUs train.
        forward_multiply_adds: of one example (one token where these are counted), in convolutions and matrix products.
        products_multiply_adds_per_sec: what the devices together reach in large matrix products of the workload's
            precision; measured on one of them, once a session.
        exchanges: whether GPUs or nodes exchange gradients within a step; how long that takes is known of `ranks` only.
        ranks: by rank, if several train together.
    """

    input: Input
    pipeline_examples_per_sec: float | None = None
    pipeline_core_seconds_per_example: float | None = None
    cores: int | None = None
    forward_multiply_adds: int | None = None
    products_multiply_adds_per_sec: float | None = None
    exchanges: bool = False
    ranks: tuple[RankStep, ...] = ()
