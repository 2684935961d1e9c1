"""Several replicas train as one does, however they share the variables."""

from __future__ import annotations

import functools
import math
from typing import Any

import feeds
import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build, nodes, weights, workload_of

from pytest_tfperf.training import strategies

HIERARCHICAL = {"all_reduce": "hierarchical"}
SERVER = {"variable_update": "parameter_server"}
UPDATES: dict[str, dict[str, Any]] = {
    "copy": {},
    "copy in turn": {"local_parameter_device": "gpu"},
    "hierarchical": HIERARCHICAL,
    "packed": {**HIERARCHICAL, "num_packs": 2},
    "parameter_server": SERVER,
}


@functools.cache
def trained_by_one(**workload: Any) -> tuple[list[float], list[Any]]:
    return trained(["CPU:0"], **workload)


def trained(devices: list[str], **workload: Any) -> tuple[list[float], list[Any]]:
    """The losses of four steps, and the weights after them."""
    loop, model = build(devices, **workload)
    return [loop.run(1) for _ in range(4)], weights(model)


@pytest.mark.parametrize(
    ("update", "replicas"),
    [("copy", 2), ("copy", 4), ("copy in turn", 4), ("hierarchical", 4), ("packed", 2), ("parameter_server", 4)],
)
def test_without_batch_norm_replicas_equal_one_with_the_whole_batch(
    cpus: list[str], update: str, replicas: int
) -> None:
    sliced = {"input_pipeline": "feeds:sliced"}
    losses, after = trained(cpus[:replicas], batch_size=8 // replicas, **sliced, **UPDATES[update])
    losses_of_one, after_one = trained_by_one(batch_size=8, **sliced)
    assert_same([*losses, *after], [*losses_of_one, *after_one])


@pytest.mark.parametrize("update", UPDATES)
def test_with_batch_norm_and_momentum_replicas_on_the_same_images_equal_one(cpus: list[str], update: str) -> None:
    choices = {"model": "nets:normalised", "optimizer": "momentum"}
    losses, after = trained(cpus[:2], **choices, **UPDATES[update])
    losses_of_one, after_one = trained_by_one(**choices)
    assert_same([*losses, *after], [*losses_of_one, *after_one])


@pytest.mark.parametrize(
    ("precision", "update"),
    [("mixed_float16", "copy"), ("mixed_float16", "parameter_server"), ("mixed_bfloat16", "packed")],
)
def test_in_mixed_precision_replicas_on_the_same_images_equal_one(cpus: list[str], precision: str, update: str) -> None:
    _, after = trained(cpus[:2], model="nets:normalised", precision=precision, **UPDATES[update])
    _, after_one = trained_by_one(model="nets:normalised", precision=precision)
    assert_same(after, after_one, rtol=2e-2)


@pytest.mark.parametrize("update", ["copy", "parameter_server"])
def test_a_users_layers_with_state_train_on_two_replicas(cpus: list[str], update: str) -> None:
    loop, built = build(cpus[:2], model="nets:with_state", **UPDATES[update])
    before = [v.numpy() for v in built.non_trainable_variables]
    assert math.isfinite(loop.run(2))
    assert all((v.numpy() != old).any() for v, old in zip(built.non_trainable_variables, before, strict=True))


def test_parameters_of_a_parameter_server_are_on_the_cpu_once(cpus: list[str]) -> None:
    strategy = strategies.strategy_for(workload_of(variable_update="parameter_server"), cpus[1:3])
    with strategies.variable_scope(strategy):
        variable = tf.Variable(1.0)
    assert len(strategy.experimental_local_results(variable)) == 1
    assert variable.device.endswith("CPU:0")


def test_one_replica_can_be_away_from_its_parameters(cpus: list[str]) -> None:
    choices = {"model": "nets:normalised", "optimizer": "momentum"}
    away, beside = trained(cpus[1:2], **choices, **SERVER), trained_by_one(**choices)
    assert_same([*away[0], *away[1]], [*beside[0], *beside[1]])


@pytest.mark.parametrize("devices", [slice(1, 3), slice(1, 2)])
def test_parameters_on_a_gpu_are_on_the_first_and_gradients_are_summed_there(cpus: list[str], devices: slice) -> None:
    """Virtual CPUs stand for GPUs, and the first one for the host."""
    loop, model = build(cpus[devices], model="nets:normalised", **SERVER, local_parameter_device="gpu")
    assert all(v.value.device.endswith(cpus[1]) for v in model.trainable_variables)
    sums = [op for op in operations_of_each_step(loop) if op.type == "AddN"]
    assert [op.name for op in sums if not op.device.endswith(cpus[1])] == []


@pytest.mark.parametrize(("where", "turns"), [("cpu", [0]), ("gpu", [1, 2, 3])])
def test_copied_gradients_are_summed_on_the_host_or_on_each_gpu_in_turn(
    cpus: list[str], where: str, turns: list[int]
) -> None:
    """As tf_cnn_benchmarks' CopyToDeviceAlgorithm does for local_parameter_device; virtual CPUs stand for GPUs."""
    loop, model = build(cpus[1:4], model="nets:normalised", local_parameter_device=where)
    sums = [op for op in operations_of_each_step(loop) if op.type == "AddN" and len(op.inputs) == 3]
    wanted = [cpus[turns[i % len(turns)]] for i in range(len(model.trainable_variables))]
    assert [op.device.rpartition(":CPU:")[2] for op in sums] == [name.partition(":")[2] for name in wanted]


IN_TURN = {"local_parameter_device": "gpu"}


@pytest.mark.parametrize("choices", [IN_TURN, {"variable_update": "independent"}, {"forward_only": True}], ids=str)
def test_replicas_do_not_meet_on_the_host_in_each_step(cpus: list[str], choices: dict[str, Any]) -> None:
    loop, _ = build(cpus[1:3], model="nets:normalised", **choices)
    assert [op.name for op in operations_of_each_step(loop) if op.device.endswith(cpus[0])] == []


def operations_of_each_step(loop: Any) -> list[tf.Operation]:
    """The operations that a window repeats."""
    graph = loop.window.get_concrete_function(tf.TensorSpec((), tf.int32)).graph
    (repeated,) = (op for op in graph.get_operations() if op.type in ("While", "StatelessWhile"))
    return list(graph._get_function(repeated.get_attr("body").name).graph.get_operations())


def test_independent_replicas_train_as_each_does_alone(cpus: list[str]) -> None:
    choices = {"model": "nets:normalised", "optimizer": "momentum"}
    loop, together = build(cpus[:2], variable_update="independent", input_pipeline="feeds:sliced", **choices)
    losses = [loop.run(1) for _ in range(3)]
    alone = [trained_alone(cpus[0], replica, 2) for replica in range(2)]
    assert alone[0][0] != alone[1][0]  # on other images
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


def test_gradients_are_packed_as_asked(cpus: list[str]) -> None:
    unpacked, packed = (
        sum(node.op.startswith("Concat") for node in nodes(build(cpus[:2], **HIERARCHICAL, num_packs=packs)[0]))
        for packs in (0, 2)
    )
    assert packed > unpacked
