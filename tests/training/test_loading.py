"""Users' own models and pipelines: they train, or the message says what is wrong with them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import tensorflow as tf
from building import build, workload_of

import pytest_tfperf
from pytest_tfperf.errors import WorkloadError
from pytest_tfperf.training.inputs import PipelineOnly
from pytest_tfperf.training.loading import loop_for


def test_every_public_name_is_there_where_tensorflow_is() -> None:
    assert [name for name in pytest_tfperf.__all__ if not hasattr(pytest_tfperf, name)] == []


@pytest.mark.parametrize("pipeline", ["feeds:learnable", "feeds:of_unknown_shape"])
def test_a_users_pipeline_feeds_a_users_model(cpus: list[str], pipeline: str) -> None:
    assert math.isfinite(build(cpus[:2], input_pipeline=pipeline)[0].run(2))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("no_such_module:f", "can't import 'no_such_module': .*Is it on the import path"),
        ("nets:number", "has no function 'number'"),
        ("nets:broken", "raised ZeroDivisionError: no such depth"),
        ("nets:not_a_model", "returned str; it must return a keras.Model"),
        ("nets:unbuilt", "isn't built of keras.Input layers"),
        ("nets:features", r"gives {'one': \(None, 6\), 'other': \(None, 2\)}; a model that is not compiled"),
    ],
)
def test_a_model_that_cannot_be_used_says_why(cpus: list[str], model: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=f"model '{model}'.*{message}"):
        build(cpus[:1], model=model)


@pytest.mark.parametrize("line", ["from math import Model", "import no_such_library"])
def test_a_module_that_is_found_and_fails_is_not_sought_on_the_import_path(
    line: str, cpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"failing_{line.split()[0]}"
    (tmp_path / f"{name}.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(WorkloadError, match=f"can't import '{name}': ") as raised:
        build(cpus[:1], model=f"{name}:net")
    assert "import path" not in str(raised.value)


@pytest.mark.parametrize(
    ("model", "trainer"), [("nets:plain", "loop"), ("jobs:classifier", "loop"), ("jobs:classifier", "keras")]
)
@pytest.mark.parametrize("pipeline", ["of_bytes", "read_as_bytes", "of_doubles"])
def test_numbers_of_another_type_are_cast_to_the_models_as_fit_does(
    cpus: list[str], pipeline: str, model: str, trainer: str
) -> None:
    losses = [
        build(cpus[:1], model=model, input_pipeline=f"feeds:{batches}", trainer=trainer)[0].run(2)
        for batches in (pipeline, "of_floats")
    ]
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("feeds:of_two_batches", r"ends after 2 batch\(es\).*add .repeat\(\)"),
        ("feeds:images_alone", r"do not fit the model\n.*takes +\(float32 \[4, 8, 8, 3\], int32 \[4\]\)\n.*gives"),
        ("feeds:too_small", r"gives +\(float32 \[4, 7, 8, 3\], int32 \[4\]\)"),
        ("feeds:of_text", r"gives +\(string \[4, 8, 8, 3\]"),
        ("feeds:of_fractional_labels", r"takes +\(float32 \[4, 8, 8, 3\], int32 \[4\]\)\n.*gives +\(.*, float32 \[4\]"),
        ("feeds:nothing", "returned NoneType, not a tf.data.Dataset or a batch"),
    ],
)
def test_a_pipeline_that_cannot_be_used_says_why(cpus: list[str], pipeline: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=f"(?s)input_pipeline '{pipeline}'.*{message}"):
        build(cpus[:1], input_pipeline=pipeline)


def test_a_pipeline_without_training_gives_images_and_no_loss(cpus: list[str]) -> None:
    loop, _ = build(cpus[:2], input_pipeline="feeds:sliced_only")
    assert (loop.run(2), loop.examples_per_step) == (None, 8)


def test_a_users_pipeline_without_training_takes_no_optimizer(cpus: list[str]) -> None:
    alone = PipelineOnly((tf.zeros((1, 1, 1, 1)), tf.zeros(1, tf.int32)))
    workload = workload_of(input_pipeline="mine:alone", optimizer="momentum")
    with pytest.raises(WorkloadError, match="measured without training: leave out optimizer"):
        loop_for(workload, tf.distribute.OneDeviceStrategy(cpus[0]), None, alone)


@pytest.mark.parametrize("pipeline", ["feeds:generated", "feeds:generated_only"])
def test_a_dataset_that_ends_in_mid_run_says_so(cpus: list[str], pipeline: str) -> None:
    loop, _ = build(cpus[:1], input_pipeline=pipeline)
    with pytest.raises(WorkloadError, match=rf"'{pipeline}': its dataset ended.*add .repeat\(\)"):
        loop.run(4)


def test_a_weight_that_the_logits_do_not_depend_on_is_named(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], model="nets:with_an_unused_weight")
    with pytest.raises(WorkloadError, match=r"do not depend on these.*unused.*make them trainable=False"):
        loop.run(1)
