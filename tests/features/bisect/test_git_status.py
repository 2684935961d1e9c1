"""What `git bisect run` is told of a session."""

from __future__ import annotations

from typing import Any

import pytest
from measurements import comparison

from pytest_tfperf.core.selection import SelectedTest, Selection
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.bisect.step import SKIP, STOP, git_status

PASSED, FAILED, INTERRUPTED, USAGE, NOT_MEASURED, MACHINE = 0, 1, 2, 4, 6, 7


def record(*outcomes: Outcome, not_measured: int = 0, **more: Any) -> SessionRecord:
    return SessionRecord(
        selection=Selection([SelectedTest(id="a.py::test")]),
        results=[comparison(outcome=outcome) for outcome in outcomes],
        not_measured={f"a.py::test_{number}": "it died" for number in range(not_measured)},
        **more,
    )


@pytest.mark.parametrize(
    ("found", "status", "told"),
    [
        (record(Outcome.PASS, Outcome.IMPROVED), PASSED, PASSED),
        (record(Outcome.REGRESSED), FAILED, FAILED),
        (record(Outcome.REGRESSED, not_measured=1), FAILED, FAILED),
        (record(), FAILED, FAILED),  # an assertion of the test's own
        (record(Outcome.PASS, not_measured=1), NOT_MEASURED, SKIP),
        (record(Outcome.INCONCLUSIVE), PASSED, SKIP),
        (record(Outcome.NO_BASELINE), PASSED, SKIP),
        (record(), PASSED, SKIP),
        (record(Outcome.PASS), MACHINE, SKIP),
        (SessionRecord(), USAGE, SKIP),
        (SessionRecord(), INTERRUPTED, SKIP),  # a file that can't be collected
        (record(Outcome.PASS), INTERRUPTED, STOP),
    ],
)
def test_only_verdicts_decide(found: SessionRecord, status: int, told: int) -> None:
    assert git_status(found, status) == told
