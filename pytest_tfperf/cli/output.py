"""Printing that does not fail a command: a reader may leave early, and a terminal may lack characters."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from typing import TextIO


def prepare() -> None:
    """Let characters that the terminal's encoding lacks be written as escapes, so that no file name ends a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def show(text: str) -> None:
    """Print and flush; a reader that leaves early (`tfperf replay ... | head -1`) does not change the exit status.

    Raises:
        OSError: the text can't be written, for example because the disk is full.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard()


def show_json(facts: object) -> None:
    """Print facts as indented JSON."""
    show(json.dumps(facts, indent=2))


def width() -> int | None:
    """The width of the terminal; None for a file or a pipe, where a line may have any length."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def warn(text: str) -> None:
    """Print to stderr, after "tfperf: "; a closed stderr is no error."""
    try:
        print(f"tfperf: {text}", file=sys.stderr, flush=True)
    except OSError:
        _to_nowhere(sys.stderr)


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
