"""The output of `tfperf`, without passwords and without what a terminal or a CI system would obey.

Printing does not fail a command: a reader may leave early, and a terminal may lack characters.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Final, NoReturn, TextIO

from pytest_tfperf.errors import one_of
from pytest_tfperf.lines import Line, csv_cell, one_line, printable, rendered, short_lines
from pytest_tfperf.reports.numbers import duration

SILENT_SECONDS: Final = 25.0
"""A command that is silent for longer says that it still runs: people take one that is silent for 30 s for stuck."""


_LATEST: Final = SimpleNamespace(at=0.0, state="")  # when a command last printed, and the state of its session


class Parser(argparse.ArgumentParser):
    """A parser whose help and errors are printed as all other output."""

    def __init__(self, *args: Any, **options: Any) -> None:
        argparse.ArgumentParser.__init__(self, *args, **options)
        self.formatter_class = argparse.RawDescriptionHelpFormatter  # examples are lines of their own
        self.color = False  # Python 3.14's colours would be shown as escapes

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, shortened, and exit."""
        argparse.ArgumentParser.error(self, short_lines(message))

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        takes_text = action.nargs != argparse.PARSER and action.type is not word_of_a_program
        if takes_text and any(not text.strip() for text in arg_strings):
            raise argparse.ArgumentError(action, "is empty; a shell or CI variable in it may not be set")
        if action.option_strings and action.nargs is None and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "expected one argument")  # Python 3.11 would give an empty list
        return argparse.ArgumentParser._get_values(self, action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            is_command = action.nargs == argparse.PARSER
            kind = str(action.metavar).lower() if is_command else "value"
            raise argparse.ArgumentError(None if is_command else action, one_of(kind, value, action.choices))

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse prints help, version and errors by this method.
        argparse.ArgumentParser._print_message(self, printable(message), file)


def word_of_a_program(text: str) -> str:
    """The type of a program's own arguments, which may be empty."""
    return text


def prepare() -> None:
    """Write characters that the terminal's encoding lacks as escapes, so that no file name ends a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def never_silent(command: str) -> Iterator[None]:
    """Say on stderr that a command still runs, and how far it is, whenever it has been silent for long."""
    began, ended = time.monotonic(), threading.Event()
    _LATEST.at, _LATEST.state = began, ""

    def look() -> None:
        while not ended.wait(1.0):
            if (now := time.monotonic()) - _LATEST.at >= SILENT_SECONDS:
                state = f": {_LATEST.state}" if _LATEST.state else ""
                warn(f"{command.removeprefix('tfperf ')} still runs, {duration(now - began)} so far{state}")

    thread = threading.Thread(target=look, name="tfperf-never-silent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def note(state: str) -> None:
    """Note how far the session is that the command runs, in its own words, for the next such line."""
    _LATEST.state = one_line(state)


def show(*lines: Line | str) -> None:
    """Print lines and flush; line ends within a line are escaped, because a name from elsewhere may hold them.

    A reader that leaves early (`tfperf replay ... | head -1`) does not change the exit status.

    Raises:
        OSError: the text can't be written, for example because the disk is full.
    """
    _print("\n".join(rendered(lines, None)))


def show_file(text: str) -> None:
    """Print the text of a JSON or HTML file, in which names from elsewhere are escaped already."""
    _print(printable(text))


def show_json(facts: object) -> None:
    """Print facts as indented JSON."""
    show_file(json.dumps(facts, indent=2))


def show_csv(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as CSV that is safe in a spreadsheet; passwords are removed cell by cell."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerows([columns, *([csv_cell(row[name]) for name in columns] for row in rows)])
    _print(text.getvalue().rstrip("\n"))


def width() -> int | None:
    """The width of the terminal; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def warn(text: str) -> None:
    """Print an error to stderr, after "tfperf: "; long lines are shortened, and a closed stderr is no error."""
    _LATEST.at = time.monotonic()
    try:
        print(f"tfperf: {short_lines(printable(text))}", file=sys.stderr, flush=True)
    except OSError:
        _to_nowhere(sys.stderr)


def _print(text: str) -> None:
    _LATEST.at, _LATEST.state = time.monotonic(), ""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard()


def discard() -> None:
    """Redirect stdout to /dev/null: Python flushes it once more at exit, and that must not fail."""
    _to_nowhere(sys.stdout)


def _to_nowhere(stream: TextIO | None) -> None:
    try:
        descriptor = stream.fileno() if stream else None
    except OSError:  # a stream in memory
        return
    if descriptor is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
