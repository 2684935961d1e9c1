"""What a worker finds out about its own step when the last window is done: see `pytest_tfperf.parts`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

import keras
import tensorflow as tf

from pytest_tfperf.parts import Input
from pytest_tfperf.training.input_loop import InputLoop
from pytest_tfperf.training.multiply_adds import forward_multiply_adds
from pytest_tfperf.training.products import multiply_adds_per_sec
from pytest_tfperf.training.trainers import Windows
from pytest_tfperf.workload import Workload

T = TypeVar("T")

PIPELINE_SECONDS = 0.6
_WINDOW_SECONDS = 0.05
_LEAST_WINDOWS = 2


def examine(
    loop: Windows,
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    workload: Workload,
    *,
    products: bool,
    multiply_adds: bool,
) -> dict[str, Any]:
    """The fields of `Parts`, of one device; what fails is left out, and why stands in the log.

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

    Only the later half counts: the first batches may have lain ready.
    """
    loop.run(1)  # traces
    windows: list[tuple[int, float, float]] = []
    steps, spent = 1, 0.0
    while spent < seconds or len(windows) < _LEAST_WINDOWS:
        started, cpu = time.perf_counter(), time.process_time()
        loop.run(steps)
        taken = time.perf_counter() - started
        windows.append((steps, taken, time.process_time() - cpu))
        spent += taken
        if taken < _WINDOW_SECONDS / 2:
            steps *= 2
    later = _later_half(windows, spent)
    images = loop.images_per_step * sum(count for count, _, _ in later)
    return {
        "pipeline_images_per_sec": images / sum(taken for _, taken, _ in later),
        "pipeline_core_seconds_per_image": sum(cpu for _, _, cpu in later) / images,
    }


def _later_half(windows: list[tuple[int, float, float]], spent: float) -> list[tuple[int, float, float]]:
    """Those that began after half of the time; the last, at least."""
    began, later = 0.0, []
    for window in windows:
        if began >= spent / 2:
            later.append(window)
        began += window[1]
    return later or windows[-1:]


def _tried(find_out: Callable[[], T]) -> T | None:
    try:
        return find_out()
    except Exception:  # whatever a user's pipeline or model raises: the windows are measured already
        traceback.print_exc()
        return None
