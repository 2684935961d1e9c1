"""Compiled models in the forms that Keras' own documentation has: several losses, steps of their own, state."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from pytest_tfperf import InputSpec

SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


# Two outputs, "score" of one number and "kind" of four classes, as each structure, and their losses in each form


def _two_outputs(structure: Any, **how: Any) -> keras.Model:
    numbers = keras.Input((3,), name="numbers")
    score, kind = layers.Dense(1, name="score")(numbers), layers.Dense(4, name="kind")(numbers)
    model = keras.Model(numbers, structure(score, kind))
    model.compile("sgd", **how)
    return model


def _as_list(score: Any, kind: Any) -> Any:
    return [score, kind]


def _as_dict(score: Any, kind: Any) -> Any:
    return {"score": score, "kind": kind}


def losses_in_a_list() -> keras.Model:
    return _two_outputs(_as_list, loss=["mse", SPARSE], loss_weights=[1.0, 0.5], metrics=[["mae"], ["accuracy"]])


def losses_in_a_tuple() -> keras.Model:
    return _two_outputs(lambda *both: both, loss=("mse", SPARSE), loss_weights=(1.0, 0.5), metrics=["mae", "accuracy"])


def losses_by_name() -> keras.Model:
    losses, weights = {"score": "mse", "kind": SPARSE}, {"score": 1.0, "kind": 0.5}
    return _two_outputs(_as_dict, loss=losses, loss_weights=weights, metrics={"kind": ["accuracy"]})


def losses_by_the_outputs_names() -> keras.Model:
    losses, weights = {"score": "mse", "kind": SPARSE}, {"score": 1.0, "kind": 0.5}
    return _two_outputs(_as_list, loss=losses, loss_weights=weights, metrics={"kind": ["accuracy"]})


def listed_losses_of_named_outputs() -> keras.Model:
    """By the order of the names: "kind" is first."""
    return _two_outputs(_as_dict, loss=[SPARSE, "mse"], loss_weights=[0.5, 1.0])


def nested_losses() -> keras.Model:
    return _two_outputs(
        lambda score, kind: {"all": [score, kind], "best": score},
        loss={"all": ["mse", SPARSE], "best": "mae"},
        loss_weights={"all": [1.0, 0.5], "best": 2.0},
        metrics={"all": [["mae"], ["accuracy"]], "best": ["mae"]},
    )


def losses_in_lists_in_a_list() -> keras.Model:
    return _two_outputs(lambda score, kind: [score, [kind, score]], loss=["mse", [SPARSE, "mae"]])


def an_output_without_loss() -> keras.Model:
    return _two_outputs(_as_list, loss=[None, SPARSE])


def a_name_without_loss() -> keras.Model:
    return _two_outputs(_as_dict, loss={"kind": SPARSE})


def one_loss_in_a_list() -> keras.Model:
    return _two_outputs(lambda score, _: score, loss=["mse"])


def two_losses_of_one_output() -> keras.Model:
    return _two_outputs(lambda _, kind: kind, loss=[SPARSE, "sparse_categorical_crossentropy"])


def too_many_losses() -> keras.Model:
    return _two_outputs(_as_list, loss=["mse", "mse", "mse"])


# Steps of their own, without a `call` of the batch


class Gan(keras.Model):
    """Two models and two optimizers, and no `call`: keras.io/examples/generative/dcgan_overriding_train_step."""

    def __init__(self) -> None:
        super().__init__()
        self.discriminator = keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(1)])
        self.generator = keras.Sequential([keras.Input((5,)), layers.Dense(192), layers.Reshape((8, 8, 3))])
        self.seeds = keras.random.SeedGenerator(1)
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer: Any, g_optimizer: Any) -> None:
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer

    @property
    def metrics(self) -> list[Any]:
        return [self.d_loss, self.g_loss]

    def train_step(self, images: Any) -> dict[str, Any]:
        size = ops.shape(images)[0]
        noise = keras.random.normal((size, 5), seed=self.seeds)
        made, real = ops.ones((size, 1)), ops.zeros((size, 1))
        with tf.GradientTape(persistent=True) as tape:
            generated = self.generator(noise)
            d_loss = self._loss(generated, made) + self._loss(images, real)
            g_loss = self._loss(generated, real)
        _apply(self.d_optimizer, tape, d_loss, self.discriminator)
        _apply(self.g_optimizer, tape, g_loss, self.generator)
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {one.name: one.result() for one in self.metrics}

    def _loss(self, images: Any, wanted: Any) -> Any:
        return ops.mean(keras.losses.binary_crossentropy(wanted, self.discriminator(images), from_logits=True))


def _apply(optimizer: Any, tape: Any, loss: Any, model: keras.Model) -> None:
    weights = model.trainable_weights
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


class GanOfNoise(Gan):
    """Its `call` takes noise, where its step takes images."""

    def call(self, noise: Any) -> Any:
        return self.generator(noise)


class Vae(keras.Model):
    """No `call`: keras.io/examples/generative/vae."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(4)])
        self.decoder = keras.Sequential([keras.Input((2,)), layers.Dense(192), layers.Reshape((8, 8, 3))])
        self.seeds = keras.random.SeedGenerator(1)
        self.total = keras.metrics.Mean(name="loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.total]

    def train_step(self, images: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            mean, spread = ops.split(self.encoder(images), 2, axis=1)
            noise = keras.random.normal(ops.shape(mean), seed=self.seeds)
            made = self.decoder(mean + ops.exp(spread / 2) * noise)
            loss = ops.mean((made - images) ** 2) + ops.mean(mean**2 + ops.exp(spread) - spread - 1)
        _apply(self.optimizer, tape, loss, self)
        self.total.update_state(loss)
        return {"loss": self.total.result()}


class OfInputs(keras.Model):
    """Built of keras.Input layers that take noise, where its step takes images."""

    def __init__(self) -> None:
        noise = keras.Input((5,))
        super().__init__(noise, layers.Reshape((8, 8, 3))(layers.Dense(192)(noise)))
        self.seeds = keras.random.SeedGenerator(1)

    def train_step(self, images: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            made = self(keras.random.normal((ops.shape(images)[0], 5), seed=self.seeds))
            loss = ops.mean((made - images) ** 2)
        _apply(self.optimizer, tape, loss, self)
        return {"loss": loss}


def gan() -> keras.Model:
    return _of_two_optimizers(Gan())


def gan_of_noise() -> keras.Model:
    return _of_two_optimizers(GanOfNoise())


def _of_two_optimizers(model: keras.Model) -> keras.Model:
    model.compile(keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3))
    return model


def vae() -> keras.Model:
    return _by_adam(Vae())


def of_inputs() -> keras.Model:
    return _by_adam(OfInputs())


def _by_adam(model: keras.Model, **how: Any) -> keras.Model:
    model.compile("adam", **how)
    return model


# State of a fixed batch size


def stateful() -> keras.Model:
    series = keras.Input(batch_shape=(4, 5, 3))
    return _by_adam(keras.Model(series, layers.Dense(1)(layers.LSTM(6, stateful=True)(series))), loss="mse")


def stateful_and_not_compiled() -> keras.Model:
    return keras.Sequential([keras.Input(batch_shape=(4, 5, 3)), layers.GRU(6, stateful=True), layers.Dense(2)])


class Stateful(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.series, self.last = layers.LSTM(6, stateful=True), layers.Dense(1)

    def call(self, series: Any) -> Any:
        return self.last(self.series(series))


def stateful_without_inputs() -> keras.Model:
    return _by_adam(Stateful(), loss="mse")


# Pipelines


def images_alone(spec: InputSpec) -> tf.data.Dataset:
    images = np.random.default_rng(1).random((spec.batch_size, 8, 8, 3), np.float32)
    return tf.data.Dataset.from_tensors(images).repeat()


def series(spec: InputSpec) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.random((spec.batch_size, 5, 3), np.float32), rng.random((spec.batch_size, 1), np.float32)
