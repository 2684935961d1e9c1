"""How the host is set up where that changes its speed: kernel, CPU governor, turbo, threads a core, large pages."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from pytest_tfperf.hardware.kernel_files import line_of

ROOT = Path("/")


def host_facts(root: Path = ROOT) -> dict[str, str]:
    """Name to value, without blanks; only what is known."""
    cpu = root / "sys/devices/system/cpu"
    governors = {line_of(file) for file in cpu.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    facts = {
        "kernel": line_of(root / "proc/sys/kernel/osrelease") or platform.release(),
        "governor": "+".join(sorted(governors)),
        "turbo": _turbo(cpu),
        "smt": {"0": "off", "1": "on"}.get(line_of(cpu / "smt/active"), ""),
        "large_pages": _chosen(line_of(root / "sys/kernel/mm/transparent_hugepage/enabled")),
    }
    return {name: value.replace(" ", "_") for name, value in facts.items() if value}


def _turbo(cpu: Path) -> str:
    # Intel's own driver says "no turbo", all others "boost".
    off = {"1": "off", "0": "on"}.get(line_of(cpu / "intel_pstate/no_turbo"), "")
    return off or {"0": "off", "1": "on"}.get(line_of(cpu / "cpufreq/boost"), "")


def _chosen(text: str) -> str:
    """ "always [madvise] never" -> "madvise"."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else ""
