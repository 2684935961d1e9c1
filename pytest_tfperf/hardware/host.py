"""The host as Linux tells it: CPU model and cores, what affinity and cgroups leave of them, memory.

Every function reads below a root folder, so that a test can lay out another machine's files.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.topology import Host
from pytest_tfperf.hardware import cgroup
from pytest_tfperf.hardware.kernel_files import line_of, text_of

if TYPE_CHECKING:
    from collections.abc import Collection

ROOT = Path("/")

# ARM kernels print numbers, not names; these are the server cores (implementer, part), as in util-linux' table.
_ARM_CORES = {
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd84"): "Neoverse-V3",
    ("0x41", "0xd8e"): "Neoverse-N3",
    ("0x4e", "0x004"): "NVIDIA Carmel",
    ("0xc0", "0xac3"): "Ampere-1",
    ("0xc0", "0xac4"): "Ampere-1a",
}


def read_host(root: Path = ROOT, affinity: Collection[int] | None = None) -> Host:
    """The host below `root`; `affinity` is this process's own unless given."""
    cpus = _cpuinfo(root)
    total = len(cpus) or os.cpu_count() or 1
    allowed = len(_affinity(total) if affinity is None else affinity) or 1
    return Host(
        cpu_model=cpu_model(cpus),
        usable_cores=min(allowed, cgroup.whole_cores(cgroup.cpu_quota(root)) or allowed),
        total_cores=total,
        physical_cores=_physical_cores(root, cpus),
        memory_bytes=_lowest(_memory_bytes(root), cgroup.memory_limit_bytes(root)),
        kernel=line_of(root / "proc/sys/kernel/osrelease") or platform.release(),
        hostname=line_of(root / "proc/sys/kernel/hostname") or platform.node(),
    )


def address_space_limit_bytes() -> int | None:
    """What `ulimit -v` leaves to this process, and to each that it starts; None without a limit."""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit


def cpu_model(cpus: list[dict[str, str]]) -> str:
    """The model that /proc/cpuinfo names; on ARM, the core's name by its part number.

    Big and little cores together are named both, most frequent first.
    """
    from collections import Counter

    names = Counter(name for cpu in cpus if (name := _name(cpu)))
    return " + ".join(name for name, _ in names.most_common()) or platform.processor() or platform.machine()


def _name(cpu: dict[str, str]) -> str:
    # "model name" on x86 and some ARM kernels; "cpu" on POWER; "cpu model" on MIPS.
    for field in ("model name", "cpu", "cpu model"):
        if cpu.get(field):
            return " ".join(cpu[field].split())
    arm = (cpu.get("CPU implementer", ""), cpu.get("CPU part", ""))
    return _ARM_CORES.get(arm, f"ARM {arm[0]} {arm[1]}" if all(arm) else "")


def _cpuinfo(root: Path) -> list[dict[str, str]]:
    """The fields of each logical CPU; text before, between and after them belongs to none."""
    cpus: list[dict[str, str]] = []
    for line in text_of(root / "proc/cpuinfo").splitlines():
        field, _, value = (part.strip() for part in line.partition(":"))
        if field == "processor" and value.isdecimal():
            cpus.append({})
        if cpus and field:
            cpus[-1].setdefault(field, value)
    return cpus


def _physical_cores(root: Path, cpus: list[dict[str, str]]) -> int | None:
    told = {(cpu["physical id"], cpu["core id"]) for cpu in cpus if "physical id" in cpu and "core id" in cpu}
    if told:
        return len(told)
    # ARM kernels tell it in sysfs only.
    folders = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology")
    cores = {(line_of(folder / "physical_package_id"), line_of(folder / "core_id")) for folder in folders}
    return len(cores - {("", "")}) or None


def _memory_bytes(root: Path) -> int | None:
    match = re.search(r"^MemTotal:\s*(\d+) kB", text_of(root / "proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def _affinity(total: int) -> Collection[int]:
    # Not on macOS; there is no affinity there.
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(total)


def _lowest(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)
