"""`throughput.compare`: windows and whole runs, failures, and a side that is slowed.

Ratios are held against figures that a test published.
"""

from __future__ import annotations

import re

import pytest

from pytest_tfperf.core.baseline import Key
from tests.helpers.inner import Finished, Project

pytestmark = pytest.mark.slow

# The tolerance is wide because the machine may be busy with anything; the slowdown is far wider.
TESTS = """
    import math

    def test_played_clocks(throughput, on):
        even = tiny(1, "nets:even")
        found = throughput.compare(even, even, on=on, tolerance=0.3, max_pairs=8)
        assert (found.other.interleaving, found.outcome) == ("interleaved windows", "PASS")
        logs = [pair.log_ratio for pair in found.pairs]
        assert logs == pytest.approx([-math.log(1.05), math.log(1.05), -math.log(1.05)], abs=0.02)
        assert found.ratio == pytest.approx(1.05 ** (-1 / 3), abs=0.02)

    def test_host_pipelines(throughput, on):
        host = tiny(input_pipeline="host")
        found = throughput.compare(host, host, on=on, max_seconds=1e-9)
        assert found.other.interleaving == "alternating runs"

    def test_trainers(throughput, on):
        found = throughput.compare(tiny(), tiny(trainer="keras"), on=on, max_seconds=1e-9)
        assert found.other.interleaving == "interleaved windows"

    def test_undecided(throughput, on):
        assert throughput.compare(tiny(1), tiny(64), on=on, tolerance=0.3, max_seconds=1e-9).ratio > 1

    @pytest.mark.parametrize("net", ["once", "once_in_memory"])
    def test_dies_in_a_later_pair(throughput, on, net):
        throughput.compare(tiny(), tiny(2, f"nets:{net}"), on=on, tolerance=0.01, max_pairs=20)

    def test_ratio_holds(throughput, on, gpu_topology):
        throughput.compare(tiny(1), tiny(64), on=on, b_on=gpu_topology.take(2), at_least="published")

    def test_ratio_falls_short(throughput, on):
        throughput.compare(tiny(64), tiny(1), on=on, at_least="published", tolerance=0.05)
"""


@pytest.fixture(scope="module")
def plain(shared: Project) -> Finished:
    shared.tests(TESTS)
    shared.write("even", "20 21")  # seconds a step of the first worker of a pair and of the second
    figures = {("tiny-b1", "1x1"): 1000.0, ("tiny-b64", "1x1"): 1000.0, ("tiny-b64", "1x2"): 1.0}
    keys = {Key(f"nets:{name}-replicated-device", topology): value for (name, topology), value in figures.items()}
    shared.publish("paper, page 1", keys)
    return shared.run(COLUMNS="250")  # each column of the table


SLOWED = """
    def test_equals(throughput, on):
        throughput.compare(tiny(), tiny(), on=on, tolerance=0.5, max_pairs=6)

    def test_undecided(throughput, on):
        throughput.compare(tiny(), tiny(), on=on, tolerance=0.3, max_seconds=1e-9)
"""


@pytest.fixture(scope="module")
def slowed(played: Project) -> Finished:
    played.tests(SLOWED)
    return played.run("--tfperf-inject-slowdown=0.8", "--tfperf-strict")


@pytest.mark.parametrize(
    "test",
    [
        pytest.param("test_played_clocks", id="the first side alternates, and b is held against a"),
        pytest.param("test_host_pipelines", id="host pipelines alternate whole runs"),
        pytest.param("test_trainers", id="model.fit and our loop"),
        pytest.param("test_ratio_holds", id="a ratio of two counts of devices above the documents'"),
    ],
)
def test_a_comparison_passes_of(plain: Finished, test: str) -> None:
    assert plain.cases[test].kind == "passed", plain.text


def test_an_undecided_comparison_passes_with_a_warning(plain: Finished) -> None:
    assert plain.cases["test_undecided"].kind == "passed"
    warnings = plain.text.partition("= warnings summary =")[2]
    assert re.search(
        r"ThroughputWarning: tiny-b64-replicated-device is .* faster than tiny-b1-replicated-device on ", warnings
    )
    assert "the next pair would end after max_seconds" in warnings


def test_the_table_shows_both_sides_and_the_ratio(plain: Finished) -> None:
    heading = next(line for line in plain.text.splitlines() if line.startswith("outcome"))
    columns = "outcome workload topology a a images/s a bound b b images/s b bound b / a required 95 % CI pairs"
    assert " ".join(heading.split()) == columns
    assert "  tiny-b64-replicated-device  " in plain.text


@pytest.mark.parametrize(
    ("model", "said"), [("once", "was ended by SIGKILL"), ("once_in_memory", "out of memory with batch_size 1 and 2")]
)
def test_a_worker_that_dies_in_a_later_pair_is_named_with_workloads_and_devices(
    plain: Finished, model: str, said: str
) -> None:
    case = plain.cases[f"test_dies_in_a_later_pair[{model}]"]
    sides = f"tiny-b1-replicated-device against {model}-b2-replicated-device"
    assert case.kind == "error", plain.text
    pytest.LineMatcher(case.text.splitlines()).fnmatch_lines([f"{sides} on * core*: *{said}*"])


def test_a_slowed_side_regresses_and_says_how_to_run_it_again(slowed: Finished) -> None:
    case = slowed.cases["test_equals"]
    assert (slowed.status, case.kind) == (1, "failure"), slowed.text
    assert re.match(r"tiny-b1-replicated-device, b is 80\.0 % slower than a on ", case.text)
    assert "  rerun       pytest test_it.py::test_equals" in case.text


def test_strict_fails_an_undecided_comparison(slowed: Finished) -> None:
    case = slowed.cases["test_undecided"]
    assert (case.kind, "the next pair would end after max_seconds" in case.text) == ("failure", True)


def test_an_injected_slowdown_is_announced(slowed: Finished) -> None:
    assert "tfperf: workers lose 80.0 % of their throughput on purpose" in slowed.text


def test_a_ratio_that_falls_short_in_six_pairs_fails_with_the_documents_figures(plain: Finished) -> None:
    case = plain.cases["test_ratio_falls_short"]
    assert (plain.status, case.kind) == (1, "failure")
    assert "below the required 0.950" in case.text
    assert "(the documents' 1.000, less the tolerance)" in case.text
    assert "document    1,000 / 1,000 on paper: paper, page 1; over paper, page 1" in case.text
