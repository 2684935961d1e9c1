"""A window of our loop: its steps in one call, the loss and the update by the formulas, dropout only in training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from building import assert_same, build, first_batch, weights, whole_gradient

from pytest_tfperf.training.steps import LEARNING_RATE, cross_entropy

LEARNABLE = {"input_pipeline": "feeds:learnable"}


@pytest.mark.parametrize(("pipeline", "replicas"), [("device", 1), ("host", 2), ("python", 2)])
def test_a_window_of_three_steps_is_three_windows_of_one(cpus: list[str], pipeline: str, replicas: int) -> None:
    at_once, model_at_once = build(cpus[:replicas], model="nets:normalised", input_pipeline=pipeline)
    singly, model_singly = build(cpus[:replicas], model="nets:normalised", input_pipeline=pipeline)
    losses = [singly.run(1) for _ in range(3)]
    assert at_once.run(3) == pytest.approx(losses[-1], rel=1e-5)
    assert_same(weights(model_at_once), weights(model_singly))


def test_windows_of_any_length_share_one_trace(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], model="nets:watching")
    loop.run(1)
    traces = model.layers[0].traces
    loop.run(5)
    loop.run(2)
    assert model.layers[0].traces == traces


def test_the_seed_sets_the_weights_and_the_images(cpus: list[str]) -> None:
    first, again, other = (build(cpus[:1], seed=seed)[0].run(2) for seed in (5, 5, 6))
    assert first == pytest.approx(again, rel=1e-6)
    assert first != pytest.approx(other, rel=1e-3)


@pytest.mark.slow  # XLA compiles for longest
def test_xla_trains_the_same(cpus: list[str]) -> None:
    loop, model = build(cpus[:2], model="nets:normalised")
    compiled, compiled_model = build(cpus[:2], model="nets:normalised", xla=True)
    assert compiled.run(3) == pytest.approx(loop.run(3), rel=1e-4)
    assert_same(weights(compiled_model), weights(model), rtol=1e-3)


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_forward_only_leaves_the_weights_alone(cpus: list[str], precision: str) -> None:
    loop, model = build(cpus[:2], model="nets:normalised", forward_only=True, precision=precision)
    before = weights(model)
    loss = loop.run(2)
    assert math.isfinite(loss)
    assert loss == loop.run(1)
    assert_same(weights(model), before, rtol=0)


def cross_entropy_by_hand(logits: np.ndarray, labels: np.ndarray) -> float:
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen = (exponents / exponents.sum(axis=1, keepdims=True))[np.arange(len(labels)), labels]
    return float(-np.log(chosen).mean())


def test_the_loss_is_cross_entropy_and_penalty_and_a_step_goes_down_its_gradient(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], **LEARNABLE)
    images, labels = first_batch(cpus[:1], model, **LEARNABLE)
    squares = sum(float((w**2).sum()) for w in weights(model))
    loss = cross_entropy_by_hand(model(images).numpy(), labels.numpy()) + 4e-5 * 0.5 * squares
    after = [
        v.value.numpy() - LEARNING_RATE * gradient
        for v, gradient in zip(model.trainable_variables, whole_gradient(model, images, labels), strict=True)
    ]
    assert loop.run(1) == pytest.approx(loss, rel=1e-5)
    assert_same([v.value.numpy() for v in model.trainable_variables], after, rtol=1e-5)


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_momentum_keeps_nine_tenths_of_its_velocity(cpus: list[str], precision: str) -> None:
    choices = {**LEARNABLE, "optimizer": "momentum", "precision": precision}
    loop, model = build(cpus[:1], **choices)
    twin = build(cpus[:1], **choices)[1]
    batch, variables = first_batch(cpus[:1], twin, **choices), [v.value for v in twin.trainable_variables]
    velocities: list[Any] = [0.0] * len(variables)
    for _ in range(3):
        gradients = whole_gradient(twin, *batch)
        velocities = [0.9 * v + g for v, g in zip(velocities, gradients, strict=True)]
        for variable, velocity, gradient in zip(variables, velocities, gradients, strict=True):
            variable.assign_sub(LEARNING_RATE * (gradient + 0.9 * velocity))  # Nesterov looks one step ahead
    loop.run(3)
    trained = [v.value.numpy() for v in model.trainable_variables]
    assert_same(trained, [v.numpy() for v in variables], rtol=1e-4 if precision == "float32" else 1e-2)


def test_moving_statistics_follow_the_batches(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], model="nets:normalised", **LEARNABLE)
    convolution, normalisation = model.layers[:2]
    seen = convolution(first_batch(cpus[:1], model, **LEARNABLE)[0]).numpy().reshape(-1, 6)
    loop.run(1)
    assert_same(
        [normalisation.moving_mean.numpy(), normalisation.moving_variance.numpy()],
        [0.1 * seen.mean(axis=0), 0.9 + 0.1 * seen.var(axis=0, ddof=1)],
    )


def generator_states(model: Any) -> list[Any]:
    return [v.numpy().tolist() for v in model.non_trainable_variables]


@pytest.mark.parametrize(
    ("replicas", "update", "xla"), [(1, "replicated", True), (2, "replicated", False), (2, "parameter_server", False)]
)
def test_dropout_draws_anew_in_each_step_of_training(cpus: list[str], replicas: int, update: str, xla: bool) -> None:
    loop, model = build(cpus[:replicas], model="nets:dropping", variable_update=update, xla=xla)
    before = generator_states(model)
    assert all(math.isfinite(loop.run(1)) for _ in range(2))
    assert generator_states(model) != before


def test_a_forward_pass_drops_nothing(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], model="nets:dropping", forward_only=True)
    before = generator_states(model)
    images, labels = first_batch(cpus[:1], model)
    assert loop.run(2) == pytest.approx(float(cross_entropy(model(images, training=False), labels)), rel=1e-6)
    assert generator_states(model) == before
