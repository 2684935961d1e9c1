"""What an input pipeline is asked for, and how its batches reach the replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import WorkloadError

Batch = tuple[Any, Any]
"""Images, float32 [batch, height, width, channels]; labels, int32 or int64 [batch]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """What a pipeline must give; each pipeline is a function of one `InputSpec`.

    Args:
        image_shape: height, width and channels, in pixels.
        num_classes: labels are in [0, num_classes).
        batch_size: images per replica and step.
        replicas: how many of this process's replicas take a batch in each step.
        seed: the same seed gives the same images and labels; each rank has a seed of its own.
        data_dir: the folder that --tfperf-data-dir names; "" if it names none.
        num_input_pipelines: how many ranks read, each by a pipeline of its own (`tf.distribute.InputContext` has the
            same names).
        input_pipeline_id: this rank's place among them, from 0.
    """

    image_shape: tuple[int, int, int]
    num_classes: int
    batch_size: int
    replicas: int
    seed: int
    data_dir: str = ""
    num_input_pipelines: int = 1
    input_pipeline_id: int = 0

    @property
    def signature(self) -> tuple[tf.TensorSpec, tf.TensorSpec]:
        """The specs of a batch's images and labels, as `tf.data.Dataset.from_generator` takes them."""
        return (
            tf.TensorSpec((self.batch_size, *self.image_shape), tf.float32, name="images"),
            tf.TensorSpec((self.batch_size,), tf.int32, name="labels"),
        )

    def synthetic(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """One batch of noise in [-1, 1), the range of scaled photographs, and random labels; NumPy arrays."""
        rng = np.random.default_rng(self.seed)
        images = rng.random((self.batch_size, *self.image_shape), np.float32)
        images *= 2
        images -= 1
        return images, rng.integers(0, self.num_classes, self.batch_size, np.int32)


@dataclass(frozen=True, slots=True)
class PipelineOnly:
    """What a pipeline returns to be measured by itself: its batches are fetched, and nothing is trained on them."""

    inputs: tf.data.Dataset | Batch


def checked(inputs: Any, spec: InputSpec) -> tf.data.Dataset | Batch | PipelineOnly:
    """A pipeline's result, ready for `feed`.

    A dataset of unknown length is made to fail when it ends, and batches of unknown shape when they differ from `spec`.

    Raises:
        WorkloadError: neither a dataset nor a pair, batches of another shape or type, or a dataset that ends.
    """
    if isinstance(inputs, PipelineOnly):
        return PipelineOnly(checked(inputs.inputs, spec))
    if not isinstance(inputs, tf.data.Dataset):
        if not isinstance(inputs, tuple) or len(inputs) != 2:
            kind = type(inputs).__name__
            raise WorkloadError(f"it returned {kind}, not a tf.data.Dataset or a tuple (images, labels)")
        arrays = [np.asarray(part) for part in inputs]
        _require_signature(tuple(tf.TensorSpec(array.shape, array.dtype) for array in arrays), spec)
        return inputs
    _require_signature(inputs.element_spec, spec)
    count = int(inputs.cardinality())
    if count >= 0:
        raise WorkloadError(f"its dataset ends after {count} batch(es); a run needs an endless one: add .repeat()")
    shapes = [s.shape for s in spec.signature]
    if [s.shape for s in inputs.element_spec] != shapes:
        inputs = inputs.map(
            lambda *batch: tuple(tf.ensure_shape(part, s) for part, s in zip(batch, shapes, strict=True))
        )
    # In each step tf.distribute asks a dataset that may end whether it has; a dataset asserted as endless just fails.
    return inputs.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def feed(
    strategy: tf.distribute.Strategy, inputs: tf.data.Dataset | Batch, *, copied: bool | None = None
) -> Callable[[], Any]:
    """A function that gives a step its batches, one for each replica; call it in the compiled step.

    A dataset is read by one iterator, a batch for each replica in turn, and prefetched to the replica's device.
    `copied` says whether batches are copied to a device's own memory; None: if the strategy trains on GPUs.
    """
    if not isinstance(inputs, tf.data.Dataset):
        on_devices = placed(strategy, inputs)
        return lambda: on_devices
    if copied is None:
        copied = any("GPU" in device for device in strategy.extended.worker_devices)
    if copied:
        fetched = iter(strategy.distribute_datasets_from_function(lambda _: inputs))
        return lambda: next(fetched)
    # CPU devices share the host's memory; tf.distribute's iterator would copy nevertheless, for 0.15 ms a step.
    ahead = iter(inputs.prefetch(len(strategy.extended.worker_devices)))
    return lambda: strategy.experimental_distribute_values_from_function(lambda _: next(ahead))


@contextmanager
def naming_its_end(workload: Workload) -> Iterator[None]:
    """Replace TensorFlow's error if a `checked` dataset ends in the block.

    Raises:
        WorkloadError: it ended.
    """
    try:
        yield
    except tf.errors.FailedPreconditionError as error:
        if (ended := dataset_ended(workload, error)) is None:
            raise
        raise ended from error


def dataset_ended(workload: Workload, error: Exception) -> WorkloadError | None:
    """The error to raise if `error` is that of a `checked` dataset at its end; None for any other."""
    if "infinite number of elements" not in str(error):
        return None
    return WorkloadError(
        f"input_pipeline {workload.input_pipeline!r}: its dataset ended; a run needs an endless one: "
        "add .repeat(), or make the generator endless"
    )


def placed(strategy: tf.distribute.Strategy, batch: Batch) -> Any:
    """The batch, copied once to each replica's device; labels as int64.

    TensorFlow keeps a GPU's int32 tensors in the host's memory, and would copy the labels in each step.
    """
    with tf.device("CPU:0"):
        images, labels = (tf.convert_to_tensor(part) for part in batch)
        labels = tf.cast(labels, tf.int64)

    devices = strategy.extended.worker_devices  # this process's; replicas are counted over all ranks

    def copy(context: tf.distribute.ValueContext) -> Any:
        with tf.device(devices[context.replica_id_in_sync_group % len(devices)]):
            return tf.identity(images), tf.identity(labels)

    return strategy.experimental_distribute_values_from_function(copy)


def _require_signature(found: Any, spec: InputSpec) -> None:
    wanted = spec.signature
    fits = (
        isinstance(found, tuple)
        and len(found) == 2
        and all(isinstance(part, tf.TensorSpec) for part in found)
        and all(part.shape.is_compatible_with(want.shape) for part, want in zip(found, wanted, strict=True))
        and found[0].dtype == tf.float32
        and found[1].dtype in (tf.int32, tf.int64)
    )
    if not fits:
        raise WorkloadError(f"its batches are {found}, not (images, labels) as in {wanted} (labels: int32 or int64)")
