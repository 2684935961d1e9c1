"""What a worker knows of its own start and memory: the figures beside the throughput."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import tensorflow as tf

_STATUS = Path("/proc/self/status")
_RESETS_PEAK = "5"  # proc(5), clear_refs: the peak of the resident set becomes its present size


class WorkerFigures:
    """Made when the worker's job has arrived, which is where its figures begin."""

    def __init__(self) -> None:
        self._arrived = time.perf_counter()
        with suppress(OSError):  # a fork begins with its own peak even where this is forbidden
            Path("/proc/self/clear_refs").write_text(_RESETS_PEAK, encoding="ascii")
        self._memory_before = _kib("VmRSS")

    def seconds_since_arrival(self) -> float:
        """Since the job arrived; after the first step, what building, tracing, compiling and that step took."""
        return time.perf_counter() - self._arrived

    def peak_memory_bytes(self) -> int | None:
        """The most memory that was needed so far; None where neither TensorFlow nor the kernel tells it.

        On GPUs it is the most that TensorFlow's allocator had in use, of the device with the most. On CPUs it is how
        far the resident set has grown at most: a forked worker begins with all that the fork server has imported, and a
        fresh one with its own imports, and neither counts. The kernel keeps that peak, so no spike is missed. Pages
        shared with the fork server that are written to later are in both sizes, so they are not seen; nor is the memory
        of processes that the worker starts.
        """
        if gpus := tf.config.list_logical_devices("GPU"):
            return _of_allocators([gpu.name for gpu in gpus])
        peak = _kib("VmHWM")
        return None if peak is None or self._memory_before is None else max(0, peak - self._memory_before) * 1024


def _of_allocators(devices: list[str]) -> int | None:
    try:
        return max(int(tf.config.experimental.get_memory_info(device)["peak"]) for device in devices)
    except (ValueError, KeyError, tf.errors.OpError):  # an allocator that keeps no statistics
        return None


def _kib(field: str) -> int | None:
    """A field of this process's status in KiB; None where the kernel has none, as gVisor's."""
    with suppress(OSError):
        if found := re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE):
            return int(found[1])
    return None
