"""What the named input pipelines give."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.image_data import Data
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training import inputs
from pytest_tfperf.training.inputs import Alone, InputSpec
from pytest_tfperf.training.loading import load_pipeline

SPEC = InputSpec(image_shape=(5, 6, 3), num_classes=7, batch_size=20, replicas=2, seed=3)


def batches(name: str, spec: InputSpec, count: int) -> list[tuple[Any, Any]]:
    found = load_pipeline(Workload(model="m:f", batch_size=1, input_pipeline=name), spec)
    found = found.inputs if isinstance(found, Alone) else found
    return list(islice(found, count)) if isinstance(found, tf.data.Dataset) else [found] * count


@pytest.mark.parametrize("name", sorted(catalogue.pipelines()))
def test_batches_have_the_form_that_was_asked_for(cpus: list[str], photographs: Path, name: str) -> None:
    for images, labels in batches(name, replace(SPEC, data=Data(folder=str(photographs))), 3):
        assert (images.shape, images.dtype) == ((20, 5, 6, 3), "float32")
        assert (labels.shape, labels.dtype) == ((20,), "int32")
        assert set(np.array(labels)) <= set(range(7))


@pytest.mark.parametrize("name", ["host", "python"])
def test_every_synthetic_pipeline_gives_the_device_pipelines_images(cpus: list[str], name: str) -> None:
    wanted = batches("device", SPEC, 1)[0]
    for batch in batches(name, SPEC, 3):
        assert_same(list(batch), list(wanted))


def test_another_seed_gives_other_images(cpus: list[str]) -> None:
    (images, labels), (others, other_labels) = SPEC.synthetic(), replace(SPEC, seed=4).synthetic()
    assert (images != others).any()
    assert (labels != other_labels).any()


def test_synthetic_images_are_scaled_as_photographs_are(cpus: list[str]) -> None:
    images, _ = SPEC.synthetic()
    assert -1 <= images.min() < -0.9 < 0.9 < images.max() < 1


def test_the_device_pipeline_lies_on_each_device_and_costs_no_operation(cpus: list[str]) -> None:
    loop, _ = build(cpus[:2], input_pipeline="device")
    images, _ = loop._next_batch()
    assert [part.device[-5:] for part in images.values] == ["CPU:0", "CPU:1"]
    assert not any("GetNext" in operation for operation in operations(loop))


def test_the_other_pipelines_are_read_in_each_step(cpus: list[str]) -> None:
    loop, _ = build(cpus[:2], input_pipeline="host")
    assert sum("GetNext" in operation for operation in operations(loop)) == 2


@pytest.mark.parametrize("name", ["host", "python", "feeds:sliced"])
@pytest.mark.parametrize("update", ["replicated", "parameter_server"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_fetching_ahead_as_for_gpus_gives_the_same_batches(
    cpus: list[str], monkeypatch: pytest.MonkeyPatch, name: str, update: str, replicas: int
) -> None:
    plain, _ = build(cpus[:replicas], input_pipeline=name, variable_update=update)
    monkeypatch.setattr(inputs, "_must_be_copied", lambda _: True)
    fetching, _ = build(cpus[:replicas], input_pipeline=name, variable_update=update)
    assert fetching.run(3) == pytest.approx(plain.run(3), rel=1e-5)


def operations(loop: Any) -> list[str]:
    definition = loop._window.get_concrete_function(tf.constant(1)).graph.as_graph_def()
    return [node.op for function in definition.library.function for node in function.node_def]
