"""The result of an input pipeline: checked against the model's inputs, counted, and fed to the replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pytest_tfperf.core.workload import Unit, Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.input_spec import InputSpec, described, ends_of, without_lists

Batch = Any
"""A replica's batch: any structure of arrays that Keras takes, most often (inputs, labels)."""


@dataclass(frozen=True, slots=True)
class PipelineOnly:
    """A pipeline to be measured by itself: its batches are fetched, and nothing is trained on them."""

    inputs: tf.data.Dataset | Batch


def checked(inputs: Any, spec: InputSpec) -> tf.data.Dataset | Batch | PipelineOnly:
    """A pipeline's result, ready for `feed`.

    A dataset of unknown length is made to fail when it ends, and batches of unknown shape when they differ from `spec`.

    Raises:
        WorkloadError: no batches, batches that the model does not take (both specs are shown), batches of no fixed
            shape, or a dataset that ends.
    """
    if isinstance(inputs, PipelineOnly):
        return PipelineOnly(checked(inputs.inputs, spec))
    if not isinstance(inputs, tf.data.Dataset):
        if not isinstance(inputs, tuple | dict):
            kind = type(inputs).__name__
            raise WorkloadError(f"it returned {kind}, not a tf.data.Dataset or a batch such as (images, labels)")
        arrays = tf.nest.map_structure(np.asarray, without_lists(inputs))
        _fixed_shapes(spec_of_batch(arrays), spec)
        return arrays
    shapes = _fixed_shapes(inputs.element_spec, spec)
    count = int(inputs.cardinality())
    if count >= 0:
        raise WorkloadError(f"its dataset ends after {count} batch(es); a run needs an endless one: add .repeat()")
    if not all(part.shape.is_fully_defined() for part in tf.nest.flatten(inputs.element_spec)):
        structure = inputs.element_spec

        def with_shapes(*batch: Any) -> Any:
            shaped = [tf.ensure_shape(part, shape) for part, shape in zip(tf.nest.flatten(batch), shapes, strict=True)]
            return tf.nest.pack_sequence_as(structure, shaped)

        inputs = inputs.map(with_shapes)
    # In each step tf.distribute asks a dataset that may end whether it has; a dataset asserted as endless just fails.
    return inputs.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))


def spec_of_batch(inputs: tf.data.Dataset | Batch | PipelineOnly) -> Any:
    """The structure of a batch, a `tf.TensorSpec` for each array."""
    if isinstance(inputs, PipelineOnly):
        inputs = inputs.inputs
    if isinstance(inputs, tf.data.Dataset):
        return inputs.element_spec
    return tf.nest.map_structure(lambda array: tf.TensorSpec(array.shape, array.dtype), inputs)


def count(workload: Workload, inputs: tf.data.Dataset | Batch, model: keras.Model) -> tuple[int, str]:
    """Count the units in a replica's batch, and name the unit: tokens if the workload says so, else images or examples.

    Tokens are the elements of an input [batch, length, ...] in its first two dimensions. `tokens_of` names it; without
    a name all inputs that have a length must have the same one.

    The model names the inputs of a batch that has no names.

    Raises:
        WorkloadError: tokens are to be counted, and it is not clear which array holds them.
    """
    batch = spec_of_batch(inputs)
    if workload.unit is Unit.TOKENS:
        taken = batch[0] if isinstance(batch, tuple) else batch
        return workload.batch_size * _length(workload, _by_names(taken, model)), "tokens"
    first = tf.nest.flatten(batch)[0]
    return workload.batch_size, "images" if first.shape.rank == 4 else "examples"


def _by_names(inputs: Any, model: keras.Model) -> dict[tuple[str, ...], tf.TensorSpec]:
    """A batch's arrays, each by the model's name for it, if known, its keys from the outside in, and its key."""
    arrays = list(_arrays(inputs, ()))
    ends = [] if isinstance(inputs, dict) else keras.tree.flatten(ends_of(model)[0])
    of_model = [(end.name,) for end in ends] if len(ends) == len(arrays) else [()] * len(arrays)
    return {
        (*name, *(("-".join(keys), keys[-1]) if keys else ("0",))): spec
        for (keys, spec), name in zip(arrays, of_model, strict=True)
    }


def _arrays(inputs: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tf.TensorSpec]]:
    """Each array with its keys in dicts and positions in tuples, in the order of the batch."""
    if isinstance(inputs, dict | tuple):
        for key, part in inputs.items() if isinstance(inputs, dict) else enumerate(inputs):
            yield from _arrays(part, (*keys, str(key)))
    else:
        yield keys, inputs


def _length(workload: Workload, inputs: Mapping[tuple[str, ...], tf.TensorSpec]) -> int:
    name, chosen = workload.tokens_of, inputs
    shown = "the batch has " + ", ".join(f"{names[0]!r}: {described(spec)}" for names, spec in inputs.items())
    if name:
        chosen = {names: spec for names, spec in inputs.items() if name in names}
        if len(chosen) != 1:
            number = "several inputs are" if chosen else "no input is"
            raise WorkloadError(f"{number} named {name!r}, as tokens_of says; {shown}")
    lengths = {int(spec.shape[1]): names[0] for names, spec in chosen.items() if len(spec.shape) > 1}
    if not lengths:
        raise WorkloadError(
            f"unit='tokens' counts the second dimension of an input [batch, length], and "
            f"{repr(name) if name else 'no input'} has {'none' if name else 'one'}; {shown}"
        )
    if len(lengths) > 1:
        raise WorkloadError(
            f"unit='tokens' could count inputs of different lengths; {shown}",
            next_step=f"Name the one that holds the tokens, as in tokens_of={lengths[max(lengths)]!r}",
        )
    return lengths.popitem()[0]


def feed(strategy: tf.distribute.Strategy, inputs: tf.data.Dataset | Batch) -> Callable[[], Any]:
    """A function that gives a step its batches, one for each replica; call it in the compiled step.

    A dataset is read by one iterator, a batch for each replica in turn, and prefetched to the replica's device.
    """
    if not isinstance(inputs, tf.data.Dataset):
        on_devices = placed(strategy, inputs)
        return lambda: on_devices
    if any("GPU" in device for device in strategy.extended.worker_devices):
        return copied(strategy, inputs)
    return shared(strategy, inputs)


def copied(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset) -> Callable[[], Any]:
    """As `feed`, from batches that are copied to each device's own memory."""
    fetched = iter(strategy.distribute_datasets_from_function(lambda _: dataset))
    return lambda: next(fetched)


def shared(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset) -> Callable[[], Any]:
    """As `feed`, from batches that stay in the host's memory, which CPU devices share.

    tf.distribute's iterator would copy them nevertheless, for 0.15 ms a step.
    """
    ahead = iter(dataset.prefetch(len(strategy.extended.worker_devices)))
    return lambda: strategy.experimental_distribute_values_from_function(lambda _: next(ahead))


@contextmanager
def naming_its_end(workload: Workload) -> Iterator[None]:
    """Raise a WorkloadError in place of TensorFlow's error if a `checked` dataset ends in the block."""
    try:
        yield
    except tf.errors.OpError as error:
        if "infinite number of elements" not in str(error):
            raise
        raise WorkloadError(
            f"input_pipeline {workload.input_pipeline!r}: its dataset ended; a run needs an endless one: "
            "add .repeat(), or make the generator endless; if it has one, it is empty: are its files there?"
        ) from error


def placed(strategy: tf.distribute.Strategy, batch: Batch) -> Any:
    """The batch, copied once to each replica's device; int32 arrays as int64.

    TensorFlow keeps a GPU's int32 tensors in the host's memory, and would copy them in each step.
    """
    with tf.device("CPU:0"):
        parts = tf.nest.map_structure(_widened, batch)

    devices = strategy.extended.worker_devices  # this process's; replicas are counted over all ranks

    def copy(context: tf.distribute.ValueContext) -> Any:
        with tf.device(devices[context.replica_id_in_sync_group % len(devices)]):
            return tf.nest.map_structure(tf.identity, parts)

    return strategy.experimental_distribute_values_from_function(copy)


def _widened(part: Any) -> tf.Tensor:
    tensor = tf.convert_to_tensor(part)
    return tf.cast(tensor, tf.int64) if tensor.dtype == tf.int32 else tensor


def _fixed_shapes(given: Any, spec: InputSpec) -> list[tf.TensorShape]:
    """The shapes of a batch's arrays, from the pipeline's spec and the model's."""
    parts = tf.nest.flatten(given)
    if ragged := [part for part in parts if not isinstance(part, tf.TensorSpec)]:
        raise WorkloadError(
            f"its batches hold {type(ragged[0]).__name__.removesuffix('Spec')}s, whose shape changes from batch to "
            "batch: pad them to one shape, as Dataset.padded_batch or RaggedTensor.to_tensor(shape=...) do"
        )
    shapes = [part.shape for part in parts] if spec.parts is None else _merged(given, spec)
    if not all(shape.is_fully_defined() for shape in shapes):
        raise WorkloadError(
            f"its batches have no fixed shape: {described(given)}",
            next_step="Pad them to one shape (Dataset.padded_batch with "
            "padded_shapes), and batch with drop_remainder=True",
        )
    if not parts or shapes[0][:1] != [spec.batch_size]:
        raise WorkloadError(f"its batches are {described(given)}, not of {spec.batch_size} examples each")
    return shapes


def _merged(given: Any, spec: InputSpec) -> list[tf.TensorShape]:
    """The shapes of the pipeline's spec, with sizes that only the model knows."""
    wanted = spec.signature
    inputs, labels = (given[0], given[1:]) if isinstance(given, tuple) and given else (given, ())
    pairs = _pairs(inputs, wanted[0])
    of_labels = _pairs(labels, labels if spec.any_labels else wanted[1:])
    inputs_fit = bool(pairs) and all(_is_taken(part, want) for part, want in pairs)
    labels_fit = spec.any_labels or (  # our own cross-entropy takes whole numbers of any type
        bool(of_labels)
        and all(part.dtype.is_integer and part.shape.is_compatible_with(want.shape) for part, want in of_labels)
    )
    if inputs_fit and labels_fit:
        return [part.shape.merge_with(want.shape) for part, want in [*pairs, *of_labels]]
    if spec.any_inputs:
        return [part.shape for part in tf.nest.flatten(given)]
    raise WorkloadError(
        "its batches do not fit the model",
        f"  the model takes      {described(wanted[0] if spec.any_labels else wanted)}",
        f"  the pipeline gives   {described(inputs if spec.any_labels else given)}",
    )


def _pairs(given: Any, wanted: Any) -> list[tuple[tf.TensorSpec, tf.TensorSpec]]:
    """The arrays of two equal structures, in pairs; [] if they differ. Keras takes a model's inputs by name, too."""
    if isinstance(given, dict) and not isinstance(wanted, dict):
        wanted = {spec.name: spec for spec in tf.nest.flatten(wanted)}
    try:
        tf.nest.assert_same_structure(given, wanted, check_types=False)
    except (ValueError, TypeError):
        return []
    return list(zip(tf.nest.flatten(given), tf.nest.flatten(wanted), strict=True))


def _is_taken(part: tf.TensorSpec, wanted: tf.TensorSpec) -> bool:
    """Whether a model takes this array as the input `wanted`; Keras casts numbers of any type to the input's."""
    dtypes = (part.dtype, wanted.dtype)
    are_numbers = all(dtype.is_floating or dtype.is_integer or dtype.is_bool for dtype in dtypes)
    return (are_numbers or part.dtype == wanted.dtype) and bool(part.shape.is_compatible_with(wanted.shape))
