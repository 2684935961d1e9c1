"""Measurements after a worker's last window: the parts of its step by themselves, and a few steps under the profiler.

The parts are the pipeline's rate, the model's multiply-adds, and the multiply-adds a second that the device reaches.
The profiler's trace (an XSpace message) gives the time of each operation.
"""

from __future__ import annotations

import base64
import itertools
import math
import re
import statistics
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import keras
import tensorflow as tf

from pytest_tfperf.core.profile import MOST_XSPACE_BYTES, Input, OpTime, RankStep, StepProfile, Trace
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.core.workload import VariableUpdate, Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.training.devices import own_devices
from pytest_tfperf.training.input_spec import ends_of
from pytest_tfperf.training.loop import InputLoop, Loop, TrainingLoop, sync_devices
from pytest_tfperf.training.strategies import DeviceServer

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
) -> StepProfile:
    """The profile of one worker; a figure that fails is None, and the log says why.

    `loop` has run and will not run again, because batches are taken from its pipeline. Matrix products are timed on the
    first device. `host` is this rank's if several ranks train: then steps without the exchange are timed too.
    """
    if isinstance(loop, InputLoop):
        return StepProfile(input=Input.ALONE)
    pipeline, work, rate, alone = None, None, None, None
    if (fetch := loop.fetch) is not None:
        inputs = InputLoop(strategy, fetch, workload, loop.examples_per_step, loop.unit)
        pipeline = _tried(lambda: pipeline_rate(inputs, PIPELINE_SECONDS))
    if host and isinstance(loop, TrainingLoop) and (solo := loop.without_exchange()) is not None:
        alone = _tried(lambda: seconds_alone(solo))
    if multiply_adds:
        counted = loop.examples_per_step / (workload.batch_size * loop.replicas)  # tokens of an example, or 1
        work = _tried(lambda: round(forward_multiply_adds(model) / counted))
    if matrix_products:
        device, dtype = strategy.extended.worker_devices[0], workload.precision.removeprefix("mixed_")
        rate = _tried(lambda: matrix_product_rate(device, dtype, PRODUCTS_SECONDS))
    return StepProfile(
        input=Input.RESIDENT if fetch is None else Input.FETCHED,
        pipeline_examples_per_sec=pipeline[0] if pipeline else None,
        pipeline_core_seconds_per_example=pipeline[1] if pipeline else None,
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
    steps = max(1, round(_ALONE_SECONDS / _window(loop, 1).seconds))
    return statistics.median(_window(loop, steps).seconds / steps for _ in range(_ALONE_WINDOWS))


def pipeline_rate(loop: InputLoop, seconds: float) -> tuple[float, float]:
    """Fetch batches for about `seconds`; returns the pipeline's examples a second, and core-seconds per example.

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
    examples = loop.examples_per_step * sum(window.steps for window in counted)
    return (
        examples / sum(window.seconds for window in counted),
        sum(window.core_seconds for window in counted) / examples,
    )


class _Window(NamedTuple):
    steps: int
    seconds: float
    core_seconds: float


def _window(loop: Loop, steps: int) -> _Window:
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
        case "MatMul" | "BatchMatMulV2":
            is_transposed = operation.get_attr("transpose_a" if operation.type == "MatMul" else "adj_x")
            return int(math.prod(outputs[0]) * operation.inputs[0].shape[-2 if is_transposed else -1])
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


def matrix_product_rate(device: str, dtype: str, seconds: float) -> float:
    """Multiply-adds a second in products of square matrices of random numbers: the fastest of some windows.

    The fastest counts, because other processes can only slow a window down. The side doubles from 512 until one product
    takes 10 ms, or memory is short, or it is 8192; beyond that a larger product is not faster. All windows together
    take about `seconds`.
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


# Under the profiler

_HOST, _GPU, _PROGRAMS = "/host:CPU", "/device:GPU:", "/host:metadata"
_STREAM = "Stream #"  # other lines of a GPU are made of these, and would count twice

# TensorFlow writes a host event for each operation that it runs: "while/body/_1/while/dense/MatMul:MatMul".
_OPERATION = re.compile(r"(?P<name>[A-Za-z0-9.][\w.\\/>-]*):(?P<type>[A-Za-z_]\w*)")

# Outside of a graph an operation has a type only; functions that run there are in lower case.
_EAGER = re.compile(r"EagerLocalExecute: (?P<type>[A-Z]\w*)")

# A stage of a tf.data pipeline, with the stages that it feeds; repeated datasets are numbered.
_STAGE = re.compile(r"Iterator::\w.*")
_REPETITION = re.compile(r"\[\d+\]")

# The window's loop, and the replica: the same operation runs in all of them.
_LOOP = re.compile(r"(^|/)(while/(body|cond)/_\d+|while|replica_\d+)(?=/)")

# TensorFlow and XLA number operations of a kind, so that an added layer would rename the operations of all later ones.
_NUMBER = re.compile(r"(?<=\w)[._]\d+$")

# oneDNN's kernels compute the same operations.
_ONEDNN = re.compile(r"^_Mkl(Native)?")

_Op = tuple[str, str]  # name and type

MOST_BYTES = 60 * 1024 * 1024  # of a trace in base64: a message of the wire may have 64 MiB


def trace_steps(loop: Loop, steps: int) -> Trace:
    """Take `steps` steps of a loop that is warmed up, under the profiler.

    Python functions are not traced: it would take longer than the steps of a small model. A rank that lends its devices
    takes no steps, so its trace may lack the operations that it computes for rank 0.

    Raises:
        tf.errors.OpError: the profiler runs already, or can't write to the temporary folder.
        MeasurementError: as `op_times`.
    """
    options = tf.profiler.experimental.ProfilerOptions(
        host_tracer_level=2, python_tracer_level=0, device_tracer_level=1
    )
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder, options)
        try:
            loop.run(steps)
        finally:
            tf.profiler.experimental.stop()
        (file,) = Path(folder).glob("plugins/profile/*/*.xplane.pb")
        data, host = file.read_bytes(), file.name.removesuffix(".xplane.pb")
    xspace = base64.b64encode(zlib.compress(data, level=1)).decode()
    too_large = len(xspace) > MOST_BYTES or len(data) > MOST_XSPACE_BYTES
    return Trace(
        host=host,
        steps=steps,
        ops=op_times(data, steps, has_gpus=not isinstance(loop, DeviceServer) and bool(own_devices(DeviceKind.GPU))),
        xspace="" if too_large else xspace,
        fault=f"a trace of {steps} steps is too large to send: {len(data) / 2**20:,.0f} MiB" if too_large else "",
    )


def op_times(xspace: bytes, steps: int, *, has_gpus: bool = False) -> tuple[OpTime, ...]:
    """Each operation that ran, in no order, with its time and count in a step.

    Where an operation ran on a GPU its kernels count, and not the time that the host took to launch them.

    Raises:
        MeasurementError: GPUs trained, and the trace has none of their kernels.
    """
    # TensorFlow's own modules, but no part of its API: where they are missing, only the profile fails.
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    space = xplane_pb2.XSpace.FromString(xspace)
    compiled = _compiled_by_xla(space)
    on_host = _times(_events(space, _HOST, compiled))
    on_gpus = _times(_events(space, _GPU, compiled))
    if has_gpus and not on_gpus:
        why = "; ".join(space.errors) or "is CUPTI installed, and may this user profile?"
        raise MeasurementError(f"the profiler saw no kernel of the GPUs: {why}")
    launched = {name for name, _ in on_gpus}
    times = on_gpus | {op: time for op, time in on_host.items() if op[0] not in launched}
    return tuple(
        OpTime(name=name, type=kind, seconds=picoseconds * 1e-12 / steps, count=count / steps)
        for (name, kind), (picoseconds, count) in times.items()
    )


def _compiled_by_xla(space: Any) -> dict[tuple[str, str], _Op]:
    """The operations that XLA made its instructions of, by module and instruction."""
    compiled: dict[tuple[str, str], _Op] = {}
    for plane in space.planes:
        if plane.name != _PROGRAMS:
            continue
        from tensorflow.compiler.xla.service import hlo_pb2

        programs = [stat.bytes_value for about in plane.event_metadata.values() for stat in about.stats]
        for module in (hlo_pb2.HloProto.FromString(program).hlo_module for program in programs):
            for instruction in (found for computation in module.computations for found in computation.instructions):
                metadata = instruction.metadata
                if metadata.op_name and metadata.op_type:
                    compiled[module.name, instruction.name] = _named(metadata.op_name, metadata.op_type)
    return compiled


def _times(events: Iterable[tuple[_Op, int]]) -> dict[_Op, tuple[int, int]]:
    """Picoseconds and count of each operation."""
    times: dict[_Op, tuple[int, int]] = {}
    for op, taken in events:
        picoseconds, count = times.get(op, (0, 0))
        times[op] = picoseconds + taken, count + 1
    return times


def _events(space: Any, planes: str, compiled: Mapping[tuple[str, str], _Op]) -> Iterator[tuple[_Op, int]]:
    """Each event of an operation on the host or the GPUs, with the picoseconds that no operation inside it took."""
    for plane in space.planes:
        if not plane.name.startswith(planes):
            continue
        stats = {number: stat.name for number, stat in plane.stat_metadata.items()}
        names = {number: about.name for number, about in plane.event_metadata.items()}
        has_texts = planes == _GPU or "hlo_op" in stats.values()  # reading them takes long, and most events have none
        for line in plane.lines:
            if planes == _GPU and not line.name.startswith(_STREAM):
                continue
            found = [
                (event, _op_of(event, names[event.metadata_id], stats if has_texts else {}, compiled, planes == _GPU))
                for event in line.events
            ]
            yield from _without_inner(
                (event.offset_ps, event.offset_ps + event.duration_ps, op) for event, op in found if op
            )


def _without_inner(events: Iterable[tuple[int, int, _Op]]) -> Iterator[tuple[_Op, int]]:
    """Each event (begin, end, operation) of a thread or stream, with the time that no event inside it took."""
    open_events: list[tuple[int, int, _Op]] = []  # end, time of its own so far, operation
    for begin, end, op in sorted(events, key=lambda event: (event[0], -event[1])):  # outer events before inner ones
        while open_events and open_events[-1][0] <= begin:
            _, own, ended = open_events.pop()
            yield ended, max(0, own)
        if open_events:
            until, own, outer = open_events[-1]
            open_events[-1] = until, own - (end - begin), outer
        open_events.append((end, end - begin, op))
    yield from ((op, max(0, own)) for _, own, op in open_events)


def _op_of(
    event: Any, name: str, stats: Mapping[int, str], compiled: Mapping[tuple[str, str], _Op], is_on_gpu: bool
) -> _Op | None:
    """The operation that an event is of, if any; each event of a GPU is of one, if only a copy from the host."""
    op = _op_of_name(name)
    if op is not None or not (stats or is_on_gpu):
        return op
    texts = {
        stats.get(stat.metadata_id, ""): stats.get(stat.ref_value, "") if kind == "ref_value" else stat.str_value
        for stat in event.stats
        if (kind := stat.WhichOneof("value")) in ("ref_value", "str_value")
    }
    if instruction := texts.get("hlo_op"):
        return compiled.get((texts.get("hlo_module", ""), instruction)) or _named(instruction, "XLA")
    return (_op_of_name(texts.get("tf_op", "")) or (name, "kernel")) if is_on_gpu else None


@cache  # a trace may have millions of events, with a few thousand names
def _op_of_name(name: str) -> _Op | None:
    if operation := _OPERATION.fullmatch(name) or _EAGER.fullmatch(name):
        kind = operation["type"]
        if kind == "SyncDevice":  # the worker itself waits with this for the end of a window
            return None
        return _named(operation.groupdict().get("name", kind), kind)
    return (_REPETITION.sub("", name), "Dataset") if _STAGE.fullmatch(name) else None


def _named(name: str, kind: str) -> _Op:
    """The name without loop, replica and number, and the type, that of the operation for a kernel of oneDNN's."""
    return _NUMBER.sub("", _LOOP.sub("", name).removeprefix("/")), _ONEDNN.sub("", kind)
