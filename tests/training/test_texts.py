"""The `tokens` pipeline, and the data set that `tfperf make-tokens` writes for it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from building import build, window, workload_of

from pytest_tfperf.errors import TfperfError, WorkloadError
from pytest_tfperf.training.loading import input_spec, load_model, load_pipeline, loop_for
from pytest_tfperf.training.make_data import make_data
from pytest_tfperf.training.strategies import strategy_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "texts"
    make_data("tokens", folder, count=600, shards=3, seed=1)
    return folder


def loaded(devices: list[str], texts: Path, **choices: Any) -> tuple[Any, Any, Any, Any]:
    workload = workload_of(**{"model": "bert-tiny", "input_pipeline": "tokens", **choices})
    strategy = strategy_for(workload, devices)
    model = load_model(workload, strategy)
    inputs = load_pipeline(workload, input_spec(workload, model, strategy, data_dir=str(texts)))
    return workload, strategy, model, inputs


def test_a_batch_has_the_features_that_are_named_as_the_models_inputs(cpus: list[str], texts: Path) -> None:
    *_, inputs = loaded(cpus[:1], texts, batch_size=16)
    found, labels = next(iter(inputs))
    assert set(found) == {"input_ids", "input_mask", "segment_ids"}
    assert {(tuple(part.shape), part.dtype) for part in found.values()} == {((16, 128), tf.int64)}
    assert set(labels.numpy()) == {0, 1}
    assert np.array_equal(found["input_ids"].numpy() > 0, found["input_mask"].numpy() > 0)


def test_one_seed_gives_the_same_batches(cpus: list[str], texts: Path) -> None:
    first, again = ([labels.numpy() for _, labels in islice(loaded(cpus[:1], texts)[3], 5)] for _ in range(2))
    assert np.array_equal(first, again)


def test_the_loss_of_a_transformer_falls_on_texts_that_it_can_learn(cpus: list[str], tmp_path: Path) -> None:
    make_data("tokens", tmp_path, count=2, shards=1, seed=1)
    loaded_for = loaded(cpus[:1], tmp_path, model="jobs:bert_by_adam", batch_size=2)
    loop = loop_for(*loaded_for)
    first = window(loop, 2)
    loop.run(33)
    assert window(loop, 2) < 0.5 * first


def test_the_loss_of_a_transformer_falls_by_gradient_descent(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], model="bert-tiny", batch_size=2, optimizer="momentum")
    first = loop.run(1)
    assert loop.run(30) < 0.5 * first


def test_a_model_of_images_is_refused_with_what_it_takes(cpus: list[str], texts: Path) -> None:
    with pytest.raises(WorkloadError, match=r"gives token ids of fixed length.*the model takes \(float32"):
        loaded(cpus[:1], texts, model="nets:plain")


@pytest.mark.parametrize(
    ("counts", "message"), [((2, 3), "at least one text for each shard"), ((600, 3), "has files tokens-")]
)
def test_nothing_is_overwritten(texts: Path, counts: tuple[int, int], message: str) -> None:
    with pytest.raises(TfperfError, match=message):
        make_data("tokens", texts, *counts, seed=1)


def test_one_seed_gives_the_same_files(texts: Path, tmp_path: Path) -> None:
    make_data("tokens", tmp_path, count=600, shards=3, seed=1)
    assert [file.read_bytes() for file in sorted(tmp_path.iterdir())] == [
        file.read_bytes() for file in sorted(texts.iterdir())
    ]
