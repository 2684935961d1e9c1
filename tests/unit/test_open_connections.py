"""What a launcher holds open: nothing of a start that failed, of a stranger, or of a worker that was given up."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pythons import played

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.launcher import Job
from pytest_tfperf.workers.local import LocalLauncher
from pytest_tfperf.workers.wire import Listener, Silence, connect

JOB = Job(workload=Workload(model="trivial", batch_size=1), devices=Devices(kind=DeviceKind.CPU, count=1))
PATIENT = 60


def open_sockets() -> set[str]:
    """Of this process."""
    return {name for name in _descriptors() if name.startswith("socket:")}


def _descriptors() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        try:
            yield str(entry.readlink())
        except OSError:  # that of the listing itself
            continue


ENDS_AT_ONCE = "sys.exit(3)"
ENDS_AFTER_ITS_CALL = "call().send({'hello': 'server'})"
HAS_NO_TENSORFLOW = """
    channel = call()
    channel.send({'hello': 'server'})
    channel.send({'failed': 'ImportError: no tensorflow'})
"""


@pytest.mark.parametrize("server", [ENDS_AT_ONCE, ENDS_AFTER_ITS_CALL, HAS_NO_TENSORFLOW])
def test_a_server_that_can_not_start_leaves_nothing_open(tmp_path: Path, server: str) -> None:
    before = open_sockets()
    launcher = LocalLauncher(logs=tmp_path, silence_seconds=PATIENT, python=played(tmp_path, server))
    with pytest.raises(MeasurementError):
        launcher.start(JOB, lambda phase: None)
    assert open_sockets() == before


CALLS_TWICE = """
    job = json.load(sys.stdin)
    late = call()
    late.send({'hello': 'worker', 'number': job['number'] - 1})
    own = call()
    own.send({'hello': 'worker', 'number': job['number']})
    own.send({'ready': {'images_per_step': 1, 'compile_seconds': 1.0, 'fetches': False, 'environment': {}}})
    own.receive()
"""


def test_a_worker_that_was_given_up_and_calls_late_is_hung_up_on(tmp_path: Path) -> None:
    before = open_sockets()
    launcher = LocalLauncher(logs=tmp_path, silence_seconds=PATIENT, fresh=True, python=played(tmp_path, CALLS_TWICE))
    run = launcher.start(JOB, lambda phase: None)
    held = open_sockets() - before
    run.close()
    launcher.close()
    assert len(held) == 2, "the listener's, and the channel to the worker that was asked for"


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def test_a_stranger_is_hung_up_on(listener: Listener) -> None:
    before = open_sockets()
    with socket.create_connection((listener.address.host, listener.address.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n....")
        with pytest.raises(Silence, match="a stranger called"):
            listener.greet(PATIENT)
    assert open_sockets() == before


def test_who_calls_and_says_nothing_is_hung_up_on(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_tfperf.workers.wire._HELLO_SECONDS", 0.01)
    before = open_sockets()
    with socket.create_connection((listener.address.host, listener.address.port)), pytest.raises(Silence):
        listener.greet(PATIENT)
    assert open_sockets() == before


def test_who_called_is_known_by_the_first_message(listener: Listener) -> None:
    worker = connect(listener.address)
    worker.send({"number": 7})
    channel, hello = listener.greet(PATIENT)
    worker.close()
    channel.close()
    assert hello == {"number": 7}
