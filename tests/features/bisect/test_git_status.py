"""What `git bisect run` is told of a session."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.core.baseline import Provenance
from pytest_tfperf.core.selection import SelectedTest, Selection
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.bisect.step import SKIP, STOP, git_status
from tests.helpers.inner import Project
from tests.helpers.measurements import baseline, interleaved, measurement, verdict

PASSED, FAILED, INTERRUPTED, USAGE, NOT_MEASURED, MACHINE = 0, 1, 2, 4, 6, 7


def record(*outcomes: Outcome, not_measured: int = 0, **more: Any) -> SessionResult:
    return SessionResult(
        selection=Selection([SelectedTest(id="a.py::test")]),
        results=[interleaved(outcome) for outcome in outcomes],
        not_measured={f"a.py::test_{number}": "it died" for number in range(not_measured)},
        **more,
    )


def judged(outcome: Outcome, provenance: Provenance) -> SessionResult:
    """A test that was judged against a row, or against earlier sessions."""
    found = measurement(verdict=verdict(outcome, baseline=baseline(provenance=provenance)))
    return SessionResult(selection=Selection([SelectedTest(id=found.test)]), results=[found])


@pytest.mark.parametrize(
    ("found", "status", "told"),
    [
        (record(Outcome.PASS, Outcome.IMPROVED), PASSED, PASSED),
        (record(Outcome.REGRESSED), FAILED, FAILED),
        (record(Outcome.REGRESSED, not_measured=1), FAILED, FAILED),
        (record(), FAILED, FAILED),  # an assertion of the test's own
        (record(Outcome.PASS, not_measured=1), NOT_MEASURED, SKIP),
        (record(Outcome.INCONCLUSIVE), PASSED, SKIP),
        (record(Outcome.INCONCLUSIVE), FAILED, SKIP),  # --tfperf-strict
        (record(Outcome.REGRESSED), PASSED, SKIP),  # a test that is marked xfail
        (judged(Outcome.PASS, Provenance.MEASURED), PASSED, PASSED),
        (judged(Outcome.REGRESSED, Provenance.MEASURED), FAILED, FAILED),
        (judged(Outcome.REGRESSED, Provenance.PROVISIONAL), PASSED, SKIP),  # it only warns
        (judged(Outcome.PASS, Provenance.PROVISIONAL), PASSED, SKIP),  # earlier sessions may be of slow commits
        (record(Outcome.NO_BASELINE), PASSED, SKIP),
        (record(), PASSED, SKIP),
        (record(Outcome.PASS), MACHINE, SKIP),
        (SessionResult(), USAGE, SKIP),
        (SessionResult(), INTERRUPTED, SKIP),  # a file that can't be collected
        (record(Outcome.PASS), INTERRUPTED, STOP),
    ],
)
def test_only_verdicts_decide(found: SessionResult, status: int, told: int) -> None:
    assert git_status(found, status) == told


REFUSED = {
    "an option that nobody knows": ["--no-such-option"],
    "a file that is not there": ["missing.py"],
    "a value that we refuse": ["--tfperf-tolerance=much"],
    "no test": ["-k", "nothing"],
}


@pytest.mark.parametrize("arguments", REFUSED.values(), ids=REFUSED)
def test_what_pytest_refuses_skips_the_commit(played_project: Project, arguments: list[str]) -> None:
    session = played_project.run("--tfperf-git-bisect", *arguments)
    assert session.status == SKIP, session.text


def test_a_conftest_that_can_not_be_loaded_skips_the_commit(played_project: Project) -> None:
    played_project.write("conftest.py", "import no_such_module\n")
    session = played_project.run("--tfperf-git-bisect")
    assert session.status == SKIP
    assert "conftest.py" in session.text
    assert played_project.run().status == USAGE


def test_what_a_broken_conftest_says_shows_where_and_no_password(played_project: Project) -> None:
    played_project.write("conftest.py", "raise RuntimeError('postgresql://ann:SECRET@host/db')\n")
    text = played_project.run("--tfperf-git-bisect").text
    assert ("RuntimeError: postgresql://" in text, "SECRET" in text) == (True, False), text
