"""Sessions of pytest that commands start."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pytest_tfperf.console.pytest_process import run_pytest
from tests.helpers.patience import is_gone, running, wait_for

COMMAND = """
import sys
from pytest_tfperf.console.pytest_process import run_pytest
run_pytest(["-s", "-p", "no:cacheprovider", sys.argv[1]], {}, [], lambda line: print(line, flush=True))
"""

ENDLESS = """
import os, time

def test_it():
    print(f"\\npid {os.getpid()}", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_session_ends_with_the_command_that_started_it(by: signal.Signals, tmp_path: Path) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(ENDLESS)
    with running(COMMAND, test, cwd=tmp_path) as command:
        assert command.stdout is not None
        pid = int(next(line.split()[1] for line in command.stdout if line.startswith("pid ")))
        command.send_signal(by)
    assert wait_for(lambda: is_gone(pid))


@pytest.mark.parametrize("place", ["argument", "addopts"])
def test_a_session_writes_no_report_that_the_user_asked_for(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = "--junitxml=report.xml"
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -q" + f" {asked}\n" * (place == "addopts"))
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    monkeypatch.chdir(tmp_path)
    status, text = run_pytest(["-p", "no:cacheprovider", *[asked] * (place == "argument")], {}, [])
    assert (status, (tmp_path / "report.xml").exists()) == (0, False), text


def test_an_option_of_which_a_reports_option_is_the_beginning_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_addoption(parser): parser.addoption('--html-report')\n")
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    monkeypatch.chdir(tmp_path)
    status, text = run_pytest(["-p", "no:cacheprovider", "--html-report=own"], {}, [])
    assert status == 0, text
