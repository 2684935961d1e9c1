"""Polls the host and the GPUs once a second while a run is measured, from a thread of the driver.

Of the host: our CPU time and that of others, steal, swapping, load, clock and memory, each between two polls.
"""

from __future__ import annotations

import math
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from heapq import nlargest
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil

from pytest_tfperf.core.telemetry import Telemetry, merged
from pytest_tfperf.hardware.host import cpu_quota
from pytest_tfperf.hardware.nvml import WAKE_SECONDS, gives_our_pids, opened, read_gpus

T = TypeVar("T")

_INTERVAL_SECONDS = 1.0
_STOP_SECONDS = 5.0  # a call into the driver of a GPU that fell off the bus may never return
# The kernel counts CPU time in ticks of 10 ms, of which fewer than ten are too coarse.
_SHORTEST_SECONDS = 0.1
_MOST_NAMED = 5  # processes in one poll


class Sampler:
    """Polls from `start` to `stop`, at least once.

    Args:
        ours: pids of processes that are ours, although this process did not start them.
        knows_pids: whether NVML's process ids can be looked up here.
    """

    def __init__(
        self,
        gpu_uuids: Sequence[str] = (),
        ours: Collection[int] = (),
        *,
        nvml: Any = None,
        knows_pids: Callable[[], bool] = gives_our_pids,
    ) -> None:
        self._ours = ours
        self._uuids = tuple(dict.fromkeys(gpu_uuids))
        self._nvml = nvml
        self._knows_pids = knows_pids
        self._polls: list[Telemetry] = []
        self._found = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfperf-sampler", daemon=True)
        self.hung = False
        """Whether the thread did not end when it was stopped."""

    def start(self) -> None:
        """Begin; call it once."""
        self._thread.start()

    def stop(self) -> Telemetry | None:
        """Poll a last time and end; None where the polls cover less than 0.1 s."""
        self._ended.set()
        if not self._uuids or self._found.wait(WAKE_SECONDS):  # GPUs may have to wake first
            self._thread.join(_STOP_SECONDS)
        self.hung = self._thread.is_alive()
        telemetry = merged(list(self._polls))
        return telemetry if telemetry is not None and telemetry.seconds >= _SHORTEST_SECONDS else None

    @property
    def latest(self) -> Telemetry | None:
        """The last poll; None before the first."""
        return self._polls[-1] if self._polls else None

    @property
    def polls(self) -> tuple[Telemetry, ...]:
        """All polls in order; without the processes' names, which are many and would be stored with each run."""
        return tuple(
            replace(poll, other_processes=None, gpus=tuple(replace(gpu, other_processes=None) for gpu in poll.gpus))
            for poll in list(self._polls)
        )

    def _run(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._found.set)  # even where this thread fails: `stop` must not wait for it
            host = HostUsage(besides=self._ours)
            nvml, other_process = None, None
            handles: Mapping[str, Any] = {}
            if self._uuids:
                nvml, handles = opened(stack, self._nvml, self._uuids)
                other_process = host.other_process if self._knows_pids() else None
            self._found.set()
            ended = False
            while not ended:
                ended = self._ended.wait(_INTERVAL_SECONDS)
                poll = host.poll()
                if handles:
                    poll = replace(poll, gpus=read_gpus(nvml, handles, other_process))
                self._polls.append(poll)


# The host


class CpuSeconds(NamedTuple):
    """CPU time since boot, summed over the CPUs that we may run on."""

    busy: float
    idle: float
    stolen: float


class ProcessSeconds(NamedTuple):
    """CPU time of a process, and of its children that ended and that it waited for."""

    own: float
    reaped: float = 0.0


class Counters(NamedTuple):
    """The kernel's counters at one moment; None for one that it does not report."""

    monotonic_seconds: float
    processes: Mapping[int, ProcessSeconds]  # by pid, every process that we may see
    ours: frozenset[int]  # pids of this process and of all that it started
    cpu: CpuSeconds | None = None
    swapped_bytes: int | None = None  # in and out of swap since boot, of the whole machine


class HostUsage:
    """Polls the host; each poll covers the time since the previous poll.

    Args:
        root: pid of a process that is ours, with all its descendants; None for this process.
        besides: pids of further processes of ours, such as ranks that Slurm's daemon started.
    """

    def __init__(self, root: int | None = None, besides: Collection[int] = ()) -> None:
        self._root = os.getpid() if root is None else root
        self._cpus = frozenset(os.sched_getaffinity(0))
        self._quota = cpu_quota()
        self._last = read_counters(self._cpus, our_processes(self._root, besides))

    def poll(self) -> Telemetry:
        """The host since the last poll, without GPUs."""
        before = self._last
        self._last = read_counters(self._cpus, our_processes(self._root, before.ours))
        return usage_between(before, self._last, len(self._cpus), self._quota)

    def other_process(self, pid: int) -> str | None:
        """The name of a process; "" if it is ours, None if there is no such process."""
        return "" if pid in self._last.ours else process_name(pid)


def usage_between(before: Counters, after: Counters, cpus: int, quota: float | None = None) -> Telemetry:
    """The use of the host between two readings, with the present load, clock and memory.

    We may run on so many CPUs; the quota of their time is in cores.
    """
    seconds = max(after.monotonic_seconds - before.monotonic_seconds, 1e-3)
    usable = min(cpus, quota or cpus)
    others = idle = stolen = swapped = None
    if before.cpu is not None and after.cpu is not None:
        # Under a quota, others take time from us only beyond the cores that we may not use.
        beyond_quota = seconds * (cpus - usable)
        busy, taken = after.cpu.busy - before.cpu.busy, after.cpu.stolen - before.cpu.stolen
        others = _fraction(busy - our_cpu_seconds(before, after) - beyond_quota, seconds * usable)
        idle = _fraction(after.cpu.idle - before.cpu.idle, seconds * usable)
        # Under a quota, other containers may run on the CPUs that we leave, and time is stolen from them too.
        stolen = _fraction(taken, max(seconds * usable, busy + taken))
    if before.swapped_bytes is not None and after.swapped_bytes is not None:
        swapped = (after.swapped_bytes - before.swapped_bytes) / seconds
    grown = {pid: _grown(before, after, pid) for pid in after.processes.keys() - after.ours}
    busiest = nlargest(_MOST_NAMED, grown, key=grown.__getitem__)
    load, clock, memory = known(os.getloadavg), known(psutil.cpu_freq), known(psutil.virtual_memory)
    return Telemetry(
        seconds=seconds,
        usable_cores=max(1, math.ceil(usable)),
        load_average_mean=load[0] if load else None,
        cpu_mhz_median=(clock.current if clock else None) or None,
        other_cpu_fraction_mean=others,
        idle_fraction_mean=idle,
        steal_fraction_mean=stolen,
        swap_bytes_per_sec_mean=swapped,
        memory_available_bytes_min=memory.available if memory else None,
        other_processes={
            name: grown[pid] / (seconds * usable) for pid in busiest if grown[pid] > 0 and (name := process_name(pid))
        },
    )


def _fraction(seconds: float, of_seconds: float) -> float:
    # Counters are read one after the other, and the kernel's idle count has been seen to step back.
    return min(1.0, max(0.0, seconds / of_seconds))


def our_cpu_seconds(before: Counters, after: Counters) -> float:
    """CPU time that we used: the growth of our sum, which holds when a child ends and its parent waits for it.

    The time of a child without a waiting parent leaves the sum; the growth of the others is then the better estimate.
    """
    used = [sum(sum(at.processes[pid]) for pid in at.ours & at.processes.keys()) for at in (before, after)]
    survivors = after.ours & after.processes.keys() & before.processes.keys()
    return max(used[1] - used[0], sum(_grown(before, after, pid) for pid in survivors))


def _grown(before: Counters, after: Counters, pid: int) -> float:
    """CPU seconds that a process used; since its start for a new process."""
    return after.processes[pid].own - before.processes.get(pid, ProcessSeconds(0.0)).own


def read_counters(cpus: Collection[int], ours: frozenset[int]) -> Counters:
    """Read the counters, which takes about 0.02 ms for each process on the machine."""
    monotonic_seconds = time.monotonic()
    times = psutil.cpu_times(percpu=True)
    numbered = dict(zip(cpu_numbers(len(times)), times, strict=True))
    # A container's /proc/stat may number its CPUs anew: then it shows ours only.
    times = [numbered[cpu] for cpu in cpus] if numbered.keys() >= set(cpus) else times
    processes = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            used = process.cpu_times()
            processes[process.pid] = ProcessSeconds(used.user + used.system, used.children_user + used.children_system)
    busy = sum(cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq for cpu in times)
    idle = sum(cpu.idle + cpu.iowait for cpu in times)
    stolen = sum(cpu.steal for cpu in times)
    swap = known(psutil.swap_memory)
    return Counters(
        monotonic_seconds=monotonic_seconds,
        cpu=CpuSeconds(busy, idle, stolen) if busy or idle or stolen else None,  # gVisor, for example, writes zeros
        swapped_bytes=None if swap is None else swap.sin + swap.sout,
        processes=processes,
        ours=ours,
    )


@cache
def cpu_numbers(rows: int) -> Sequence[int]:
    """The CPU's number of each of psutil's rows, in which offline CPUs are missing.

    Counted from 0 where the kernel does not report them, or has changed them since the rows were read.
    """
    with suppress(OSError):
        numbers = [int(number) for number in re.findall(r"^cpu(\d+) ", Path("/proc/stat").read_text(), re.MULTILINE)]
        if len(numbers) == rows:
            return numbers
    return range(rows)


def our_processes(root: int, besides: Collection[int] = ()) -> frozenset[int]:
    """Pids of `root` and its descendants, of the sessions that these lead, and those `besides`.

    An orphan has lost its parent, but not its session; a process that was ours before stays ours.
    """
    ours = {root, *besides}
    with suppress(psutil.Error):
        ours |= {child.pid for child in psutil.Process(root).children(recursive=True)}
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) in ours:
                ours.add(pid)
    return frozenset(ours)


def process_name(pid: int) -> str | None:
    """ "python (pid 4711)"; None for a process that is gone."""
    with suppress(psutil.Error):
        return f"{psutil.Process(pid).name()} (pid {pid})"
    try:
        os.kill(pid, 0)  # tells a process that /proc hides (mount option hidepid) from one that is gone
    except PermissionError:
        return f"another user's process (pid {pid})"
    except OSError:
        pass
    return None


def pid_in(name: str) -> str:
    """The pid in a result of `process_name`: "12" of "cc1 (pid 12)"."""
    return name.rpartition("(pid ")[2].rstrip(")")


def known(read: Callable[[], T]) -> T | None:
    """The result of `read`; None where this kernel or container does not report it, of which psutil may warn."""
    try:
        return read()
    except (OSError, NotImplementedError, AttributeError, RuntimeWarning):
        return None
