"""`throughput.check_ratio` over real workers: small models on virtual CPUs, against figures that a test published."""

from __future__ import annotations

import pytest
from inner import Finished, Project

from pytest_tfperf.core.baseline import Key

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    TINY = Workload(model="nets:tiny", batch_size=1)
    LARGER = TINY.with_(batch_size=64)

    @pytest.mark.cpu
    class TestOnCpus:
        def test_holds(self, throughput, gpu_topology):
            assert throughput.check_ratio(LARGER, over=TINY, on=gpu_topology.take(1)) > 1

        def test_scales(self, throughput, gpu_topology):
            throughput.check_ratio(TINY, on=gpu_topology.take(2), over=TINY, over_on=gpu_topology.take(1))

        def test_falls_short(self, throughput, gpu_topology):
            throughput.check_ratio(TINY, over=LARGER, on=gpu_topology.take(1), tolerance=0.05)

        def test_has_no_document(self, throughput, gpu_topology):
            throughput.check_ratio(TINY, over=LARGER, on=gpu_topology.take(2))
"""


@pytest.fixture(scope="module")
def finished(shared: Project) -> Finished:
    shared.write("test_it.py", TESTS)
    figures = {("tiny-b1", "1x1"): 1000.0, ("tiny-b64", "1x1"): 1000.0, ("tiny-b1", "1x2"): 1.0}
    keys = {Key(f"nets:{name}-replicated-device", topology): value for (name, topology), value in figures.items()}
    shared.publish("paper, page 1", keys)
    return shared.run()


@pytest.mark.parametrize("test", ["test_holds", "test_scales"])
def test_a_ratio_as_good_as_the_documents_passes(finished: Finished, test: str) -> None:
    assert finished.cases[test].kind == "passed", finished.text


def test_a_ratio_that_falls_short_fails_with_the_documents_figures(finished: Finished) -> None:
    case = finished.cases["test_falls_short"]
    assert case.kind == "failure"
    assert "below the documents' 1.000" in case.text
    assert "document    1,000 / 1,000 on paper: paper, page 1; over paper, page 1" in case.text


def test_a_ratio_is_confirmed_in_three_pairs_before_it_fails(finished: Finished) -> None:
    measured = next(line for line in finished.cases["test_falls_short"].text.splitlines() if "  measured " in line)
    assert measured.count(" = ") == 3


def test_without_both_figures_there_is_nothing_to_hold_a_ratio_against(finished: Finished) -> None:
    case = finished.cases["test_has_no_document"]
    assert (case.kind, "no document gives both" in case.text) == ("error", True)
