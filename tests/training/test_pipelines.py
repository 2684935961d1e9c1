"""What the named input pipelines give, and how batches reach the devices."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build, first_batch, nodes, workload_of

from pytest_tfperf.training.input_spec import InputSpec
from pytest_tfperf.training.inputs import PipelineOnly, copied, shared
from pytest_tfperf.training.loading import load_pipeline
from pytest_tfperf.training.pipelines.synthetic import host
from pytest_tfperf.training.strategies import strategy_for
from pytest_tfperf.workers import catalogue

SPEC = InputSpec.of_images((5, 6, 3), 7, batch_size=20, replicas=2, seed=3)


def batches(name: str, spec: InputSpec, count: int) -> list[tuple[Any, Any]]:
    found = load_pipeline(workload_of(input_pipeline=name), spec)
    found = found.inputs if isinstance(found, PipelineOnly) else found
    return list(islice(found, count)) if isinstance(found, tf.data.Dataset) else [found] * count


@pytest.mark.parametrize("name", sorted(set(catalogue.names("pipelines")) - {"tokens"}))  # gives no images
def test_batches_have_the_signature_of_the_spec(cpus: list[str], photographs: Path, name: str) -> None:
    for images, labels in batches(name, replace(SPEC, data_dir=str(photographs)), 3):
        assert (images.shape, images.dtype) == ((20, 5, 6, 3), "float32")
        assert (labels.shape, labels.dtype) == ((20,), "int32")
        assert set(np.array(labels)) <= set(range(7))


@pytest.mark.parametrize("name", ["host", "python"])
def test_every_synthetic_pipeline_gives_the_device_pipelines_images(cpus: list[str], name: str) -> None:
    wanted = batches("device", SPEC, 1)[0]
    for batch in batches(name, SPEC, 3):
        assert_same(list(batch), list(wanted))


def test_synthetic_images_depend_on_the_seed_and_are_scaled_as_photographs_are() -> None:
    (images, labels), (others, other_labels) = SPEC.synthetic(), replace(SPEC, seed=4).synthetic()
    assert (images != others).any()
    assert (labels != other_labels).any()
    assert -1 <= images.min() < -0.9 < 0.9 < images.max() < 1


def test_the_device_pipeline_stays_on_each_device_and_costs_no_operation(cpus: list[str]) -> None:
    loop, model = build(cpus[:2], input_pipeline="device")
    images, labels = first_batch(cpus[:2], model, input_pipeline="device")
    assert [part.device[-5:] for part in images.values] == ["CPU:0", "CPU:1"]
    assert [part.dtype for part in labels.values] == [tf.int64, tf.int64]  # a GPU's int32 stays in the host's memory
    assert not any("GetNext" in node.op for node in nodes(loop))


def test_the_other_pipelines_are_read_in_each_step(cpus: list[str]) -> None:
    loop, _ = build(cpus[:2], input_pipeline="host")
    assert sum("GetNext" in node.op for node in nodes(loop)) == 2


def test_the_host_pipelines_batch_stays_on_the_host(cpus: list[str]) -> None:
    with tf.device(cpus[1]):  # where TensorFlow would otherwise put it, as on a GPU
        dataset = host(SPEC)
    repeated = dataset._input_dataset._tensors
    assert [part.device.rpartition("device:")[2] for part in repeated] == [cpus[0], cpus[0]]


@pytest.mark.parametrize(("update", "replicas"), [("replicated", 1), ("replicated", 2), ("parameter_server", 2)])
def test_prefetching_to_devices_as_for_gpus_gives_the_same_batches(cpus: list[str], update: str, replicas: int) -> None:
    workload = workload_of(input_pipeline="feeds:numbered", variable_update=update)
    strategy = strategy_for(workload, cpus[:replicas])
    fetches = [way(strategy, load_pipeline(workload, SPEC)) for way in (shared, copied)]
    for _ in range(3):
        plain, prefetched = (strategy.experimental_local_results(fetch()[0]) for fetch in fetches)
        assert_same(list(prefetched), list(plain))
