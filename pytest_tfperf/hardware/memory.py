"""Memory: the peak of a user's program on the host or on GPUs, and who holds that of a GPU."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import psutil

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.hardware.nvml import ask, gives_our_pids, opened
from pytest_tfperf.hardware.sampler import process_name

_INTERVAL_SECONDS = 1.0
_ANSWER_SECONDS = 5.0  # a call into the driver of a GPU that fell off the bus may never return

T = TypeVar("T", int, str)

Bytes = Callable[[], int | None]
"""Returns the bytes in use now, or ends the polls and returns their peak; None where they are not reported."""


@contextmanager
def _polled(begin: Callable[[ExitStack], Callable[[], T | None]]) -> Iterator[Callable[[], T | None]]:
    """The most of a reading: polled once a second while the block runs, and at its begin and end.

    `begin` makes the reading, in the thread that polls; the block begins when it has.
    """
    taken: list[T] = []
    began, ended = threading.Event(), threading.Event()

    def run() -> None:
        with ExitStack() as stack:
            stack.callback(began.set)
            read, is_last = begin(stack), False
            began.set()
            while True:
                if (now := read()) is not None:
                    taken.append(now)
                if is_last:
                    return
                is_last = ended.wait(_INTERVAL_SECONDS)

    thread = threading.Thread(target=run, name="tfperf-memory", daemon=True)

    def peak() -> T | None:
        ended.set()
        thread.join(_ANSWER_SECONDS)
        return max(taken, default=None)

    thread.start()
    began.wait(_ANSWER_SECONDS)
    try:
        yield peak
    finally:
        peak()


def of_children(parent: int) -> AbstractContextManager[Bytes]:
    """The memory of a program on the host, whose parent's own memory does not count.

    It is the sum of the processes' proportional sets (PSS, in which shared pages count once), or the peak that the
    kernel keeps of a single process where that is more. So a spike between two polls is missed only if several
    processes share it, or its process has ended before the next poll.
    """
    return _polled(lambda _: lambda: _on_host(parent))


def on_gpus(gpus: Sequence[Gpu]) -> AbstractContextManager[Bytes]:
    """By how much the memory in use on these GPUs grows, of the GPU where it grows most; begin it before the program.

    Drivers report the device's memory in containers and under MPS too, where they list no process of ours or the
    server in its place. Spikes between two polls are missed, and what others take meanwhile counts.

    Raises:
        MeasurementError: the driver does not report the memory of one, as of a GB10, whose memory is the host's.
    """
    if missing := [gpu.name for gpu in gpus if gpu.memory_bytes is None]:
        raise MeasurementError(
            f"peak_memory can't be measured: the driver does not report the memory in use on {missing[0]}",
            next_step="Leave peak_memory out of also= (ini tfperf_also) on this machine",
        )

    def begin(stack: ExitStack) -> Bytes:
        known, handles = opened(stack, None, [gpu.uuid for gpu in gpus])
        before = _used(known, handles)

        def read() -> int | None:
            now = _used(known, handles)
            return max((max(0, now[uuid] - before[uuid]) for uuid in before.keys() & now.keys()), default=None)

        return read

    return _polled(begin)


# A framework that takes most of a GPU's memory before its first step: a part of the path of its library, and the
# variable's values with which it does not. Memory in use says nothing about what its training needs.
_PREALLOCATING: Final = {
    "JAX": ("/jaxlib/", "XLA_PYTHON_CLIENT_PREALLOCATE", ("false", "False", "0")),
    "TensorFlow": ("/libtensorflow_framework.so", "TF_FORCE_GPU_ALLOW_GROWTH", ("true",)),
}


@contextmanager
def refusing_preallocation(peak_bytes: Bytes, parent: int) -> Iterator[Bytes]:
    """The peak on GPUs of a program, whose processes are children of `parent`.

    Asking for it raises a MeasurementError where a process with a GPU's driver was seen to have loaded a framework that
    takes most of the memory in advance. What a program sets itself, by os.environ or a framework's functions, is not
    seen, nor processes that are no descendants.
    """
    with _polled(lambda _: lambda: _preallocating(parent)) as seen:

        def peak() -> int | None:
            if (framework := seen()) is None:
                return peak_bytes()
            _, variable, values = _PREALLOCATING[framework]
            raise MeasurementError(
                f"peak_memory can't be measured: {framework} takes most of a GPU's memory in advance, whatever the "
                f"program needs, unless {variable} is {values[0]!r}",
                next_step=f"Give the Command env={{{variable!r}: {values[0]!r}}}, or leave reads= out: then the "
                "framework tells the memory that the training has allocated",
            )

        yield peak


def _preallocating(parent: int) -> str | None:
    """The framework of a child that takes most of a GPU's memory in advance; None where none is seen."""
    for pid in _children(parent):
        with suppress(OSError):  # it is gone, or not ours
            libraries = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            variables = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
            for framework, (library, variable, values) in _PREALLOCATING.items():
                is_loaded = library in libraries and "/libcuda.so" in libraries
                if is_loaded and not any(f"{variable}={value}" in variables for value in values):
                    return framework
    return None


def _used(nvml: Any, handles: Mapping[str, Any]) -> dict[str, int]:
    known = {uuid: ask(nvml, "nvmlDeviceGetMemoryInfo", handle) for uuid, handle in handles.items() if handle}
    return {uuid: int(memory.used) for uuid, memory in known.items() if memory is not None}


def _on_host(parent: int) -> int | None:
    """The sum of its children's sets, or the highest peak of one of them; None where none can be read."""
    pids = _children(parent)
    now = [size for pid in pids if (size := _kib(pid, "smaps_rollup", "Pss") or _kib(pid, "status", "VmRSS"))]
    peaks = [size for pid in pids if (size := _kib(pid, "status", "VmHWM"))]
    return max(sum(now), max(peaks, default=0)) * 1024 if now else None


def _children(parent: int) -> list[int]:
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(parent).children(recursive=True)]
    return []


def _kib(pid: int, file: str, field: str) -> int | None:
    """A field of a file of /proc; None where the process is gone, or not ours."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/{file}").read_text(errors="replace")
        if line := re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE):
            return int(line[1])
    return None


class Held(NamedTuple):
    """The memory of a GPU in use while none of our workers runs."""

    uuid: str
    used_bytes: int
    total_bytes: int
    # "python (pid 4711)" -> bytes, None where the driver does not report them; empty where no process can be named.
    processes: Mapping[str, int | None]


def held(uuids: Sequence[str], *, knows_pids: Callable[[], bool] = gives_our_pids) -> Sequence[Held]:
    """The memory in use on each of these GPUs; nothing for one whose driver does not answer within 5 s."""
    found: list[Held] = []
    thread = threading.Thread(target=lambda: found.extend(_held(uuids, knows_pids)), daemon=True)
    thread.start()
    thread.join(_ANSWER_SECONDS)
    return tuple(found)


def _held(uuids: Sequence[str], knows_pids: Callable[[], bool]) -> Iterator[Held]:
    with ExitStack() as stack:
        known, handles = opened(stack, None, uuids)
        for uuid, handle in handles.items():
            memory = ask(known, "nvmlDeviceGetMemoryInfo", handle) if handle else None
            if memory is not None:
                yield Held(uuid, memory.used, memory.total, _holders(known, handle) if knows_pids() else {})


def _holders(nvml: Any, handle: Any) -> dict[str, int | None]:
    functions = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
    entries = [entry for function in functions for entry in ask(nvml, function, handle) or ()]
    named = {entry.pid: process_name(entry.pid) for entry in entries}
    return {name: entry.usedGpuMemory for entry in entries if (name := named[entry.pid])}
