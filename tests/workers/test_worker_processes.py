"""How worker processes end: with all that they started, and never at the cost of another process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psutil
import pytest

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers import process_end, processes
from pytest_tfperf.workers.processes import ForkServer, Interpreter, Process, start_process
from pytest_tfperf.workers.wire import Listener
from tests.helpers.patience import PATIENCE_SECONDS, wait_for
from tests.helpers.pythons import fake_python, fake_server

# A worker that starts a child, writes its pid, and ends with status 3 or not at all.
WORK = """
    def work(channel, message):
        child = subprocess.Popen(["sleep", "3600"])
        with open("child.new", "w") as file:
            file.write(str(child.pid))
        os.rename("child.new", "child")
        if message["ends"]:
            return 3
        time.sleep(3600)
"""
FRESH = WORK + "    sys.exit(work(*call_as_worker()))\n"

# The server says that both of its workers have one pid, and that the first has ended.
ONE_PID_FOR_ALL = """
    channel = call()
    channel.send({"hello": "server"})
    channel.send({"ready": True})
    number = channel.receive()["fork"]
    channel.send({"forked": 4711})
    channel.send({"exited": number, "status": 3})
    channel.receive()
    channel.send({"forked": 4711})
    channel.receive()
"""


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Workers:
    """Starts servers and workers in a folder."""

    def __init__(self, folder: Path, end: ExitStack) -> None:
        self._folder = folder
        self._end = end
        self._listener = end.enter_context(closing(Listener()))

    def server(self, python: str, silence_seconds: float = 60.0) -> ForkServer:
        server = ForkServer(Interpreter(python), self._listener, self._folder / "server.log", silence_seconds)
        return self._end.enter_context(closing(server))

    def forked(self, *, ends: bool, script: str = WORK) -> Process:
        return self.forked_from(self.server(fake_server(self._folder, script)), ends=ends)

    def forked_from(self, server: ForkServer, *, ends: bool = False) -> Process:
        worker = server.fork(1)
        self._send_message(ends)
        return worker

    def fresh(self, *, ends: bool) -> Process:
        interpreter = Interpreter(fake_python(self._folder, FRESH))
        worker = start_process(interpreter, "worker", self._listener, self._folder / "worker.log", 1)
        self._end.callback(worker.end)
        self._send_message(ends)
        return worker

    def _send_message(self, ends: bool) -> None:
        log, environment = str(self._folder / "worker.log"), dict(os.environ)
        [channel] = self._listener.wait_for_all([{"hello": "worker", "number": 1}], PATIENCE_SECONDS)
        self._end.enter_context(closing(channel))
        channel.send({"log": log, "environment": environment, "import_paths": [], "moved": {}, "ends": ends})

    def child(self) -> int:
        """The pid of a worker's child, once it is there; it ends with the test."""
        assert wait_for((self._folder / "child").exists)
        pid = int((self._folder / "child").read_text())
        self._end.callback(lambda: os.kill(pid, signal.SIGKILL) if runs(pid) else None)
        return pid


@pytest.fixture
def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as end:
        yield Workers(tmp_path, end)


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whose groups the driver kills; they live on."""
    found: list[int] = []
    monkeypatch.setattr(process_end, "kill_group", found.append)
    return found


START = pytest.mark.parametrize("start", [Workers.forked, Workers.fresh], ids=["forked", "fresh"])


@START
@pytest.mark.parametrize(("ends", "status"), [(True, 3), (False, -signal.SIGKILL)])
def test_a_worker_ends_with_its_own_status_or_is_killed_and_its_children_with_it(
    workers: Workers, start: Callable[..., Process], ends: bool, status: int
) -> None:
    worker = start(workers, ends=ends)
    child = workers.child()
    if not ends:
        assert worker.exit_status(0) is None
        worker.end()
    assert worker.exit_status(PATIENCE_SECONDS) == status
    assert wait_for(lambda: not runs(child))


@START
def test_the_pid_of_a_worker_that_ended_is_not_killed(
    workers: Workers, killed: list[int], start: Callable[..., Process]
) -> None:
    worker = start(workers, ends=True)
    workers.child()
    assert worker.exit_status(PATIENCE_SECONDS) == 3
    killed.clear()
    worker.end()
    assert killed == []


def test_a_workers_children_end_after_the_server_was_killed(workers: Workers) -> None:
    server = workers.server(fake_server(Path(), WORK))
    worker = workers.forked_from(server)
    child = workers.child()
    os.kill(server.process.pid, signal.SIGKILL)
    worker.end()
    assert wait_for(lambda: not runs(child))


def test_a_workers_children_end_though_the_drivers_death_interrupts_the_killing(workers: Workers) -> None:
    """The driver's connection closes first, and then the kernel's signal comes."""
    script = """
    kill_group = os.killpg

    def interrupted(pid, by):
        os.kill(os.getpid(), signal.SIGHUP)
        kill_group(pid, by)

    os.killpg = interrupted
    """
    server = workers.server(fake_server(Path(), script + WORK))
    workers.forked_from(server)
    child = workers.child()
    server.close()
    assert wait_for(lambda: not runs(child))


def test_a_server_kills_a_group_before_the_pid_of_its_leader_is_free(workers: Workers) -> None:
    script = """
    kill_group = os.killpg

    def noting(pid, by):
        with open("held", "a") as file:
            file.write("yes" if os.path.exists(f"/proc/{pid}") else "no")
        kill_group(pid, by)

    os.killpg = noting
    """
    workers.forked(ends=True, script=script + WORK).exit_status(PATIENCE_SECONDS)
    assert Path("held").read_text() == "yes"


def test_workers_with_one_pid_are_kept_apart(workers: Workers, killed: list[int]) -> None:
    server = workers.server(fake_python(Path(), ONE_PID_FOR_ALL))
    first, second = (server.fork(number) for number in (1, 2))
    assert (first.exit_status(PATIENCE_SECONDS), second.exit_status(0.01)) == (3, None)
    first.end()
    assert killed == [], "the pid is the second's now"


# Servers that fail


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("print('no disk'); sys.exit(3)", r"fork server exited with status 3; .*\n  \| no disk\n.*--tfperf-worker="),
        ("call().send({'hello': 'server'})", "fork server exited with status 0"),
        (
            "c = call(); c.send({'hello': 'server'}); c.send({'failed': 'ImportError: no such library'}); c.receive()",
            r"python can't import TensorFlow: ImportError: no such library\n.*-m pip install --upgrade tensorflow",
        ),
    ],
    ids=["ends at once", "ends after its call", "no TensorFlow"],
)
def test_a_server_that_can_not_start_says_why(workers: Workers, script: str, message: str) -> None:
    with pytest.raises(MeasurementError, match=f"(?s){message}"):
        workers.server(fake_python(Path(), script))


def test_a_server_that_refuses_to_fork_names_the_other_way(workers: Workers) -> None:
    script = """
    channel = call()
    channel.send({'hello': 'server'})
    channel.send({'ready': True})
    channel.receive()
    channel.send({'refused': 'the fork server has /dev/nvidia0 open'})
    channel.receive()
    """
    server = workers.server(fake_python(Path(), script))
    with pytest.raises(MeasurementError, match="/dev/nvidia0 open; use --tfperf-worker=fresh"):
        server.fork(1)


@pytest.mark.parametrize(
    "call", ["", "c = call(); c.send({'hello': 'server'})"], ids=["before its call", "in its import"]
)
def test_a_server_that_is_stopped_while_it_starts_is_killed(
    call: str, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It held a session for five minutes."""
    monkeypatch.setattr(processes, "_LEAST_ANSWER_SECONDS", 1.0)
    script = f"{call}\nopen('pid', 'w').write(str(os.getpid()))\nos.kill(os.getpid(), signal.SIGSTOP)"
    with pytest.raises(MeasurementError, match="the fork server did not answer for 1 s and was killed"):
        workers.server(fake_python(Path(), script), silence_seconds=1.0)
    assert not runs(int(Path("pid").read_text()))


def test_a_server_that_works_may_import_for_longer(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_LEAST_ANSWER_SECONDS", 1.0)
    script = """
    channel = call()
    channel.send({'hello': 'server'})
    while time.process_time() < 2.5:
        pass
    channel.send({'ready': True})
    channel.receive()
    """
    assert not workers.server(fake_python(Path(), script), silence_seconds=1.0).has_ended()


def test_a_server_that_was_killed_can_not_fork(workers: Workers) -> None:
    server = workers.server(fake_server(Path(), WORK))
    os.kill(server.process.pid, signal.SIGKILL)
    assert wait_for(server.has_ended)
    with pytest.raises(MeasurementError, match="the fork server was ended by SIGKILL"):
        server.fork(1)
