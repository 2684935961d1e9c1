"""What a session shows of a program that prints a password and escapes, and of a history with a damaged row."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.helpers.inner import Finished, Project

SECRET = "PaSsWoRd"

DIES = f"print('\\x1b[2Jno postgresql://ann:{SECRET}@db/d\\n::error::x\\n##[error]x'); import sys; sys.exit(1)"

TESTS = f"""
    DIES = {DIES!r}
    import sys
    from pytest_tfperf import Command

    def run(throughput, on, text, **how):
        throughput.check(Command([sys.executable, "-c", text], **how), on=on)

    def test_dies(throughput, on):
        run(throughput, on, DIES, name="dies", reads=RATES)

    def test_passes(throughput, on):
        run(throughput, on, "print('9 examples/s\\\\n' * 9)", name="passes", reads=RATES_TO_THE_END)
"""


@pytest.fixture(scope="module")
def sessions(played: Project) -> tuple[Finished, Finished]:
    """Two sessions; between them the row of the first one is damaged."""
    played.tests(TESTS)
    outputs = ("--tfperf-html=report.html", "-o", "tfperf_markdown=summary.md", f"--junit-prefix=a://b:{SECRET}@c")
    first = played.run(*outputs)
    with closing(sqlite3.connect(played.folder / ".tfperf/history.sqlite")) as database, database:
        database.execute("update tfperf_values set of_runs = 'x'")
    return first, played.run(*outputs)


def test_neither_passwords_nor_escapes_are_shown(sessions: tuple[Finished, Finished], played: Project) -> None:
    files = [(played.folder / name).read_text() for name in ("report.html", "summary.md")]
    for text in (sessions[0].text, sessions[0].cases["test_dies"].text, *files):
        assert "ann:***@db" in text
        assert SECRET not in text
        assert "\x1b" not in text


def test_a_ci_system_obeys_no_line_of_a_program(sessions: tuple[Finished, Finished]) -> None:
    assert r"| \u003a:error::x" in sessions[0].text
    for line in sessions[0].text.splitlines():
        assert not line.strip().startswith("::")
        assert "##[" not in line


def test_a_session_says_what_it_could_not_read_and_is_judged(sessions: tuple[Finished, Finished]) -> None:
    assert sessions[1].kinds["test_passes"] == "passed"
    assert "1 row of the history can't be read and left out" in sessions[1].text
