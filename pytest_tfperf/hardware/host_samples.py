"""The host's share of a sample: who used the CPUs, steal, swapping, load, clock, memory."""

from __future__ import annotations

import math
import os
import re
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_tfperf.core.samples import Sample
from pytest_tfperf.hardware import cgroup
from pytest_tfperf.hardware.kernel_files import text_of
from pytest_tfperf.hardware.processes import Process, belongs, family, read_process, read_processes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

ROOT = Path("/")
_TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Reading every process costs more than all else, so it is done only when others used this much of the usable cores.
_WORTH_A_WALK = 0.1

# The kernel asks a core for its clock, and a large machine has hundreds: so many of them, spread evenly, are asked.
_MOST_CLOCKS = 16
# A virtual machine has no cpufreq, and its /proc/cpuinfo is long, and says the same for hours.
_CPUINFO_SECONDS = 2.0
_MHZ = re.compile(r"^processor\s*:\s*(\d+)$(?:\n.+)*?\ncpu MHz\s*:\s*([\d.]+)$", re.MULTILINE)


class _Counters(NamedTuple):
    """Since boot: ticks of the usable CPUs, and pages; None where /proc doesn't tell."""

    monotonic_seconds: float
    busy: int | None
    idle: int | None
    steal: int | None
    swapped_pages: int | None


class HostWatch:
    """Compares the host with how it was at the last look.

    Args:
        roots: the pids of pytest, fork server and workers, asked at each look; what they started is found.
        root: the folder above proc and sys.
        cpus: the CPUs that we may run on; this process's own unless given.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        roots: Callable[[], Collection[int]],
        root: Path = ROOT,
        cpus: Collection[int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._roots = roots
        self._root = root
        self._proc = root / "proc"
        self._clock = clock
        self._cpus = frozenset(os.sched_getaffinity(0) if cpus is None else cpus)
        spread = sorted(self._cpus)[:: math.ceil(len(self._cpus) / _MOST_CLOCKS)]
        self._clocked = [cpu for cpu in spread if (root / f"sys/devices/system/cpu/cpu{cpu}/cpufreq").is_dir()]
        self._cpuinfo_due = -math.inf
        quota = cgroup.cpu_quota(root)
        self._usable = min(len(self._cpus), quota or len(self._cpus))
        self.usable_cores = min(len(self._cpus), cgroup.whole_cores(quota) or len(self._cpus))
        self._everyone = read_processes(self._proc)
        self._fresh = True  # is `_everyone` of the last look?
        self._own = self._relatives()
        self._last = self._count()

    def sample(self) -> Sample:
        """What happened since the last look, or since this watch was made."""
        last, now = self._last, self._count()
        self._last = now
        seconds = max(now.monotonic_seconds - last.monotonic_seconds, 1e-3)
        cpu_seconds = seconds * _TICKS_PER_SEC * self._usable
        other, busiest = self._others(_difference(now.busy, last.busy), cpu_seconds)
        idle = _difference(now.idle, last.idle)
        steal = _difference(now.steal, last.steal)
        pages = _difference(now.swapped_pages, last.swapped_pages)
        return Sample(
            monotonic_seconds=now.monotonic_seconds,
            seconds=seconds,
            usable_cores=self.usable_cores,
            other_cpu_fraction=other,
            idle_fraction=None if idle is None else min(1.0, idle / cpu_seconds),
            steal_fraction=None if steal is None else min(1.0, steal / cpu_seconds),
            swap_bytes_per_sec=None if pages is None else pages * _PAGE_BYTES / seconds,
            busiest_other=busiest,
            load_average=_number(self._text("proc/loadavg").partition(" ")[0]),
            cpu_mhz=self._cpu_mhz(now.monotonic_seconds),
            memory_available_bytes=self._memory_available_bytes(),
        )

    def is_other(self, pid: int) -> Process | None:
        """The process, where it can be seen and isn't ours."""
        process = read_process(pid, self._proc)
        return None if process is None or belongs(process, self._roots(), self._proc) else process

    def _others(self, busy: int | None, cpu_ticks: float) -> tuple[float | None, str]:
        """The fraction that others used, and the one that used most of it."""
        before = self._own
        self._own = self._read({*self._own, *self._roots()})
        if busy is None:
            return None, ""
        fraction = self._fraction(busy, before, cpu_ticks)
        fresh, self._fresh = self._fresh, False
        if fraction <= _WORTH_A_WALK:
            return fraction, ""
        known, self._everyone = self._everyone, read_processes(self._proc)
        self._fresh = True
        self._own = self._relatives()
        # An old list would name who was busy long ago; the next look has a fresh one.
        return self._fraction(busy, before, cpu_ticks), self._busiest(known) if fresh else ""

    def _fraction(self, busy: int, before: dict[int, Process], cpu_ticks: float) -> float:
        """Where a quota leaves us fewer cores than we may run on, others take from us only what is beyond the rest."""
        beyond_quota = cpu_ticks * (len(self._cpus) / self._usable - 1)
        return min(1.0, max(0.0, busy - _ticks_used(before, self._own) - beyond_quota) / cpu_ticks)

    def _busiest(self, before: dict[int, Process]) -> str:
        def used(process: Process) -> int:
            return process.ticks - (before[process.pid].ticks if process.pid in before else 0)

        others = [process for pid, process in self._everyone.items() if pid not in self._own]
        busiest = max(others, key=used, default=None)
        return str(busiest) if busiest and used(busiest) > 0 else ""

    def _relatives(self) -> dict[int, Process]:
        pids = family(self._roots(), self._everyone.values())
        return {pid: process for pid, process in self._everyone.items() if pid in pids}

    def _read(self, pids: Collection[int]) -> dict[int, Process]:
        return {pid: process for pid in pids if (process := read_process(pid, self._proc))}

    def _count(self) -> _Counters:
        busy, idle, steal = self._cpu_ticks()
        return _Counters(self._clock(), busy, idle, steal, self._swapped_pages())

    def _cpu_ticks(self) -> tuple[int, int, int] | tuple[None, None, None]:
        """Of the usable CPUs; user time holds the guests' already (proc_stat(5))."""
        totals = [0] * 8
        for line in self._text("proc/stat").splitlines():
            name, *fields = line.split()
            if not name.startswith("cpu"):
                break  # what follows is long on large machines
            if name[3:].isdecimal() and int(name[3:]) in self._cpus and len(fields) >= 8:
                totals = [total + int(field) for total, field in zip(totals, fields, strict=False)]
        user, nice, system, idle, waiting, irq, softirq, steal = totals
        # gVisor, for one, writes zeros.
        return (user + nice + system + irq + softirq, idle + waiting, steal) if any(totals) else (None, None, None)

    def _swapped_pages(self) -> int | None:
        lines = (line.split() for line in self._text("proc/vmstat").splitlines() if line.startswith("pswp"))
        pages = [int(fields[1]) for fields in lines]
        return sum(pages) if pages else None

    def _cpu_mhz(self, monotonic_seconds: float) -> int | None:
        """The mean over usable cores; from time to time only where /proc/cpuinfo alone tells it."""
        files = [f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in self._clocked]
        clocks = [khz / 1000 for khz in map(_number, map(self._text, files)) if khz is not None]
        if not clocks and monotonic_seconds >= self._cpuinfo_due:
            self._cpuinfo_due = monotonic_seconds + _CPUINFO_SECONDS
            told = _MHZ.findall(self._text("proc/cpuinfo"))
            clocks = [float(mhz) for cpu, mhz in told if int(cpu) in self._cpus]
        return round(statistics.fmean(clocks)) if clocks else None

    def _memory_available_bytes(self) -> int | None:
        lines = (line.split() for line in self._text("proc/meminfo").splitlines() if line.startswith("MemAvailable:"))
        return next((int(fields[1]) * 1024 for fields in lines), None)

    def _text(self, name: str) -> str:
        return text_of(self._root / name)


def _ticks_used(before: dict[int, Process], now: dict[int, Process]) -> int:
    """Ticks that a family used: the growth of its sum, which holds when a child ends and its parent waits for it.

    A child that nobody in the family waited for takes its ticks along: then what the others grew by is the best guess.
    """
    whole = sum(p.ticks + p.children_ticks for p in now.values()) - sum(
        p.ticks + p.children_ticks for p in before.values()
    )
    survivors = sum(p.ticks - before[pid].ticks for pid, p in now.items() if pid in before)
    return max(whole, survivors)


def _difference(now: int | None, last: int | None) -> int | None:
    # The kernel's idle count has been seen to step back.
    return None if now is None or last is None else max(0, now - last)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
