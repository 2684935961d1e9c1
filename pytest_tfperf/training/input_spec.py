"""The batch that an input pipeline must give: its structure, shapes and types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import tensorflow as tf

from pytest_tfperf.errors import WorkloadError


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
