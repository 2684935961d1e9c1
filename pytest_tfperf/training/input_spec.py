"""The batches that a model takes, and so an input pipeline must give: their structure, shapes and types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError

_WITHOUT_AN_EMBEDDING = 2  # 0 and 1: a mask, or segment ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An array of a batch.

    Args:
        shape: of one example; None where the model leaves a size open.
        dtype: its type in TensorFlow.
        low, high: synthetic values are drawn from [low, high).
        name: of the model's input.
    """

    shape: tuple[int | None, ...]
    dtype: tf.DType
    low: float = 0
    high: float = 1
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """The argument of every input pipeline: the batches that it must give.

    Args:
        parts: the structure of a batch, a `Part` for each array: (inputs, labels), with the model's inputs. None where
            the model does not define them: then the pipeline decides.
        batch_size: examples per replica and step.
        replicas: the number of this process's replicas; each takes a batch in each step.
        seed: the same seed gives the same synthetic batch; each rank has a seed of its own.
        any_labels: the model's own loss decides which labels it takes; the labels in `parts` are only an example.
        any_inputs: the model's own `train_step` decides which inputs it takes; `parts` has the inputs of its `call`.
        data_dir: the folder that --tfperf-data-dir names; "" without that option.
        num_input_pipelines: the number of ranks, each of which reads by a pipeline of its own
            (`tf.distribute.InputContext` has the same names).
        input_pipeline_id: this rank among them, from 0.
    """

    parts: Any
    batch_size: int
    replicas: int
    seed: int
    any_labels: bool = False
    any_inputs: bool = False
    data_dir: str = ""
    num_input_pipelines: int = 1
    input_pipeline_id: int = 0

    @classmethod
    def of_images(cls, image_shape: tuple[int, int, int], num_classes: int, **more: Any) -> InputSpec:
        """Images, float32 [height, width, channels] in [-1, 1), the range of scaled photographs, and their labels."""
        images = Part(shape=image_shape, dtype=tf.float32, low=-1, name="images")
        return cls(parts=(images, Part(shape=(), dtype=tf.int32, high=num_classes, name="labels")), **more)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels, in pixels.

        Raises:
            WorkloadError: the model takes no images.
        """
        return cast(tuple[int, int, int], self._images_and_labels()[0].shape)

    @property
    def num_classes(self) -> int:
        """Labels are in [0, num_classes).

        Raises:
            WorkloadError: the model takes no images.
        """
        return int(self._images_and_labels()[1].high)

    @property
    def signature(self) -> Any:
        """The `tf.TensorSpec` of each array of a batch, as `tf.data.Dataset.from_generator` takes them.

        Raises:
            WorkloadError: the model does not say what it takes.
        """
        return tf.nest.map_structure(
            lambda part: tf.TensorSpec((self.batch_size, *part.shape), part.dtype, part.name), self._known_parts()
        )

    def synthetic(self) -> Any:
        """A batch of random numbers, as NumPy arrays.

        Raises:
            WorkloadError: the model does not say what it takes, or leaves a size open.
        """
        rng = np.random.default_rng(self.seed)
        return tf.nest.map_structure(lambda part: self._drawn(part, rng), self._known_parts())

    def _drawn(self, part: Part, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        if None in part.shape or not (part.dtype.is_floating or part.dtype.is_integer or part.dtype.is_bool):
            raise WorkloadError(
                f"synthetic data can't be made of {part.dtype.name} {[None, *part.shape]}: give keras.Input a fixed "
                "shape of numbers, or name an input_pipeline of your own"
            )
        shape = (self.batch_size, *cast(tuple[int, ...], part.shape))
        if part.dtype.is_floating:
            values = rng.random(shape, np.float32)
            values *= part.high - part.low
            values += part.low
            return values.astype(part.dtype.as_numpy_dtype, copy=False)
        return rng.integers(int(part.low), int(part.high), shape, np.int64).astype(part.dtype.as_numpy_dtype)

    def _known_parts(self) -> Any:
        if self.parts is None:
            raise WorkloadError(
                "the model does not say what it takes: give it keras.Input layers, or name an input_pipeline of your "
                "own"
            )
        return self.parts

    def _images_and_labels(self) -> tuple[Part, Part]:
        match self.parts:
            case (Part(shape=(int(), int(), int())), Part(shape=())) as both:
                return cast(tuple[Part, Part], both)
        raise WorkloadError(f"this pipeline gives images and their labels, and the model takes {described(self.parts)}")


def parts_of(model: keras.Model, target: str) -> Any:
    """(inputs, labels) as a structure of `Part`s; (inputs,) for a compiled model without a loss; None if not known.

    Labels follow the loss: whole numbers for a sparse one and for a model that is not compiled, else numbers from 0 to
    1 in the shape of the outputs.

    Raises:
        WorkloadError: a model that is not compiled, and gives anything but logits; names its function, `target`.
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
        is_flat = not any(isinstance(part, list | tuple | dict) for part in loss)
        if is_flat and len(loss) == len(flat):  # by the order of the outputs, also where these are a dict
            labels = [_label(part, output) for part, output in zip(loss, flat, strict=True)]
            return keras.tree.pack_sequence_as(outputs, labels)
        if isinstance(outputs, list | tuple) and len(loss) == len(outputs):
            return [_labels_of_loss(part, output) for part, output in zip(loss, outputs, strict=True)]
        loss = next((part for part in loss if part is not None), None)
    return keras.tree.map_structure(lambda output: _label(loss, output), outputs)


def _label(loss: Any, output: Any) -> Part:
    shape = tuple(output.shape[1:])
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    if "sparse" in name.lower():
        return Part(shape=shape[:-1], dtype=tf.int32, high=shape[-1])
    return Part(shape=shape, dtype=tf.float32)


def without_lists(structure: Any) -> Any:
    """The structure with tuples in place of lists: tf.data would make one array of a list."""
    if isinstance(structure, dict):
        return {name: without_lists(part) for name, part in structure.items()}
    if isinstance(structure, list | tuple):
        return tuple(map(without_lists, structure))
    return structure


def described(parts: Any) -> str:
    """A structure of parts or specs in a few words: "{'ids': int32 [128]}"."""
    if parts is None:
        return "what it does not say"
    return str(tf.nest.map_structure(lambda part: _Word(part.dtype.name, list(part.shape)), parts))


class _Word:
    """A type and a shape that print without quotes inside a structure."""

    def __init__(self, dtype: str, shape: list[Any]) -> None:
        self._text = f"{dtype} {shape}"

    def __repr__(self) -> str:
        return self._text
