"""Models of any inputs, outputs, losses and optimizers: both trainers do what the model says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from building import assert_same, build, weights, window, workload_of

from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.loading import input_spec, load_model
from pytest_tfperf.training.strategies import strategy_for

TRAINERS = ["loop", "keras"]
UPDATES = ["replicated", "parameter_server", "collective"]


def falls(loop: Any, steps: int = 60) -> bool:
    first = window(loop, 2)
    loop.run(steps)
    return bool(window(loop, 2) < 0.9 * first)


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("model", ["sentences", "tagger", "two_inputs", "listed", "classifier"])
def test_a_model_of_keras_inputs_trains_on_synthetic_data_by_default(cpus: list[str], model: str, trainer: str) -> None:
    loop, built = build(cpus[:2], model=f"jobs:{model}", trainer=trainer)
    loop.run(1)
    before = weights(built)
    assert math.isfinite(loop.run(2))
    assert any(not np.array_equal(a, b) for a, b in zip(before, weights(built), strict=True))


@pytest.mark.parametrize("pipeline", ["host", "python"])
def test_every_synthetic_pipeline_gives_a_batch_of_any_structure(cpus: list[str], pipeline: str) -> None:
    assert math.isfinite(build(cpus[:2], model="jobs:two_inputs", input_pipeline=pipeline)[0].run(3))


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(
    ("model", "pipeline"),
    [("own_step", "lines"), ("listed", "by_name"), ("listed", "weighted"), ("classifier", None)],
)
def test_the_loss_of_a_compiled_model_falls(cpus: list[str], model: str, pipeline: str | None, trainer: str) -> None:
    inputs = f"jobs:{pipeline}" if pipeline else "feeds:learnable"
    assert falls(build(cpus[:1], model=f"jobs:{model}", input_pipeline=inputs, trainer=trainer, batch_size=32)[0], 300)


@pytest.mark.parametrize("update", UPDATES)
def test_a_compiled_model_trains_on_two_replicas(cpus: list[str], update: str) -> None:
    devices = cpus[:1] if update == "collective" else cpus[:2]
    choices = {"model": "jobs:own_step", "input_pipeline": "jobs:lines", "batch_size": 8}
    assert falls(build(devices, variable_update=update, **choices)[0], 300)


def test_both_trainers_give_a_compiled_model_the_same_weights(cpus: list[str]) -> None:
    choices = {"model": "jobs:classifier", "input_pipeline": "feeds:learnable"}
    ours, our_model = build(cpus[:2], **choices)
    keras_own, keras_model = build(cpus[:2], trainer="keras", **choices)
    for loop in (ours, keras_own):
        loop.run(3)
        loop.run(2)
    assert_same(weights(our_model), weights(keras_model), rtol=1e-3)


def test_only_the_first_run_of_a_compiled_model_traces_its_step(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], model="jobs:classifier")
    loop.run(1)
    traced = loop.window.experimental_get_tracing_count()
    loop.run(5)
    assert loop.window.experimental_get_tracing_count() == traced


@pytest.mark.parametrize(
    ("model", "trainer"), [("own_step_without_loss", "loop"), ("own_step_without_loss", "keras"), ("eager", "keras")]
)
def test_a_step_that_reports_no_loss_has_none(cpus: list[str], model: str, trainer: str) -> None:
    assert build(cpus[:1], trainer=trainer, model=f"jobs:{model}", input_pipeline="jobs:lines")[0].run(2) is None


def test_a_compiled_model_can_be_run_forward_only(cpus: list[str]) -> None:
    loop, model = build(cpus[:1], model="jobs:classifier", forward_only=True)
    before = weights(model)
    assert math.isfinite(loop.run(2))
    assert_same(weights(model), before)


@pytest.mark.slow
def test_xla_compiles_the_step_of_a_compiled_model(cpus: list[str]) -> None:
    assert math.isfinite(build(cpus[:1], model="jobs:classifier", xla=True)[0].run(2))


def test_xla_may_compile_the_update_where_nccl_exchanges_gradients(cpus: list[str]) -> None:
    """It is only built: NCCL has no kernels for CPUs. TensorFlow's mirrored_strategy.py has the rule."""
    build(cpus[:2], model="jobs:classifier", xla=True, all_reduce="nccl")


@pytest.mark.parametrize("model", ["reading", "branching", "by_numpy"])
def test_a_step_that_cannot_be_compiled_names_the_trainer_that_runs_it(cpus: list[str], model: str) -> None:
    loop, _ = build(cpus[:1], model=f"jobs:{model}", input_pipeline="jobs:lines")
    with pytest.raises(
        WorkloadError, match=r"can't be compiled into one call.*run_eagerly=True and use trainer='keras'"
    ):
        loop.run(1)


# Batches


def test_batches_that_are_padded_to_one_shape_train_a_model_of_any_length(cpus: list[str]) -> None:
    choices = {"model": "jobs:variable_length", "input_pipeline": "jobs:padded"}
    assert math.isfinite(build(cpus[:1], **choices)[0].run(2))


def test_token_ids_are_below_the_size_of_their_embedding(cpus: list[str]) -> None:
    workload = workload_of(model="jobs:sentences", batch_size=256)
    strategy = strategy_for(workload, cpus[:1])
    ids, labels = input_spec(workload, load_model(workload, strategy), strategy).synthetic()
    assert (ids.min(), ids.max(), ids.shape) == (0, 49, (256, 12))
    assert set(labels) == {0, 1, 2}


# What is counted


@pytest.mark.parametrize(
    ("choices", "counted"),
    [
        ({"model": "nets:plain"}, (8, "images")),
        ({"model": "jobs:sentences"}, (8, "examples")),
        ({"model": "jobs:sentences", "unit": "tokens"}, (96, "tokens")),
        ({"model": "jobs:sentences", "unit": "tokens", "input_pipeline": "host"}, (96, "tokens")),
        ({"model": "jobs:classifier", "trainer": "keras"}, (8, "images")),
        ({"model": "jobs:tagger", "unit": "tokens", "trainer": "keras"}, (96, "tokens")),
    ],
)
def test_a_step_counts_what_the_workload_says(
    cpus: list[str], choices: dict[str, str], counted: tuple[int, str]
) -> None:
    loop, _ = build(cpus[:2], **choices)
    assert (loop.examples_per_step, loop.unit) == counted


@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize(
    ("model", "pipeline", "tokens_of", "length"),
    [
        ("two_inputs", "device", "ids", 12),
        ("two_inputs", "device", "price", 2),
        ("translator", "device", "source", 12),
        ("translator", "device", "target", 7),
        ("translator", "device", "1", 7),  # the position in a tuple
        ("translator", "jobs:by_key", "source", 12),  # Keras takes a dict of its inputs' names
        ("of_nested_texts", "jobs:nested_texts", "source-ids", 12),
        ("of_nested_texts", "jobs:nested_texts", "mask", 7),
    ],
)
def test_the_tokens_of_the_named_input_are_counted(
    cpus: list[str], model: str, pipeline: str, tokens_of: str, length: int, trainer: str
) -> None:
    choices = {"model": f"jobs:{model}", "input_pipeline": pipeline, "trainer": trainer}
    loop, _ = build(cpus[:2], unit="tokens", tokens_of=tokens_of, **choices)
    assert loop.examples_per_step == 2 * 4 * length


def test_inputs_of_one_length_need_no_name_for_their_tokens(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], model="bert-tiny", unit="tokens")
    assert loop.examples_per_step == 4 * 128
