"""What is in doubt is measured again, and so is what others disturbed; where that comes to nothing it is an error."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from inner import Finished, Project

from pytest_tfperf.core.baseline import Key

COULD_NOT_MEASURE = 6

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    def tiny(batch_size):
        return Workload(model="nets:tiny", batch_size=batch_size)

    @pytest.mark.cpu
    class TestOnCpus:
        def test_is_disturbed_later(self, throughput, gpu_topology):
            throughput.check(tiny(1), on=gpu_topology.take(1))

        def test_loses_its_worker_later(self, throughput, gpu_topology):
            throughput.check(Workload(model="nets:once", batch_size=1), on=gpu_topology.take(1))

        def test_measures_while_disturbed(self, throughput, gpu_topology):
            throughput.measure(tiny(2), on=gpu_topology.take(1))

        def test_holds_a_ratio_while_disturbed(self, throughput, gpu_topology):
            throughput.check_ratio(tiny(2), over=tiny(3), on=gpu_topology.take(1))
"""

# A neighbour that computes beside each worker of one test, and beside all but the first of another.
NEIGHBOUR = """
    import os

    from pytest_tfperf.bench import disturbance as guard

    watched = []

    def disturbance(samples, limits):
        watched.append(os.environ["PYTEST_CURRENT_TEST"])
        first = watched.count(watched[-1]) == 1
        disturbed = "while_disturbed" in watched[-1] or ("disturbed_later" in watched[-1] and not first)
        return "other processes used 83 % of 2 cores, above all a neighbour" if disturbed else ""

    guard.disturbance = disturbance
"""


@pytest.fixture(scope="module")
def night(shared: Project) -> Finished:
    shared.write("test_it.py", TESTS)
    shared.write("conftest.py", NEIGHBOUR)
    for workload in ("nets:tiny-b1-replicated-device", "nets:once-b1-replicated-device"):
        shared.baseline(workload, reference=1e12)
    figures = {"nets:tiny-b2-replicated-device": 1e12, "nets:tiny-b3-replicated-device": 1.0}
    shared.publish("paper", {Key(workload, "1x1"): value for workload, value in figures.items()})
    return shared.run("--tfperf-steps=2")


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("is_disturbed_later", "INVALID: other processes used 83 % of 2 cores, above all a neighbour (and"),
        ("loses_its_worker_later", "was ended by SIGKILL"),
        ("measures_while_disturbed", "nets:tiny-b2-replicated-device on * INVALID: other processes used 83 %"),
        ("holds_a_ratio_while_disturbed", "nets:tiny-b2-replicated-device on * INVALID: other processes used 83 %"),
    ],
)
def test_what_came_to_nothing_is_listed_with_its_reason(night: Finished, test: str, why: str) -> None:
    summary = night.text.partition("= throughput =")[2]
    line = f"not measured: test_it.py::TestOnCpus::test_{test}: *{why}*"
    pytest.LineMatcher(summary.splitlines()).fnmatch_lines([line])


def test_what_came_to_nothing_is_an_error_and_no_regression(night: Finished) -> None:
    assert (set(night.kinds.values()), night.status) == ({"error"}, COULD_NOT_MEASURE), night.text


def test_what_came_to_nothing_is_no_doubt(night: Finished) -> None:
    assert ("INCONCLUSIVE" in night.text, "in doubt" in night.text) == (False, False)


@pytest.mark.parametrize(("test", "model"), [("is_disturbed_later", "tiny"), ("loses_its_worker_later", "once")])
def test_the_run_before_it_is_told(night: Finished, test: str, model: str) -> None:
    before = night.cases[f"test_{test}"].text.partition("\nbefore that: ")[2]
    assert before.startswith(f"nets:{model}-b1-replicated-device on ")
    assert "slower than 1,000,000,000,000" in before.partition("\n")[0]


def test_the_run_before_it_is_in_the_history(night: Finished, shared: Project) -> None:
    """In doubt, as it was then: the next night begins with three runs."""
    with closing(sqlite3.connect(shared.folder / ".tfperf" / "history.sqlite")) as database:
        kept = database.execute("select test, outcome, runs from records order by id").fetchall()
    later = ("test_is_disturbed_later", "test_loses_its_worker_later")
    assert kept == [(f"test_it.py::TestOnCpus::{test}", "INCONCLUSIVE", 1) for test in later]
