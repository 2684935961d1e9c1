"""The most memory that a program and all that it starts need, polled from a thread of the driver."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from pytest_tfperf.hardware.nvml import NvmlError, ask, session

_INTERVAL_SECONDS = 1.0
_STOP_SECONDS = 5.0  # a call into the driver of a GPU that fell off the bus may never return


class ProcessMemory:
    """Polls once a second while its block runs, and at its begin and end.

    On the host it is the sum of the processes' proportional sets (PSS, in which shared pages count once), or the peak
    that the kernel keeps of one process where that is more. So a spike between two polls is missed only where it is of
    several processes together, or of one that has ended before the next poll. On GPUs it is what NVML says of these
    processes, of the GPU with the most; spikes between two polls are missed there.

    Args:
        parent: pid of what starts the program; its own memory does not count.
        gpu_uuids: the GPUs that the program runs on; none: its memory on the host counts.
        nvml: pynvml or a stand-in; None imports pynvml.
    """

    def __init__(self, parent: int, gpu_uuids: Sequence[str] = (), *, nvml: Any = None) -> None:
        self._parent = parent
        self._uuids = tuple(gpu_uuids)
        self._nvml = nvml
        self._peak: int | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfperf-memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.peak_bytes()

    def peak_bytes(self) -> int | None:
        """The peak until now, which ends the polls; None where neither the kernel nor NVML tells it."""
        self._ended.set()
        self._thread.join(_STOP_SECONDS)
        return self._peak

    def _run(self) -> None:
        with ExitStack() as stack:
            nvml = None
            if self._uuids:
                with suppress(NvmlError):
                    nvml = stack.enter_context(session(self._nvml))
            is_last = False
            while True:
                pids = _children_of(self._parent)
                now = _on_gpus(nvml, self._uuids, pids) if self._uuids else _on_host(pids)
                if now is not None:
                    self._peak = max(now, self._peak or 0)
                if is_last:
                    return
                is_last = self._ended.wait(_INTERVAL_SECONDS)


def _children_of(pid: int) -> Sequence[int]:
    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def _on_host(pids: Collection[int]) -> int | None:
    """The sum of their proportional sets, or the highest peak of one of them; None where none can be read."""
    now = [size for pid in pids if (size := _kib(pid, "smaps_rollup", "Pss") or _kib(pid, "status", "VmRSS"))]
    peaks = [size for pid in pids if (size := _kib(pid, "status", "VmHWM"))]
    return max(sum(now), max(peaks, default=0)) * 1024 if now else None


def _kib(pid: int, file: str, field: str) -> int | None:
    """A field of a file of /proc; None where the process is gone, or not ours."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/{file}").read_text(errors="replace")
        if found := re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE):
            return int(found[1])
    return None


def _on_gpus(nvml: Any, uuids: Sequence[str], pids: Collection[int]) -> int | None:
    """What these processes hold of the GPU of which they hold most; None where NVML shows none of them.

    In a container it may give the host's pids, which can't be matched.
    """
    used: list[int] = []
    for uuid in uuids:
        handle = None if nvml is None else ask(nvml, "nvmlDeviceGetHandleByUUID", uuid.encode())
        entries = ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle) if handle is not None else None
        known = [one.usedGpuMemory for one in entries or () if one.pid in pids and one.usedGpuMemory is not None]
        used += [sum(known)] if known else []
    return max(used, default=None)
