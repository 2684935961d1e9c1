"""Is this host fit to measure? Its settings, and what it did during a few seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.hardware.host import ROOT, cpu_quota, host_facts, text_of
from pytest_tfperf.hardware.sampler import HostUsage, cpu_numbers, known, pid_in
from pytest_tfperf.reports.numbers import counted, size, whole_percent


class Level(StrEnum):
    """The severity of a finding, the worst first; reports show the values."""

    UNFIT = "UNFIT"
    WARNING = "warning"
    UNKNOWN = "unknown"
    ABSENT = "none"
    OK = "ok"


class Check(StrEnum):
    """The subject of a finding, and why it matters to a measurement."""

    why: str

    def __new__(cls, subject: str, why: str) -> Self:
        """A member; its value is the subject."""
        check = str.__new__(cls, subject)
        check._value_, check.why = subject, why
        return check

    OTHER_PROCESSES = (
        "other processes",
        "they take CPU time from a run, which then is slower, or discarded as disturbed",
    )
    LOAD = "load", "other work ran a moment ago and may come back"
    STEAL = "steal time", "the time that other virtual machines get is missing, and changes from run to run"
    SWAP = "swap", "a step that waits for swap takes many times as long"
    MEMORY = "memory", "a worker needs some GiB; without them it swaps or is killed"
    GOVERNOR = "CPU governor", "a governor that saves power raises the clock late, so short windows are slow"
    TURBO = "turbo", "the turbo clock depends on heat and on how many cores are busy, so runs differ more"
    QUOTA = "CPU quota", "a quota stops all threads for the rest of each 0.1 s slice once it is used up"
    SIBLINGS = "hyper-threading", "two threads of one core share its units, so work on the other one slows a run"
    DISK = "disk space", "a measurement that can't be written is lost"
    FILE_SYSTEM = "file system", "SQLite's locks are not reliable on many network file systems"
    DRIVER = "NVIDIA driver", "without its driver no GPU can be used, and a call into a hung one never returns"
    CUDA = "CUDA", "where CUDA does not start, no program sees a GPU, and many go on with the CPU"
    FRAMEWORK = "framework", "a build for CPUs, or for a newer CUDA than the driver's, trains on no GPU"
    CUDA_LIBRARIES = "CUDA libraries", "TensorFlow ignores all GPUs if it can't load one of them"
    GPU_CODE = (
        "code for the GPU",
        "TensorFlow holds code for some GPUs only; for newer ones the driver compiles it, if it can",
    )
    COMPUTE_MODE = "compute mode", "a comparison runs two workers on a GPU at once, and a GPU may admit only one"
    PERSISTENCE = (
        "persistence mode",
        "without it the driver lets GPUs sleep that nobody uses, and takes seconds to wake them",
    )
    POWER_LIMIT = "power limit", "a lower limit lowers the clocks under load, so the GPU is slower than its baseline"
    GPU_CLOCKS = "GPU clocks", "lower clocks make each step slower, and heat makes them change"
    GPU_PROCESSES = "GPU processes", "they take time and memory of the GPU, and the run is discarded as disturbed"
    ECC = "GPU memory errors", "results may be wrong, and the GPU may fail or retire memory"
    NVLINKS = (
        "NVLinks",
        "GPUs exchange gradients by the slowest path, and the machine's name, with its baselines, stays",
    )
    NUMA = "NUMA node", "a run whose threads or memory lie on the other socket is slower, so runs have two speeds"


@dataclass(frozen=True, slots=True)
class Finding:
    """The state of a subject."""

    subject: Check  # the checked part of the machine
    # UNFIT: a measurement would be discarded or wrong; WARNING: it would be noisier, or may not last; UNKNOWN: the
    # machine does not report it.
    level: Level
    fact: str  # its state, with figures
    fix: str = ""  # the command that fixes it, or advice where no command can; "" for none


_LIMITS = DisturbanceLimits()
_NOTABLE = 0.05  # of CPU time: any machine uses less for itself
_LEAST_NAMED = 0.01  # of CPU time: processes below are not named
_FLAGS, _KERNEL_THREAD = 6, 0x00200000  # proc(5): the field of stat after the name, and PF_KTHREAD in it
_LEAST_MEMORY = 0.1  # of all memory
_LEAST_DISK_BYTES = 100 * 2**20
_ENOUGH_DISK_BYTES = 2**30
_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "ceph", "glusterfs", "gpfs", "beegfs", "afs", "9p"}
_NETWORK_FUSE = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The use of a host during some seconds."""

    telemetry: Telemetry
    memory_bytes: int
    swap_used_bytes: int
    busy: Mapping[int, float]  # CPU -> fraction of the time that it was busy
    throttled: int = 0  # the number of times that a quota held our control group back


def observe(seconds: float) -> Observed:
    """Watch the host; this process sleeps meanwhile."""
    import psutil

    host, throttled = HostUsage(), _times_throttled()
    psutil.cpu_percent(percpu=True)
    time.sleep(seconds)
    busy, swap = psutil.cpu_percent(percpu=True), known(psutil.swap_memory)
    return Observed(
        telemetry=host.poll(),
        memory_bytes=psutil.virtual_memory().total,
        swap_used_bytes=0 if swap is None else swap.used,
        busy={cpu: percent / 100 for cpu, percent in zip(cpu_numbers(len(busy)), busy, strict=True)},
        throttled=_times_throttled() - throttled,
    )


def host_findings(
    observed: Observed, history: Path, *, free_bytes: int, root: Path = ROOT, affinity: Collection[int] | None = None
) -> list[Finding]:
    """All findings about the host.

    The folder of the history need not exist yet. `affinity` are the CPUs that we may run on; None asks the kernel.
    """
    cpus = sorted(os.sched_getaffinity(0) if affinity is None else affinity)
    return [
        *_usage(observed, root),
        *_settings(root),
        _quota(cpu_quota(root), len(cpus), observed.throttled),
        _siblings(cpus, observed.busy, root),
        _disk(history, free_bytes),
        _file_system(history, root),
    ]


def _usage(observed: Observed, root: Path) -> Iterator[Finding]:
    now = observed.telemetry
    cores = counted(now.usable_cores, "core")
    yield _others(now, cores, root)
    if now.load_average_mean is not None:
        high = now.load_average_mean > now.usable_cores
        level = Level.WARNING if high else Level.OK
        fact = f"load average {now.load_average_mean:.1f} over the last minute, on {cores}"
        yield Finding(Check.LOAD, level, fact, "wait until it falls: uptime" if high else "")
    if now.steal_fraction_mean is not None:
        level = _level(now.steal_fraction_mean, unfit=_LIMITS.steal_fraction, notable=0.02)
        fact = f"the hypervisor gave {whole_percent(now.steal_fraction_mean)} of {cores} to other virtual machines"
        fix = "" if level is Level.OK else "use a machine that is not shared (a dedicated or metal instance)"
        yield Finding(Check.STEAL, level, fact, fix)
    yield _swap(observed)
    if now.memory_available_bytes_min is not None:
        few = now.memory_available_bytes_min < _LEAST_MEMORY * observed.memory_bytes
        fact = f"{size(now.memory_available_bytes_min)} of {size(observed.memory_bytes)} available"
        fix = "ps -eo pid,user,rss,args --sort=-rss | head   # end what is not needed" if few else ""
        yield Finding(Check.MEMORY, Level.WARNING if few else Level.OK, fact, fix)


def _others(now: Telemetry, cores: str, root: Path) -> Finding:
    used = now.other_cpu_fraction_mean
    if used is None:
        return Finding(Check.OTHER_PROCESSES, Level.UNKNOWN, "the kernel does not report CPU time")
    level = _level(used, unfit=_LIMITS.other_cpu_fraction, notable=_NOTABLE)
    if level is Level.UNFIT and (now.idle_fraction_mean or 0.0) > _LIMITS.idle_fraction:
        level = Level.WARNING  # enough idle cores are left for a run
    fact = f"used {whole_percent(used)} of {cores}"
    if level is Level.OK:
        return Finding(Check.OTHER_PROCESSES, level, fact)
    named = {name: share for name, share in (now.other_processes or {}).items() if share >= _LEAST_NAMED}
    can_end = [name for name in named if _can_end(pid_in(name), root)]
    busiest = sorted(can_end, key=lambda name: -named[name])[:3]
    fact += "".join(f"; {name} {whole_percent(named[name])}" for name in busiest)
    if used - sum(named[name] for name in busiest) >= _LEAST_NAMED:
        fact += "; the rest: the kernel, and processes that were small or short-lived or can't be seen"
    listed = f"ps -fp {','.join(map(pid_in, busiest))}" if busiest else "top"
    return Finding(Check.OTHER_PROCESSES, level, fact, f"{listed}   # then end them, or move them elsewhere")


def _can_end(pid: str, root: Path) -> bool:
    """Whether a process is neither init nor a thread of the kernel."""
    # The process's name, in brackets, may have blanks and brackets of its own.
    fields = text_of(root / f"proc/{pid}/stat").rpartition(")")[2].split()
    return pid != "1" and not (len(fields) > _FLAGS and int(fields[_FLAGS]) & _KERNEL_THREAD)


def _swap(observed: Observed) -> Finding:
    rate = observed.telemetry.swap_bytes_per_sec_mean
    if rate is None:
        return Finding(Check.SWAP, Level.UNKNOWN, "the kernel does not report swapping")
    fact = f"{size(observed.swap_used_bytes)} in use, {size(rate)}/s in and out"
    fix = "free memory, then: sudo swapoff -a"
    if rate > _LIMITS.swap_bytes_per_sec:
        return Finding(Check.SWAP, Level.UNFIT, fact, fix)
    if observed.swap_used_bytes > _NOTABLE * observed.memory_bytes:
        return Finding(Check.SWAP, Level.WARNING, fact, fix)
    return Finding(Check.SWAP, Level.OK, fact)


def _settings(root: Path) -> Iterator[Finding]:
    facts, cpu = host_facts(root), "sys/devices/system/cpu"
    yield _setting(Check.GOVERNOR, facts.get("governor"), "performance", "sudo cpupower frequency-set -g performance")
    intel = (root / cpu / "intel_pstate/no_turbo").exists()
    value, file = ("1", "intel_pstate/no_turbo") if intel else ("0", "cpufreq/boost")
    yield _setting(Check.TURBO, facts.get("turbo"), "off", f"echo {value} | sudo tee /{cpu}/{file}")


def _setting(subject: Check, value: str | None, good: str, fix: str) -> Finding:
    if value is None:
        return Finding(subject, Level.UNKNOWN, "not reported, as in most virtual machines and containers")
    if value == good:
        return Finding(subject, Level.OK, value)
    return Finding(subject, Level.WARNING, value.replace("+", " and "), fix)


def _quota(quota: float | None, cpus: int, throttled: int) -> Finding:
    if quota is None or quota >= cpus:
        return Finding(Check.QUOTA, Level.OK, "none below the usable CPUs")
    times = f", held back {throttled} times while looking" if throttled else ""
    fact = f"{quota:g} cores' worth of time on {cpus} CPUs{times}"
    fix = "give whole CPUs instead: docker run --cpuset-cpus=0-3 (Kubernetes: static CPU manager, integer CPUs)"
    return Finding(Check.QUOTA, Level.WARNING, fact, fix)


def _siblings(cpus: Sequence[int], busy: Mapping[int, float], root: Path) -> Finding:
    """Other processes on our cores' second threads slow a run, although our CPUs look idle."""
    folder = root / "sys/devices/system/cpu"
    shared = {cpu: cpu_list(text_of(folder / f"cpu{cpu}/topology/thread_siblings_list")) for cpu in cpus}
    if not any(shared.values()):
        return Finding(Check.SIBLINGS, Level.UNKNOWN, "the kernel does not report which CPUs share a core")
    foreign = sorted({sibling for threads in shared.values() for sibling in threads} - set(cpus))
    in_use = [cpu for cpu in foreign if busy.get(cpu, 0.0) > _NOTABLE]
    if not foreign:
        pairs = any(len(threads) > 1 for threads in shared.values())
        fact = "both threads of each core are ours" if pairs else "each CPU is a core of its own"
        return Finding(Check.SIBLINGS, Level.OK, fact)
    ids = ",".join(map(str, foreign))
    if not in_use:
        return Finding(Check.SIBLINGS, Level.OK, f"CPUs {ids} share cores with ours, and were idle")
    fact = f"CPUs {','.join(map(str, in_use))} share cores with ours, and others use them"
    fix = f"keep others off them, or switch them off: echo 0 | sudo tee /sys/devices/system/cpu/cpu{in_use[0]}/online"
    return Finding(Check.SIBLINGS, Level.WARNING, fact, fix)


def _disk(folder: Path, free_bytes: int) -> Finding:
    fact = f"{size(free_bytes)} free for {folder}"
    if free_bytes >= _ENOUGH_DISK_BYTES:
        return Finding(Check.DISK, Level.OK, fact)
    level = Level.UNFIT if free_bytes < _LEAST_DISK_BYTES else Level.WARNING
    return Finding(Check.DISK, level, fact, f"du -xh {folder} | sort -h | tail   # delete, or use --tfperf-dir=DIR")


def _file_system(folder: Path, root: Path) -> Finding:
    kind, mount = _mounted(folder.resolve(), text_of(root / "proc/mounts"))
    if not kind:
        return Finding(Check.FILE_SYSTEM, Level.UNKNOWN, "/proc/mounts does not list it")
    fact = f"{folder} is on {kind} ({mount})"
    if kind in _NETWORK or kind.startswith(_NETWORK_FUSE):
        return Finding(Check.FILE_SYSTEM, Level.WARNING, fact, "pytest --tfperf-dir=/var/tmp/tfperf")
    return Finding(Check.FILE_SYSTEM, Level.OK, fact)


def _mounted(path: Path, mounts: str) -> tuple[str, str]:
    """The type and mount point of a path's file system: the last of the longest mount points above the path."""
    nearest = ("", "")
    for line in mounts.splitlines():
        words = line.split()
        # A blank in a path is written \\040.
        mount = words[1].replace("\\040", " ") if len(words) > 2 else ""
        if mount and path.is_relative_to(mount) and len(mount) >= len(nearest[1]):
            nearest = (words[2], mount)
    return nearest


def cpu_list(text: str) -> list[int]:
    """The numbers of "0,32" or "0-1"."""
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers += range(int(first), int(last or first) + 1)
    return numbers


def _times_throttled() -> int:
    """The number of times that a quota held our control group back; 0 where the kernel does not count them."""
    for file in ("/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat"):
        for line in text_of(Path(file)).splitlines():
            name, _, count = line.partition(" ")
            if name == "nr_throttled" and count.isdecimal():
                return int(count)
    return 0


def _level(value: float, *, unfit: float, notable: float) -> Level:
    return Level.UNFIT if value > unfit else Level.WARNING if value > notable else Level.OK
