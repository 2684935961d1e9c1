"""What a worker found out about its own time after its last window: what its step is made of, each part by itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Input(StrEnum):
    """How a step comes by its batches."""

    RESIDENT = "resident"  # one batch lies on each device, and is used again in every step
    FETCHED = "fetched"
    ALONE = "alone"  # fetched, and nothing is trained on them
    OWN = "own"  # the training is a user's object, and only that knows


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStep:
    """What one rank of several needs for a step by itself.

    Args:
        host: where it runs.
        seconds: of a step in which it exchanges nothing with the others, which do the same at the same time.
    """

    host: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StepProfile:
    """One worker's; None is what it could not find out.

    Args:
        input: how its steps come by their batches.
        pipeline_examples_per_sec: what the pipeline of these very steps gave, over all replicas, while nothing was
            trained; only where batches are fetched.
        pipeline_core_seconds_per_example: CPU time that this took, of the cores that train; None where GPUs train.
        cores: those that train; None where GPUs do.
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
