"""What a session says before its first test and after its last."""

from __future__ import annotations

import math

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.reports import summary
from pytest_tfperf.reports.wrapping import first_sentence
from pytest_tfperf.session import Session

_GUESSED_SECONDS = 15.0  # for a test that was never timed on this machine
_SMOKE_SECONDS = 3.0  # a worker, a compilation, a window: 2.6 s on average over the CPU tests on two slow cores


def header(session: Session) -> list[str]:
    """The machine, the selected tests and what is special about this session."""
    remarks = [f"tfperf: {remark}" for remark in session.remarks]
    settings, selection = session.settings, session.selection
    if not selection or settings.collects_only:
        return remarks
    measuring = session.measuring
    seconds, never_timed = _expected_seconds(session)
    session.progress.expect(len(measuring.runnable), seconds)
    lines = summary.before(
        measuring.topology.machine,
        len(measuring.runnable),
        seconds,
        never_timed,
        recording=settings.runs if settings.update_baselines else 0,
        baselines=settings.shown_baselines,
        smoke=settings.smoke,
        inject_slowdown=settings.inject_slowdown,
        hold=settings.hold,
        against=str(settings.against or ""),
    )
    return [*lines, *remarks, *summary.refused(selection.faulty, len(selection), in_brief=True)]


def closing(session: Session, *, skips: bool, width: int | None = None) -> list[str]:
    """The tables, what could not be measured, and what to do next.

    Args:
        session: that has ended.
        skips: count what kept tests from measuring, because pytest itself does not (`-rs`).
        width: the most characters of a table's line; None for any number.
    """
    selection, errors = session.selection, session.not_measured
    if session.settings.collects_only:
        return summary.refused(selection.faulty, len(selection))
    skipped = summary.skips(session.skipped) if skips else []
    if not selection:
        return skipped
    # A test that ended in an error leaves half-finished results, which are no result.
    results = [one for one in session.queue.results if one.is_decided or one.test not in errors]
    compared = summary.comparison_summary([one for one in results if isinstance(one, Comparison)], width)
    measured = summary.summary(
        [one for one in results if isinstance(one, Measurement)],
        baselines=session.settings.shown_baselines,
        changes=session.recorder.changes,
        # What fails is a report of its own, in full.
        machine=[
            first_sentence(one.text) if one.outcome is Outcome.REGRESSED else one.text for one in session.verdicts
        ],
        not_measured=len(errors),
        measured_nothing=session.measured_nothing,
        history_error=session.queue.history_fault or session.measuring.history_fault,
        width=width,
    )
    return [
        *compared,
        *([""] if compared and measured else []),
        *measured,
        *(f"reference environment: {warning}" for warning in session.recorder.warnings),
        *(
            f"{test}: confirmed by fresh runs, because its reference environment failed: {why}"
            for test, why in session.measuring.reference_failures
        ),
        *skipped,
    ]


def _expected_seconds(session: Session) -> tuple[float, int]:
    """How long the session will take by its tests' last times, and how many of them were never timed here."""
    tests, settings = [test.id for test in session.measuring.runnable], session.settings
    if settings.smoke:
        return _SMOKE_SECONDS * len(tests), 0
    known = session.history.seconds_of(tests)
    unknown = len(tests) - len(known)
    typical = math.fsum(known.values()) / len(known) if known else _GUESSED_SECONDS
    runs = settings.runs if settings.update_baselines else 1
    return runs * (math.fsum(known.values()) + unknown * typical), unknown
