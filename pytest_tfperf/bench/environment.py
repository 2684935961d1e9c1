"""What a measurement was made with: software, driver, host and commit, so that a failure can say what changed."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_tfperf.core.topology import Topology
from pytest_tfperf.hardware.host import host_facts


def environment(worker: Mapping[str, str], topology: Topology, inject_slowdown: float, commit: str) -> dict[str, str]:
    """Name -> value without blanks: the worker's software, the driver, the host's settings and the commit."""
    facts = host_facts() | {
        "driver": topology.driver_version,
        "commit": commit,
        "injected_slowdown": str(inject_slowdown or ""),  # so that it is not taken for a real slowdown
    }
    return dict(worker) | {name: value.replace(" ", "_") for name, value in facts.items() if value}
