"""What `git bisect run` is told: good, bad, skip this commit, or stop."""

from __future__ import annotations

from typing import Final

from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_INTERRUPTED, EXIT_REGRESSED, outcome_of
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Outcome

SKIP: Final = 125
STOP: Final = 130
"""As a shell gives it after Ctrl-C; git ends the bisection from 128 on."""

_DECIDED = (Outcome.PASS, Outcome.IMPROVED, Outcome.REGRESSED)


def git_status(record: SessionRecord, status: int) -> int:
    """The status for a session that pytest would end with `status`.

    Bad is a confirmed regression, or another test that failed. Good are tests that all passed a verdict. Everything
    else decides nothing: tests that could not be measured, stayed in doubt or had no baseline, files that can't be
    collected, and a slower machine.
    """
    if status == EXIT_INTERRUPTED and record.selection:
        return STOP
    outcomes = [outcome_of(result) for result in record.results]
    if status == EXIT_REGRESSED and (Outcome.REGRESSED in outcomes or not record.not_measured):
        return EXIT_REGRESSED
    if status == EXIT_GREEN and outcomes and all(outcome in _DECIDED for outcome in outcomes):
        return EXIT_GREEN
    return SKIP
