"""How the host is set up where that changes its speed: kernel, CPU governor, turbo, SMT, large pages."""

from __future__ import annotations

import platform
import re
from pathlib import Path

from pytest_tfperf.hardware.kernel_files import ROOT, text_of


def host_facts(root: Path = ROOT) -> dict[str, str]:
    """Name to value, without blanks; only what is known."""
    cpu = root / "sys/devices/system/cpu"
    governors = {text_of(file) for file in cpu.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {""}
    # Intel's own driver has "no_turbo", all others "boost".
    turbo = {"1": "off", "0": "on"}.get(text_of(cpu / "intel_pstate/no_turbo"))
    large_pages = re.search(r"\[(\w+)\]", text_of(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    facts = {
        "kernel": platform.release(),
        "governor": "+".join(sorted(governors)),
        "turbo": turbo or {"0": "off", "1": "on"}.get(text_of(cpu / "cpufreq/boost"), ""),
        "smt": {"0": "off", "1": "on"}.get(text_of(cpu / "smt/active"), ""),
        "large_pages": large_pages[1] if large_pages else "",
    }
    return {name: value.replace(" ", "_") for name, value in facts.items() if value}
