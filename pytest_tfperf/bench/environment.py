"""What a measurement was made with: software, driver, host and commit, so that a failure can say what changed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from pytest_tfperf.core.topology import Topology
from pytest_tfperf.hardware.software import host_facts


def environment(worker: Mapping[str, str], topology: Topology, inject_slowdown: float, commit: str) -> dict[str, str]:
    """Name -> value without blanks: the worker's software, the driver, the host's settings and the commit."""
    facts = host_facts() | {
        "driver": topology.driver_version,
        "commit": commit,
        "injected_slowdown": str(inject_slowdown or ""),  # so that nobody takes it for a real slowdown
    }
    return dict(worker) | {name: value.replace(" ", "_") for name, value in facts.items() if value}


@cache
def commit_of(folder: Path) -> str:
    """Of the project that is measured, "-dirty" where files differ; "" where it is no checkout, or there is no git."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
