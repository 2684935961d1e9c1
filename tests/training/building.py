"""A loop, built in the steps in which a worker builds one, and what tests read of it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training.inputs import feed
from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline, loop_for
from pytest_tfperf.training.steps import cross_entropy, weight_penalty
from pytest_tfperf.training.strategies import strategy_for


def workload_of(**choices: Any) -> Workload:
    return Workload(**{"model": "nets:plain", "batch_size": 4} | choices)


def build(devices: list[str], seed: int = 1, **choices: Any) -> tuple[Any, keras.Model]:
    workload = workload_of(**choices)
    strategy = strategy_for(workload, devices)
    model = load_model(workload, strategy, seed)
    inputs = load_pipeline(workload, input_spec(workload, model, strategy, seed))
    return loop_for(workload, strategy, model, inputs), model


def window(loop: Any, steps: int) -> float | None:
    """The loss of a window, as a worker takes it."""
    loop.begin_window()
    return loop.run(steps)  # type: ignore[no-any-return]


def first_batch(devices: list[str], model: keras.Model, seed: int = 1, **choices: Any) -> Any:
    """The first batch of a loop that `build` makes for the same choices."""
    workload = workload_of(**choices)
    strategy = strategy_for(workload, devices)
    return feed(strategy, load_pipeline(workload, input_spec(workload, model, strategy, seed)))()


def weights(model: keras.Model) -> list[np.ndarray[Any, Any]]:
    """All weights, moving statistics included."""
    return [np.array(v.value.read_value()) for v in model.variables]


def whole_gradient(model: Any, images: tf.Tensor, labels: tf.Tensor) -> list[np.ndarray[Any, Any]]:
    """The gradient of cross-entropy and penalty, in one piece."""
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = cross_entropy(model(images), labels) + weight_penalty(variables)
    return [gradient.numpy() for gradient in tape.gradient(loss, variables)]


def nodes(loop: Any) -> list[Any]:
    """The nodes of all functions of a window's graph."""
    definition = loop.window.get_concrete_function(tf.constant(1)).graph.as_graph_def()
    return [node for function in definition.library.function for node in function.node_def]


def assert_same(found: list[Any], wanted: list[Any], rtol: float = 1e-4) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-6)
