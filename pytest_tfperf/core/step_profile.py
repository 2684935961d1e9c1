"""What a worker measures after its last window: each part of its step by itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
        ranks: by rank, if several train together.
    """

    input: Input
    pipeline_examples_per_sec: float | None = None
    pipeline_core_seconds_per_example: float | None = None
    cores: int | None = None
    forward_multiply_adds: int | None = None
    products_multiply_adds_per_sec: float | None = None
    ranks: tuple[RankStep, ...] = ()
