"""A regression fails its test wherever it was measured: in a class of unittest's, in a fixture, before a skip."""

from __future__ import annotations

import pytest
from inner import Finished, Project

TESTS = """
    import unittest

    import pytest
    from pytest_tfperf import Workload
    from pytest_tfperf.errors import ThroughputRegression

    SLOWER = Workload(model="nets:tiny", batch_size=1)
    RAN = []

    @pytest.fixture
    def measured(throughput, gpu_topology):
        return throughput.check(SLOWER, on=gpu_topology.take(1))

    @pytest.fixture
    def measured_too_late(throughput, gpu_topology):
        yield
        throughput.check(SLOWER, on=gpu_topology.take(1))

    @pytest.fixture
    def falls_short(throughput):
        raise ThroughputRegression("as check_ratio does")

    @pytest.fixture
    def many(gpu_topology):
        return gpu_topology.take(64)

    @pytest.mark.cpu
    class TestOfUnittest(unittest.TestCase):
        @pytest.fixture(autouse=True)
        def given(self, throughput, gpu_topology):
            self.throughput, self.on = throughput, gpu_topology.take(1)

        def test_regresses(self):
            self.throughput.check(SLOWER, on=self.on)

    @pytest.mark.cpu
    class TestOnCpus:
        def test_is_measured_by_a_fixture(self, measured):
            pass

        def test_falls_short_in_a_fixture(self, falls_short):
            pass

        def test_skips_after_it_measured(self, measured):
            pytest.skip("enough for today")

        def test_asks_for_what_can_not_be_after_it_measured(self, throughput, gpu_topology):
            RAN.append("once more")
            throughput.check(SLOWER, on=gpu_topology.take(1))
            if len(RAN) == 5:  # the run that confirms it
                throughput.check(SLOWER, on=gpu_topology.take(1), steps=0)

        def test_is_measured_in_teardown(self, measured_too_late):
            pass

        def test_asks_for_it_while_it_runs(self, request):
            request.getfixturevalue("throughput")

    @pytest.mark.gpu
    def test_has_a_fixture_that_takes_too_many(many):
        pass
"""


@pytest.fixture(scope="module")
def finished(shared: Project) -> Finished:
    shared.write("test_it.py", TESTS)
    shared.baseline("nets:tiny-b1-replicated-device", reference=1e12, source="a test")
    return shared.run()


@pytest.mark.parametrize(
    "name",
    [
        "test_regresses",
        "test_is_measured_by_a_fixture",
        "test_skips_after_it_measured",
        "test_asks_for_what_can_not_be_after_it_measured",
    ],
)
def test_a_regression_fails_its_test(finished: Finished, name: str) -> None:
    assert finished.cases[name].kind == "failure", finished.text
    assert "fresh workers" in finished.cases[name].text


def test_a_ratio_that_falls_short_in_a_fixture_fails_its_test(finished: Finished) -> None:
    assert finished.kinds["test_falls_short_in_a_fixture"] == "failure"


def test_an_error_after_a_regression_is_told_below_it(finished: Finished) -> None:
    assert "steps=0: at least one" in finished.cases["test_asks_for_what_can_not_be_after_it_measured"].text


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_is_measured_in_teardown", "the test's body is through, and what is measured now could not fail it"),
        ("test_asks_for_it_while_it_runs", "name the fixture among its arguments"),
    ],
)
def test_what_could_fail_nothing_is_refused(finished: Finished, name: str, said: str) -> None:
    assert finished.cases[name].kind in ("error", "failure")
    assert said in finished.cases[name].text


def test_a_fixture_that_takes_too_many_devices_skips_its_test(finished: Finished) -> None:
    case = finished.cases["test_has_a_fixture_that_takes_too_many"]
    assert (case.kind, case.message.startswith("needs 64 equal GPUs")) == ("skipped", True), case
