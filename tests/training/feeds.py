"""Small input pipelines, as a user would write them: some that work, and one for each fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from pytest_tfperf import InputSpec, PipelineOnly


def sliced(spec: InputSpec) -> tf.data.Dataset:
    """One batch for all replicas together, in slices: n replicas see what one sees with n times the batch."""
    rng = np.random.default_rng(spec.seed)
    together = spec.batch_size * spec.replicas
    images = rng.normal(size=(together, *spec.image_shape)).astype(np.float32)
    labels = rng.integers(0, spec.num_classes, together, np.int32)
    return tf.data.Dataset.from_tensor_slices((images, labels)).batch(spec.batch_size, drop_remainder=True).repeat()


SHARE = (0, 1)
"""The replica whose batches `share` gives, and the number of replicas."""


def share(spec: InputSpec) -> tf.data.Dataset:
    """The batches of `sliced` that one of several replicas gets."""
    replica, replicas = SHARE
    return sliced(replace(spec, replicas=replicas)).skip(replica).take(1).repeat()


def numbered(spec: InputSpec) -> tf.data.Dataset:
    """The n-th batch is all n, so that a batch tells how many were taken before."""
    images = tf.data.Dataset.counter(1).map(
        lambda n: tf.fill((spec.batch_size, *spec.image_shape), tf.cast(n, tf.float32))
    )
    return images.map(lambda batch: (batch, tf.zeros(spec.batch_size, tf.int32)))


def learnable(spec: InputSpec) -> tuple[Any, Any]:
    """Each class has a brightness of its own."""
    labels = (np.arange(spec.batch_size) % spec.num_classes).astype(np.int64)
    noise = np.random.default_rng(spec.seed).normal(0, 0.05, (spec.batch_size, *spec.image_shape))
    return (noise + labels[:, None, None, None]).astype(np.float32), labels


def of_unknown_shape(spec: InputSpec) -> tf.data.Dataset:
    return sliced(spec).map(lambda *batch: tuple(tf.py_function(lambda x: x, [x], x.dtype) for x in batch))


def of_two_batches(spec: InputSpec) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(spec.synthetic()).repeat(2)


def generated(spec: InputSpec) -> tf.data.Dataset:
    def batches() -> Iterator[Any]:
        yield from [spec.synthetic()] * 3

    return tf.data.Dataset.from_generator(batches, output_signature=spec.signature)


def generated_only(spec: InputSpec) -> PipelineOnly:
    return PipelineOnly(generated(spec))


def sliced_only(spec: InputSpec) -> PipelineOnly:
    return PipelineOnly(sliced(spec))


def images_alone(spec: InputSpec) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(spec.synthetic()[0]).repeat()


def too_small(spec: InputSpec) -> tuple[Any, Any]:
    images, labels = spec.synthetic()
    return images[:, 1:], labels


def of_bytes(spec: InputSpec) -> tuple[Any, Any]:
    """Whole numbers, as photographs are decoded."""
    images, labels = spec.synthetic()
    return ((images + 1) * 127).astype(np.uint8), labels


def read_as_bytes(spec: InputSpec) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors(of_bytes(spec)).repeat()


def of_floats(spec: InputSpec) -> tuple[Any, Any]:
    """The same numbers as `of_bytes`, in the model's type."""
    images, labels = of_bytes(spec)
    return images.astype(np.float32), labels


def of_doubles(spec: InputSpec) -> tuple[Any, Any]:
    """NumPy's own type."""
    images, labels = of_bytes(spec)
    return images.astype(np.float64), labels


def of_text(spec: InputSpec) -> tuple[Any, Any]:
    images, labels = spec.synthetic()
    return np.full(images.shape, b"a"), labels


def of_fractional_labels(spec: InputSpec) -> tuple[Any, Any]:
    images, labels = spec.synthetic()
    return images, labels.astype(np.float32)


def nothing(spec: InputSpec) -> None:
    return None


def shared(spec: InputSpec) -> tf.data.Dataset:
    """The batches of `sliced` that fall to one rank, where all ranks together see one batch in each step."""
    together = spec.replicas * spec.num_input_pipelines
    own = sliced(replace(spec, replicas=together, seed=spec.seed - spec.input_pipeline_id))
    return own.skip(spec.replicas * spec.input_pipeline_id).take(spec.replicas).repeat()


def same(spec: InputSpec) -> tf.data.Dataset:
    """One batch, the same on all ranks and replicas."""
    one = sliced(replace(spec, replicas=1, seed=spec.seed - spec.input_pipeline_id))
    return one.take(1).repeat()
