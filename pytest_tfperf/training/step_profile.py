"""What a worker finds out about its own step when the last window is done: see `pytest_tfperf.core.step_profile`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import keras
import tensorflow as tf

from pytest_tfperf.core.step_profile import Input
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.training.input_loop import InputLoop
from pytest_tfperf.training.multiply_adds import forward_multiply_adds
from pytest_tfperf.training.products import multiply_adds_per_sec
from pytest_tfperf.training.trainers import Windows

T = TypeVar("T")

PIPELINE_SECONDS = 0.6
_WINDOW_SECONDS = 0.005  # ten times what a call costs, and less than most waits


def examine(
    loop: Windows,
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    workload: Workload,
    *,
    products: bool,
    multiply_adds: bool,
) -> dict[str, Any]:
    """The fields of `StepProfile`, of one device; what fails is left out, and why stands in the log.

    Args:
        loop: has been run, and is not run again: batches are taken from its pipeline.
        strategy, model, workload: what it was made of.
        products: time matrix products, too.
        multiply_adds: count the model's, too.
    """
    if isinstance(loop, InputLoop):
        return {"input": Input.ALONE}
    found: dict[str, Any] = {"input": Input.RESIDENT if loop.fetch is None else Input.FETCHED}
    if (fetch := loop.fetch) is not None:
        found |= _tried(lambda: pipeline_alone(InputLoop(strategy, fetch, workload), PIPELINE_SECONDS)) or {}
    if multiply_adds:
        found["forward_multiply_adds"] = _tried(lambda: forward_multiply_adds(model))
    if products:
        device, dtype = strategy.extended.worker_devices[0], workload.precision.removeprefix("mixed_")
        found["products_multiply_adds_per_sec"] = _tried(lambda: multiply_adds_per_sec(device, dtype))
    return found


def pipeline_alone(loop: InputLoop, seconds: float) -> dict[str, float]:
    """Images a second that are fetched while nothing is trained, and the CPU time that each takes.

    The first half of the time only empties what lay ready. What counts then lies between two of the longest waits: a
    pipeline that gives a file's batches at once is told by whole files. The next wait may take twice as long again.
    """
    loop.run(1)  # traces
    steps, fetched, spent = 1, 0, 0.0
    while spent < seconds / 2:
        taken = _window(loop, steps).seconds
        fetched, spent = fetched + steps, spent + taken
        if taken < _WINDOW_SECONDS / 2:
            steps *= 2
    counted = _between_waits(loop, seconds / 2, max(1, round(_WINDOW_SECONDS * fetched / spent)))
    images = loop.images_per_step * sum(window.steps for window in counted)
    return {
        "pipeline_images_per_sec": images / sum(window.seconds for window in counted),
        "pipeline_core_seconds_per_image": sum(window.core_seconds for window in counted) / images,
    }


class _Fetched(NamedTuple):
    steps: int
    seconds: float
    core_seconds: float


def _window(loop: InputLoop, steps: int) -> _Fetched:
    started, cpu = time.perf_counter(), time.process_time()
    loop.run(steps)
    return _Fetched(steps, time.perf_counter() - started, time.process_time() - cpu)


def _between_waits(loop: InputLoop, seconds: float, steps: int) -> list[_Fetched]:
    """Windows from the end of one of the longest to the end of another; all, where there is but one such."""
    windows: list[_Fetched] = []
    while True:
        windows.append(_window(loop, steps))
        spent, longest = sum(one.seconds for one in windows), max(one.seconds for one in windows)
        waits = [place for place, one in enumerate(windows) if one.seconds > longest / 2]
        if spent >= seconds and (len(waits) > 1 or spent >= seconds + 2.5 * longest):
            return windows[waits[0] + 1 : waits[-1] + 1] or windows


def _tried(find_out: Callable[[], T]) -> T | None:
    try:
        return find_out()
    except Exception:  # whatever a user's pipeline or model raises: the windows are measured already
        traceback.print_exc()
        return None
