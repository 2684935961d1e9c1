"""Measured windows as pytest-benchmark's rounds, in seconds per step, through its public API.

pytest-benchmark times what it calls. Ours is measured already, in another process, so its timer is one that we advance
by each window's seconds per step, and what it calls is the advance.
"""

from __future__ import annotations

from typing import Any, Protocol

from pytest_tfperf.core.measurement import Measurement


class BenchmarkFixture(Protocol):
    """What we use of pytest-benchmark's fixture."""

    extra_info: dict[str, Any]

    def pedantic(self, target: Any, *, rounds: int, iterations: int) -> Any:
        """Time `rounds` calls of `target`."""


_seconds = 0.0


def window_clock() -> float:
    """The timer that pytest-benchmark is given: the windows fed so far, in seconds per step."""
    return _seconds


def feed(benchmark: BenchmarkFixture, record: Measurement) -> None:
    """Hand over a record's first run as rounds, with what it was as extra_info."""
    windows = record.trial.attempts[0].windows
    upcoming = iter(windows)

    def advance() -> None:
        global _seconds
        window = next(upcoming, None)  # a disabled pytest-benchmark calls once, without rounds
        if window is not None:
            _seconds += window.seconds / window.steps

    benchmark.extra_info |= {
        "images_per_sec": record.throughput.images_per_sec,
        "workload": record.workload.id,
        "topology": record.topology,
        "machine": record.machine,
        "devices": record.devices,
        "unit": "seconds per step",
        "compile_seconds": record.throughput.compile_seconds,
    }
    benchmark.pedantic(advance, rounds=len(windows), iterations=1)


def forget_clock_readings(machine_info: dict[str, Any]) -> None:
    """Take out what differs at each reading: pytest-benchmark warns of another machine when its facts differ."""
    cpu = machine_info.get("cpu")
    if isinstance(cpu, dict):
        for name in [name for name in cpu if name.startswith("hz_actual")]:
            del cpu[name]
