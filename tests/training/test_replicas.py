"""Several replicas train as one does, however they share the variables."""

from __future__ import annotations

import math
from typing import Any

import pytest
import tensorflow as tf
from building import assert_same, build, weights

from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.training import strategies
from pytest_tfperf.workload import Workload

UPDATES: dict[str, dict[str, Any]] = {
    "copy": {},
    "hierarchical": {"all_reduce": "hierarchical"},
    "parameter_server": {"variable_update": "parameter_server"},
}


@pytest.fixture(params=UPDATES)
def update(request: pytest.FixtureRequest) -> dict[str, Any]:
    return UPDATES[request.param]


def trained(devices: list[str], **workload: Any) -> tuple[list[float], list[Any]]:
    """The losses of four steps, and the weights after them."""
    loop, model = build(devices, **workload)
    return [loop.run(1) for _ in range(4)], weights(model)


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_without_batch_norm_replicas_equal_one_with_the_whole_batch(cpus: list[str], update, replicas: int) -> None:
    losses, after = trained(cpus[:replicas], batch_size=8 // replicas, input_pipeline="feeds:sliced", **update)
    losses_of_one, after_one = trained(cpus[:1], batch_size=8, input_pipeline="feeds:sliced")
    assert_same([*losses, *after], [*losses_of_one, *after_one])


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_with_batch_norm_replicas_on_the_same_images_equal_one(cpus: list[str], update, replicas: int) -> None:
    losses, after = trained(cpus[:replicas], model="nets:normalised", **update)
    losses_of_one, after_one = trained(cpus[:1], model="nets:normalised")
    assert_same([*losses, *after], [*losses_of_one, *after_one])


@pytest.mark.parametrize("replicas", [1, 2])
def test_with_momentum_replicas_on_the_same_images_equal_one(cpus: list[str], update, replicas: int) -> None:
    losses, after = trained(cpus[:replicas], model="nets:normalised", optimizer="momentum", **update)
    losses_of_one, after_one = trained(cpus[:1], model="nets:normalised", optimizer="momentum")
    assert_same([*losses, *after], [*losses_of_one, *after_one])


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_in_mixed_precision_replicas_on_the_same_images_equal_one(cpus: list[str], update, precision: str) -> None:
    _, after = trained(cpus[:2], model="nets:normalised", precision=precision, **update)
    _, after_one = trained(cpus[:1], model="nets:normalised", precision=precision)
    assert_same(after, after_one, rtol=2e-2)


@pytest.mark.parametrize("model", ["nets:normalised_by_keras", "nets:dropping"])
def test_a_users_layers_with_state_train_on_two_replicas(cpus: list[str], update, model: str) -> None:
    loop, built = build(cpus[:2], model=model, **update)
    before = [v.numpy() for v in built.non_trainable_variables]
    assert math.isfinite(loop.run(2))
    assert all((v.numpy() != old).any() for v, old in zip(built.non_trainable_variables, before, strict=True))


def test_images_per_step_count_every_replica(cpus: list[str]) -> None:
    assert build(cpus[:4], batch_size=3)[0].images_per_step == 12


def test_parameters_of_a_parameter_server_lie_on_the_cpu_once(cpus: list[str]) -> None:
    strategy = strategies.strategy_for(
        Workload(model="m:f", batch_size=1, variable_update="parameter_server"), cpus[1:3]
    )
    with strategies.variable_scope(strategy):
        variable = tf.Variable(1.0)
    assert len(strategy.experimental_local_results(variable)) == 1
    assert variable.device.endswith("CPU:0")


def test_one_replica_can_be_away_from_its_parameters(cpus: list[str]) -> None:
    away = trained(cpus[1:2], model="nets:normalised", variable_update="parameter_server")
    beside = trained(cpus[:1], model="nets:normalised")
    assert_same([*away[0], *away[1]], [*beside[0], *beside[1]])


def test_nccl_on_cpus_says_what_to_use(cpus: list[str]) -> None:
    with pytest.raises(WorkloadError, match=r"needs GPUs.*'copy' or 'hierarchical'"):
        build(cpus[:2], all_reduce="nccl")


def test_horovod_is_refused(cpus: list[str]) -> None:
    with pytest.raises(WorkloadError, match="to train, use 'replicated'"):
        build(cpus[:1], variable_update="horovod")


def test_fewer_replicas_than_asked_for_is_an_error(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_make", lambda *_: tf.distribute.OneDeviceStrategy("CPU:0"))
    with pytest.raises(MeasurementError, match=r"1 replica\(s\) of 2"):
        build(cpus[:2])
