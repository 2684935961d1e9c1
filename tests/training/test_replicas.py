"""Several replicas train as one does, however they share the variables."""

from __future__ import annotations

import math
from typing import Any

import feeds
import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build, weights

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.training import strategies

UPDATES: dict[str, dict[str, Any]] = {
    "copy": {},
    "hierarchical": {"all_reduce": "hierarchical"},
    "packed": {"all_reduce": "hierarchical", "num_packs": 2},
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


@pytest.mark.parametrize("replicas", [1, 2, 4])
def test_independent_replicas_train_as_each_does_alone(cpus: list[str], replicas: int) -> None:
    asked = {"model": "nets:normalised", "optimizer": "momentum"}
    loop, together = build(cpus[:replicas], variable_update="independent", input_pipeline="feeds:sliced", **asked)
    losses = [loop.run(1) for _ in range(3)]
    alone = [trained_alone(cpus[0], replica, replicas) for replica in range(replicas)]
    assert_same(losses, np.mean([own for own, _ in alone], axis=0).tolist())
    for replica, (_, after) in enumerate(alone):
        assert_same(copies(together, replica), after)


def trained_alone(device: str, replica: int, replicas: int) -> tuple[list[float], list[Any]]:
    """One device on the batches that fall to `replica` of `replicas`."""
    feeds.SHARE = (replica, replicas)
    loop, built = build([device], model="nets:normalised", optimizer="momentum", input_pipeline="feeds:share")
    return [loop.run(1) for _ in range(3)], weights(built)


def copies(model: Any, replica: int) -> list[Any]:
    strategy = model.distribute_strategy
    return [strategy.experimental_local_results(v.value)[replica].numpy() for v in model.variables]


def test_independent_replicas_on_other_images_come_apart(cpus: list[str]) -> None:
    loop, model = build(cpus[:2], variable_update="independent", input_pipeline="feeds:sliced")
    loop.run(1)
    assert all((one != other).any() for one, other in zip(copies(model, 0), copies(model, 1), strict=True))


def test_replicated_replicas_stay_together(cpus: list[str]) -> None:
    loop, model = build(cpus[:2], input_pipeline="feeds:sliced")
    loop.run(1)
    assert_same(copies(model, 0), copies(model, 1), rtol=0)


def test_parameters_can_lie_on_one_of_the_devices(cpus: list[str]) -> None:
    strategy = strategies._central_storage(cpus[1:3], cpus[1])
    with strategies.variable_scope(strategy):
        variable = tf.Variable(1.0)
    assert variable.device.endswith(cpus[1])


def test_one_device_that_holds_its_own_parameters_needs_no_exchange(cpus: list[str]) -> None:
    assert isinstance(strategies._central_storage(cpus[1:2], cpus[1]), tf.distribute.OneDeviceStrategy)


def test_parameters_on_a_gpu_lie_on_the_first(cpus: list[str]) -> None:
    workload = Workload(model="m:f", batch_size=1, variable_update="parameter_server", local_parameter_device="gpu")
    assert strategies._parameter_device(workload, ["GPU:0", "GPU:1"]) == "GPU:0"


@pytest.mark.parametrize("all_reduce", ["hierarchical", "nccl"])
def test_gradients_are_packed_as_asked(cpus: list[str], all_reduce: str) -> None:
    workload = Workload(model="m:f", batch_size=1, all_reduce=all_reduce, num_packs=3)
    assert strategies._cross_device_ops(workload)._num_packs == 3


def test_horovod_is_refused(cpus: list[str]) -> None:
    with pytest.raises(WorkloadError, match="to train, use 'replicated'"):
        build(cpus[:1], variable_update="horovod")


def test_fewer_replicas_than_asked_for_is_an_error(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "_make", lambda *_: tf.distribute.OneDeviceStrategy("CPU:0"))
    with pytest.raises(MeasurementError, match=r"1 replica\(s\) of 2"):
        build(cpus[:2])
