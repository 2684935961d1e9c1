"""How the host is set up where that changes its speed: kernel, CPU governor, turbo, threads a core, large pages."""

from __future__ import annotations

import platform
import re
from pathlib import Path

ROOT = Path("/")


def host_facts(root: Path = ROOT) -> dict[str, str]:
    """Name to value, without blanks; only what is known."""
    cpu = root / "sys/devices/system/cpu"
    governors = {_line(file) for file in cpu.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    facts = {
        "kernel": _line(root / "proc/sys/kernel/osrelease") or platform.release(),
        "governor": "+".join(sorted(governors)),
        "turbo": _turbo(cpu),
        "smt": {"0": "off", "1": "on"}.get(_line(cpu / "smt/active"), ""),
        "large_pages": _chosen(_line(root / "sys/kernel/mm/transparent_hugepage/enabled")),
    }
    return {name: value.replace(" ", "_") for name, value in facts.items() if value}


def _turbo(cpu: Path) -> str:
    # Intel's own driver says "no turbo", all others "boost".
    off = {"1": "off", "0": "on"}.get(_line(cpu / "intel_pstate/no_turbo"), "")
    return off or {"0": "off", "1": "on"}.get(_line(cpu / "cpufreq/boost"), "")


def _chosen(text: str) -> str:
    """ "always [madvise] never" -> "madvise"."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else ""


def _line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
