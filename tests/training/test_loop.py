"""A window is its steps, in one call; what can't be trained says so."""

from __future__ import annotations

import math

import pytest
from building import assert_same, build, weights

from pytest_tfperf.core.workload import Precision
from pytest_tfperf.errors import WorkloadError


@pytest.mark.parametrize("pipeline", ["device", "host", "python"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_window_of_three_steps_is_three_windows_of_one(cpus: list[str], pipeline: str, replicas: int) -> None:
    at_once, model_at_once = build(cpus[:replicas], model="nets:normalised", input_pipeline=pipeline)
    singly, model_singly = build(cpus[:replicas], model="nets:normalised", input_pipeline=pipeline)
    losses = [singly.run(1) for _ in range(3)]
    assert at_once.run(3) == pytest.approx(losses[-1], rel=1e-5)
    assert_same(weights(model_at_once), weights(model_singly))


def test_windows_of_any_length_share_one_trace(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1])
    for steps in (1, 5, 2):
        loop.run(steps)
    assert loop._window.experimental_get_tracing_count() == 1


def test_the_seed_sets_the_weights_and_the_images(cpus: list[str]) -> None:
    first, again, other = (build(cpus[:1], seed=seed)[0].run(2) for seed in (5, 5, 6))
    assert first == pytest.approx(again, rel=1e-6)
    assert first != pytest.approx(other, rel=1e-3)


def test_xla_trains_the_same(cpus: list[str]) -> None:
    loop, model = build(cpus[:2], model="nets:normalised")
    compiled, compiled_model = build(cpus[:2], model="nets:normalised", xla=True)
    assert compiled.run(3) == pytest.approx(loop.run(3), rel=1e-4)
    assert_same(weights(compiled_model), weights(model), rtol=1e-3)


def test_forward_only_leaves_the_weights_alone(cpus: list[str]) -> None:
    loop, model = build(cpus[:2], model="nets:normalised", forward_only=True)
    before = weights(model)
    assert loop.run(2) == loop.run(1)
    assert_same(weights(model), before, rtol=0)


@pytest.mark.parametrize("precision", Precision)
@pytest.mark.parametrize("model", ["resnet20", "nets:dropping"])
def test_forward_only_and_training_work_in_every_precision(cpus: list[str], model: str, precision: Precision) -> None:
    only, _ = build(cpus[:1], model=model, precision=precision, forward_only=True)
    training, _ = build(cpus[:1], model=model, precision=precision)
    assert math.isfinite(only.run(1))
    assert math.isfinite(training.run(2))


def test_a_window_of_no_steps_is_refused(cpus: list[str]) -> None:
    with pytest.raises(WorkloadError, match="at least 1 step"):
        build(cpus[:1])[0].run(0)
