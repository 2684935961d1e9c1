"""DESIGN's table of outcomes, as pytest, JUnit and the exit status tell it."""

from __future__ import annotations

import re

import pytest
from inner import WHATEVER_IT_IS, Finished, Project

from pytest_tfperf.core.baseline import Key

TESTS = """
    import pytest
    from pytest_tfperf import Workload

    RAN = []

    def tiny(batch_size):
        return Workload(model="nets:tiny", batch_size=batch_size)

    @pytest.mark.cpu
    class TestOnCpus:
        def test_passes(self, throughput, gpu_topology):
            throughput.check(tiny(1), on=gpu_topology.take(1))

        def test_improves(self, throughput, gpu_topology):
            throughput.check(tiny(2), on=gpu_topology.take(1))

        def test_is_above_a_floor(self, throughput, gpu_topology):
            throughput.check(tiny(7), on=gpu_topology.take(1))

        def test_regresses(self, throughput, gpu_topology):
            throughput.check(tiny(3), on=gpu_topology.take(1))
            print("the body came to its end")

        def test_fails_in_its_body_after_a_regression(self, throughput, gpu_topology):
            throughput.check(tiny(3), on=gpu_topology.take(1))
            assert "the body" == "first"

        def test_makes_other_calls_when_it_runs_again(self, throughput, gpu_topology):
            RAN.append("once more")
            throughput.check(tiny(3 if len(RAN) == 1 else 5), on=gpu_topology.take(1))

        def test_has_no_baseline(self, throughput, gpu_topology):
            assert throughput.check(tiny(4), on=gpu_topology.take(1)).images_per_sec > 0

        def test_fails_in_its_body_without_a_baseline(self, throughput, gpu_topology):
            throughput.check(tiny(4), on=gpu_topology.take(1))
            assert "scaling" == "as wished"

        def test_is_in_doubt(self, throughput, gpu_topology):
            throughput.check(Workload(model="nets:uneven", batch_size=6), on=gpu_topology.take(1), steps=4)

        def test_trains_to_nan(self, throughput, gpu_topology):
            throughput.check(Workload(model="nets:nan", batch_size=1), on=gpu_topology.take(1))

        def test_has_no_document(self, throughput, gpu_topology):
            throughput.check_ratio(tiny(1), over=tiny(2), on=gpu_topology.take(1))

        @pytest.mark.xfail
        @pytest.mark.parametrize("number", range(4))  # as many as fail: none may be taken off for these
        def test_is_expected_to_err(self, throughput, gpu_topology, number):
            throughput.check_ratio(tiny(1), over=tiny(2), on=gpu_topology.take(1))

        def test_measures_only(self, throughput, gpu_topology):
            throughput.measure(tiny(3), on=gpu_topology.take(1))

    @pytest.mark.gpu
    def test_needs_more_devices(throughput, gpu_topology):
        throughput.check(tiny(1), on=gpu_topology.take(64))

    def test_measures_nothing(throughput):
        pass
"""

# A CPU has no rate that the documents' GPUs could be held against.
AS_GOOD_AS_A_GPU = """
    from pytest_tfperf.bench import bench as measure

    measure.floor_rate = lambda topology: 10.0
"""


def fill(project: Project) -> None:
    project.write("test_it.py", TESTS)
    project.write("conftest.py", AS_GOOD_AS_A_GPU)
    # By the workers' own, played clocks: five slow runs of eight, which are too few.
    project.write("uneven", "0.06 0.06 0.015 0.06 0.015 0.06 0.06 0.015")
    project.baseline("nets:tiny-b1-replicated-device", **WHATEVER_IT_IS)
    project.baseline("nets:tiny-b2-replicated-device", reference=0.001)
    project.baseline("nets:tiny-b3-replicated-device", reference=1e12, environment="tensorflow=1.3.0", source="a test")
    project.baseline("nets:uneven-b6-replicated-device", reference=233)
    project.publish("paper, page 1", {Key("nets:tiny-b7-replicated-device", "1x1"): 0.001}, gpu_fp32_tflops=5.0)


@pytest.fixture(scope="module")
def plain(shared: Project) -> Finished:
    fill(shared)
    return shared.run()


@pytest.fixture(scope="module")
def strict_night(shared: Project) -> Finished:
    fill(shared)
    selected = "improves or floor or has_no_baseline or doubt or more_devices"
    return shared.run("--tfperf-require-baseline", "--tfperf-strict", "-k", selected)


PLAIN = {
    "test_passes": "passed",
    "test_improves": "passed",
    "test_is_above_a_floor": "passed",
    "test_regresses": "failure",
    "test_fails_in_its_body_after_a_regression": "failure",
    "test_makes_other_calls_when_it_runs_again": "error",
    "test_has_no_baseline": "skipped",
    "test_fails_in_its_body_without_a_baseline": "failure",
    "test_is_in_doubt": "passed",
    "test_trains_to_nan": "error",
    "test_has_no_document": "error",
    "test_is_expected_to_err[0]": "skipped",
    "test_measures_only": "passed",
    "test_needs_more_devices": "skipped",
    "test_measures_nothing": "passed",
}


@pytest.mark.parametrize("name", PLAIN)
def test_an_outcome_is_this_for_pytest_and_junit(plain: Finished, name: str) -> None:
    assert plain.cases[name].kind == PLAIN[name]


def test_pytest_says_of_each_test_what_junit_says(plain: Finished) -> None:
    assert "3 failed, 6 passed, 2 skipped, 4 xfailed, 1 warning, 3 errors in " in plain.text


def test_a_failed_gate_exits_with_1(plain: Finished) -> None:
    """Also beside as many tests that were expected to err: those are no measurements that are missing."""
    assert plain.status == 1


def test_what_could_not_be_measured_exits_with_6_beside_what_was_expected_to_err(shared: Project) -> None:
    fill(shared)
    assert shared.run("-k", "has_no_document or expected").status == 6


def test_the_body_runs_to_its_end_before_a_regression_fails_it(plain: Finished) -> None:
    assert "the body came to its end" in plain.text


def test_a_body_that_fails_is_told_before_its_regression(plain: Finished) -> None:
    assert "assert 'the body' == 'first'" in plain.cases["test_fails_in_its_body_after_a_regression"].text


def test_a_drop_is_told_beside_a_body_that_fails(plain: Finished) -> None:
    report = plain.text.partition("test_fails_in_its_body_after_a_regression _")[2]
    assert "slower than 1,000,000,000,000" in report.partition("\n____")[0]


@pytest.mark.parametrize(
    "part",
    [
        r"nets:tiny-b3-replicated-device on * (box): * images/s (95 % CI * to *), 100.0 % slower than 1,0*",
        r"  bounds      * .. *    (reference 1,000,000,000,000, tolerance 2 %*)",
        r"  baseline    measured, a test, 1 run without a known spread, *",
        r"  confirmed   5 of 5 fresh workers: *  *  *  *  *",
        r"  environment tensorflow 1.3.0 -> 2.*",
        r"  rerun       pytest *test_it.py::TestOnCpus::test_regresses*",
    ],
)
def test_a_regression_says(plain: Finished, part: str) -> None:
    pytest.LineMatcher(plain.cases["test_regresses"].text.splitlines()).fnmatch_lines([part])


def test_a_regression_comes_without_a_traceback(plain: Finished) -> None:
    assert "plugin.py" not in plain.cases["test_regresses"].text


def test_other_calls_than_the_first_time_are_refused(plain: Finished) -> None:
    said = plain.cases["test_makes_other_calls_when_it_runs_again"].text
    assert "call 1 of this test measured nets:tiny-b3-replicated-device (1x1) when it ran first" in said
    assert "asks for nets:tiny-b5-replicated-device (1x1) now" in said


def test_a_missing_baseline_says_how_to_record_one(plain: Finished) -> None:
    assert "test_has_no_baseline --update-baselines" in plain.cases["test_has_no_baseline"].text.replace("'", "")


def test_a_skip_names_the_place_in_the_test(plain: Finished) -> None:
    assert "test_it.py:" in plain.cases["test_has_no_baseline"].text


def test_a_doubt_warns(plain: Finished) -> None:
    warnings = plain.text.partition("= warnings summary =")[2]
    assert "too few of 8 fresh workers show the drop" in warnings


def test_a_doubt_is_counted_in_the_summary(plain: Finished) -> None:
    assert re.search(r"^box: .*\b\d INCONCLUSIVE", plain.text, re.MULTILINE)


def test_a_doubt_is_told_in_the_summary(plain: Finished) -> None:
    assert "in doubt: nets:uneven-b6-replicated-device" in plain.text


def test_a_loss_that_is_no_number_says_so(plain: Finished) -> None:
    assert "; INVALID: the loss is nan by step 1, in the warm-up: " in plain.cases["test_trains_to_nan"].text


def test_too_few_devices_say_what_is_needed(plain: Finished) -> None:
    assert "needs 64 equal GPUs, and this machine has" in plain.cases["test_needs_more_devices"].text


@pytest.mark.parametrize(
    "row",
    [
        "workload * topology * images/s * baseline * change * outcome *",
        "nets:tiny-b1-replicated-device * PASS *",
        "nets:tiny-b2-replicated-device * IMPROVED *",
        "nets:tiny-b7-replicated-device * PASS (floor) *",
        "nets:tiny-b3-replicated-device * REGRESSED *",
        "nets:tiny-b4-replicated-device * NO_BASELINE *",
        "nets:uneven-b6-replicated-device * INCONCLUSIVE *",
        "nets:nan-b1-replicated-device * INVALID *",
        "nets:tiny-b3-replicated-device * measured *",
    ],
)
def test_the_table_has_the_row(plain: Finished, row: str) -> None:
    table = plain.text.partition("= throughput =")[2]
    pytest.LineMatcher(table.splitlines()).fnmatch_lines([row])


def test_a_log_has_no_escape_codes(plain: Finished) -> None:
    assert "\x1b" not in plain.text


def test_a_log_has_no_progress(plain: Finished) -> None:
    assert "steps " not in plain.text.partition("= FAILURES =")[0]


def test_the_machine_the_number_of_tests_and_the_time_are_told_before_the_first(plain: Finished) -> None:
    pytest.LineMatcher(plain.text.splitlines()).fnmatch_lines(
        ["tfperf: box, * throughput tests, about * (* never timed here)", "test_it.py *"]
    )


STRICT_NIGHT = {
    "test_improves": "passed",
    "test_is_above_a_floor": "failure",
    "test_has_no_baseline": "failure",
    "test_is_in_doubt": "failure",
    "test_needs_more_devices": "skipped",
}


@pytest.mark.parametrize("name", STRICT_NIGHT)
def test_an_outcome_under_the_strict_nightly_gate_is(strict_night: Finished, name: str) -> None:
    assert strict_night.cases[name].kind == STRICT_NIGHT[name]


def test_a_floor_alone_says_how_to_record_a_baseline(strict_night: Finished) -> None:
    said = strict_night.cases["test_is_above_a_floor"].text.replace("'", "")
    assert "test_is_above_a_floor --update-baselines    (a floor is no baseline of this machine)" in said


def test_what_passes_or_has_no_baseline_exits_with_0(shared: Project) -> None:
    fill(shared)
    assert shared.run("-k", "improves or has_no_baseline").status == 0


def test_a_nightly_gate_that_measured_nothing_is_not_green(shared: Project) -> None:
    fill(shared)
    finished = shared.run("--tfperf-require-baseline", "-k", "needs_more_devices")
    assert (finished.status, "NOTHING WAS MEASURED" in finished.text) == (6, True)


def test_a_nightly_gate_without_throughput_tests_measures_nothing_in_peace(project: Project) -> None:
    project.write("test_other.py", "def test_other(): pass")
    assert project.run("--tfperf-require-baseline").status == 0
