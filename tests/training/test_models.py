"""The models against the reference's figures: parameters, and multiply-adds of a forward pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from building import build

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training.loading import load_model
from pytest_tfperf.training.profiling import forward_multiply_adds
from pytest_tfperf.workers import catalogue

pytestmark = pytest.mark.slow

# From tf_cnn_benchmarks: image side, classes, trainable parameters, multiply-adds of one image in 10^9.
FACTS = {
    "resnet50": (224, 1001, 25_559_081, 3.858),
    "resnet101": (224, 1001, 44_551_209, 7.570),
    "resnet152": (224, 1001, 60_194_857, 11.282),
    "inception3": (299, 1001, 23_819_401, 5.713),
    "inception4": (299, 1001, 42_649_769, 12.254),
    "vgg16": (224, 1001, 138_361_641, 15.470),
    "vgg19": (224, 1001, 143_671_337, 19.632),
    "alexnet": (227, 1001, 61_842_345, 0.839),
    "resnet20": (32, 11, 269_787, 0.0406),
    "resnet56": (32, 11, 853_083, 0.1255),
    "trivial": (227, 1001, 4_263_877, 0.0043),
}


# Published parameters without the classifier, the classifier's, and multiply-adds of one text of 128 tokens in 10^9:
# those of matrix products in arXiv:1810.04805's layers.
BERT = {
    "bert-base": (109_482_240, 1538, 11.174),
    "bert-tiny": (4_385_920, 258, 0.0587),
}


def test_every_named_model_has_its_facts_here() -> None:
    assert set(catalogue.names("models")) == {*FACTS, *BERT}


@pytest.mark.parametrize(
    "choices",
    [
        {"variable_update": "parameter_server", "precision": "mixed_float16", "optimizer": "momentum"},
        {"trainer": "keras"},
        {"xla": True},
    ],
)
def test_bert_trains_in_every_way_and_counts_tokens(cpus: list[str], choices: dict[str, Any]) -> None:
    devices = cpus[:2] if "variable_update" in choices else cpus[:1]
    loop, _ = build(devices, model="bert-tiny", batch_size=2, unit="tokens", **choices)
    assert math.isfinite(loop.run(1))
    assert (loop.examples_per_step, loop.unit) == (2 * 128 * len(devices), "tokens")


@pytest.mark.parametrize("name", [*FACTS, *BERT])
def test_shapes_parameters_and_multiply_adds_are_the_references(cpus: list[str], name: str) -> None:
    with tf.Graph().as_default():  # where no weight is drawn: VGG has half a gigabyte of them
        model = load_model(Workload(model=name, batch_size=1), tf.distribute.get_strategy())
        if name in BERT:
            published, classifier, giga = BERT[name]
            parameters = published + classifier
        else:
            side, classes, parameters, giga = FACTS[name]
            assert (model.input_shape, model.output_shape) == ((None, side, side, 3), (None, classes))
        assert sum(math.prod(v.shape) for v in model.trainable_variables) == parameters
        digits = len(str(giga).partition(".")[2])
        assert round(forward_multiply_adds(model) / 1e9, digits) == giga


@pytest.mark.parametrize("name", ["resnet20", "alexnet", "trivial"])  # others take half a minute
def test_a_step_moves_every_parameter(cpus: list[str], name: str) -> None:
    # With other seeds the only unit of trivial's first layer may give zeros only.
    loop, model = build(cpus[:1], seed=4, model=name, batch_size=1)
    before = samples(model)
    assert math.isfinite(loop.run(1))
    still = [name for name, values in samples(model).items() if (values == before[name]).all()]
    assert still == []


def samples(model) -> dict[str, np.ndarray[Any, Any]]:
    """Some thousand numbers of each parameter."""
    flats = ((v.path, np.array(v.value.read_value()).ravel()) for v in model.trainable_variables)
    return {name: flat[:: 1 + flat.size // 4096].copy() for name, flat in flats}
