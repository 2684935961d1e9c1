"""Words the reports of tests and of the session for pytest's terminal and JUnit."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_tfperf.errors import BaselineError, BaselineRefused, FailsHereOnly, Failure, MeasurementError, TfperfError
from pytest_tfperf.lines import Line, lines_of, rendered
from pytest_tfperf.session.running import FIXTURE, SESSION, is_xdist_worker
from pytest_tfperf.session.terminal import PlainRepr, terminal_width

if TYPE_CHECKING:
    from pytest_tfperf.session.state import SessionState


def word(report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Report "could not measure" as an error, "regressed" and "fails here only" as failures, without a traceback."""
    if not report.failed or call.excinfo is None or item.nodeid not in item.config.stash[SESSION].selection:
        return
    error, fixture = call.excinfo.value, item.stash.get(FIXTURE, None)
    if isinstance(error, TfperfError):
        _word_error(report, item, error)
    elif isinstance(error, Failure):
        if report.when == "setup":  # a fixture measured it, and it is a failure all the same
            report.when = "call"
        brief = (fixture.calls.failures_in_brief() if fixture else "") or error.brief
        report.longrepr = PlainRepr(error.lines, brief, terminal_width(item.config))
    elif fixture is not None and (unreported := fixture.calls.unreported()):
        report.sections.append(("throughput", _text(unreported, item)))


def measured_only(report: pytest.TestReport, state: SessionState) -> tuple[str, str, str] | None:
    """pytest's word for a test that passed and was measured without a baseline: "measured", not "passed"."""
    if report.when != "call" or not report.passed or report.nodeid not in state.selection:
        return None
    from pytest_tfperf.core.verdict import Outcome  # most sessions have no throughput test

    outcomes = [result.outcome for result in state.queue.results_of(report.nodeid)]
    return ("measured", "m", "MEASURED") if Outcome.NO_BASELINE in outcomes else None


def _word_error(report: pytest.TestReport, item: pytest.Item, error: TfperfError) -> None:
    """Report an error, or a failure where the test had confirmed a regression before the error."""
    fixture = item.stash.get(FIXTURE, None)
    brief, width = error.brief, terminal_width(item.config)
    if not isinstance(error, (MeasurementError, BaselineError)):  # the fault is in the test
        error = error.of_type(TfperfError).at(_source_line(item, error))
    if report.when != "teardown" and fixture is not None and (failures := fixture.calls.confirmed_failures()):
        report.when = "call"
        report.longrepr = PlainRepr(
            [*failures, Line(""), *error.lines], f"{fixture.calls.failures_in_brief()}; {brief}", width
        )
        return
    # JUnit and pytest's summary say "error" of what fails outside of the call: nothing was tested.
    if isinstance(error, FailsHereOnly):
        report.when = "call"
    elif report.when == "call":
        report.when = "setup"
    report.longrepr = PlainRepr(error.lines, brief, width)
    state = item.config.stash[SESSION]
    (state.refused if isinstance(error, BaselineRefused) else state.not_measured)[item.nodeid] = error
    if fixture is not None and (unreported := fixture.calls.unreported()):
        report.sections.append(("throughput", _text(unreported, item)))


def _text(lines: Iterable[Line], item: pytest.Item) -> str:
    """For a section of pytest's report, which has only room for a text."""
    return "\n".join(rendered(lines, terminal_width(item.config)))


def _source_line(item: pytest.Item, error: TfperfError) -> str:
    """Source location of the call that was refused, else of the test."""
    folder = item.config.invocation_params.dir
    path, line, _ = item.reportinfo()
    return _line_of(error, folder) or _shown(Path(path), (line or 0) + 1, folder)


def report_session_verdicts(session: pytest.Session) -> None:
    """When all tests have run: judge software and machine as a whole, and report what fails the session.

    Each failure is a report of its own, so that JUnit, `-ra` and the exit status show it.
    """
    if session.shouldstop or session.shouldfail or is_xdist_worker(session.config):
        return
    for failure in session.config.stash[SESSION].judge():
        from pytest_tfperf.reports.session_verdicts import fact_of, text_of  # most sessions have nothing to report

        name = f"{failure.kind} on {failure.machine}"
        report = pytest.TestReport(
            nodeid=f"tfperf::{name}",
            location=("tfperf", None, name),
            keywords={},
            outcome="failed",
            longrepr=PlainRepr(
                lines_of(*text_of(failure).split("\n")), fact_of(failure), terminal_width(session.config)
            ),
            when="call",
        )
        session.testscollected += 1  # or else pytest's progress ends at 110 %
        session.config.hook.pytest_runtest_logreport(report=report)
        # It is no test, and would stay among the failed ones that `--lf` looks for. Newer pytests have ids for keys.
        failed = getattr(session.config.pluginmanager.get_plugin("lfplugin"), "lastfailed", {})
        for key in [key for key in failed if str(key) == report.nodeid]:
            del failed[key]


def _line_of(error: BaseException, seen_from: Path) -> str:
    """The innermost line that is not ours, Python's own or installed, as "test_a.py:7"; "" where there is none.

    Args:
        error: as it was caught.
        seen_from: the folder that the file's name starts from.
    """
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    not_the_users = (Path(__file__).parents[1], *(Path(sysconfig.get_path(name)) for name in names))
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = Path(frame.f_code.co_filename)
        # Dataclasses run code that is in no file.
        if path.is_file() and not any(path.is_relative_to(folder) for folder in not_the_users):
            return _shown(path, line, seen_from)
    return ""


def _shown(path: Path, line: int, seen_from: Path) -> str:
    """File and line, as short as a terminal can follow it."""
    return f"{os.path.relpath(path, seen_from)}:{line}"
