"""Users' own models and pipelines: they train, or the message says what is wrong with them."""

from __future__ import annotations

import math

import pytest
from building import build

from pytest_tfperf.errors import WorkloadError


@pytest.mark.parametrize("pipeline", ["feeds:sliced", "feeds:learnable", "feeds:of_unknown_shape"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_users_pipeline_feeds_a_users_model(cpus: list[str], pipeline: str, replicas: int) -> None:
    assert math.isfinite(build(cpus[:replicas], input_pipeline=pipeline)[0].run(2))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no_such_module:f", "can't import 'no_such_module'"),
        ("nets:no_such_function", "has no function 'no_such_function'"),
        ("nets:number", "has no function 'number'"),
        ("nets:broken", "raised ZeroDivisionError: no such depth"),
        ("nets:not_a_model", "returned str; it must return a keras.Model"),
        ("nets:unbuilt", "isn't built: give it a keras.Input"),
        ("nets:feature_map", r"maps \(None, 8, 8, 3\) to \(None, 6, 6, 6\)"),
        ("nets:any_size", "all but the batch known"),
    ],
)
def test_a_model_that_cannot_be_used_says_why(cpus: list[str], model: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=f"model '{model}'.*{message}"):
        build(cpus[:1], model=model)


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("feeds:of_two_batches", r"ends after 2 batch\(es\).*add .repeat\(\)"),
        ("feeds:images_alone", r"not \(images, labels\)"),
        ("feeds:too_small", r"shape=\(4, 7, 8, 3\)"),
        ("feeds:of_bytes", "uint8"),
        ("feeds:nothing", "returned NoneType, not a tf.data.Dataset or a pair"),
        ("feeds:no_such_function", "has no function"),
    ],
)
def test_a_pipeline_that_cannot_be_used_says_why(cpus: list[str], pipeline: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=f"input_pipeline '{pipeline}'.*{message}"):
        build(cpus[:1], input_pipeline=pipeline)


@pytest.mark.parametrize("pipeline", ["feeds:generated", "feeds:generated_alone"])
def test_a_dataset_that_ends_in_mid_run_says_so(cpus: list[str], pipeline: str) -> None:
    loop, _ = build(cpus[:1], input_pipeline=pipeline)
    with pytest.raises(WorkloadError, match=rf"'{pipeline}': its dataset ended.*add .repeat\(\)"):
        loop.run(4)


def test_a_weight_without_influence_is_named(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], model="nets:with_an_idle_weight")
    with pytest.raises(WorkloadError, match=r"do not depend on these.*unused.*make them trainable=False"):
        loop.run(1)
