"""Clients of MPS end without a kill, or the server ends their contexts first; with a stand-in for NVIDIA's control."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_tfperf.core.command import Command
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.workers import process_end
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.processes import Process
from tests.helpers.patience import wait_for

# Knows server 7 and the clients of a file, and notes what it is asked to end, and whether that still runs.
CONTROL = """#!/bin/sh
read -r command server client
case "$command" in
  get_server_list) echo 7 ;;
  get_client_list) cat "$CLIENTS" ;;
  terminate_client) kill -0 "$client" && echo "$server $client" >> "$CLIENTS.ended" ;;
esac
"""


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the clients of an MPS server that is on."""
    control = tmp_path / "nvidia-cuda-mps-control"
    control.write_text(CONTROL)
    control.chmod(0o755)
    (tmp_path / "control").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("CLIENTS", str(tmp_path / "clients"))
    return tmp_path / "clients"


def ended(clients: Path) -> list[str]:
    file = clients.with_suffix(".ended")
    return file.read_text().splitlines() if file.exists() else []


def process_of(worker: subprocess.Popen[bytes]) -> Process:
    """A worker that the driver could wait for."""

    def exit_status(seconds: float) -> int | None:
        try:
            return worker.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    return Process(worker.pid, exit_status)


@pytest.fixture
def worker() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(code: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", code], start_new_session=True))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


def test_a_worker_ends_by_itself_under_mps(clients: Path, worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_end, "kill_group", lambda _: pytest.fail("it was killed"))
    process_of(worker("import time; time.sleep(0.3)")).end()


def test_a_worker_that_does_not_end_is_killed_after_its_contexts_were_ended(
    clients: Path, worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_end, "MPS_END_SECONDS", 0.1)
    hung = worker("import time; time.sleep(600)")
    clients.write_text(f"{os.getpid()}\n{hung.pid}\n")
    process_of(hung).end()
    assert (ended(clients), hung.returncode) == ([f"7 {hung.pid}"], -9)


def test_the_contexts_of_a_program_are_ended_before_it_gets_a_signal(clients: Path, tmp_path: Path) -> None:
    program = "import os, time; open(os.environ['CLIENTS'], 'w').write(str(os.getpid())); time.sleep(600)"
    prepared = PreparedCommand(
        command=Command([sys.executable, "-c", program], name="it", env=os.environ, cwd=tmp_path),
        log=tmp_path / "log",
        silence_seconds=9,
        facts={},
    )
    with closing(CommandRun(prepared)):
        assert wait_for(lambda: clients.exists() and clients.read_text())
    assert ended(clients) == [f"7 {clients.read_text()}"]


def test_without_mps_nothing_is_asked(clients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (clients.parent / "control").unlink()
    clients.write_text(f"{os.getpid()}\n")
    process_end.end_mps_clients(os.getsid(0))
    assert ended(clients) == []
