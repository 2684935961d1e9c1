"""`model.fit` in windows: it trains as our loop does, counts its steps, and never begins anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from building import assert_same, build, weights

from pytest_tfperf.errors import MeasurementError, WorkloadError
from pytest_tfperf.training.fit import FitLoop

Built = tuple[FitLoop, keras.Model]


@pytest.fixture
def fit() -> Iterator[Callable[..., Built]]:
    """`build` with Keras' trainer; its threads, which in a worker end with the process, end with the test."""
    made: list[FitLoop] = []

    def build_fit(devices: list[str], **workload: Any) -> Built:
        loop, model = build(devices, trainer="keras", **workload)
        made.append(loop)
        return loop, model

    yield build_fit
    for loop in made:
        if loop._thread.is_alive():
            loop._asked.put(None)  # type: ignore[arg-type]  # no number of steps: `fit` fails of it
            loop._thread.join()


UPDATES: list[dict[str, Any]] = [
    {},
    {"all_reduce": "hierarchical", "num_packs": 2},
    {"variable_update": "parameter_server"},
    {"input_pipeline": "device", "optimizer": "momentum"},
]


@pytest.mark.parametrize(("replicas", "update"), [(1, {}), *((2, update) for update in UPDATES)])
def test_fit_trains_as_the_loop_does(
    cpus: list[str], fit: Callable[..., Built], replicas: int, update: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"model": "nets:normalised", "input_pipeline": "feeds:sliced"} | update
    ours, model = build(cpus[:replicas], **asked)
    theirs, their_model = fit(cpus[:replicas], **asked)
    losses = [ours.run(1) for _ in range(3)]
    assert_same([theirs.run(1) for _ in range(3)], losses)
    assert_same(weights(their_model), weights(model))


@pytest.mark.parametrize("variable_update", ["replicated", "parameter_server"])
@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_fit_trains_as_the_loop_does_in_mixed_precision(
    cpus: list[str], fit: Callable[..., Built], precision: str, replicas: int, variable_update: str
) -> None:
    asked = {"model": "nets:normalised", "input_pipeline": "feeds:sliced"}
    asked |= {"precision": precision, "variable_update": variable_update}
    ours, _ = build(cpus[:replicas], **asked)
    theirs, _ = fit(cpus[:replicas], **asked)
    losses = [ours.run(1) for _ in range(3)]
    assert [theirs.run(1) for _ in range(3)] == pytest.approx(losses, rel=0.01)


@pytest.mark.parametrize(("precision", "scale"), [("mixed_float16", 128.0), ("mixed_bfloat16", None)])
def test_fit_scales_the_loss_as_the_loop_does(
    cpus: list[str], fit: Callable[..., Built], precision: str, scale: float | None
) -> None:
    _, model = fit(cpus[:1], precision=precision)
    assert (type(model.optimizer), model.optimizer.loss_scale_factor) == (keras.optimizers.SGD, scale)


def test_a_windows_loss_is_the_mean_of_its_steps(cpus: list[str], fit: Callable[..., Built]) -> None:
    singly, together = fit(cpus[:1])[0], fit(cpus[:1])[0]
    losses = [singly.run(1) for _ in range(5)]
    assert together.run(2) == pytest.approx(np.mean(losses[:2]), rel=1e-5)
    assert together.run(3) == pytest.approx(np.mean(losses[2:]), rel=1e-5)


def test_the_loss_falls_on_learnable_data(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, _ = fit(cpus[:1], model="nets:normalised", input_pipeline="feeds:learnable", batch_size=16)
    first = loop.run(1)
    loop.run(60)
    assert loop.run(1) < 0.5 * first


def test_windows_take_exactly_their_steps(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, model = fit(cpus[:1])
    taken = []
    for steps in (1, 3, 2):
        loop.run(steps)
        taken.append(int(model.optimizer.iterations))
    assert taken == [1, 4, 6]


def test_the_dataset_goes_on_from_window_to_window(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, model = fit(cpus[:1], model="nets:averaging", input_pipeline="feeds:numbered")
    seen = []
    for steps in (1, 2, 3):
        loop.run(steps)
        seen.append(float(model.layers[0].last))
    assert seen == [1.0, 3.0, 6.0]


def test_windows_of_any_length_share_one_trace(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, model = fit(cpus[:1], model="nets:counting_traces", input_pipeline="host")
    loop.run(1)
    traces = model.layers[0].traces
    loop.run(4)
    loop.run(2)
    assert model.layers[0].traces == traces


def test_fit_can_be_compiled_by_xla(cpus: list[str], fit: Callable[..., Built]) -> None:
    ours, _ = build(cpus[:1], model="nets:plain")
    assert fit(cpus[:1], model="nets:plain", xla=True)[0].run(1) == pytest.approx(ours.run(1), rel=1e-4)


def test_xla_is_off_where_it_was_not_asked_for(cpus: list[str], fit: Callable[..., Built]) -> None:
    assert fit(cpus[:1])[1].jit_compile is False


def test_a_window_of_no_steps_is_refused(cpus: list[str], fit: Callable[..., Built]) -> None:
    with pytest.raises(WorkloadError, match="at least 1 step"):
        fit(cpus[:1])[0].run(0)


def test_a_dataset_that_ends_while_training_says_so(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, _ = fit(cpus[:1], input_pipeline="feeds:generated")
    with pytest.raises(WorkloadError, match=r"'feeds:generated': its dataset ended.*add .repeat\(\)"):
        loop.run(5)


def test_a_step_that_fails_is_told_to_its_window(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, _ = fit(cpus[:1], model="nets:failing")
    with pytest.raises(tf.errors.InvalidArgumentError):
        loop.run(1)


def test_after_its_end_fit_is_not_waited_for(cpus: list[str], fit: Callable[..., Built]) -> None:
    loop, _ = fit(cpus[:1], model="nets:failing")
    with pytest.raises(tf.errors.InvalidArgumentError):
        loop.run(1)
    loop._thread.join()
    with pytest.raises(MeasurementError, match=r"model\.fit has ended"):
        loop.run(1)
