"""The progress line's way to the terminal, past what pytest captures."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest
    from _pytest.terminal import TerminalReporter

    from pytest_tfperf.reports.live import LiveLine


def connect(live: LiveLine, config: pytest.Config, reporter: TerminalReporter) -> None:
    """Let the line write where there is a terminal, and tf_cnn_benchmarks' lines with `-v`."""
    writer = reporter._tw  # the one way to the width of the current line
    if reporter.isatty():
        live.write = _uncaptured(config, lambda text: writer.write_raw(text, flush=True))
        live.room = lambda: writer.fullwidth - writer.width_of_current_line
    if reporter.verbosity > 0:
        live.write_line = _uncaptured(config, reporter.write_line)


def _uncaptured(config: pytest.Config, write: Callable[[str], None]) -> Callable[[str], None]:
    """While a test runs, pytest captures all that is written, also by its own reporter."""
    capture = config.pluginmanager.get_plugin("capturemanager")

    def write_through(text: str) -> None:
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            write(text)

    return write_through
