"""Polls the host and GPUs once a second while a run is measured, from a thread of the driver."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from pytest_tfperf.core.telemetry import Telemetry, merged
from pytest_tfperf.hardware.gpu_samples import read_gpus
from pytest_tfperf.hardware.host_usage import HostUsage
from pytest_tfperf.hardware.nvml import NvmlError, session

_INTERVAL_SECONDS = 1.0
# The kernel counts CPU time in ticks of 10 ms: less than ten of them say nothing.
_SHORTEST_SECONDS = 0.1


class Sampler:
    """Polls from `start` to `stop`, at least once.

    Args:
        gpu_uuids: GPUs and MIG devices to watch.
        ours: pids of processes that are ours, although this process did not start them.
        nvml: pynvml or a stand-in; None imports pynvml.
        stop_seconds: how long `stop` waits. A call into the driver of a GPU that fell off the bus may never return.
    """

    def __init__(
        self,
        gpu_uuids: Sequence[str] = (),
        ours: Collection[int] = (),
        *,
        nvml: Any = None,
        stop_seconds: float = 5.0,
    ) -> None:
        self._ours = ours
        self._uuids = tuple(dict.fromkeys(gpu_uuids))
        self._nvml = nvml
        self._stop_seconds = stop_seconds
        self._polls: list[Telemetry] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfperf-sampler", daemon=True)
        self.hung = False
        """Whether the thread did not end when it was stopped."""

    def start(self) -> None:
        """Begin; once for each sampler."""
        self._thread.start()

    def stop(self) -> Telemetry | None:
        """Poll a last time and end; None where the polls cover less than 0.1 s."""
        self._ended.set()
        self._thread.join(self._stop_seconds)
        self.hung = self._thread.is_alive()
        telemetry = merged(list(self._polls))
        return telemetry if telemetry is not None and telemetry.seconds >= _SHORTEST_SECONDS else None

    @property
    def polls(self) -> tuple[Telemetry, ...]:
        """Each poll in order; without the processes' names, which are many and would be kept with each run."""
        return tuple(
            replace(poll, other_processes=None, gpus=tuple(replace(gpu, other_processes=None) for gpu in poll.gpus))
            for poll in list(self._polls)
        )

    def _run(self) -> None:
        host = HostUsage(besides=self._ours)
        with ExitStack() as stack:
            nvml = None
            if self._uuids:
                with suppress(NvmlError):
                    nvml = stack.enter_context(session(self._nvml))
            ended = False
            while not ended:
                ended = self._ended.wait(_INTERVAL_SECONDS)
                poll = host.poll()
                self._polls.append(replace(poll, gpus=read_gpus(nvml, self._uuids, host.other_process)))
