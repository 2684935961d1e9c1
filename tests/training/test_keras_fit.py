"""`model.fit` in windows: it trains as our loop does, counts its steps, and continues from window to window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build, weights, window

from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.training.keras_fit import FitLoop

Built = tuple[FitLoop, keras.Model]


@pytest.fixture
def fit() -> Iterator[Callable[..., Built]]:
    """`build` with Keras' trainer, for loops that run; their threads end with the test (in a worker: the process)."""
    made: list[Built] = []

    def build_fit(devices: list[str], **choices: Any) -> Built:
        made.append(build(devices, trainer="keras", **choices))
        return made[-1]

    yield build_fit
    for loop, model in made:
        model.stop_training = True
        with suppress(Exception):  # `fit` ends, which is an error to its window
            loop.run(1)


@pytest.mark.parametrize(
    ("replicas", "update"),
    [
        (1, {}),
        (2, {"all_reduce": "hierarchical", "num_packs": 2}),
        (2, {"variable_update": "parameter_server"}),
        (2, {"input_pipeline": "device", "optimizer": "momentum"}),
    ],
)
def test_fit_trains_as_the_loop_does(
    cpus: list[str], fit: Callable[..., Built], replicas: int, update: dict[str, Any]
) -> None:
    choices: dict[str, Any] = {"model": "nets:normalised", "input_pipeline": "feeds:sliced"} | update
    ours, model = build(cpus[:replicas], **choices)
    theirs, their_model = fit(cpus[:replicas], **choices)
    losses = [window(ours, 1) for _ in range(3)]
    assert_same([window(theirs, 1) for _ in range(3)], losses)
    assert_same(weights(their_model), weights(model))


@pytest.mark.parametrize(
    ("precision", "variable_update"),
    [
        ("mixed_float16", "replicated"),
        pytest.param("mixed_float16", "parameter_server", marks=pytest.mark.slow),
        pytest.param("mixed_bfloat16", "replicated", marks=pytest.mark.slow),
    ],
)
def test_fit_trains_as_the_loop_does_in_mixed_precision(
    cpus: list[str], fit: Callable[..., Built], precision: str, variable_update: str
) -> None:
    choices = {"model": "nets:normalised", "input_pipeline": "feeds:sliced"}
    choices |= {"precision": precision, "variable_update": variable_update}
    ours, _ = build(cpus[:2], **choices)
    theirs, _ = fit(cpus[:2], **choices)
    losses = [window(ours, 1) for _ in range(3)]
    assert [window(theirs, 1) for _ in range(3)] == pytest.approx(losses, rel=0.01)


@pytest.mark.parametrize(("precision", "scale"), [("mixed_float16", 128.0), ("mixed_bfloat16", None)])
def test_keras_optimizer_has_the_loops_loss_scale_and_no_xla(
    cpus: list[str], precision: str, scale: float | None
) -> None:
    _, model = build(cpus[:1], trainer="keras", precision=precision)
    assert (type(model.optimizer), model.optimizer.loss_scale_factor) == (keras.optimizers.SGD, scale)
    assert model.jit_compile is False


def test_layers_that_fit_makes_have_the_workloads_precision(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, model = fit(cpus[:1], precision="mixed_bfloat16")
    seen: list[str] = []
    model.fit = lambda *_, **__: seen.append(keras.config.dtype_policy().name)
    with pytest.raises(MeasurementError, match="ended by itself"):
        loop.run(1)
    assert seen == ["mixed_bfloat16"]


def test_a_windows_loss_is_the_mean_of_its_steps(cpus: list[str], fit: Callable[..., Built]) -> None:
    singly, together = fit(cpus[:1])[0], fit(cpus[:1])[0]
    losses = [window(singly, 1) for _ in range(5)]
    assert window(together, 2) == pytest.approx(np.mean(losses[:2]), rel=1e-5)
    assert window(together, 3) == pytest.approx(np.mean(losses[2:]), rel=1e-5)


def test_windows_of_any_length_continue_the_dataset_and_share_one_trace(
    cpus: list[str], fit: Callable[..., Built]
) -> None:
    loop, model = fit(cpus[:1], model="nets:watching", input_pipeline="feeds:numbered")
    watching = model.layers[0]
    taken = []
    for steps in (1, 3, 2):
        loop.run(steps)
        taken.append((int(model.optimizer.iterations), float(watching.last), watching.traces))
    traces = watching.traces
    assert taken == [(1, 1.0, traces), (4, 4.0, traces), (6, 6.0, traces)]


@pytest.mark.slow
def test_fit_can_be_compiled_by_xla(cpus: list[str], fit: Callable[..., Built]) -> None:
    ours, _ = build(cpus[:1], model="nets:plain")
    assert fit(cpus[:1], model="nets:plain", xla=True)[0].run(1) == pytest.approx(ours.run(1), rel=1e-4)


def test_a_dataset_that_ends_while_training_says_so(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, _ = fit(cpus[:1], input_pipeline="feeds:generated")
    with pytest.raises(WorkloadError, match=r"'feeds:generated': its dataset ended.*add .repeat\(\)"):
        loop.run(5)


def test_a_failing_step_is_its_windows_error_and_the_next_window_does_not_hang(
    cpus: list[str], fit: Callable[..., Built]
) -> None:
    loop, _ = fit(cpus[:1], model="nets:failing")
    with pytest.raises(tf.errors.InvalidArgumentError):
        loop.run(1)
    with pytest.raises(MeasurementError, match=r"model\.fit has ended"):
        loop.run(1)
