"""Models that are not from images to logits, as their users would write them, and pipelines for them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from pytest_tfperf import InputSpec
from pytest_tfperf.training.models.transformer import bert_tiny

WORDS, LENGTH = 50, 12


def sentences() -> keras.Model:
    """Token ids to logits; not compiled."""
    ids = keras.Input((LENGTH,), dtype="int32", name="ids")
    return keras.Model(ids, layers.Dense(3)(layers.Flatten()(layers.Embedding(WORDS, 4)(ids))))


def tagger() -> keras.Model:
    """A label for each token; not compiled."""
    ids = keras.Input((LENGTH,), dtype="int32", name="ids")
    return keras.Model(ids, layers.Dense(5)(layers.Embedding(WORDS, 4)(ids)))


def two_inputs() -> keras.Model:
    """Two inputs by name to two outputs, each with a loss of its own, by Adam."""
    ids = keras.Input((LENGTH,), dtype="int32", name="ids")
    price = keras.Input((2,), name="price")
    both = layers.Concatenate()([layers.Flatten()(layers.Embedding(WORDS, 4)(ids)), price])
    outputs = {"kind": layers.Dense(3, name="kind")(both), "score": layers.Dense(1, name="score")(both)}
    model = keras.Model({"ids": ids, "price": price}, outputs)
    model.compile(
        "adam",
        loss={"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "score": "mse"},
        metrics={"score": ["mae"]},
    )
    return model


def listed() -> keras.Model:
    """The inputs as a list, which Keras also takes by their names."""
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model([a, b], layers.Dense(1)(a + b))
    model.compile("sgd", "mse")
    return model


class Own(keras.Model):
    """No keras.Input, and a `train_step` of its own that reports no "loss"."""

    reports = "error"

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> dict[str, Any]:
        inputs, wanted = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(inputs) - wanted) ** 2)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {self.reports: loss}


class OwnWithLoss(Own):
    reports = "loss"


def _compiled(model: keras.Model, **how: Any) -> keras.Model:
    model.compile("adam", **how)
    return model


def own_step() -> keras.Model:
    return _compiled(OwnWithLoss())


def own_step_without_loss() -> keras.Model:
    return _compiled(Own())


def eager() -> keras.Model:
    return _compiled(Own(), run_eagerly=True)


def several_at_once() -> keras.Model:
    return _compiled(OwnWithLoss(), steps_per_execution=4)


def variable_length() -> keras.Model:
    """Any number of tokens."""
    ids = keras.Input((None,), dtype="int32", name="ids")
    return keras.Model(ids, layers.Dense(3)(layers.GlobalAveragePooling1D()(layers.Embedding(WORDS, 4)(ids))))


def classifier() -> keras.Model:
    """Compiled with Adam, and with a metric, from images."""
    model = keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(4)])
    model.compile(
        keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
    )
    return model


# Pipelines


def lines(spec: InputSpec) -> tuple[Any, Any]:
    """Numbers and their sums."""
    numbers = np.random.default_rng(1).normal(size=(spec.batch_size, 3)).astype(np.float32)
    return numbers, numbers.sum(axis=1, keepdims=True)


def by_name(spec: InputSpec) -> tuple[Any, Any]:
    numbers, sums = lines(spec)
    return {"a": numbers, "b": numbers}, sums


def weighted(spec: InputSpec) -> tf.data.Dataset:
    """Inputs, labels and the weight of each example."""
    numbers, sums = lines(spec)
    batch = ({"a": numbers, "b": numbers}, sums, np.ones(spec.batch_size, np.float32))
    return tf.data.Dataset.from_tensors(batch).repeat()


def padded(spec: InputSpec) -> tf.data.Dataset:
    """Sentences of different lengths, padded to eight words."""
    lengths = tf.data.Dataset.range(3, 7).repeat()
    sentences = lengths.map(lambda n: (tf.ones([n], tf.int32), tf.constant(1)))
    return sentences.padded_batch(spec.batch_size, padded_shapes=([8], []), drop_remainder=True)


def of_any_length(spec: InputSpec) -> tf.data.Dataset:
    lengths = tf.data.Dataset.range(3, 7).repeat()
    return lengths.map(lambda n: (tf.ones([n], tf.int32), 1)).padded_batch(spec.batch_size, drop_remainder=True)


def ragged(spec: InputSpec) -> tf.data.Dataset:
    rows = tf.ragged.constant([[1] * n for n in range(1, spec.batch_size + 1)])
    return tf.data.Dataset.from_tensors((rows, tf.zeros(spec.batch_size, tf.int32))).repeat()


def of_another_batch(spec: InputSpec) -> tuple[Any, Any]:
    return np.zeros((spec.batch_size + 1, LENGTH), np.int32), np.zeros(spec.batch_size + 1, np.int32)


def one_number() -> keras.Model:
    number = keras.Input((), name="number")
    return keras.Model(number, layers.Dense(2)(keras.ops.expand_dims(number, 1)))


def numbers(spec: InputSpec) -> tuple[Any, Any]:
    return np.zeros(spec.batch_size, np.float32), np.zeros(spec.batch_size, np.int32)


def translator() -> keras.Model:
    """Two texts of different lengths, as a list; not compiled."""
    source, target = (keras.Input((n,), dtype="int32", name=name) for n, name in ((12, "source"), (7, "target")))
    words = layers.Embedding(WORDS, 4)
    both = layers.Concatenate(axis=1)([words(source), words(target)])
    return keras.Model([source, target], layers.Dense(3)(layers.GlobalAveragePooling1D()(both)))


def by_key(spec: InputSpec) -> tuple[Any, Any]:
    (source, target), labels = spec.synthetic()
    return {"target": target, "source": source}, labels


class OfNestedTexts(OwnWithLoss):
    """Takes dicts in a dict."""

    def call(self, inputs: Any) -> Any:
        parts = [tf.cast(part, tf.float32) for part in tf.nest.flatten(inputs)]
        return self.dense(tf.concat(parts, axis=1))


def of_nested_texts() -> keras.Model:
    return _compiled(OfNestedTexts())


def nested_texts(spec: InputSpec) -> tuple[Any, Any]:
    source, target = np.ones((spec.batch_size, 12), np.int64), np.ones((spec.batch_size, 7), np.int64)
    return {"source": {"ids": source}, "target": {"ids": target, "mask": target}}, source[:, :1].astype(np.float32)


class Counting:
    unit = "pairs"

    def __init__(self, examples_per_step: int) -> None:
        self.examples_per_step = examples_per_step

    def run(self, steps: int) -> None:
        pass


def counting(batch_size: int, devices: list[str]) -> Counting:
    return Counting(batch_size * len(devices))


def bert_by_adam() -> keras.Model:
    model = bert_tiny()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    return model


class Reading(OwnWithLoss):
    """Its `train_step` reads a number of a tensor, which only eager code can; `how` says by what."""

    how = float

    def train_step(self, data: Any) -> dict[str, Any]:
        logs = super().train_step(data)
        self.how(logs["loss"])
        return logs


class Branching(Reading):
    def how(self, loss: Any) -> Any:
        return 1 if loss > 0 else 2


class ByNumpy(Reading):
    def how(self, loss: Any) -> Any:
        return loss.numpy()


def reading() -> keras.Model:
    return _compiled(Reading())


def branching() -> keras.Model:
    return _compiled(Branching())


def by_numpy() -> keras.Model:
    return _compiled(ByNumpy())
