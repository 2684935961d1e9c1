"""What a batch adds to the throughput: examples, images, or the tokens of one of its arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pytest_tfperf.core.workload import Unit, Workload
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.batches import ends_of
from pytest_tfperf.training.input_spec import described
from pytest_tfperf.training.inputs import Batch, spec_of_batch


class Counted(NamedTuple):
    """What a replica's batch adds to the throughput."""

    per_replica: int
    unit: str


def count(workload: Workload, inputs: tf.data.Dataset | Batch, model: keras.Model | None = None) -> Counted:
    """What a batch of `inputs` counts: tokens if the workload says so, else images or examples.

    Tokens are the elements of an input [batch, length, ...] in its first two dimensions. `tokens_of` names it; without
    a name all inputs that have a length must have the same one.

    Args:
        workload: what to count.
        inputs: made by `loading.load_pipeline`.
        model: names the inputs of a batch that has no names.

    Raises:
        WorkloadError: tokens are to be counted, and it is not plain which array holds them.
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
    shown = "the batch has " + ", ".join(f"{one.names[0]!r}: {described(one.spec)}" for one in inputs)
    if name:
        chosen = [one for one in inputs if name in one.names]
        if len(chosen) != 1:
            number = "several inputs are" if chosen else "no input is"
            raise WorkloadError(f"{number} named {name!r}, as tokens_of says; {shown}")
    lengths = {int(one.spec.shape[1]): one.names[0] for one in chosen if len(one.spec.shape) > 1}
    if not lengths:
        raise WorkloadError(
            f"unit='tokens' counts the second dimension of an input [batch, length], and "
            f"{repr(name) if name else 'no input'} has {'none' if name else 'one'}; {shown}"
        )
    if len(lengths) > 1:
        raise WorkloadError(
            f"unit='tokens' could count inputs of different lengths; {shown}. Name the one that holds "
            f"the tokens, as in tokens_of={lengths[max(lengths)]!r}"
        )
    return lengths.popitem()[0]
