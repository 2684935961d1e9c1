"""Under pytest-xdist the throughput tests, and only they, skip: workers side by side would measure each other."""

from __future__ import annotations

import pytest

from tests.helpers.inner import NOT_MEASURED, Finished, Project


@pytest.fixture(scope="module", params=[False, True], ids=["", "--tfperf-require-baseline"])
def distributed(request: pytest.FixtureRequest, played: Project) -> tuple[bool, Finished]:
    """Whether it is the nightly gate, and the session."""
    played.tests(
        """
        def test_throughput(throughput, on):
            throughput.check(tiny(), on=on)

        def test_other():
            pass
        """
    )
    return request.param, played.run("-n1", *(["--tfperf-require-baseline"] if request.param else []))


def test_throughput_tests_skip_or_fail_the_nightly_gate_and_others_run(distributed: tuple[bool, Finished]) -> None:
    nightly, finished = distributed
    assert finished.kinds == {"test_throughput": "error" if nightly else "skipped", "test_other": "passed"}
    assert finished.status == (NOT_MEASURED if nightly else 0)


def test_the_reason_and_the_next_step_are_given_in_one_line(distributed: tuple[bool, Finished]) -> None:
    nightly, finished = distributed
    case = finished.cases["test_throughput"]
    reason = case.text if nightly else case.message
    assert reason.startswith("throughput is not measured under pytest-xdist")
    assert "without -n" in reason


def test_the_summary_says_that_nothing_was_measured(distributed: tuple[bool, Finished]) -> None:
    summary = distributed[1].text.partition("= throughput =")[2].strip("=\n").splitlines()
    assert summary[0] == (
        "NOTHING WAS MEASURED: 1 throughput test ran under pytest-xdist, whose workers would share the machine. Run "
        "without -n, or with -n 0"
    )


def test_one_process_is_no_distribution(played_project: Project) -> None:
    played_project.write("test_it.py", "def test_it(throughput): pass")
    assert played_project.run("-n0").kinds == {"test_it": "passed"}
