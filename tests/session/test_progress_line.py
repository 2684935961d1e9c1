"""Progress in a terminal."""

from __future__ import annotations

import re

import pytest

from pytest_tfperf.reports import progress_line
from tests.helpers.inner import Project

TESTS = """
    def test_it(throughput, on):
        throughput.check(tiny(input_pipeline="nets:paced"), on=on)
"""


@pytest.fixture(scope="module")
def terminal(played: Project) -> str:
    """What a terminal gets, escape codes and all."""
    played.tests(TESTS)
    return played.terminal("--color=no", columns=120)


@pytest.mark.parametrize("phase", ["start", "model", "compile", "warm-up"])
def test_a_terminal_shows_the_phase(terminal: str, phase: str) -> None:
    assert re.search(rf"\[1/1(, [^]]* left)?\]  test_it  run 1  {phase} \.\.\.", terminal)


def test_a_terminal_shows_test_steps_and_rate(terminal: str) -> None:
    assert re.search(r"test_it  run 1  steps 10/15  \d+\.\d+ images/s", terminal)


def test_a_terminal_shows_the_time_that_the_session_has_left_once_it_is_known(terminal: str, played: Project) -> None:
    assert "[1/1]  test_it  run 1  start" in terminal
    played.tests(TESTS)
    assert re.search(r"\[1/1, [^]]+ left\]", played.terminal("--color=no", columns=120))


def test_a_pipe_shows_no_progress(terminal: str, played: Project) -> None:
    assert "  run 1  " not in played.run().text


def test_the_progress_vanishes(terminal: str) -> None:
    """What stays on the screen, in the line of the test's file, is what pytest wrote."""
    (line,) = [line for line in screen(terminal) if line.startswith("test_it.py")]
    assert re.fullmatch(r"test_it\.py m\s+\[100%\]", line)


def test_a_pipe_gets_lines_by_the_clock_while_a_program_is_silent(
    played: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_line, "PLAIN_SECONDS", 1.0)
    played.write(
        "silent.py", "import time; time.sleep(3); [print('5 examples/s') or time.sleep(0.2) for _ in range(9)]"
    )
    played.tests("""
        import sys

        def test_it(throughput, on):
            throughput.check(Command([sys.executable, "silent.py"], name="silent", reads=RATES), on=on, steps=3)
    """)
    assert "tfperf: test 1/1, test_it, run 1, first reading" in played.run().text


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
