"""Ranks that call by themselves under a key that outlives sessions: who is let in, and what is said of the others."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.features.cluster.engines.external import External
from pytest_tfperf.features.cluster.rank_launcher import EngineProcess, RankCall, wait_for_ranks
from pytest_tfperf.workers.wire import Listener, read_key
from tests.helpers.callers import Callers
from tests.helpers.patience import PATIENCE_SECONDS

WORKLOAD = Workload(model="trivial", batch_size=4, variable_update="collective")
JOB = Job(workload=WORKLOAD, devices=Devices(kind=DeviceKind.CPU, count=1), nodes=1)
NO_KEY = "it does not have this session's key, or replays an earlier connection"


@dataclass
class Sessions:
    """Sessions under one key, and the ranks that call them; `end` ends all."""

    folder: Path
    key: Path
    end: ExitStack

    def listener(self) -> Listener:
        return self.end.enter_context(closing(Listener(key=read_key(self.key))))

    def rank(self, address: str) -> subprocess.Popen[str]:
        """Start a true rank, the only one of its job."""
        ours = {"TFPERF_ADDRESS": address, "TFPERF_KEY_FILE": str(self.key), "TFPERF_RANK": "0", "TFPERF_SIZE": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest_tfperf.training.rank"],
            env={**os.environ, **ours},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.end.enter_context(process)
        self.end.callback(process.kill)
        return process

    def wait(self, listener: Listener, seconds: float = PATIENCE_SECONDS) -> RankCall:
        nothing = EngineProcess(External(["--nodes=1"]), [], {}, self.folder / "log")
        (call,) = wait_for_ranks(listener, JOB, "1", seconds, nothing)
        self.end.callback(call.channel.close)
        return call


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    key = tmp_path / "key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    with ExitStack() as end:
        yield Sessions(tmp_path, key, end)


def place_of(listener: Listener) -> str:
    """Its address without the key."""
    return listener.address.rpartition(":")[0]


def port_of(listener: Listener) -> tuple[str, int]:
    host, _, port = place_of(listener).partition(":")
    return host, int(port)


class Recorder:
    """Passes a rank's connection on to a listener, and keeps what the rank sends."""

    def __init__(self, listener: Listener) -> None:
        self.stream = bytearray()
        self._server = socket.create_server(("127.0.0.1", 0))
        self._listener = listener
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def _serve(self) -> None:
        rank, _ = self._server.accept()
        with rank, socket.create_connection(port_of(self._listener)) as driver:
            threading.Thread(target=self._pump, args=(driver, rank, bytearray()), daemon=True).start()
            self._pump(rank, driver, self.stream)

    def _pump(self, one: socket.socket, other: socket.socket, kept: bytearray) -> None:
        with suppress(OSError):
            while data := one.recv(4096):
                kept += data
                other.sendall(data)

    def close(self) -> None:
        self._server.close()


def recorded(sessions: Sessions) -> bytes:
    """All that a true rank sends to a session until it is let in."""
    listener = sessions.listener()
    recorder = sessions.end.enter_context(closing(Recorder(listener)))
    rank = sessions.rank(recorder.address)
    assert sessions.wait(listener).pid == rank.pid
    rank.kill()
    return bytes(recorder.stream)


def test_a_recorded_rank_of_an_earlier_session_takes_no_true_rank_s_place(sessions: Sessions) -> None:
    stream = recorded(sessions)
    later = sessions.listener()
    with socket.create_connection(port_of(later)) as stranger:
        stranger.sendall(stream)
        with pytest.raises(MeasurementError, match=f"rank 0 of 1 did not call within 3 s; a call from .*: {NO_KEY}"):
            sessions.wait(later, 3)
    rank = sessions.rank(place_of(later))
    assert sessions.wait(later).pid == rank.pid


def test_a_rank_with_another_key_is_told_apart_from_one_that_never_called(sessions: Sessions) -> None:
    listener = sessions.listener()
    sessions.end.enter_context(closing(Callers())).call(f"{place_of(listener)}:{secrets.token_hex(32)}", {"rank": 0})
    with pytest.raises(MeasurementError, match=f"did not call within 3 s; a call from 127.0.0.1 refused: {NO_KEY}"):
        sessions.wait(listener, 3)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"tfperf 3" + bytes(32), "it is of another version of pytest-tfperf"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian", "it is no process of pytest-tfperf"),
    ],
    ids=["a newer version's", "another server"],
)
def test_a_rank_says_in_a_sentence_why_it_can_not_join(sessions: Sessions, sent: bytes, why: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        rank = sessions.rank(f"127.0.0.1:{server.getsockname()[1]}")
        driver, _ = server.accept()
        with driver:
            driver.sendall(sent)
            driver.recv(40, socket.MSG_WAITALL)
        _, said = rank.communicate(timeout=PATIENCE_SECONDS)
    assert (rank.returncode, said.count("\n"), why in said) == (3, 1, True), said
