"""The batches that a model takes, by its Keras inputs, outputs and loss; and the examples or tokens in a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import Unit, Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.input_spec import Part, described, without_lists
from pytest_tfperf.training.inputs import Batch, spec_of_batch

_WITHOUT_AN_EMBEDDING = 2  # 0 and 1: a mask, or segment ids


def parts_of(model: keras.Model, target: str) -> Any:
    """(inputs, labels) as a structure of `Part`s; (inputs,) for a compiled model without a loss; None if not known.

    Labels follow the loss: whole numbers for a sparse one and for a model that is not compiled, else numbers from 0 to
    1 in the shape of the outputs.

    Args:
        model: a user's; it may be compiled.
        target: its function, for messages.

    Raises:
        WorkloadError: a model that is not compiled, and gives anything but logits.
    """
    inputs, outputs = ends_of(model)
    if not model.compiled:
        labels = _labels_of_logits(target, inputs, outputs)
        return _inputs(model, inputs), labels
    if inputs is None:
        return None
    if model.loss is None:
        return (_inputs(model, inputs),)
    if isinstance(model.loss, dict) and not isinstance(outputs, dict):
        outputs = dict(zip(model.output_names, keras.tree.flatten(outputs), strict=True))
    return _inputs(model, inputs), without_lists(_labels_of_loss(model.loss, outputs))


def ends_of(model: keras.Model) -> tuple[Any, Any]:
    """The structures of the model's symbolic inputs and outputs; None and None if it has no keras.Input layers."""
    try:
        if isinstance(model, keras.Sequential):  # it has no `input`
            return model.inputs[0], model.outputs[0]
        return model.input, model.output
    except (AttributeError, ValueError):
        return None, None


def _inputs(model: keras.Model, inputs: Any) -> Any:
    sizes = {id(layer.input): layer.input_dim for layer in _embeddings(model)}

    def part(tensor: Any) -> Part:
        dtype = tf.as_dtype(tensor.dtype)
        shape = tuple(tensor.shape[1:])
        if dtype.is_integer:
            return Part(shape=shape, dtype=dtype, high=sizes.get(id(tensor), _WITHOUT_AN_EMBEDDING), name=tensor.name)
        return Part(shape=shape, dtype=dtype, low=-1, name=tensor.name)

    return without_lists(keras.tree.map_structure(part, inputs))


def _embeddings(model: keras.Model) -> Iterator[Any]:
    for layer in model.layers:
        if isinstance(layer, keras.Model):
            yield from _embeddings(layer)
        elif isinstance(layer, keras.layers.Embedding):
            yield layer


def _labels_of_logits(target: str, inputs: Any, outputs: Any) -> Part:
    wanted = (
        "a model that is not compiled maps its keras.Input layers to logits [batch, ..., classes]: return such a "
        "model, or call model.compile with an optimizer and your own loss"
    )
    if inputs is None:
        raise WorkloadError(f"model {target!r} returned a model that isn't built of keras.Input layers; {wanted}")
    shape = getattr(outputs, "shape", None)
    if shape is None or len(shape) < 2 or None in shape[1:]:
        shown = keras.tree.map_structure(lambda tensor: tuple(tensor.shape), outputs)
        raise WorkloadError(f"model {target!r} gives {shown}; {wanted}, and only the batch may be of unknown size")
    return Part(shape=tuple(shape[1:-1]), dtype=tf.int32, high=shape[-1], name="labels")


def _labels_of_loss(loss: Any, outputs: Any) -> Any:
    """A structure like the outputs', for a loss in one of the ways in which `compile` takes it.

    A loss applies to all outputs below it; of several losses for an output the first decides. An output without a loss
    has a label, too. Losses that `compile` refuses are not refused here: its message is clear.
    """
    if isinstance(loss, dict) and isinstance(outputs, dict):
        return {name: _labels_of_loss(loss.get(name), output) for name, output in outputs.items()}
    if isinstance(loss, list | tuple):
        flat = keras.tree.flatten(outputs)
        is_flat = not any(isinstance(each, list | tuple | dict) for each in loss)
        if is_flat and len(loss) == len(flat):  # by the order of the outputs, also where these are a dict
            labels = [_label(each, output) for each, output in zip(loss, flat, strict=True)]
            return keras.tree.pack_sequence_as(outputs, labels)
        if isinstance(outputs, list | tuple) and len(loss) == len(outputs):
            return [_labels_of_loss(each, output) for each, output in zip(loss, outputs, strict=True)]
        loss = next((each for each in loss if each is not None), None)
    return keras.tree.map_structure(lambda output: _label(loss, output), outputs)


def _label(loss: Any, output: Any) -> Part:
    shape = tuple(output.shape[1:])
    if "sparse" in _name(loss).lower():
        return Part(shape=shape[:-1], dtype=tf.int32, high=shape[-1])
    return Part(shape=shape, dtype=tf.float32)


def _name(loss: Any) -> str:
    return loss if isinstance(loss, str) else str(getattr(loss, "__name__", type(loss).__name__))


class Counted(NamedTuple):
    """The number of units in a replica's batch, and the unit."""

    per_replica: int
    unit: str


def count(workload: Workload, inputs: tf.data.Dataset | Batch, model: keras.Model | None = None) -> Counted:
    """Count a batch of `inputs`: tokens if the workload says so, else images or examples.

    Tokens are the elements of an input [batch, length, ...] in its first two dimensions. `tokens_of` names it; without
    a name all inputs that have a length must have the same one.

    Args:
        workload: names the unit.
        inputs: made by `loading.load_pipeline`.
        model: names the inputs of a batch that has no names.

    Raises:
        WorkloadError: tokens are to be counted, and it is not clear which array holds them.
    """
    batch = spec_of_batch(inputs)
    if workload.unit is Unit.TOKENS:
        taken = batch[0] if isinstance(batch, tuple) else batch
        return Counted(workload.batch_size * _length(workload, list(_named(taken, model))), "tokens")
    first = tf.nest.flatten(batch)[0]
    return Counted(workload.batch_size, "images" if first.shape.rank == 4 else "examples")


class _Input(NamedTuple):
    """An array of a batch; `names` are the model's name for it, if known, its keys from the outside in, and its key."""

    names: tuple[str, ...]
    spec: tf.TensorSpec


def _named(inputs: Any, model: keras.Model | None) -> Iterator[_Input]:
    arrays = list(_arrays(inputs, ()))
    ends = [] if model is None or isinstance(inputs, dict) else keras.tree.flatten(ends_of(model)[0])
    by_model = [end.name for end in ends] if len(ends) == len(arrays) else [None] * len(arrays)
    for (keys, spec), name in zip(arrays, by_model, strict=True):
        own = ("-".join(keys), keys[-1]) if keys else ("0",)
        yield _Input(own if name is None else (name, *own), spec)


def _arrays(inputs: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tf.TensorSpec]]:
    """Each array with its keys in dicts and positions in tuples, in the order of the batch."""
    if isinstance(inputs, dict | tuple):
        for key, part in inputs.items() if isinstance(inputs, dict) else enumerate(inputs):
            yield from _arrays(part, (*keys, str(key)))
    else:
        yield keys, inputs


def _length(workload: Workload, inputs: list[_Input]) -> int:
    name, chosen = workload.tokens_of, inputs
    shown = "the batch has " + ", ".join(f"{each.names[0]!r}: {described(each.spec)}" for each in inputs)
    if name:
        chosen = [each for each in inputs if name in each.names]
        if len(chosen) != 1:
            number = "several inputs are" if chosen else "no input is"
            raise WorkloadError(f"{number} named {name!r}, as tokens_of says; {shown}")
    lengths = {int(each.spec.shape[1]): each.names[0] for each in chosen if len(each.spec.shape) > 1}
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
