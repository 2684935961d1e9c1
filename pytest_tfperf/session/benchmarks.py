"""Feeds pytest-benchmark: a timer, rounds, and rows of its table if its options ask for them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_tfperf.session.state import FIXTURE, SESSION

if TYPE_CHECKING:
    from pytest_tfperf.core.measurement import Measurement

BenchmarkGroups = Sequence[tuple[str | None, Sequence[dict[str, Any]]]]
"""The content of a table of pytest-benchmark: each group's name, and its tests."""


def asks_for_benchmarks(config: pytest.Config) -> bool:
    """Whether an option of pytest-benchmark was given, other than `--benchmark-quiet`."""
    words = [*config.invocation_params.args, *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    words += config.getini("addopts")
    return any(str(word).startswith("--benchmark-") and word != "--benchmark-quiet" for word in words)


def without_ours(config: pytest.Config, groups: BenchmarkGroups) -> BenchmarkGroups:
    """The groups without throughput tests, which have a table of their own, and without empty groups."""
    ours = config.stash[SESSION].selection
    left = [(name, [test for test in tests if test["fullname"] not in ours]) for name, tests in groups]
    return [(name, tests) for name, tests in left if tests]


def set_clock(item: pytest.Item) -> None:
    """Give pytest-benchmark our timer, beside what the test's own `benchmark` marker says."""
    if not _is_on(item.config):
        return
    own = item.get_closest_marker("benchmark")
    item.add_marker(pytest.mark.benchmark(**{**(own.kwargs if own else {}), "timer": window_clock}), append=False)


def request_fixture(item: pytest.Item) -> None:
    """Let pytest-benchmark see a benchmark in a throughput test, for `--benchmark-only` and `--benchmark-skip`."""
    names: list[str] = item.fixturenames  # type: ignore[attr-defined]  # a test that has fixtures has their names
    if _is_on(item.config) and "benchmark" not in names:
        names.append("benchmark")


def _is_on(config: pytest.Config) -> bool:
    """Whether pytest-benchmark takes part; `-p no:benchmark` leaves it out."""
    return config.pluginmanager.has_plugin("benchmark")


def fixture_of(request: pytest.FixtureRequest) -> Any | None:
    """pytest-benchmark's fixture; None where it does not take part, or pytest-codspeed has taken the fixture's name."""
    if not _is_on(request.config):
        return None
    found: Any = request.getfixturevalue("benchmark")
    if not type(found).__module__.startswith("pytest_benchmark."):  # isinstance() believes what pytest-codspeed says
        return None
    found.skipped = True  # until it is fed: where our fixture raises, it would warn that it was not used
    return found


def feed_benchmark(item: pytest.Item, benchmark: Any | None) -> None:
    """The windows of the first check as pytest-benchmark's rounds; a test without a valid measurement has none."""
    if benchmark is None:
        return
    fixture = item.stash[FIXTURE]
    measured = [result for result in fixture.outcomes.results if result.other is None]
    if measured and measured[0].is_valid and fixture.outcomes.is_decided:
        feed(benchmark, measured[0])
    else:
        benchmark.skipped = True  # otherwise pytest-benchmark warns that its fixture was not used


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
        "figures": {verdict.figure.name: verdict.value for verdict in measurement.figures},
    }
    benchmark.pedantic(advance, rounds=len(windows), iterations=1)


def forget_clock_readings(machine_info: dict[str, Any]) -> None:
    """Remove the CPU's momentary clock: pytest-benchmark takes a machine whose facts differ for another machine."""
    cpu = machine_info.get("cpu")
    if isinstance(cpu, dict):
        for name in [name for name in cpu if name.startswith("hz_actual")]:
            del cpu[name]
