"""Looks at the machine a few times a second while a measurement runs, from a thread of the driver.

What it costs: `python benchmarks/sampler_cost.py`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.samples import GpuSample, Sample
from pytest_tfperf.hardware.gpu_samples import GpuWatch
from pytest_tfperf.hardware.host_samples import HostWatch
from pytest_tfperf.hardware.nvml import NvmlError, session

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

ROOT = Path("/")
INTERVAL_SECONDS = 0.25

# The sampler must not be the disturbance: after a look that cost much (thousands of processes, a slow driver) it rests
# until it is back at this share of a core, but no longer than this, or it would miss what it is there to see.
_SHARE_OF_A_CORE = 0.004
_LONGEST_REST_SECONDS = 2.0
# A call into the driver of a GPU that fell off the bus may never come back, and must not hold up the night.
_PATIENCE_SECONDS = 5.0
_KEPT = 40_000  # samples: hours of them


class Sampler:
    """Samples from `start` to `stop`; may be started again, and then begins anew.

    Args:
        roots: gives the pids of pytest, fork server and workers at the time of asking; their descendants are found.
            Called in the sampler's thread.
        gpu_uuids: GPUs and MIG devices to watch.
        interval_seconds: between two looks.
        root: the folder above proc and sys.
    """

    def __init__(
        self,
        roots: Callable[[], Collection[int]],
        gpu_uuids: Iterable[str] = (),
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        root: Path = ROOT,
    ) -> None:
        self._roots = roots
        self._uuids = tuple(dict.fromkeys(gpu_uuids))
        self._interval_seconds = interval_seconds
        self._root = root
        self._samples: deque[Sample] = deque(maxlen=_KEPT)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.cpu_seconds = 0.0  # what the thread has cost since it was started
        self.hangs = False  # whether the thread did not come back when it was to stop

    def start(self) -> None:
        """Begin; what was sampled before is dropped."""
        self.stop()
        self._samples = deque(maxlen=_KEPT)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfperf-sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End after a last look; what was sampled can still be read. Harmless where nothing runs.

        A thread that does not come back is left alone, and `hangs` says so.
        """
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)
            self.hangs = self._thread.is_alive()
        self._thread = None

    def since(self, monotonic_seconds: float) -> tuple[Sample, ...]:
        """The samples that cover any of the time since then, oldest first; the current interval's is not yet there."""
        return tuple(sample for sample in self._samples.copy() if sample.monotonic_seconds > monotonic_seconds)

    def _run(self) -> None:
        with ExitStack() as stack:
            host = HostWatch(self._roots, self._root)
            gpus = self._watch_gpus(stack, host)
            spent = 0.0
            while True:
                begun = time.thread_time()
                rest = max(self._interval_seconds, min(_LONGEST_REST_SECONDS, spent / _SHARE_OF_A_CORE))
                ended = self._ended.wait(rest)
                sample = host.sample()
                # A very short interval holds too few ticks to say anything.
                if not ended or sample.seconds > self._interval_seconds / 2:
                    self._samples.append(replace(sample, gpus=gpus()))
                self.cpu_seconds = time.thread_time()
                spent = self.cpu_seconds - begun
                if ended:
                    return

    def _watch_gpus(self, stack: ExitStack, host: HostWatch) -> Callable[[], tuple[GpuSample, ...]]:
        unknown = tuple(GpuSample(uuid=uuid) for uuid in self._uuids)
        if not self._uuids:
            return lambda: unknown
        try:
            nvml = stack.enter_context(session())
        except NvmlError:
            return lambda: unknown
        return GpuWatch(nvml, self._uuids, host.is_other).sample
