"""What runs where; virtual CPUs stand for GPUs, and the first one for the host."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from building import build

from pytest_tfperf.training import strategies


def of_each_step(loop: Any) -> list[tf.Operation]:
    """The operations that a window repeats."""
    graph = loop._window.get_concrete_function(tf.TensorSpec((), tf.int32)).graph
    (repeated,) = (op for op in graph.get_operations() if op.type in ("While", "StatelessWhile"))
    return list(graph._get_function(repeated.get_attr("body").name).graph.get_operations())


def on(device: str, operations: list[tf.Operation]) -> list[str]:
    return [op.name for op in operations if op.device.endswith(device)]


@pytest.mark.parametrize(
    "asked",
    [{}, {"variable_update": "independent"}, {"forward_only": True}],
    ids=["replicated", "independent", "forward_only"],
)
def test_replicas_do_not_meet_the_host_in_each_step(cpus: list[str], asked: dict[str, Any]) -> None:
    loop, _ = build(cpus[1:3], model="nets:normalised", **asked)
    assert on(cpus[0], of_each_step(loop)) == []


def test_gradients_meet_where_the_parameters_lie(cpus: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As with local_parameter_device="gpu", which real GPUs alone have."""
    monkeypatch.setattr(strategies, "_parameter_device", lambda _, devices: devices[0])
    loop, _ = build(cpus[1:3], model="nets:normalised", variable_update="parameter_server")
    sums = [op for op in of_each_step(loop) if op.type == "AddN"]
    assert on(cpus[1], sums) == [op.name for op in sums]
