"""What the host did between two polls: CPU time of ours and of others, steal, swapping, load, clock, memory."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import psutil

from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.hardware.host import cpu_quota

T = TypeVar("T")

_MOST_NAMED = 3  # processes in one poll


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """CPU seconds of a process, and of its children that ended and that it waited for."""

    own_seconds: float
    reaped_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Counters since boot of the CPUs that we may run on; None where the kernel does not report them.

    Args:
        monotonic_seconds: when they were read.
        busy_seconds, idle_seconds, stolen_seconds: summed over these CPUs.
        swapped_bytes: in and out of swap, of the whole machine.
        processes: pid -> times, of every process that we may see.
        ours: pids of this process and of all that it started.
    """

    monotonic_seconds: float
    busy_seconds: float | None = None
    idle_seconds: float | None = None
    stolen_seconds: float | None = None
    swapped_bytes: int | None = None
    processes: Mapping[int, ProcessTimes]
    ours: frozenset[int] = frozenset()


class HostUsage:
    """Polls the host; each poll covers the time since the one before."""

    def __init__(self) -> None:
        self._cpus = frozenset(os.sched_getaffinity(0))
        self._quota = cpu_quota()
        self._ours: frozenset[int] = frozenset()
        self._last = self._count()

    def poll(self) -> Telemetry:
        """The host since the last poll, without GPUs."""
        before, self._last = self._last, self._count()
        return usage_between(before, self._last, len(self._cpus), self._quota, process_name)

    def other_process(self, pid: int) -> str:
        """The name of a process that is not ours; "" for ours and where we cannot see it."""
        return "" if pid in self._last.ours else process_name(pid)

    def _count(self) -> Counters:
        self._ours = our_processes(os.getpid(), self._ours)
        return read_counters(self._cpus, self._ours)


def usage_between(
    before: Counters, after: Counters, cpus: int, quota: float | None, name_of: Callable[[int], str]
) -> Telemetry:
    """What happened between two readings, with the present load, clock and memory.

    Args:
        before, after: the readings.
        cpus: CPUs that we may run on.
        quota: the cores' worth of time that we may use of them; None for all.
        name_of: the name of a process by its pid; "" where it has gone.
    """
    seconds = max(after.monotonic_seconds - before.monotonic_seconds, 1e-3)
    usable = min(float(cpus), quota or cpus)
    cpu_seconds = seconds * usable

    def fraction(now: float | None, last: float | None) -> float | None:
        # The kernel's idle count has been seen to step back.
        return None if now is None or last is None else min(1.0, max(0.0, now - last) / cpu_seconds)

    other = None
    if after.busy_seconds is not None and before.busy_seconds is not None:
        # Under a quota, others take from us only what is beyond the cores that we may not use at the same time.
        spare = seconds * cpus - cpu_seconds
        busy = after.busy_seconds - before.busy_seconds
        other = fraction(busy - our_cpu_seconds(before, after) - spare, 0.0)
    swapped = None
    if after.swapped_bytes is not None and before.swapped_bytes is not None:
        swapped = (after.swapped_bytes - before.swapped_bytes) / seconds
    return Telemetry(
        seconds=seconds,
        usable_cores=max(1, math.ceil(usable)),
        load_average_mean=known(lambda: os.getloadavg()[0]),
        cpu_mhz_median=known(lambda: psutil.cpu_freq().current) or None,
        other_cpu_fraction_mean=other,
        idle_fraction_mean=fraction(after.idle_seconds, before.idle_seconds),
        steal_fraction_mean=fraction(after.stolen_seconds, before.stolen_seconds),
        swap_bytes_per_sec_mean=swapped,
        memory_available_bytes_min=known(lambda: psutil.virtual_memory().available),
        other_processes=_busiest_others(before, after, cpu_seconds, name_of),
    )


def our_cpu_seconds(before: Counters, after: Counters) -> float:
    """CPU time that we used: the growth of our sum, which holds when a child ends and its parent waits for it.

    A child that nobody waited for takes its time away from the sum. The growth of those that are left is then closer.
    """

    def total(counters: Counters) -> float:
        times = [times for pid, times in counters.processes.items() if pid in counters.ours]
        return sum(one.own_seconds + one.reaped_seconds for one in times)

    grown = _grown(before, after, after.ours & before.processes.keys())
    return max(total(after) - total(before), sum(grown.values()))


def _busiest_others(
    before: Counters, after: Counters, cpu_seconds: float, name_of: Callable[[int], str]
) -> Mapping[str, float]:
    used = _grown(before, after, after.processes.keys() - after.ours)
    busiest = sorted(used, key=lambda pid: used[pid], reverse=True)[:_MOST_NAMED]
    return {name: used[pid] / cpu_seconds for pid in busiest if used[pid] > 0 and (name := name_of(pid))}


def _grown(before: Counters, after: Counters, pids: Iterable[int]) -> dict[int, float]:
    """Pid to the CPU seconds used between the readings; a process that is new counts from its start."""
    new = ProcessTimes(0.0)
    return {pid: after.processes[pid].own_seconds - before.processes.get(pid, new).own_seconds for pid in pids}


def read_counters(cpus: Collection[int], ours: frozenset[int]) -> Counters:
    """The counters now; about 0.02 ms for each process on the machine."""
    times = psutil.cpu_times(percpu=True)
    # A container's /proc/stat may number its CPUs anew: then all that it shows are ours.
    times = [times[cpu] for cpu in cpus if cpu < len(times)] or times
    told = any(sum(cpu) for cpu in times)  # gVisor, for one, writes zeros
    now = time.monotonic()
    processes = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            used = process.cpu_times()
            processes[process.pid] = ProcessTimes(used.user + used.system, used.children_user + used.children_system)
    swap = known(psutil.swap_memory)
    return Counters(
        monotonic_seconds=now,
        busy_seconds=sum(cpu.user + cpu.nice + cpu.system + cpu.irq + cpu.softirq for cpu in times) if told else None,
        idle_seconds=sum(cpu.idle + cpu.iowait for cpu in times) if told else None,
        stolen_seconds=sum(cpu.steal for cpu in times) if told else None,
        swapped_bytes=None if swap is None else swap.sin + swap.sout,
        processes=processes,
        ours=ours,
    )


def our_processes(root: int, earlier: Collection[int] = ()) -> frozenset[int]:
    """Pids of `root`, of all that it started, and of all in a session that one of these leads.

    An orphan has lost its parent, but not its session; and what was ours `earlier` stays ours.
    """
    ours = {root, *earlier}
    with suppress(psutil.Error):
        ours |= {child.pid for child in psutil.Process(root).children(recursive=True)}
    for pid in psutil.pids():
        with suppress(OSError):
            if os.getsid(pid) in ours:
                ours.add(pid)
    return frozenset(ours)


def process_name(pid: int) -> str:
    """ "python (pid 4711)"; "" where there is no such process that we may see."""
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})"
    except psutil.Error:
        return ""


def known(read: Callable[[], T]) -> T | None:
    """What `read` returns; None where this kernel or container does not report it, of which psutil may warn."""
    try:
        return read()
    except (OSError, NotImplementedError, AttributeError, RuntimeWarning):
        return None
