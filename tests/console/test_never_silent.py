"""A command that prints nothing for half a minute says that it still runs, and how far it is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_tfperf.console import output
from pytest_tfperf.console.pytest_process import run_pytest
from tests.helpers.patience import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "SILENT_SECONDS", 0.0)


def said(capsys: pytest.CaptureFixture[str]) -> str:
    """What stderr gets, as soon as it gets something."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not (text := capsys.readouterr().err) and time.monotonic() < end:
        time.sleep(0.05)
    return text


def test_a_silent_command_says_that_it_still_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with output.never_silent("tfperf report"):
        text = said(capsys)
    assert text.startswith("tfperf: report still runs, ")
    assert text.splitlines()[0].endswith(" so far")


def test_the_session_that_it_runs_says_how_far_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    line = "tfperf: test 1/1, test_it, run 2, 4 s to 9 s left"
    (tmp_path / "test_it.py").write_text(f"def test_it():\n    print('\\n' + {line!r})\n")
    with output.never_silent("tfperf bisect"):
        run_pytest(["-s", "-p", "no:cacheprovider", str(tmp_path)], {}, ())
        capsys.readouterr()
        text = said(capsys)
    assert text.splitlines()[0].endswith(" so far: 1/1, test_it, run 2, 4 s to 9 s left")


def test_what_a_command_has_printed_since_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with output.never_silent("tfperf bisect"):
        output.note("1/1, test_it")
        output.show("a1b2c3: fast")
        capsys.readouterr()
        assert "test_it" not in said(capsys)


def test_a_command_that_has_ended_says_nothing_more(capsys: pytest.CaptureFixture[str]) -> None:
    with output.never_silent("tfperf bisect"):
        said(capsys)
    capsys.readouterr()
    time.sleep(1.2)  # it looks once a second
    assert capsys.readouterr().err == ""
