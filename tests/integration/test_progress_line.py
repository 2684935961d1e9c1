"""Progress in a terminal."""

from __future__ import annotations

import os
import pty
import re
import select

import pytest
from inner import Project
from patience import SESSION_SECONDS

TESTS = """
    def test_it(throughput, on):
        throughput.check(tiny(input_pipeline="nets:paced"), on=on)
"""


@pytest.fixture(scope="module")
def terminal(shared: Project) -> str:
    """What a terminal gets, escape codes and all."""
    shared.tests(TESTS)
    ours, theirs = pty.openpty()
    process = shared.start("--color=no", stdin=theirs, stdout=theirs, stderr=theirs, TERM="xterm", COLUMNS="120")
    os.close(theirs)
    text = b""
    while chunk := _read(ours):
        text += chunk
    os.close(ours)
    process.wait(SESSION_SECONDS)
    return text.decode()


def _read(descriptor: int) -> bytes:
    ready, _, _ = select.select([descriptor], [], [], SESSION_SECONDS)
    assert ready, "the session hangs"
    try:
        return os.read(descriptor, 4096)
    except OSError:  # EIO: the last writer has closed the terminal
        return b""


@pytest.mark.parametrize("phase", ["start", "model", "compile", "warm-up"])
def test_a_terminal_shows_the_phase(terminal: str, phase: str) -> None:
    assert f"test_it  run 1  {phase} ..." in terminal


def test_a_terminal_shows_test_steps_rate_and_time_left(terminal: str) -> None:
    assert re.search(r"test_it  run 1  steps 10/15  \d+\.\d+ images/s  \d+ s left", terminal)


def test_the_progress_vanishes(terminal: str) -> None:
    """What stays on the screen, in the line of the test's file, is what pytest wrote."""
    (line,) = [line for line in screen(terminal) if line.startswith("test_it.py")]
    assert re.fullmatch(r"test_it\.py s\s+\[100%\]", line)


def screen(text: str) -> list[str]:
    """The lines that are left: cursor saved, restored, line cleared to its end, carriage return; nothing else moves."""
    lines, column, saved = [""], 0, 0
    for part in re.findall(r"\x1b[78]|\x1b\[\d*[A-Za-z]|.", text, re.DOTALL):
        match part:
            case "\n":
                lines.append("")
                column = 0
            case "\r":
                column = 0
            case "\x1b7":
                saved = column
            case "\x1b8":
                column = saved
            case "\x1b[K":
                lines[-1] = lines[-1][:column]
            case _ if not part.startswith("\x1b"):
                lines[-1] = lines[-1][:column].ljust(column) + part + lines[-1][column + 1 :]
                column += 1
    return lines
