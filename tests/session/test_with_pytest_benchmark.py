"""Measured windows as pytest-benchmark's rounds, in seconds per step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.inner import Finished, Project

TESTS = """
    @pytest.mark.benchmark(group="mine")
    def test_throughput(throughput, on):
        throughput.measure(tiny(4, "nets:even"), on=on, steps=60)
        throughput.measure(tiny(8, "nets:even"), on=on, steps=1)

    def test_ordinary(benchmark):
        benchmark(sum, [1, 2, 3])

    def test_other():
        pass
"""


@pytest.fixture(scope="module")
def benchmarked(played: Project) -> Finished:
    played.tests(TESTS)
    played.write("even", "20 50")  # seconds a step, by the played clocks of the first and of the second worker
    # In a process of its own: pytest parses its arguments twice, pytest-benchmark opens the file each time, and a later
    # test would be told of the one that is never closed.
    return played.end_of(played.start("--benchmark-json=out.json", "--benchmark-save=first"))


@pytest.fixture(scope="module")
def written(benchmarked: Finished, played: Project) -> dict[str, Any]:
    return json.loads((played.folder / "out.json").read_text())


def ours(written: dict[str, Any]) -> dict[str, Any]:
    (found,) = [one for one in written["benchmarks"] if one["name"] == "test_throughput"]
    return found


def test_rounds_are_the_windows_of_the_first_measurement(written: dict[str, Any], played: Project) -> None:
    first, second, *_ = played.history.measurements()
    assert (ours(written)["stats"]["rounds"], second.throughput.windows) == (first.throughput.windows, 1)


def test_a_round_is_in_seconds_per_step(written: dict[str, Any]) -> None:
    assert [ours(written)["stats"][figure] for figure in ("min", "median", "max")] == pytest.approx([20] * 3, rel=0.01)


def test_workload_machine_and_the_users_group_are_kept(written: dict[str, Any]) -> None:
    found, facts = ours(written), written["machine_info"]
    assert found["extra_info"]["examples_per_sec"] == pytest.approx(4 / 20, rel=0.01)
    assert (found["extra_info"]["workload"], found["group"]) == ("nets:even-b4-replicated-device", "mine")
    assert facts["tfperf_machine"] == "box"


def test_ordinary_benchmarks_keep_their_own_clock(written: dict[str, Any]) -> None:
    (other,) = [one for one in written["benchmarks"] if one["name"] == "test_ordinary"]
    assert (other["options"]["timer"], other["stats"]["min"] > 0) == ("perf_counter", True)


@pytest.fixture(scope="module")
def compared(benchmarked: Finished, played: Project) -> Finished:
    return played.run("--benchmark-only", "--benchmark-compare")


def test_a_saved_run_is_compared_with_by_the_same_machine(compared: Finished) -> None:
    assert compared.kinds == {"test_throughput": "passed", "test_ordinary": "passed", "test_other": "skipped"}
    assert "Benchmark machine_info is different" not in compared.text
    pytest.LineMatcher(compared.text.splitlines()).fnmatch_lines(
        ["Comparing against benchmarks from: *first.json", "test_throughput (0001_first) *"]
    )
