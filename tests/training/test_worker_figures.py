"""The figures that a worker measures of itself."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from pytest_tfperf.training import worker
from pytest_tfperf.training.worker import WorkerFigures, _answer
from pytest_tfperf.workers.wire import ConnectionLost


def compilations(*arguments: tf.Tensor) -> float | None:
    """Of a function that is called with each after its first step."""
    figures, function = WorkerFigures(), tf.function(lambda x: x + 1)
    function(tf.constant(0))
    gc.freeze()  # as the worker does before its windows
    figures.step_ended(1, counts_traces=True)
    for argument in arguments:
        function(argument)
    figures.step_ended(10, counts_traces=True)
    return figures.compilations


def test_a_function_is_compiled_once_for_each_kind_of_argument() -> None:
    assert compilations(tf.constant(2), tf.constant([1]), tf.constant([1.0])) == 2


def test_what_the_first_step_compiled_does_not_count() -> None:
    assert compilations(tf.constant(2), tf.constant(3)) == 0


class Gpu:
    """Its allocator, and a training whose warm-up needs scratch."""

    examples_per_step, unit, replicas, fetch = 1, "images", 1, None

    def __init__(self) -> None:
        self.peak = 8  # of the first step, when cuDNN tries algorithms

    def begin_window(self) -> None: ...

    def run(self, steps: int) -> None:
        self.peak = max(self.peak, 2)

    def reset(self, device: str) -> None:
        self.peak = 1  # what is in use between two steps


class Requests:
    """The driver's side of the channel."""

    def __init__(self, *requests: dict[str, Any]) -> None:
        self.requests, self.answers = list(requests), []

    def send(self, answer: dict[str, Any]) -> None:
        self.answers.append(answer)

    def receive(self) -> dict[str, Any]:
        if not self.requests:
            raise ConnectionLost
        return self.requests.pop(0)


def test_the_scratch_in_which_cudnn_tries_algorithms_is_no_part_of_a_gpus_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, driver = Gpu(), Requests({"steps": 1}, {"steps": 5}, {"figures": ["peak_memory"]})
    monkeypatch.setattr(worker, "own_devices", lambda _: ["GPU:0"])
    monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", gpu.reset)
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda _: {"peak": gpu.peak})
    job = SimpleNamespace(reports_modules=False, slowdown=0.0, counts_traces=False)
    with pytest.raises(ConnectionLost):
        _answer(driver, gpu, job, 0.0, {}, None, WorkerFigures())
    assert driver.answers[-1] == {"figures": {"peak_memory": 2}}


class TracedAnew:
    """A training that traces its function anew in each step."""

    examples_per_step, unit, replicas, fetch = 1, "images", 1, None

    def __init__(self) -> None:
        self.steps, self.function = 0, tf.function(lambda step: tf.constant(step))

    def begin_window(self) -> None: ...

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.steps += 1
            self.function(self.steps)


@pytest.mark.parametrize("steps_of_a_window", [1, 5])
def test_compilations_are_counted_up_to_the_same_step_however_fast_the_steps_are(steps_of_a_window: int) -> None:
    training = TracedAnew()
    windows = [{"steps": 9}, *[{"steps": steps_of_a_window}] * 3]
    driver = Requests(*windows, {"figures": ["compilations"]})
    job = SimpleNamespace(reports_modules=False, slowdown=0.0, counts_traces=True)
    training.run(1)
    with pytest.raises(ConnectionLost):
        _answer(driver, training, job, 0.0, {}, None, WorkerFigures())
    assert driver.answers[-1] == {"figures": {"compilations": 9}}
