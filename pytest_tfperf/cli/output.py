"""Printing that never changes what a command found: readers that leave early, and terminals with few characters."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from typing import TextIO


def prepare() -> None:
    """Write what the terminal's encoding lacks as an escape; a file's name must not end the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def show(text: str) -> None:
    """Print and flush; a reader that leaves early (`tfperf replay ... | head -1`) does not change the exit status.

    Raises:
        OSError: the text can't be written, because a disk is full, say.
    """
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard()


def show_json(facts: object) -> None:
    """Print facts as JSON, as `--json` asks for it."""
    show(json.dumps(facts, indent=2))


def width() -> int | None:
    """The most characters of a line on a terminal; None for a file or a pipe, where a line may be of any length."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def warn(text: str) -> None:
    """Print to stderr, after "tfperf: "; nobody may be there to read it."""
    try:
        print(f"tfperf: {text}", file=sys.stderr, flush=True)
    except OSError:
        _to_nowhere(sys.stderr)


def discard() -> None:
    """Send the rest of stdout nowhere: Python flushes it once more when it exits, and would fail then."""
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
