"""Dropout drops in training, in no other run, and wherever a step is computed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from building import build

from pytest_tfperf.training.losses import cross_entropy


def draws(model: Any) -> list[Any]:
    """How far the model's random generators have come."""
    return [v.numpy().tolist() for v in model.non_trainable_variables]


@pytest.mark.parametrize(
    ("replicas", "update", "xla"),
    [
        (1, "replicated", False),
        (1, "replicated", True),
        (2, "replicated", False),
        (2, "replicated", True),
        (2, "parameter_server", False),
    ],
)
def test_each_step_of_training_draws_anew(cpus: list[str], replicas: int, update: str, xla: bool) -> None:
    loop, model = build(cpus[:replicas], model="nets:dropping", variable_update=update, xla=xla)
    before = draws(model)
    losses = [loop.run(1) for _ in range(2)]
    assert all(map(math.isfinite, losses))
    assert draws(model) != before


def test_half_of_the_features_are_gone_in_training(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], model="nets:dropping")
    images = loop._next_batch()[0]
    dropped = model.layers[0](images, training=True).numpy()
    assert (dropped == 0).mean() == pytest.approx(0.5, abs=0.1)


def test_a_forward_pass_drops_nothing(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], model="nets:dropping", forward_only=True)
    before = draws(model)
    images, labels = loop._next_batch()
    assert loop.run(2) == pytest.approx(float(cross_entropy(model(images, training=False), labels)), rel=1e-6)
    assert draws(model) == before
