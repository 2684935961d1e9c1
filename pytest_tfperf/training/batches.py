"""The batches that a model takes, by its Keras inputs, outputs and loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.input_spec import Part, without_lists

_WITHOUT_AN_EMBEDDING = 2  # 0 and 1: a mask, or segment ids


def parts_of(model: keras.Model, target: str) -> Any:
    """(inputs, labels) as a structure of `Part`s, (inputs,) for a compiled model without a loss; None if not known.

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

    A loss stands for all outputs below it; of several losses for one output the first decides. An output without a
    loss has a label, too. What `compile` would refuse is not refused here, because its message is clear.
    """
    if isinstance(loss, dict) and isinstance(outputs, dict):
        return {name: _labels_of_loss(loss.get(name), output) for name, output in outputs.items()}
    if isinstance(loss, list | tuple):
        flat = keras.tree.flatten(outputs)
        is_flat = not any(isinstance(one, list | tuple | dict) for one in loss)
        if is_flat and len(loss) == len(flat):  # by the order of the outputs, also where these are a dict
            labels = [_label(one, output) for one, output in zip(loss, flat, strict=True)]
            return keras.tree.pack_sequence_as(outputs, labels)
        if isinstance(outputs, list | tuple) and len(loss) == len(outputs):
            return [_labels_of_loss(one, output) for one, output in zip(loss, outputs, strict=True)]
        loss = next((one for one in loss if one is not None), None)
    return keras.tree.map_structure(lambda output: _label(loss, output), outputs)


def _label(loss: Any, output: Any) -> Part:
    shape = tuple(output.shape[1:])
    if "sparse" in _name(loss).lower():
        return Part(shape=shape[:-1], dtype=tf.int32, high=shape[-1])
    return Part(shape=shape, dtype=tf.float32)


def _name(loss: Any) -> str:
    return loss if isinstance(loss, str) else str(getattr(loss, "__name__", type(loss).__name__))
