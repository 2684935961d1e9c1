"""Compiled models as Keras' documentation has them train as a plain `fit` trains them, or the message says how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build, weights

from pytest_tfperf.errors import WorkloadError

pytestmark = pytest.mark.slow

TRAINERS = ["loop", "keras"]


def moves(loop: Any, model: Any) -> bool:
    """Whether a window trains: all weights stay finite, and some change."""
    loop.run(1)
    before = weights(model)
    loop.run(2)
    after = weights(model)
    is_finite = all(np.isfinite(one).all() for one in after)
    return is_finite and any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


# Losses


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(
    "model",
    [
        "losses_in_a_list",
        "losses_by_name",
        "listed_losses_of_named_outputs",
        "nested_losses",
        "losses_in_lists_in_a_list",
        "an_output_without_loss",
        "a_name_without_loss",
        "one_loss_in_a_list",
        "two_losses_of_one_output",
    ],
)
@pytest.mark.filterwarnings("ignore:Gradients do not exist:UserWarning")  # of an output without a loss
def test_a_model_trains_with_its_losses_in_any_form(cpus: list[str], model: str, trainer: str) -> None:
    replicas = 2 if model == "nested_losses" else 1
    assert moves(*build(cpus[:replicas], model=f"compiled:{model}", trainer=trainer))


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(
    ("one", "other"),
    [("losses_in_a_list", "losses_in_a_tuple"), ("losses_by_name", "losses_by_the_outputs_names")],
)
def test_the_form_of_the_losses_changes_no_step(cpus: list[str], one: str, other: str, trainer: str) -> None:
    losses = [build(cpus[:1], model=f"compiled:{model}", trainer=trainer)[0].run(3) for model in (one, other)]
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize("trainer", TRAINERS)
def test_losses_that_fit_no_outputs_are_refused_in_keras_words(cpus: list[str], trainer: str) -> None:
    loop, _ = build(cpus[:1], model="compiled:too_many_losses", trainer=trainer)
    with pytest.raises(KeyError, match=r"The path: \(2,\) in the `loss` argument"):
        loop.run(1)


# Steps of their own


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("model", ["gan", "gan_of_noise", "vae", "of_inputs"])
def test_a_step_that_calls_no_model_on_its_batch_trains(cpus: list[str], model: str, trainer: str) -> None:
    choices = {"model": f"compiled:{model}", "input_pipeline": "compiled:images_alone", "trainer": trainer}
    assert moves(*build(cpus[:1], **choices))


@pytest.mark.parametrize("model", ["gan", "vae"])
def test_what_fit_cannot_build_for_replicas_names_the_trainer_that_can(cpus: list[str], model: str) -> None:
    choices = {"model": f"compiled:{model}", "input_pipeline": "compiled:images_alone"}
    with pytest.raises(WorkloadError, match=f"compiled:{model}'.*on several replicas: use trainer='loop'"):
        build(cpus[:2], trainer="keras", **choices)
    assert moves(*build(cpus[:2], **choices))


# Fixed batch sizes


@pytest.mark.parametrize(("replicas", "pipeline"), [(1, "device"), (2, "host")])
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("model", ["stateful", "stateful_and_not_compiled"])
def test_a_stateful_model_of_a_fixed_batch_size_trains(
    cpus: list[str], model: str, trainer: str, replicas: int, pipeline: str
) -> None:
    assert moves(*build(cpus[:replicas], model=f"compiled:{model}", trainer=trainer, input_pipeline=pipeline))


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_stateful_model_without_inputs_trains(cpus: list[str], trainer: str) -> None:
    choices = {"model": "compiled:stateful_without_inputs", "input_pipeline": "compiled:series", "trainer": trainer}
    assert moves(*build(cpus[:1], **choices))


# One device


def test_fit_trains_on_one_device_without_a_strategy(cpus: list[str]) -> None:
    _, model = build(cpus[:1], model="jobs:classifier", trainer="keras")
    assert model.distribute_strategy is tf.distribute.get_strategy()


@pytest.mark.parametrize("pipeline", ["feeds:learnable", "feeds:sliced"])
def test_both_trainers_give_the_same_weights_on_one_device(cpus: list[str], pipeline: str) -> None:
    choices = {"model": "jobs:classifier", "input_pipeline": pipeline}
    ours, our_model = build(cpus[:1], **choices)
    theirs, their_model = build(cpus[:1], trainer="keras", **choices)
    for loop in (ours, theirs):
        loop.run(3)
    assert_same(weights(our_model), weights(their_model), rtol=1e-3)
