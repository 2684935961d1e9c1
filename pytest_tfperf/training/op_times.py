"""The time of each operation, read from a profiler's trace (an XSpace message)."""

from __future__ import annotations

import base64
import math
import re
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow as tf

from pytest_tfperf.core.profile import MOST_XSPACE_BYTES, OpTime, Trace
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.training.devices import own_devices
from pytest_tfperf.training.loop import Loop
from pytest_tfperf.training.strategies import DeviceServer

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

# The worker itself waits with this for the end of a window.
_OURS = {"SyncDevice"}

_PICOSECONDS = 1e-12


_Op = tuple[str, str]
"""Name and type."""


class _Event(NamedTuple):
    begin: int  # picoseconds
    end: int
    op: _Op


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
        OpTime(name=name, type=kind, seconds=picoseconds * _PICOSECONDS / steps, count=count / steps)
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
            for instruction in (each for computation in module.computations for each in computation.instructions):
                metadata = instruction.metadata
                if metadata.op_name and metadata.op_type:
                    compiled[module.name, instruction.name] = _named(metadata.op_name, metadata.op_type)
    return compiled


def _times(events: Iterable[tuple[_Op, int]]) -> dict[_Op, tuple[int, int]]:
    """Picoseconds and count of each operation."""
    times: dict[_Op, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for op, taken in events:
        picoseconds, count = times[op]
        times[op] = picoseconds + taken, count + 1
    return dict(times)


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
            events = (
                _Event(event.offset_ps, event.offset_ps + event.duration_ps, op)
                for event in line.events
                if (
                    op := _op_of(
                        event, names[event.metadata_id], stats if has_texts else {}, compiled, is_on_gpu=planes == _GPU
                    )
                )
            )
            yield from _without_inner(sorted(events, key=lambda event: (event.begin, -event.end)))


def _without_inner(events: Iterable[_Event]) -> Iterator[tuple[_Op, int]]:
    """Each event of a thread or stream without the time of events inside it; give outer events before inner ones."""
    open_events: list[tuple[_Event, int]] = []  # with the picoseconds of what is inside

    def close(until: float) -> Iterator[tuple[_Op, int]]:
        while open_events and open_events[-1][0].end <= until:
            event, inside = open_events.pop()
            yield event.op, max(0, event.end - event.begin - inside)

    for event in events:
        yield from close(event.begin)
        if open_events:
            outer, inside = open_events[-1]
            open_events[-1] = outer, inside + event.end - event.begin
        open_events.append((event, 0))
    yield from close(math.inf)


def _op_of(
    event: Any, name: str, stats: Mapping[int, str], compiled: Mapping[tuple[str, str], _Op], *, is_on_gpu: bool
) -> _Op | None:
    """The operation that an event is of, if any; each event of a GPU is of one, if only a copy from the host."""
    op = _op_of_name(name)
    if op is None and (stats or is_on_gpu):
        texts = _texts(event, stats)
        op = _xla_op(texts, compiled)
        if op is None and is_on_gpu:
            op = _op_of_name(texts.get("tf_op", "")) or (name, "kernel")
    return op


@cache  # a trace may have millions of events, with a few thousand names
def _op_of_name(name: str) -> _Op | None:
    if operation := _OPERATION.fullmatch(name) or _EAGER.fullmatch(name):
        kind = operation["type"]
        return None if kind in _OURS else _named(operation.groupdict().get("name", kind), kind)
    return (_REPETITION.sub("", name), "Dataset") if _STAGE.fullmatch(name) else None


def _xla_op(stats: Mapping[str, str], compiled: Mapping[tuple[str, str], _Op]) -> _Op | None:
    """The operation that an event of XLA's is of; None for other events."""
    if not (instruction := stats.get("hlo_op")):
        return None
    return compiled.get((stats.get("hlo_module", ""), instruction)) or _named(instruction, "XLA")


def _texts(event: Any, names: Mapping[int, str]) -> dict[str, str]:
    """An event's stats that are texts, by name."""
    return {
        names.get(stat.metadata_id, ""): names.get(stat.ref_value, "") if kind == "ref_value" else stat.str_value
        for stat in event.stats
        if (kind := stat.WhichOneof("value")) in ("ref_value", "str_value")
    }


def _named(name: str, kind: str) -> _Op:
    """The name without loop, replica and number, and the type, that of the operation for a kernel of oneDNN's."""
    return _NUMBER.sub("", _LOOP.sub("", name).removeprefix("/")), _ONEDNN.sub("", kind)


MOST_BYTES = 60 * 1024 * 1024
"""The most of a trace in base64: a message of the wire may have 64 MiB."""

_SUFFIX = ".xplane.pb"


def trace_steps(loop: Loop, steps: int, most_bytes: int = MOST_BYTES) -> Trace:
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
        (file,) = Path(folder).glob(f"plugins/profile/*/*{_SUFFIX}")
        data, host = file.read_bytes(), file.name.removesuffix(_SUFFIX)
    xspace = base64.b64encode(zlib.compress(data, level=1)).decode()
    too_large = len(xspace) > most_bytes or len(data) > MOST_XSPACE_BYTES
    return Trace(
        host=host,
        steps=steps,
        ops=op_times(data, steps, has_gpus=not isinstance(loop, DeviceServer) and bool(own_devices(DeviceKind.GPU))),
        xspace="" if too_large else xspace,
        fault=f"a trace of {steps} steps is too large to send: {len(data) / 2**20:,.0f} MiB" if too_large else "",
    )
