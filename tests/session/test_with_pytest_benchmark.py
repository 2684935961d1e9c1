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
    found = ours(written)
    assert found["extra_info"]["examples_per_sec"] == pytest.approx(4 / 20, rel=0.01)
    assert (found["extra_info"]["workload"], found["group"]) == ("nets:even-b4-replicated-device", "mine")
    assert found["extra_info"]["machine"] == "box"


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


def test_what_is_written_about_the_machine_is_as_it_is_without_us(written: dict[str, Any], played: Project) -> None:
    played.write("test_ordinary.py", "def test_ordinary(benchmark): benchmark(sum, [1])")
    ended = played.end_of(played.start("test_ordinary.py", "-p", "no:tfperf", "--benchmark-json=bare.json", "-Wignore"))
    facts = [written["machine_info"], json.loads((played.folder / "bare.json").read_text())["machine_info"]]
    for each in facts:
        each["cpu"] = sorted(each["cpu"])  # its clock differs from one moment to the next
    assert facts[0] == facts[1], ended.text


@pytest.mark.parametrize("option", ["--benchmark-skip", "--benchmark-disable"])
def test_pytest_benchmarks_options_reach_throughput_tests(compared: Finished, played: Project, option: str) -> None:
    kinds = played.run(option, "-k", "throughput").kinds
    assert kinds == {"test_throughput": "skipped" if option == "--benchmark-skip" else "passed"}


# pytest-codspeed has a fixture of that name, too, which says that it is pytest-benchmark's class.
ANOTHER_PLUGIN = """
    import pytest

    class Codspeed:
        @property
        def __class__(self):
            from pytest_benchmark.fixture import BenchmarkFixture
            return BenchmarkFixture

        def pedantic(self, *arguments, **options):
            raise TypeError("window_clock")

    @pytest.fixture
    def benchmark():
        return Codspeed()
"""


def test_another_plugins_fixture_named_benchmark_is_left_alone(played_project: Project) -> None:
    played_project.write("conftest.py", ANOTHER_PLUGIN)
    played_project.tests("def test_it(throughput, on): throughput.measure(tiny(), on=on)")
    assert played_project.run().kinds == {"test_it": "passed"}


def test_throughput_is_measured_without_pytest_benchmark(played_project: Project) -> None:
    played_project.tests("def test_it(throughput, on): throughput.measure(tiny(), on=on)")
    ended = played_project.run("-p", "no:benchmark", "--strict-markers")
    assert ended.kinds == {"test_it": "passed"}, ended.text
    assert played_project.measured("test_it").throughput.windows > 1
