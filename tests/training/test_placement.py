"""What runs where; virtual CPUs stand for GPUs, and the first one for the host."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from building import build

from pytest_tfperf.training import strategies
from pytest_tfperf.training.inputs import InputSpec
from pytest_tfperf.training.pipelines.host import host


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


def test_labels_on_devices_are_of_a_type_that_tensorflow_keeps_there(cpus: list[str]) -> None:
    """int32 stays in the host's memory on GPUs."""
    loop, _ = build(cpus[:2], input_pipeline="device")
    _, labels = loop._next_batch()
    assert [part.dtype for part in labels.values] == [tf.int64, tf.int64]


def test_the_host_pipelines_batch_lies_on_the_host(cpus: list[str]) -> None:
    with tf.device(cpus[1]):  # where TensorFlow would put it by itself, as on a GPU
        dataset = host(InputSpec(image_shape=(5, 6, 3), num_classes=7, batch_size=2, replicas=1, seed=3))
    assert lies_on(dataset) == [cpus[0], cpus[0]]


def test_what_fit_builds_itself_by_lies_on_the_host(cpus: list[str]) -> None:
    with tf.device(cpus[1]):
        loop, _ = build(cpus[1:2], trainer="keras")
    assert lies_on(loop._form) == [cpus[0], cpus[0]]


def lies_on(repeated: tf.data.Dataset) -> list[str]:
    """The devices of the tensors that a dataset repeats."""
    return [part.device.rpartition("device:")[2] for part in repeated._input_dataset._tensors]
