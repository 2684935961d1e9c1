"""The figures that a worker measures of itself: each method has the name of one in core/figure.py."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import tensorflow as tf

from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.training.devices import own_devices

_STATUS = Path("/proc/self/status")
_RESETS_PEAK = "5"  # proc(5), clear_refs: the peak of the resident set becomes its present size


class WorkerFigures:
    """The figures of this worker; create it when the job has arrived, because they are counted from there."""

    def __init__(self) -> None:
        self._arrived = time.perf_counter()
        self._first_step: float | None = None
        with suppress(OSError):  # a fork begins with its own peak even where this is forbidden
            Path("/proc/self/clear_refs").write_text(_RESETS_PEAK, encoding="ascii")
        self._memory_before = _kib("VmRSS")
        self._traces: float | None = None

    def first_step_ended(self) -> None:
        """Note that the model was built, traced and compiled, and has taken a step."""
        self._first_step = time.perf_counter() - self._arrived

    def first_window_ended(self, *, counts_traces: bool) -> None:
        """Count the traces so far, and forget the peak of a GPU's memory: cuDNN's first steps need scratch.

        The first window ends with the same step in each run, and later ones do not: their size follows the speed.
        """
        if counts_traces:
            self._traces = _traces()
        for device in own_devices(DeviceKind.GPU):
            with suppress(ValueError, tf.errors.OpError):  # an allocator that keeps no statistics
                tf.config.experimental.reset_memory_stats(device)

    def values(self, names: Iterable[str]) -> dict[str, float | None]:
        """The values of these figures, None where this machine does not report one; call it after the last window."""
        return {name: getattr(self, name)() for name in names}

    def first_step(self) -> float | None:
        """Seconds from the job's arrival to the end of the first step."""
        return self._first_step

    def peak_memory(self) -> float | None:
        """The peak of the memory so far, in bytes; None where neither TensorFlow nor the kernel reports it.

        On GPUs it is the most that TensorFlow's allocator had in use since the warm-up, of the device with the most. On
        CPUs it is how far the resident set has grown at most: a forked worker begins with all that the fork server has
        imported, and a fresh one with its own imports, and neither counts. The kernel keeps that peak, so no spike is
        missed. Pages shared with the fork server that are written to later are in both sizes, so they are not seen; nor
        is the memory of processes that the worker starts.
        """
        if gpus := own_devices(DeviceKind.GPU):
            return _of_allocators(gpus)
        peak = _kib("VmHWM")
        return None if peak is None or self._memory_before is None else max(0, peak - self._memory_before) * 1024

    def retraces(self) -> float | None:
        """The number of traces, up to the end of the first window, of all `tf.function`s that were alive then."""
        return self._traces


def _traces() -> float:
    """The number of traces of all living `tf.function`s, with the first trace of each."""
    gc.unfreeze()  # frozen objects are in no list
    function = type(tf.function(lambda: None))
    traced = [candidate for candidate in gc.get_objects() if type(candidate) is function]
    gc.freeze()  # a collection during a window would walk over all of them
    return float(sum(each.experimental_get_tracing_count() for each in traced))


def _of_allocators(devices: list[str]) -> int | None:
    try:
        return max(int(tf.config.experimental.get_memory_info(device)["peak"]) for device in devices)
    except (ValueError, KeyError, tf.errors.OpError):  # an allocator that keeps no statistics
        return None


def _kib(field: str) -> int | None:
    """A field of this process's status in KiB; None where the kernel has none, as gVisor's."""
    with suppress(OSError):
        if line := re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE):
            return int(line[1])
    return None
