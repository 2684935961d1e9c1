"""Small models, as a user would write them: right ones, and one for each fault."""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from pytest_tfperf.training.layers import FusedBatchNormalization

SHAPE = (8, 8, 3)
CLASSES = 4


def _model(*between: Any) -> keras.Model:
    return keras.Sequential([keras.Input(SHAPE), *between, layers.Flatten(), layers.Dense(CLASSES)])


def plain() -> keras.Model:
    return _model(layers.Conv2D(6, 3, padding="same", activation="relu"))


def normalised() -> keras.Model:
    return _model(layers.Conv2D(6, 3, use_bias=False), FusedBatchNormalization(), layers.ReLU())


def normalised_by_keras() -> keras.Model:
    return _model(layers.Conv2D(6, 3, use_bias=False), layers.BatchNormalization(), layers.ReLU())


def dropping() -> keras.Model:
    return _model(layers.Dropout(0.5, seed=1))


def not_a_model() -> str:
    return "resnet"


def unbuilt() -> keras.Model:
    return keras.Sequential([layers.Dense(3)])


def feature_map() -> keras.Model:
    return keras.Sequential([keras.Input(SHAPE), layers.Conv2D(6, 3)])


def any_size() -> keras.Model:
    return keras.Sequential([keras.Input((None, None, 3)), layers.GlobalAveragePooling2D(), layers.Dense(CLASSES)])


def broken() -> keras.Model:
    raise ZeroDivisionError("no such depth")


class _Idle(layers.Layer):
    """Has a weight, and does nothing with it."""

    def build(self, _: Any) -> None:
        self.unused = self.add_weight(shape=(2,), name="unused")

    def call(self, inputs: Any) -> Any:
        return inputs


def with_an_idle_weight() -> keras.Model:
    return _model(_Idle())


number = 7
