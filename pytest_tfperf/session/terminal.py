"""Header, summary and progress line of a session in pytest's terminal, and its reports there and in JUnit."""

from __future__ import annotations

import os
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import TerminalRepr  # a report may be any of these; pytest has no public name

from pytest_tfperf.errors import BaselineError, BaselineRefused, FailsHereOnly, Failure, MeasurementError, TfperfError
from pytest_tfperf.lines import Line, lines_of, plain, printable, rendered
from pytest_tfperf.session.state import FIXTURE, SESSION, SessionState, is_xdist_worker

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter
    from _pytest.terminal import TerminalReporter

_WIDE = 180  # of tables in a file or a pipe, unless COLUMNS says something else
_TICK_SECONDS = 1.0


def header(config: pytest.Config, state: SessionState) -> list[str]:
    """The lines before the first test."""
    lines = [f"tfperf: {remark}" for remark in state.remarks]
    if state.selection and not state.settings.collects_only:  # importing what words measurements takes time
        from pytest_tfperf.session import summary

        lines = summary.before(state)
    return rendered(lines, terminal_width(config))


def write_summary(reporter: TerminalReporter, state: SessionState) -> None:
    """Our section of pytest's summary; pytest's own `-rs` gives the reasons of skips too."""
    if state.settings.collects_only:
        has_something_to_say = any(test.faults for test in state.selection.values())
    else:
        has_something_to_say = bool(state.selection or state.skipped or state.under_xdist or state.output_lines)
    if not has_something_to_say:
        return  # importing what words it takes time
    from pytest_tfperf.core.verdict import Outcome
    from pytest_tfperf.session import summary

    width = terminal_width(reporter.config)
    colours = dict.fromkeys(map(str, Outcome), "yellow") | {"PASS": "green", "IMPROVED": "green"}
    colours |= {"REGRESSED": "red", "INVALID": "red"}

    def write(line: Line | str) -> None:
        for part in rendered([line], width):
            reporter.write_line(part)

    table_width = width or (reporter._tw.fullwidth if "COLUMNS" in os.environ else _WIDE)
    if lines := summary.after(state, skips=not reporter.hasopt("skipped"), width=table_width):
        reporter.write_sep("=", "throughput")
        for line in lines:
            outcome, gap, rest = str(line).partition("  ")
            if gap and (colour := colours.get(outcome.partition(" ")[0])):  # a row of a table
                reporter.write(outcome, **{colour: True})
                reporter.write_line(printable(gap + rest))
            else:
                write(line)
    for text in state.output_lines:
        write(text)


def terminal_width(config: pytest.Config) -> int | None:
    """Columns of the terminal; None where the output goes to a file or a pipe."""
    reporter: TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    return reporter._tw.fullwidth if reporter is not None and _is_terminal(reporter) else None


def _is_terminal(reporter: TerminalReporter) -> bool:
    """An attribute in pytest 8, and a method in pytest 9."""
    isatty: Any = reporter.isatty
    return bool(isatty() if callable(isatty) else isatty)


def connect_progress_line(config: pytest.Config, state: SessionState) -> None:
    """Let the progress line write: in a terminal, in a pipe a line at times, and tf_cnn_benchmarks' lines with `-v`."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or state.settings.collects_only:
        return
    line = state.session.progress

    def uncaptured(write: Callable[[str], None]) -> Callable[[str], None]:
        """During a test pytest captures even what its own reporter writes."""

        def write_through(text: str) -> None:
            with line.lock, capture.global_and_fixture_disabled() if capture else nullcontext():
                write(text)

        return write_through

    writer = reporter._tw  # pytest offers no other way to the width of the current line

    def write_beside(text: str) -> None:
        """Write text that is erased again and must not count as width; pytest 8 has no `write_raw`."""
        current_line = writer._current_line
        writer.write(text, flush=True)
        writer._current_line = current_line

    if _is_terminal(reporter):
        line.write = uncaptured(write_beside)
        line.room = lambda: writer.fullwidth - writer.width_of_current_line
    if reporter.verbosity >= 0:
        line.write_plain = uncaptured(reporter.write_line)
    if reporter.verbosity > 0:
        line.write_line = uncaptured(reporter.write_line)


@contextmanager
def progress_by_the_clock(state: SessionState) -> Iterator[None]:
    """Let the progress line show how long a state lasts: workers and programs may say nothing for minutes."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(_TICK_SECONDS):
            state.session.progress.tick()

    if state.settings.collects_only or not state.selection:
        yield
        return
    thread = threading.Thread(target=tick, name="tfperf-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# Reports


@dataclass(frozen=True)
class _Brief:
    """The fact that pytest's short summary and `--tb=line` show of a report, and JUnit as its message."""

    message: str

    def __str__(self) -> str:
        return self.message


class PlainRepr(TerminalRepr):
    """A report's text: fact, location, next step, wrapped at a terminal's width; in brief the fact alone."""

    def __init__(self, lines: Iterable[Line], brief: str, width: int | None) -> None:
        self._lines = list(lines)
        self._width = width
        self.reprcrash = _Brief(printable(brief))

    def __str__(self) -> str:
        return printable(plain(self._lines))

    def toterminal(self, tw: TerminalWriter) -> None:
        """Write the text."""
        headline, *others = self._lines
        tw.line("\n".join(rendered([headline], self._width)), red=True, bold=True)
        for line in rendered(others, self._width):
            tw.line(line)


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
        brief = (fixture.outcomes.failures_in_brief() if fixture else "") or error.brief
        report.longrepr = PlainRepr(error.lines, brief, terminal_width(item.config))
    else:
        _add_unreported(report, item)


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
    if report.when != "teardown" and fixture is not None and (failures := fixture.outcomes.confirmed_failures()):
        report.when = "call"
        report.longrepr = PlainRepr(
            [*failures, Line(""), *error.lines], f"{fixture.outcomes.failures_in_brief()}; {brief}", width
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
    _add_unreported(report, item)


def _add_unreported(report: pytest.TestReport, item: pytest.Item) -> None:
    """Add what the test had measured to pytest's report, whose sections have only room for a text."""
    fixture = item.stash.get(FIXTURE, None)
    if fixture is not None and (unreported := fixture.outcomes.unreported()):
        report.sections.append(("throughput", "\n".join(rendered(unreported, terminal_width(item.config)))))


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
    """The innermost line that is not ours, Python's own or installed, as "test_a.py:7"; "" where there is none."""
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
