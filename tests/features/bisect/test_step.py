"""What a session of `tfperf bisect` answers: only comparisons of its two states."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import (
    FunctionMissing,
    Hung,
    MeasurementError,
    OutOfMemory,
    TfperfError,
    UserCodeFailed,
    WorkloadError,
)
from pytest_tfperf.features.bisect.step import answered
from tests.helpers.measurements import TEST, comparison, measurement


def checked(**more: Any) -> Comparison:
    """A check that was compared with the good state."""
    return comparison(against_other_side=True, **more)


def test_a_tests_own_comparison_is_no_comparison_of_two_states() -> None:
    answer = answered(SessionRecord(results=[comparison(ratio=0.5), checked(ratio=0.97)]))
    assert [one.decision.ratio for one in answer.found] == [0.97]


def test_a_test_that_only_compares_by_itself_is_refused_with_what_to_do() -> None:
    answer = answered(SessionRecord(results=[comparison(), measurement()]))
    assert not answer.found
    assert "ran on the current code alone. Call `check` or `check_command` in it" in answer.faults[TEST]


def test_a_comparison_is_named_by_its_test_and_call() -> None:
    others = [checked(test="a.py::test"), measurement(test="a.py::test"), checked(test="a.py::test")]
    answer = answered(SessionRecord(results=[checked(), *others]))
    assert [(one.test, one.call) for one in answer.found] == [(TEST, 0), ("a.py::test", 0), ("a.py::test", 2)]


def test_an_error_of_a_test_is_its_own() -> None:
    died = MeasurementError("the program exited with status 1")
    answer = answered(SessionRecord(results=[checked()], not_measured={"a.py::test": died}))
    assert answer.faults == {"a.py::test": "the program exited with status 1"}


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
    assert answered(SessionRecord(not_measured={TEST: error})).passing == ((TEST,) if may_pass else ())


def test_an_invalid_comparison_says_what_disturbed_it() -> None:
    (one,) = answered(SessionRecord(results=[checked(outcome=Outcome.INVALID, reason="")])).found
    assert one.decision.reason == "INVALID: every run was disturbed"
