"""The loss and a step along its gradient, against the formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build, weights

from pytest_tfperf.training.losses import cross_entropy, weight_penalty
from pytest_tfperf.training.optimizers import LEARNING_RATE


def by_hand(logits: np.ndarray, labels: np.ndarray) -> float:
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    chosen = (exponents / exponents.sum(axis=1, keepdims=True))[np.arange(len(labels)), labels]
    return float(-np.log(chosen).mean())


def test_cross_entropy_is_the_mean_over_the_batch(cpus: list[str]) -> None:
    logits, labels = np.random.default_rng(1).normal(0, 3, (5, 7)).astype(np.float32), np.array([0, 6, 3, 3, 1])
    assert float(cross_entropy(tf.constant(logits), tf.constant(labels))) == pytest.approx(
        by_hand(logits, labels), 1e-6
    )


def test_the_penalty_is_half_the_square_of_every_weight(cpus: list[str]) -> None:
    variables = [tf.Variable([[1.0, 2.0]]), tf.Variable([3.0])]
    assert float(weight_penalty(variables)) == pytest.approx(4e-5 * 0.5 * (1 + 4 + 9))


def test_the_loss_of_a_step_is_cross_entropy_and_penalty(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], input_pipeline="feeds:learnable")
    images, labels = loop._next_batch()
    squares = sum(float((w**2).sum()) for w in weights(model))
    wanted = by_hand(model(images).numpy(), labels.numpy()) + 4e-5 * 0.5 * squares
    assert loop.run(1) == pytest.approx(wanted, rel=1e-5)


def test_a_step_goes_down_the_whole_losss_gradient(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], input_pipeline="feeds:learnable")
    images, labels = loop._next_batch()
    variables = [v.value for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = cross_entropy(model(images), labels) + weight_penalty(variables)
    wanted = [
        v.numpy() - LEARNING_RATE * g.numpy() for v, g in zip(variables, tape.gradient(loss, variables), strict=True)
    ]
    loop.run(1)
    assert_same([v.numpy() for v in variables], wanted, rtol=1e-5)


def test_the_loss_falls_on_learnable_data(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], model="nets:normalised", input_pipeline="feeds:learnable", batch_size=16)
    assert loop.run(60) < 0.5 * loop_start(cpus)


def loop_start(cpus: list[str]) -> float:
    loop, _ = build(cpus[:1], model="nets:normalised", input_pipeline="feeds:learnable", batch_size=16)
    return loop.run(1)


def test_moving_statistics_follow_the_batches(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], model="nets:normalised", input_pipeline="feeds:learnable")
    convolution, normalisation = model.layers[:2]
    seen = convolution(loop._next_batch()[0]).numpy().reshape(-1, 6)
    loop.run(1)
    assert_same(
        [normalisation.moving_mean.numpy(), normalisation.moving_variance.numpy()],
        [0.1 * seen.mean(axis=0), 0.9 + 0.1 * seen.var(axis=0, ddof=1)],
    )
