"""`throughput.check_ratio` with real workers, against figures that a test published."""

from __future__ import annotations

import pytest
from inner import Finished, Project

from pytest_tfperf.core.baseline import Key

TESTS = """
    def test_holds(throughput, on):
        assert throughput.check_ratio(tiny(64), over=tiny(1), on=on) > 1

    def test_scales(throughput, on, gpu_topology):
        throughput.check_ratio(tiny(1), on=gpu_topology.take(2), over=tiny(1), over_on=on)

    def test_falls_short(throughput, on):
        throughput.check_ratio(tiny(1), over=tiny(64), on=on, tolerance=0.05)
"""


@pytest.fixture(scope="module")
def finished(shared: Project) -> Finished:
    shared.tests(TESTS)
    figures = {("tiny-b1", "1x1"): 1000.0, ("tiny-b64", "1x1"): 1000.0, ("tiny-b1", "1x2"): 1.0}
    keys = {Key(f"nets:{name}-replicated-device", topology): value for (name, topology), value in figures.items()}
    shared.publish("paper, page 1", keys)
    return shared.run()


@pytest.mark.parametrize("test", ["test_holds", "test_scales"])
def test_a_ratio_as_good_as_the_documents_passes(finished: Finished, test: str) -> None:
    assert finished.cases[test].kind == "passed", finished.text


def test_a_ratio_that_falls_short_in_three_pairs_fails_with_the_documents_figures(finished: Finished) -> None:
    case = finished.cases["test_falls_short"]
    assert (finished.status, case.kind) == (1, "failure")
    assert "below the documents' 1.000" in case.text
    assert "document    1,000 / 1,000 on paper: paper, page 1; over paper, page 1" in case.text
    measured = next(line for line in case.text.splitlines() if "  measured " in line)
    assert measured.count(" = ") == 3
