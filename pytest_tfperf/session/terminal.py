"""Header, reports, summary and progress line of a session in pytest's terminal."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from _pytest._code.code import TerminalRepr  # a report may be any of these; pytest has no public name

from pytest_tfperf.lines import Line, plain, printable, rendered

if TYPE_CHECKING:
    from _pytest._io import TerminalWriter
    from _pytest.terminal import TerminalReporter

    from pytest_tfperf.session.state import SessionState

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


@dataclass(frozen=True)
class _Brief:
    """The fact that pytest's short summary and `--tb=line` show of a report, and JUnit as its message."""

    message: str

    def __str__(self) -> str:
        return self.message


class PlainRepr(TerminalRepr):
    """A report's text, in full and in brief.

    Args:
        lines: fact, location, next step; the first line is the headline.
        brief: the fact alone, in one line.
        width: a terminal's, at which the text is wrapped; None for no terminal.
    """

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
