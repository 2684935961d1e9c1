"""Steps of momentum, against the formulas written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build

from pytest_tfperf.training.losses import cross_entropy, weight_penalty
from pytest_tfperf.training.optimizers import LEARNING_RATE


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_momentum_remembers_nine_tenths_of_its_velocity(cpus: list[str], precision: str) -> None:
    how = {"input_pipeline": "feeds:learnable", "optimizer": "momentum", "precision": precision}
    loop, model = build(cpus[:1], **how)
    twin = build(cpus[:1], **how)[1]
    batch, variables = loop._next_batch(), [v.value for v in twin.trainable_variables]
    velocities: list[Any] = [0.0] * len(variables)
    for _ in range(3):
        gradients = whole_gradient(twin, *batch)
        velocities = [0.9 * v + g for v, g in zip(velocities, gradients, strict=True)]
        for variable, velocity, gradient in zip(variables, velocities, gradients, strict=True):
            variable.assign_sub(LEARNING_RATE * (gradient + 0.9 * velocity))  # Nesterov looks one step ahead
    loop.run(3)
    trained = [v.value.numpy() for v in model.trainable_variables]
    assert_same(trained, [v.numpy() for v in variables], rtol=1e-4 if precision == "float32" else 1e-2)


def whole_gradient(model: Any, images: tf.Tensor, labels: tf.Tensor) -> list[np.ndarray[Any, Any]]:
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = cross_entropy(model(images), labels) + weight_penalty(variables)
    return [gradient.numpy() for gradient in tape.gradient(loss, variables)]
