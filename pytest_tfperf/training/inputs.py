"""What an input pipeline is asked for, and how what it returns reaches the replicas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Batch = tuple[Any, Any]
"""Images, float32 [batch, height, width, channels]; labels, int32 [batch]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """What a pipeline has to give.

    Args:
        image_shape: height, width and channels, in pixels.
        num_classes: labels are in [0, num_classes).
        batch_size: images per replica and step.
        replicas: how many replicas take a batch each step.
        seed: the same seed gives the same images and labels.
    """

    image_shape: tuple[int, int, int]
    num_classes: int
    batch_size: int
    replicas: int
    seed: int

    def synthetic(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """One batch of noise in [-1, 1), where scaled photographs lie too, and random labels."""
        rng = np.random.default_rng(self.seed)
        images = rng.random((self.batch_size, *self.image_shape), np.float32) * np.float32(2) - np.float32(1)
        return images, rng.integers(0, self.num_classes, self.batch_size, np.int32)


def feed(strategy: tf.distribute.Strategy, inputs: tf.data.Dataset | Batch) -> Callable[[], Any]:
    """A function that gives the step its batches, one a replica; call it inside the compiled step."""
    if isinstance(inputs, tf.data.Dataset):
        iterator = iter(strategy.distribute_datasets_from_function(lambda _: inputs))
        return lambda: next(iterator)
    placed = _placed(strategy, inputs)
    return lambda: placed


def _placed(strategy: tf.distribute.Strategy, batch: Batch) -> Any:
    """The batch, copied once to each replica's device."""

    def copy(context: tf.distribute.InputReplicationMode) -> Any:
        with tf.device(strategy.extended.worker_devices[context.replica_id_in_sync_group]):
            return tuple(tf.identity(tf.convert_to_tensor(part)) for part in batch)

    return strategy.experimental_distribute_values_from_function(copy)
