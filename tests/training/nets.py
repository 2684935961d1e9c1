"""Small models, as a user would write them: some that work, and one for each fault."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers

from pytest_tfperf import FusedBatchNormalization

SHAPE = (8, 8, 3)
CLASSES = 4


def _model(*between: Any) -> keras.Model:
    return keras.Sequential([keras.Input(SHAPE), *between, layers.Flatten(), layers.Dense(CLASSES)])


def plain() -> keras.Model:
    return _model(layers.Conv2D(6, 3, padding="same", activation="relu"))


def normalised() -> keras.Model:
    return _model(layers.Conv2D(6, 3, use_bias=False), FusedBatchNormalization(), layers.ReLU())


def with_state() -> keras.Model:
    return _model(layers.Conv2D(6, 3, use_bias=False), layers.BatchNormalization(), layers.Dropout(0.5, seed=1))


def dropping() -> keras.Model:
    return _model(layers.Dropout(0.5, seed=1))


def not_a_model() -> str:
    return "resnet"


def unbuilt() -> keras.Model:
    return keras.Sequential([layers.Dense(3)])


def features() -> keras.Model:
    image = keras.Input((6,))
    return keras.Model(image, {"one": layers.Dense(6)(image), "other": layers.Dense(2)(image)})


def any_size() -> keras.Model:
    return keras.Sequential([keras.Input((None, None, 3)), layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)])


def broken() -> keras.Model:
    raise ZeroDivisionError("no such depth")


class _Watching(layers.Layer):
    """Keeps the mean of the last batch that it saw, and counts in Python, so once for each trace."""

    traces = 0

    def build(self, _: Any) -> None:
        self.last = self.add_weight(shape=(), trainable=False, name="last", initializer="zeros")

    def call(self, inputs: Any) -> Any:
        self.traces += 1
        self.last.assign(keras.ops.mean(inputs))
        return inputs


def watching() -> keras.Model:
    return _model(_Watching())


class _Failing(layers.Layer):
    """Fails when it runs, not when it is traced."""

    def call(self, inputs: Any) -> Any:
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_sum(inputs) > 1e30, [inputs])]):
            return tf.identity(inputs)


def failing() -> keras.Model:
    return _model(_Failing())


class _Unused(layers.Layer):
    """Has a weight, and does nothing with it."""

    def build(self, _: Any) -> None:
        self.unused = self.add_weight(shape=(2,), name="unused")

    def call(self, inputs: Any) -> Any:
        return inputs


def with_an_unused_weight() -> keras.Model:
    return _model(_Unused())


number = 7
