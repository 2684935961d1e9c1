"""What a session of `tfperf bisect` answers: only comparisons of its two states."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import (
    FunctionMissing,
    Hung,
    MeasurementError,
    OutOfMemory,
    TfperfError,
    UserCodeFailed,
    WorkloadError,
)
from pytest_tfperf.features.bisect.step import Fault, answer_of
from tests.helpers.measurements import TEST, interleaved, measurement


def checked(**more: Any) -> Measurement:
    """A check that was compared with the good state."""
    return interleaved(a={"is_of_session": True}, **more)


def test_a_tests_own_comparison_is_no_comparison_of_two_states() -> None:
    answer = answer_of(SessionResult(results=[interleaved(ratio=0.5), checked(ratio=0.97)]))
    assert [one.ratio for one in answer.comparisons] == [0.97]


def test_a_test_that_only_compares_by_itself_is_refused_with_what_to_do() -> None:
    answer = answer_of(SessionResult(results=[interleaved(), measurement()]))
    assert not answer.comparisons
    assert "ran on the current code alone. Call `check` in it" in answer.faults[TEST].why


def test_comparisons_are_told_apart_by_test_workload_and_topology() -> None:
    other = Workload(model="alexnet", batch_size=64)
    compared = [checked(), checked(test="a.py::test"), checked(workload=other), checked(topology="1x1")]
    answer = answer_of(SessionResult(results=[measurement(), *compared]))
    assert list(answer.calls.values()) == compared


def test_an_error_of_a_test_is_its_own() -> None:
    died = UserCodeFailed("the program exited with status 1")
    answer = answer_of(SessionResult(results=[checked()], not_measured={"a.py::test": died}))
    assert answer.faults == {"a.py::test": Fault(why="the program exited with status 1")}


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (Hung("the program printed nothing for 600 s"), True),
        (OutOfMemory("out of memory"), True),
        (MeasurementError("the worker was killed"), True),
        (UserCodeFailed("the program exited with status 1"), False),
        (FunctionMissing("no model nets:stack"), False),
        (WorkloadError("unknown model"), False),
    ],
)
def test_only_a_fault_of_which_the_code_is_not_the_cause_may_pass(error: TfperfError, may_pass: bool) -> None:
    assert answer_of(SessionResult(not_measured={TEST: error})).faults[TEST].may_pass is may_pass
