"""The nightly gate's outcomes reach a test wherever it measured: in a class of unittest's, a fixture, before a skip."""

from __future__ import annotations

import pytest

from tests.helpers.inner import Finished, Project

TESTS = """
    import unittest

    from pytest_tfperf.errors import ThroughputRegression

    def test_improves(throughput, on):
        throughput.check(tiny(3), on=on)

    def test_has_no_baseline(throughput, on):
        throughput.check(tiny(4), on=on)

    @pytest.fixture
    def measured(throughput, on):
        return throughput.check(tiny(2), on=on)

    @pytest.fixture
    def measured_too_late(throughput, on):
        yield
        throughput.check(tiny(), on=on)

    @pytest.fixture
    def falls_short(throughput):
        raise ThroughputRegression("as an assert of one's own")

    class TestOfUnittest(unittest.TestCase):
        @pytest.fixture(autouse=True)
        def given(self, throughput, on):
            self.throughput, self.on = throughput, on

        def test_of_unittest(self):
            self.throughput.check(tiny(), on=self.on)

        def test_of_unittest_skips_after_it_measured(self):
            self.throughput.check(tiny(4), on=self.on)
            self.skipTest("enough for today")

        def test_of_unittest_takes_too_many(self):
            self.throughput.check(tiny(), on=self.on.take(65))

    def test_measured_by_a_fixture(measured):
        pass

    def test_falls_short_in_a_fixture(falls_short):
        pass

    def test_skips_after_it_measured(measured):
        pytest.skip("enough for today")

    def test_skips_in_doubt(throughput, on):
        throughput.check(tiny(), on=on)
        pytest.skip("enough for today")

    def test_takes_too_many_in_doubt(throughput, on):
        throughput.check(tiny(), on=on)
        on.take(65)

    def test_errs_after_it_measured(throughput, on):
        throughput.check(tiny(2), on=on)
        throughput.check(tiny(2), on=on, steps=0)

    def test_measured_in_teardown(measured_too_late):
        pass

    def test_asks_for_it_while_it_runs(request):
        request.getfixturevalue("throughput")
"""
ON_GPUS = """
    import pytest

    @pytest.fixture
    def many(gpu_topology):
        return gpu_topology.take(64)

    @pytest.mark.gpu
    def test_has_a_fixture_that_takes_too_many(throughput, many):
        pass
"""


@pytest.fixture(scope="module")
def finished(played: Project) -> Finished:
    """The nightly gate, which a missing baseline fails as a regression does, after a single run."""
    played.tests(TESTS)
    played.write("test_on_gpus.py", ON_GPUS)
    played.baseline("nets:tiny-b1-replicated-device", value=1e12, source="a test")
    played.baseline("nets:tiny-b3-replicated-device", value=0.001)
    return played.run("--tfperf-require-baseline", "-o", "tfperf_steps=2")


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("test_improves", "passed", ""),
        ("test_has_no_baseline", "failure", "there is no baseline"),
        ("test_of_unittest", "failure", "8 of 8 fresh runs: "),
        ("test_of_unittest_skips_after_it_measured", "failure", "there is no baseline"),
        ("test_of_unittest_takes_too_many", "skipped", "needs 65 virtual CPU devices"),
        ("test_measured_by_a_fixture", "failure", "there is no baseline"),
        ("test_skips_after_it_measured", "failure", "there is no baseline"),
        ("test_skips_in_doubt", "failure", "8 of 8 fresh runs: "),
        ("test_takes_too_many_in_doubt", "failure", "8 of 8 fresh runs: "),
        ("test_errs_after_it_measured", "failure", "there is no baseline"),
        ("test_errs_after_it_measured", "failure", "steps=0: at least one"),
        ("test_falls_short_in_a_fixture", "failure", "as an assert of one's own"),
        ("test_measured_in_teardown", "error", "the test's body has finished, so a measurement could no longer fail"),
        ("test_asks_for_it_while_it_runs", "failure", "name the fixture among its arguments"),
        ("test_has_a_fixture_that_takes_too_many", "skipped", "needs 64 equal GPUs"),
    ],
)
def test_an_outcome_reaches_its_test(finished: Finished, name: str, kind: str, said: str) -> None:
    case = finished.cases[name]
    assert (case.kind, said in case.text) == (kind, True), case
