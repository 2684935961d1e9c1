"""The host: CPU model, cores, memory and settings, within the limits of affinity and control groups."""

from __future__ import annotations

import math
import os
import platform
import re
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

from pytest_tfperf.core.topology import Host, with_generation
from pytest_tfperf.errors import TfperfError

ROOT = Path("/")
"""The file system's root; tests give a folder with another machine's files."""


def text_of(path: Path) -> str:
    """The text of a small file in /proc or /sys; "" where it is missing or may not be read."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def read_host(root: Path = ROOT, affinity: Collection[int] | None = None) -> Host:
    """The host, with the control groups and CPU model that the files below `root` give.

    Raises:
        TfperfError: /proc is missing, so that neither memory nor other work on the machine can be seen.
    """
    import psutil  # costs 20 ms, and collecting tests needs no host

    try:
        memory, physical_cores = psutil.virtual_memory().total, psutil.cpu_count(logical=False)
        psutil.cpu_times(percpu=True)
    except OSError as error:
        raise TfperfError(
            f"{error.filename or '/proc'} can't be read ({error.strerror}), and without it no work of others on this "
            "machine can be seen",
            next_step="Mount /proc, and all of it: in a systemd unit ProcSubset=pid hides parts",
        ) from None
    return Host(
        cpu_model=cpu_model(text_of(root / "proc/cpuinfo")),
        usable_cores=usable_cores(root, affinity),
        total_cores=psutil.cpu_count() or len(os.sched_getaffinity(0)),
        physical_cores=physical_cores,
        memory_bytes=min([memory, *_memory_limits(root)]),
        kernel=platform.release(),
        hostname=platform.node(),
    )


def usable_cores(root: Path = ROOT, affinity: Collection[int] | None = None) -> int:
    """The cores that this process may use: those of its affinity, or its quota of them, rounded up.

    Ranks on other nodes ask this for themselves.
    """
    allowed = len(os.sched_getaffinity(0) if affinity is None else affinity)
    quota = cpu_quota(root)
    return allowed if quota is None else min(allowed, max(1, math.ceil(quota)))


def cpu_quota(root: Path = ROOT) -> float | None:
    """The control groups' quota of CPU time for this process, in cores; None without a quota.

    A quota applies to all groups below it, so the lowest quota counts.
    """
    quotas = []
    for folder in _control_groups(root, "cpu"):
        # Version 2 writes "200000 100000" or "max 100000"; version 1 two files, and -1 for no quota.
        words = text_of(folder / "cpu.max") or " ".join(
            text_of(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period")
        )
        if match := re.fullmatch(r"(\d+)\s+([1-9]\d*)", words, re.ASCII):
            quotas.append(int(match[1]) / int(match[2]))
    return min(quotas, default=None)


def cpu_model(cpuinfo: str) -> str:
    """The model that /proc/cpuinfo names; lscpu's name on ARM, where /proc/cpuinfo has numbers only.

    A hypervisor may leave the brand alone, as in "AMD EPYC" or "Intel(R) Xeon(R) CPU @ 2.20GHz". Family and model then
    tell the generation, because generations differ in speed by more than any tolerance.
    """
    # "model name" on x86, "cpu" on POWER.
    names = re.findall(r"^(?:model name|cpu)[ \t]*:[ \t]*(\S.*)$", cpuinfo, re.MULTILINE) or _lscpu_names()
    name = " ".join(names[0].split()) if names else platform.processor() or platform.machine()
    generation = re.search(r"^cpu family[ \t]*:[ \t]*(\d+)\s+^model[ \t]*:[ \t]*(\d+)$", cpuinfo, re.MULTILINE)
    return name if generation is None else with_generation(name, *generation.groups())


def host_facts(root: Path = ROOT) -> dict[str, str]:
    """Settings that affect the host's speed (kernel, CPU governor, turbo), if known; values have no blanks."""
    cpu = root / "sys/devices/system/cpu"
    governors = {text_of(file) for file in cpu.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    # Intel's own driver has "no_turbo", all others "boost".
    turbo = {"1": "off", "0": "on"}.get(text_of(cpu / "intel_pstate/no_turbo"))
    facts = {
        "kernel": platform.release(),
        "governor": "+".join(sorted(governors)),
        "turbo": turbo or {"0": "off", "1": "on"}.get(text_of(cpu / "cpufreq/boost"), ""),
    }
    return {name: value.replace(" ", "_") for name, value in facts.items() if value}


def _lscpu_names() -> list[str]:
    try:
        done = subprocess.run(
            ["lscpu"], env=os.environ | {"LC_ALL": "C"}, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^\s*Model name:\s*(\S.*)$", done.stdout, re.MULTILINE)


def _memory_limits(root: Path) -> Iterator[int]:
    for folder in _control_groups(root, "memory"):
        limit = text_of(folder / "memory.max") or text_of(folder / "memory.limit_in_bytes")
        if limit.isdecimal():
            yield int(limit)


def _control_groups(root: Path, controller: str) -> Iterator[Path]:
    """Folders of this process's groups, from its own up to the mount's top; other namespaces' folders don't exist."""
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        # Version 2 has one line without controllers. Version 1 links each controller's name to its mount.
        if controllers and controller not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / (controller if controllers else "")
        inner = Path(path.lstrip("/")) if ".." not in path.split("/") else Path()
        yield from (top / group for group in (inner, *inner.parents))
