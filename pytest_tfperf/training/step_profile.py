"""A worker's measurements of its own step after the last window; see `pytest_tfperf.core.profile`.

The pipeline's rate, the model's multiply-adds, and the multiply-adds a second that the device reaches.
"""

from __future__ import annotations

import itertools
import math
import statistics
import time
import traceback
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import keras
import tensorflow as tf

from pytest_tfperf.core.profile import Input, RankStep, StepProfile
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.training.batches import ends_of
from pytest_tfperf.training.loop import InputLoop, Loop, TrainingLoop, sync_devices

T = TypeVar("T")

PIPELINE_SECONDS = 0.6
PRODUCTS_SECONDS = 0.5
_ALONE_SECONDS, _ALONE_WINDOWS = 0.15, 5
_WINDOW_SECONDS = 0.005  # ten times what a call costs, and less than most waits
_PRODUCT_WINDOWS = 5
_PRODUCT_SECONDS = 0.01  # for a product
_SMALLEST_SIDE, _LARGEST_SIDE = 512, 8192


def profile_step(
    loop: Loop,
    strategy: tf.distribute.Strategy,
    model: keras.Model,
    workload: Workload,
    *,
    matrix_products: bool,
    multiply_adds: bool,
    host: str = "",
    pipeline_seconds: float = PIPELINE_SECONDS,
    products_seconds: float = PRODUCTS_SECONDS,
) -> StepProfile:
    """The profile of one worker; a figure that fails is None, and the log says why.

    Args:
        loop: a loop that has run and will not run again, because batches are taken from its pipeline.
        strategy, model, workload: the arguments that the loop was made with.
        matrix_products: also time matrix products, on the first device.
        multiply_adds: also count the model's multiply-adds.
        host: this rank's host if several ranks train: then steps without the exchange are timed too; "" otherwise.
        pipeline_seconds, products_seconds: the time for each, about.
    """
    if isinstance(loop, InputLoop):
        return StepProfile(input=Input.ALONE)
    pipeline, work, rate, alone = None, None, None, None
    if (fetch := loop.fetch) is not None:
        inputs = InputLoop(strategy, fetch, workload, loop.examples_per_step, loop.unit)
        pipeline = _tried(lambda: pipeline_rate(inputs, pipeline_seconds))
    if host and isinstance(loop, TrainingLoop) and (solo := loop.without_exchange()) is not None:
        alone = _tried(lambda: seconds_alone(solo))
    if multiply_adds:
        counted = loop.examples_per_step / (workload.batch_size * loop.replicas)  # tokens of an example, or 1
        work = _tried(lambda: round(forward_multiply_adds(model) / counted))
    if matrix_products:
        device, dtype = strategy.extended.worker_devices[0], workload.precision.removeprefix("mixed_")
        rate = _tried(lambda: matrix_product_rate(device, dtype, products_seconds))
    return StepProfile(
        input=Input.RESIDENT if fetch is None else Input.FETCHED,
        pipeline_examples_per_sec=pipeline.examples_per_sec if pipeline else None,
        pipeline_core_seconds_per_example=pipeline.core_seconds_per_example if pipeline else None,
        forward_multiply_adds=work,
        products_multiply_adds_per_sec=rate,
        exchanges=_exchanges(strategy, loop, workload),
        ranks=() if alone is None else (RankStep(host=host, seconds=alone),),
    )


def _exchanges(strategy: tf.distribute.Strategy, loop: Loop, workload: Workload) -> bool:
    """Whether gradients cross links of GPUs or nodes in a step; CPU devices of one process share their memory."""
    if workload.forward_only or workload.variable_update is VariableUpdate.INDEPENDENT:
        return False
    local = strategy.extended.worker_devices
    return loop.replicas > len(local) or (len(local) > 1 and any("GPU" in device for device in local))


def seconds_alone(loop: TrainingLoop) -> float:
    """Seconds of this rank's step without the exchange; the median of some windows."""
    loop.run(1)  # traces
    started = time.perf_counter()
    loop.run(1)
    steps = max(1, round(_ALONE_SECONDS / (time.perf_counter() - started)))
    seconds = []
    for _ in range(_ALONE_WINDOWS):
        started = time.perf_counter()
        loop.run(steps)
        seconds.append((time.perf_counter() - started) / steps)
    return statistics.median(seconds)


class PipelineRate(NamedTuple):
    """A pipeline's rate while nothing is trained, and the CPU time that it needs."""

    examples_per_sec: float
    core_seconds_per_example: float


def pipeline_rate(loop: InputLoop, seconds: float) -> PipelineRate:
    """Fetch batches for about `seconds`, and return the pipeline's rate.

    The first half of the time only empties the buffers. The second half is measured from one of its longest waits to
    another, so that a pipeline that gives a file's batches at once is measured over whole files.
    """
    loop.run(1)  # traces
    steps, fetched, spent = 1, 0, 0.0
    while spent < seconds / 2:
        taken = _window(loop, steps).seconds
        fetched, spent = fetched + steps, spent + taken
        if taken < _WINDOW_SECONDS / 2:
            steps *= 2
    counted = _between_waits(loop, seconds / 2, max(1, round(_WINDOW_SECONDS * fetched / spent)))
    images = loop.examples_per_step * sum(window.steps for window in counted)
    return PipelineRate(
        examples_per_sec=images / sum(window.seconds for window in counted),
        core_seconds_per_example=sum(window.core_seconds for window in counted) / images,
    )


class _Window(NamedTuple):
    steps: int
    seconds: float
    core_seconds: float


def _window(loop: InputLoop, steps: int) -> _Window:
    started, cpu = time.perf_counter(), time.process_time()
    loop.run(steps)
    return _Window(steps, time.perf_counter() - started, time.process_time() - cpu)


def _between_waits(loop: InputLoop, seconds: float, steps: int) -> list[_Window]:
    """Windows from the end of one long wait to the end of another; all windows if only one wait was long.

    Measures for `seconds`. If only one wait was long by then, it goes on for 2.5 times that wait, to see another.
    """
    windows: list[_Window] = []
    while True:
        windows.append(_window(loop, steps))
        spent, longest = sum(window.seconds for window in windows), max(window.seconds for window in windows)
        waits = [index for index, window in enumerate(windows) if window.seconds > longest / 2]
        if spent >= seconds and (len(waits) > 1 or spent >= seconds + 2.5 * longest):
            return windows[waits[0] + 1 : waits[-1] + 1] or windows


def _tried(measure: Callable[[], T]) -> T | None:
    try:
        return measure()
    except Exception:  # whatever a user's pipeline or model raises: the windows are measured already
        traceback.print_exc()
        return None


def forward_multiply_adds(model: keras.Model) -> int:
    """Multiply-adds of an example's forward pass, in convolutions and matrix products; other operations have very few.

    Traces the model once. Operations inside loops and conditions are not counted.

    Raises:
        AttributeError, ValueError: the model does not say what it takes, or this TensorFlow keeps the graphs of called
            functions elsewhere than expected.
    """
    forward = tf.function(lambda inputs: model(inputs, training=False), autograph=False)
    example = keras.tree.map_structure(lambda part: tf.TensorSpec((1, *part.shape[1:]), part.dtype), ends_of(model)[0])
    return _in_graph(forward.get_concrete_function(example).graph)


def _in_graph(graph: tf.Graph) -> int:
    return sum(map(_of_operation, graph.get_operations()))


def _of_operation(operation: tf.Operation) -> int:
    outputs = [tensor.shape for tensor in operation.outputs]
    match operation.type:
        case "Conv2D" | "Conv3D":  # filters: [height, width, inputs of a group, outputs]
            return int(math.prod(outputs[0]) * math.prod(operation.inputs[1].shape[:-1]))
        case "DepthwiseConv2dNative":  # filters: [height, width, channels, outputs of each]
            return int(math.prod(outputs[0]) * math.prod(operation.inputs[1].shape[:2]))
        case "MatMul":
            inner = operation.inputs[0].shape[0 if operation.get_attr("transpose_a") else 1]
            return int(math.prod(outputs[0]) * inner)
        case "BatchMatMulV2":
            inner = operation.inputs[0].shape[-2 if operation.get_attr("adj_x") else -1]
            return int(math.prod(outputs[0]) * inner)
        case "Einsum":  # a product for each combination of all indices
            words = operation.get_attr("equation").decode().partition("->")[0].split(",")
            shapes = [part.shape for part in operation.inputs]
            sizes = dict(zip("".join(words), itertools.chain.from_iterable(shapes), strict=True))
            return math.prod(sizes.values()) if len(words) > 1 else 0
        case "PartitionedCall" | "StatefulPartitionedCall":
            # Keras makes a function of a convolution in groups. TensorFlow has no public way to its graph.
            return _in_graph(operation.graph._get_function(operation.get_attr("f").name).graph)
        case _:
            return 0


def matrix_product_rate(device: str, dtype: str, seconds: float = 0.5) -> float:
    """Multiply-adds a second in products of square matrices of random numbers: the fastest of some windows.

    The fastest counts, because other processes can only slow a window down. The side doubles from 512 until one product
    takes 10 ms, or memory is short, or it is 8192; beyond that a larger product is not faster.

    Args:
        device: "GPU:0".
        dtype: of the factors: "float32", "float16", "bfloat16".
        seconds: the time for all windows, about.
    """
    ends = time.perf_counter() + seconds
    side = _SMALLEST_SIDE
    taken = _seconds_of_product(device, dtype, side, 1)
    while taken < _PRODUCT_SECONDS and side < _LARGEST_SIDE:
        try:
            taken = _seconds_of_product(device, dtype, 2 * side, 1)
        except tf.errors.ResourceExhaustedError:
            break
        side *= 2
    products = max(1, round(seconds / 2 / _PRODUCT_WINDOWS / taken))
    windows: list[float] = []
    while len(windows) < 2 or time.perf_counter() < ends:
        windows.append(_seconds_of_product(device, dtype, side, products))
    return float(side**3 / min(windows))


def _seconds_of_product(device: str, dtype: str, side: int, products: int) -> float:
    """Seconds of a product, after a first one in which the device's libraries choose their algorithm."""
    with tf.device(device):
        factor = tf.cast(tf.random.normal((side, side)), dtype)
        tf.linalg.matmul(factor, factor)
        sync_devices([device])
        started = time.perf_counter()
        for _ in range(products):
            tf.linalg.matmul(factor, factor)
        sync_devices([device])
    return (time.perf_counter() - started) / products
