"""Synthetic images from Python: what a data loader outside TensorFlow's runtime costs."""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from pytest_tfperf.training.inputs import Batch, InputSpec

_BATCHES_AHEAD_EACH = 2


def python(spec: InputSpec) -> tf.data.Dataset:
    """Batches that NumPy makes in Python, each anew in memory, handed over through a queue.

    As tensorpack's `--fake-location python`: the pixels are drawn once, so that the hand-over is measured and not
    NumPy's random numbers. The queue holds 2 batches for each replica; those on the devices come on top.
    """
    images, labels = spec.synthetic()

    def batches() -> Iterator[Batch]:
        while True:
            yield images.copy(), labels.copy()

    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec.signature)
    return dataset.prefetch(_BATCHES_AHEAD_EACH * spec.replicas)
