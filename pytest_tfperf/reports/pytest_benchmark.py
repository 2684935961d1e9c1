"""Measured windows as pytest-benchmark's rounds, in seconds per step, through its public API.

pytest-benchmark times what it calls, but our windows were timed before, in another process. So its timer is a counter
of ours, and the function that it calls advances the counter by a window's seconds per step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_tfperf.core.measurement import Measurement

_seconds = 0.0


def window_clock() -> float:
    """The timer for pytest-benchmark: the sum of seconds per step over all windows so far."""
    return _seconds


def feed(benchmark: Any, measurement: Measurement) -> None:
    """Hand a measurement's first run to pytest-benchmark's fixture: its windows as rounds, the rest as extra_info."""
    windows = measurement.runs[0].windows
    upcoming = iter(windows)

    def advance() -> None:
        global _seconds
        if (window := next(upcoming, None)) is not None:  # --benchmark-cprofile makes one more call
            _seconds += window.seconds / window.steps

    benchmark.extra_info |= {
        "examples_per_sec": measurement.throughput.examples_per_sec,
        "counted": measurement.throughput.unit,
        "workload": measurement.workload.id,
        "topology": measurement.topology,
        "machine": measurement.machine,
        "devices": measurement.devices,
        "unit": "seconds per step",
        "compile_seconds": measurement.throughput.compile_seconds,
    }
    benchmark.pedantic(advance, rounds=len(windows), iterations=1)


def forget_clock_readings(machine_info: dict[str, Any]) -> None:
    """Remove the CPU's momentary clock: pytest-benchmark takes a machine whose facts differ for another one."""
    cpu = machine_info.get("cpu")
    if isinstance(cpu, dict):
        for name in [name for name in cpu if name.startswith("hz_actual")]:
            del cpu[name]
