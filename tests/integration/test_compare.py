"""`throughput.compare` over real workers: sides that are the same, a side that is slowed, whole runs in turns."""

from __future__ import annotations

import pytest
from inner import Finished, Project

# The tolerance is wide because the machine may be busy with anything; the slowdown is far wider.
TESTS = """
    import math

    import pytest
    from pytest_tfperf import Workload

    TINY = Workload(model="nets:tiny", batch_size=1)
    EVEN = Workload(model="nets:even", batch_size=1)

    @pytest.mark.cpu
    class TestOnCpus:
        def test_compares_equals(self, throughput, gpu_topology):
            throughput.compare(TINY, TINY, on=gpu_topology.take(1), tolerance=0.5, max_pairs=8)

        def test_compares_by_played_clocks(self, throughput, gpu_topology):
            found = throughput.compare(EVEN, EVEN, on=gpu_topology.take(1), tolerance=0.3, max_pairs=8)
            assert (found.how, found.outcome) == ("turns", "PASS")
            assert found.log_ratios == pytest.approx([-math.log(1.05), math.log(1.05), -math.log(1.05)])
            assert found.ratio == pytest.approx(1.05 ** (-1 / 3))

        def test_compares_two_workloads(self, throughput, gpu_topology):
            larger = TINY.with_(batch_size=64)
            assert throughput.compare(TINY, larger, on=gpu_topology.take(1), max_seconds=1e-9).ratio > 1

        def test_compares_host_pipelines(self, throughput, gpu_topology):
            host = TINY.with_(input_pipeline="host")
            found = throughput.compare(host, host, on=gpu_topology.take(1), max_seconds=1e-9)
            assert found.how == "alternating runs"

        def test_cannot_tell(self, throughput, gpu_topology):
            throughput.compare(TINY, TINY, on=gpu_topology.take(1), tolerance=0.3, max_seconds=1e-9)
"""


@pytest.fixture(scope="module")
def plain(shared: Project) -> Finished:
    shared.write("test_it.py", TESTS)
    shared.write("even", "0.0200 0.0210")  # seconds a step of the first worker of a pair and of the second
    return shared.run()


@pytest.fixture(scope="module")
def slowed(shared: Project) -> Finished:
    shared.write("test_it.py", TESTS)
    return shared.run("--tfperf-inject-slowdown=0.8", "--tfperf-strict", "-k", "equals or cannot")


def test_a_against_itself_is_no_regression(plain: Finished) -> None:
    """It may be undecided, on a machine that is restless enough: that passes too."""
    assert plain.cases["test_compares_equals"].kind == "passed", plain.text


def test_the_sides_begin_in_turns_and_b_is_held_against_a(plain: Finished) -> None:
    assert plain.cases["test_compares_by_played_clocks"].kind == "passed", plain.cases["test_compares_by_played_clocks"]


def test_two_workloads_are_told_apart_by_their_ids(plain: Finished) -> None:
    assert plain.cases["test_compares_two_workloads"].kind == "passed", plain.text
    assert "nets:tiny-b64-replicated-device" in plain.text


def test_host_pipelines_alternate_whole_runs(plain: Finished) -> None:
    assert plain.cases["test_compares_host_pipelines"].kind == "passed", plain.text


def test_what_can_not_be_told_passes_with_a_warning(plain: Finished) -> None:
    assert plain.cases["test_cannot_tell"].kind == "passed"
    assert "ThroughputWarning: nets:tiny-b1-replicated-device, b is" in plain.text
    assert "the next pair would end after max_seconds=1e-09" in plain.text


def test_the_table_shows_both_sides_and_the_ratio(plain: Finished) -> None:
    heading = next(line for line in plain.text.splitlines() if line.startswith("workload"))
    columns = "workload topology a images/s limit b images/s limit b / a 95 % interval pairs outcome"
    assert " ".join(heading.split()) == columns


def test_a_slowed_side_is_regressed(slowed: Finished) -> None:
    assert slowed.status == 1
    case = slowed.cases["test_compares_equals"]
    assert case.kind == "failure"
    assert "slower by more than the tolerance in" in case.text


def test_a_failure_says_how_to_run_it_again(slowed: Finished) -> None:
    assert "rerun       pytest test_it.py::TestOnCpus::test_compares_equals" in slowed.text


def test_strict_fails_what_can_not_be_told(slowed: Finished) -> None:
    case = slowed.cases["test_cannot_tell"]
    assert (case.kind, "the next pair would end after max_seconds=1e-09" in case.text) == ("failure", True)
