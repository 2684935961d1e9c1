"""Users' own models and pipelines: they train, or the message says what is wrong with them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from building import build

import pytest_tfperf
from pytest_tfperf.errors import WorkloadError


def test_every_public_name_is_there_where_tensorflow_is() -> None:
    assert [name for name in pytest_tfperf.__all__ if not hasattr(pytest_tfperf, name)] == []


@pytest.mark.parametrize("pipeline", ["feeds:learnable", "feeds:of_unknown_shape"])
def test_a_users_pipeline_feeds_a_users_model(cpus: list[str], pipeline: str) -> None:
    assert math.isfinite(build(cpus[:2], input_pipeline=pipeline)[0].run(2))


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


def test_a_pipeline_without_training_gives_images_and_no_loss(cpus: list[str]) -> None:
    loop, _ = build(cpus[:2], input_pipeline="feeds:sliced_only")
    assert (loop.run(2), loop.examples_per_step) == (None, 8)


def test_a_weight_that_the_logits_do_not_depend_on_is_named(cpus: list[str]) -> None:
    loop, _ = build(cpus[:1], model="nets:with_an_unused_weight")
    with pytest.raises(WorkloadError, match=r"do not depend on these.*unused.*make them trainable=False"):
        loop.run(1)
