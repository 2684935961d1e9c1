"""The table of outcomes, as pytest, JUnit and the exit status show it.

test_wherever_it_is_called.py has those of the nightly gate.
"""

from __future__ import annotations

import re

import pytest

from tests.helpers.inner import ANY_THROUGHPUT, NOT_MEASURED, Finished, Project

TESTS = """
    RAN = []

    def test_passes(throughput, on):
        throughput.check(tiny(1), on=on)

    def test_improves(throughput, on):
        throughput.check(tiny(2), on=on)

    def test_regresses(throughput, on):
        throughput.check(tiny(3), on=on)
        print("the body came to its end")

    def test_fails_in_its_body_after_a_slow_run(throughput, on):
        throughput.check(tiny(3), on=on)
        assert "the body" == "first"

    def test_makes_other_calls_when_it_runs_again(throughput, on):
        RAN.append("once more")
        throughput.check(tiny(3 if len(RAN) == 1 else 5), on=on)

    def test_has_no_baseline(throughput, on):
        assert throughput.check(tiny(4), on=on).examples_per_sec > 0

    def test_fails_in_its_body_without_a_baseline(throughput, on):
        throughput.check(tiny(4), on=on)
        assert "scaling" == "as wished"

    def test_trains_to_nan(throughput, on):
        throughput.check(tiny(1, "nets:nan"), on=on)

    def test_has_no_document(throughput, on):
        throughput.compare(tiny(2), tiny(1), on=on, at_least="published")

    @pytest.mark.xfail
    @pytest.mark.parametrize("number", range(4))  # as many as fail: none may be taken off for these
    def test_is_expected_to_err(throughput, on, number):
        throughput.compare(tiny(2), tiny(1), on=on, at_least="published")

    def test_measures_only(throughput, on):
        throughput.measure(tiny(3), on=on)

    def test_measures_nothing(throughput):
        pass
"""

DOUBTFUL = """
    def test_in_doubt(throughput, on):
        throughput.check(tiny(4, "nets:even"), on=on)
"""

ON_GPUS = """
    import pytest

    @pytest.mark.gpu
    def test_needs_more_devices(throughput, gpu_topology):
        gpu_topology.take(64)
"""


def fill(project: Project) -> None:
    project.tests(TESTS)
    project.write("test_on_gpus.py", ON_GPUS)
    project.baseline("nets:tiny-b1-replicated-device", **ANY_THROUGHPUT)
    project.baseline("nets:tiny-b2-replicated-device", value=0.001)
    project.baseline("nets:tiny-b3-replicated-device", value=1e12, environment="tensorflow=1.3.0", source="a test")


@pytest.fixture(scope="module")
def plain(played: Project) -> Finished:
    fill(played)
    return played.run()


PLAIN = {
    "test_passes": "passed",
    "test_improves": "passed",
    "test_regresses": "failure",
    "test_fails_in_its_body_after_a_slow_run": "failure",
    "test_makes_other_calls_when_it_runs_again": "error",
    "test_has_no_baseline": "passed",
    "test_fails_in_its_body_without_a_baseline": "failure",
    "test_trains_to_nan": "error",
    "test_has_no_document": "error",
    "test_is_expected_to_err[0]": "skipped",
    "test_measures_only": "passed",
    "test_needs_more_devices": "skipped",
    "test_measures_nothing": "passed",
}


@pytest.mark.parametrize("name", PLAIN)
def test_an_outcome_is_this_in_junit(plain: Finished, name: str) -> None:
    assert plain.cases[name].kind == PLAIN[name], plain.text


def test_pytests_summary_agrees_and_a_regression_exits_with_1(plain: Finished) -> None:
    assert "3 failed, 4 passed, 1 skipped, 4 xfailed, 3 errors, 1 measured in " in plain.text
    assert plain.status == 1


def test_a_missing_measurement_exits_with_6_beside_expected_errors(played: Project) -> None:
    fill(played)
    assert played.run("-k", "has_no_document or expected").status == NOT_MEASURED


@pytest.fixture(scope="module")
def doubtful(played: Project) -> Finished:
    """A slowdown that noise explains, though it seldom does."""
    fill(played)
    played.tests(DOUBTFUL, "doubt.py")  # no session collects it unless it is named
    played.write("even", "21.2")
    played.baseline("nets:even-b4-replicated-device", value=4 / 20, runs=5, between_runs=0.02)
    return played.run("doubt.py", "test_it.py", "--tfperf-dir=another", "-k", "improves or has_no_baseline or in_doubt")


def test_doubts_improvements_and_missing_baselines_exit_with_0(doubtful: Finished) -> None:
    kinds = {"test_improves": "passed", "test_in_doubt": "passed", "test_has_no_baseline": "passed"}
    assert (doubtful.kinds, doubtful.status) == (kinds, 0), doubtful.text


def test_a_doubt_warns_with_its_reason_and_is_counted_in_the_summary(doubtful: Finished) -> None:
    warnings, _, summary = doubtful.text.partition("= warnings summary =")[2].partition("= throughput =")
    assert "ThroughputWarning: even-b4-replicated-device on " in warnings
    assert "within noise: slower by more than the tolerance, but not by more than noise explains" in warnings
    assert re.search(r"^box: .*\b1 INCONCLUSIVE", summary, re.MULTILINE)


def test_a_regression_says_what_was_measured_how_sure_it_is_and_what_to_do(plain: Finished) -> None:
    pytest.LineMatcher(plain.cases["test_regresses"].text.splitlines()).fnmatch_lines(
        [
            "tiny-b3-replicated-device on * (box): * images/s (95 % CI * to *), 100.0 % slower than 1,0*",
            "  threshold   fails below * (baseline 1,000,000,000,000, *tolerance 2 %*)",
            "  baseline    measured, a test, 1 run",
            "  confirmed   8 of 8 fresh runs: *  *  *  *  *  *  *  *",
            "  environment tensorflow 1.3.0 -> 2.*",
            "  rerun       pytest test_it.py::test_regresses",
            "  accept      tfperf baselines accept test_it.py::test_regresses --session=*    (*commit the rows)",
        ]
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("test_trains_to_nan", "INVALID: loss became NaN by step 1, in the warm-up; "),
        (
            "test_makes_other_calls_when_it_runs_again",
            "call 1 of this test measured nets:tiny-b3-replicated-device on 1x1 of box when it ran first",
        ),
        ("test_fails_in_its_body_after_a_slow_run", "assert 'the body' == 'first'"),
    ],
)
def test_a_failure_says(plain: Finished, name: str, said: str) -> None:
    assert said in plain.cases[name].text


def test_a_regression_fails_after_the_body_and_without_a_traceback(plain: Finished) -> None:
    assert "the body came to its end" in plain.text
    assert not re.search(r"\.py:\d", plain.cases["test_regresses"].text)


def test_a_body_that_fails_is_shown_with_the_slowdown_that_it_measured(plain: Finished) -> None:
    report = plain.text.partition("test_fails_in_its_body_after_a_slow_run _")[2]
    assert "slower than 1,000,000,000,000" in report.partition("\n____")[0]


def test_the_summary_says_how_to_record_a_baseline(plain: Finished) -> None:
    assert re.search(r"^  record      pytest( .*)? --update-baselines +\(about", plain.text, re.MULTILINE)


def test_too_few_devices_are_named(plain: Finished) -> None:
    assert "needs 64 equal GPUs, and this machine has" in plain.cases["test_needs_more_devices"].text


def test_the_table_shows_every_measurement_with_its_outcome(plain: Finished) -> None:
    table = plain.text.partition("= throughput =")[2].partition("\n\n")[0]
    rows = [line.split() for line in table.splitlines() if "-replicated-device" in line]
    assert {f"{row[0]} {row[1].removesuffix('-replicated-device')}" for row in rows} == {
        "PASS tiny-b1",
        "IMPROVED tiny-b2",
        "undecided tiny-b3",
        "REGRESSED tiny-b3",
        "measured tiny-b3",
        "NO_BASELINE tiny-b4",
        "INVALID nan-b1",
    }


def test_machine_number_of_tests_and_time_are_announced(plain: Finished) -> None:
    pytest.LineMatcher(plain.text.splitlines()).fnmatch_lines(
        ["tfperf: box, 15 throughput tests, * to * (15 never timed here)", "test_it.py *"]
    )


def test_a_nightly_gate_that_measured_nothing_is_not_green(played: Project) -> None:
    fill(played)
    finished = played.run("--tfperf-require-baseline", "-k", "needs_more_devices")
    assert (finished.status, "NOTHING WAS MEASURED" in finished.text) == (NOT_MEASURED, True)


def test_a_nightly_gate_without_throughput_tests_is_green(played_project: Project) -> None:
    played_project.write("test_other.py", "def test_other(): pass")
    assert played_project.run("--tfperf-require-baseline").status == 0
