"""Ending workers: all that they left in their group, and never a pid that may be a stranger's by then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pythons import played, serving

from pytest_tfperf.workers import processes
from pytest_tfperf.workers.processes import ForkServer, FreshInterpreters, Spawner, WorkerProcess
from pytest_tfperf.workers.wire import Listener

PATIENT = 60

# A worker in a group of its own that starts a child, says who it is, and ends with status 3 or not at all.
WORK = """
    def work(channel, job):
        child = subprocess.Popen(["sleep", "3600"])
        os.rename(note(child.pid), "child")
        if job["ends"]:
            return 3
        time.sleep(3600)

    def note(pid):
        with open("child.new", "w") as file:
            file.write(str(pid))
        return file.name
"""

# The same as a fresh interpreter; `-P` and the rest of its arguments are for another one.
FRESH = WORK + "    sys.exit(work(None, json.load(sys.stdin)))\n"

# What the server says when it forks, or its worker ends, with pids that come again at once.
ONE_PID_FOR_ALL = """
    channel = call()
    channel.send({"hello": "server"})
    channel.send({"ready": True})
    job = channel.receive()
    channel.send({"forked": 4711})
    channel.send({"exited": job["number"], "status": 3})
    channel.receive()
    channel.send({"forked": 4711})
    channel.receive()
"""


def runs(pid: int) -> bool:
    """Whether it does; who inherited it may not have waited for it."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def in_time(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


class Place:
    """A folder, which its workers are in too, and what was started there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listener = Listener()
        self._started: list[Spawner] = []
        self._jobs = 0

    def server(self, python: str) -> ForkServer:
        made = ForkServer(python, self._listener, self._folder / "server.log")
        self._started.append(made)
        return made

    def fresh(self, python: str) -> FreshInterpreters:
        made = FreshInterpreters(python, self._listener)
        self._started.append(made)
        return made

    def job(self, *, ends: bool) -> dict[str, Any]:
        self._jobs += 1
        log = str(self._folder / "worker.log")
        return {"number": self._jobs, "log": log, "environment": dict(os.environ), "import_paths": [], "ends": ends}

    def child(self) -> int:
        """The pid of a worker's child, once it is there."""
        path = self._folder / "child"
        assert in_time(path.exists)
        return int(path.read_text())

    def close(self) -> None:
        for spawner in self._started:
            spawner.close()
        self._listener.close()
        if (self._folder / "child").exists() and runs(self.child()):
            os.kill(self.child(), signal.SIGKILL)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.chdir(tmp_path)
    made = Place(tmp_path)
    yield made
    made.close()


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Whom the driver itself kills, which then lives on."""
    found: list[int] = []
    monkeypatch.setattr(processes, "kill_group", found.append)
    return found


def forked(place: Place, *, ends: bool, script: str = WORK) -> WorkerProcess:
    return place.server(serving(Path(), script)).spawn(place.job(ends=ends))


def fresh(place: Place, *, ends: bool) -> WorkerProcess:
    return place.fresh(played(Path(), FRESH)).spawn(place.job(ends=ends))


@pytest.mark.parametrize("start", [forked, fresh])
@pytest.mark.parametrize(("ends", "status"), [(True, 3), (False, -signal.SIGKILL)])
def test_a_worker_has_its_own_status_or_is_killed(
    place: Place, start: Callable[..., WorkerProcess], ends: bool, status: int
) -> None:
    worker = start(place, ends=ends)
    place.child()
    if not ends:
        worker.end()
    assert worker.exit_status(PATIENT) == status


@pytest.mark.parametrize("start", [forked, fresh])
@pytest.mark.parametrize("ends", [True, False])
def test_what_a_worker_left_ends_with_it(place: Place, start: Callable[..., WorkerProcess], ends: bool) -> None:
    worker = start(place, ends=ends)
    child = place.child()
    if ends:
        worker.exit_status(PATIENT)
    worker.end()
    assert in_time(lambda: not runs(child))


def test_a_running_worker_is_killed_by_its_server_alone(place: Place, killed: list[int]) -> None:
    worker = forked(place, ends=False)
    place.child()
    worker.end()
    assert killed == []


@pytest.mark.parametrize("start", [forked, fresh])
def test_the_pid_of_a_worker_that_ended_is_killed_by_nobody(
    place: Place, killed: list[int], start: Callable[..., WorkerProcess]
) -> None:
    worker = start(place, ends=True)
    assert worker.exit_status(PATIENT) == 3
    killed.clear()
    worker.end()
    assert killed == []


def test_a_worker_that_will_not_die_is_killed_once_and_left_alone(
    place: Place, killed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_DEATH_SECONDS", 0.01)
    worker = fresh(place, ends=False)
    worker.end()
    assert killed == [worker.pid]
    os.killpg(worker.pid, signal.SIGKILL)
    worker.exit_status(PATIENT)


def test_a_server_kills_a_group_before_it_waits_for_its_leader(place: Place) -> None:
    script = """
    kill_group = os.killpg

    def note_whether_it_is_there(pid, signal):
        with open("held", "a") as file:
            file.write("yes" if os.path.exists(f"/proc/{pid}") else "no")
        kill_group(pid, signal)

    os.killpg = note_whether_it_is_there
    """
    worker = forked(place, ends=True, script=script + WORK)
    worker.exit_status(PATIENT)
    assert Path("held").read_text() == "yes"


def test_a_fresh_workers_group_is_killed_before_it_is_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    monkeypatch.setattr(processes, "kill_group", lambda pid: found.append(Path(f"/proc/{pid}").exists()))
    fresh(place, ends=True).exit_status(PATIENT)
    assert found == [True]


def test_what_a_worker_left_ends_though_the_server_was_killed(place: Place) -> None:
    server = place.server(serving(Path(), WORK))
    worker = server.spawn(place.job(ends=False))
    child = place.child()
    server._process.kill()
    worker.end()
    assert in_time(lambda: not runs(child))


def test_what_a_worker_left_ends_though_the_drivers_death_is_told_twice(place: Place) -> None:
    """Its connection closes, and then comes the kernel's signal, which can be in mid-killing."""
    script = """
    kill_group = os.killpg

    def hang_up_first(pid, by):
        os.kill(os.getpid(), signal.SIGHUP)
        kill_group(pid, by)

    os.killpg = hang_up_first
    """
    server = place.server(serving(Path(), script + WORK))
    server.spawn(place.job(ends=False))
    child = place.child()
    server.close()
    assert in_time(lambda: not runs(child))


def test_a_server_whose_driver_hung_up_leaves_without_exit_handlers(place: Place) -> None:
    """TensorFlow's take seconds on a busy machine."""
    server = place.server(serving(Path(), WORK + "    import atexit\n    atexit.register(open, 'tidied', 'w')\n"))
    server._channel.close()
    server._process.wait(PATIENT)
    assert not Path("tidied").exists()


# Pids that come again


def test_a_worker_with_an_earlier_ones_pid_has_no_status_yet(place: Place) -> None:
    server = place.server(played(Path(), ONE_PID_FOR_ALL))
    first, second = (server.spawn(place.job(ends=False)) for _ in range(2))
    assert (first.exit_status(PATIENT), second.exit_status(0.01)) == (3, None)


def test_ending_the_first_of_two_with_one_pid_kills_nobody(place: Place, killed: list[int]) -> None:
    server = place.server(played(Path(), ONE_PID_FOR_ALL))
    first, _ = (server.spawn(place.job(ends=False)) for _ in range(2))
    first.end()
    assert killed == []
