"""How local worker processes come to be and how they end: forked from the fork server, or fresh interpreters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.failures import log_end
from pytest_tfperf.workers.interpreters import refuse_tensorflow
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Silence

_PACKAGE = Path(__file__).parent.parent

# Runs a module of this very package under any Python, without putting what lies beside the package on its path.
_BOOTSTRAP = """
import importlib.util, runpy, sys
spec = importlib.util.spec_from_file_location("pytest_tfperf", sys.argv[1])
sys.modules["pytest_tfperf"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
runpy.run_module(sys.argv[2], run_name="__main__")
"""

_IMPORT_SECONDS = 300  # importing TensorFlow from a cold network disk has been seen to take minutes

_DEATH_SECONDS = 5  # one that hangs in a driver dies when the driver lets it


class WorkerProcess(Protocol):
    """A worker as a process: it can be waited for and killed."""

    pid: int

    def exit_status(self, timeout_seconds: float) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""

    def end(self) -> None:
        """Kill it, unless it has ended, and what it left in its group; never raises."""


class Spawner(Protocol):
    """Makes worker processes."""

    def spawn(self, job: dict[str, Any]) -> WorkerProcess:
        """A process that is about to call the driver; `job` is what `training.worker.work` takes."""

    @property
    def gone(self) -> bool:
        """Whether no worker can come from it any more."""

    def close(self) -> None:
        """End what was made; never raises."""


class ForkServer:
    """`training.server` as a process of its own; imports TensorFlow when the first worker is asked for."""

    def __init__(self, python: str, listener: Listener, log: Path, folder: Path | None = None) -> None:
        self._python = python
        self._log = log
        self._statuses: dict[int, int] = {}  # by the job's number: pids are used again
        self._lost = False
        self._process = _run_module(python, "pytest_tfperf.training.server", listener, log, folder=folder)
        try:
            self._channel = self._await_call(listener)
        except BaseException:
            _end(self._process)
            raise
        try:
            self._await("ready", _IMPORT_SECONDS)
        except BaseException:
            self._channel.close()
            _end(self._process)
            raise

    def spawn(self, job: dict[str, Any]) -> _Forked:
        """Fork a worker, within milliseconds.

        Raises:
            MeasurementError: the server is gone, or holds a GPU open.
        """
        try:
            self._channel.send(job)
        except ConnectionLost:
            raise self._gone() from None
        return _Forked(self, int(self._await("forked", 60)), job["number"])

    @property
    def gone(self) -> bool:
        """Whether the server has ended, killed by somebody or by the kernel for its memory, or fell silent."""
        return self._lost or self._process.poll() is not None

    def status_of(self, number: int, timeout_seconds: float) -> int | None:
        """The exit code of the worker that the server forked for this job; None too where the server is gone."""
        deadline = time.monotonic() + timeout_seconds
        while number not in self._statuses:
            try:
                message = self._channel.receive(max(0.001, deadline - time.monotonic()))
            except (Silence, ConnectionLost):
                return None
            self._note_exit(message)
        return self._statuses[number]

    def kill(self, number: int) -> None:
        """Have the server kill this job's worker and its group: it alone knows whether the pid is still the worker's.

        What a worker that has ended left in its group was killed then.
        """
        with suppress(ConnectionLost):
            self._channel.send({"kill": number})

    def close(self) -> None:
        """Hang up: the server kills its workers and leaves; one that does not is killed."""
        self._channel.close()
        try:
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            _end(self._process)

    def _await_call(self, listener: Listener) -> Channel:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                channel, _ = listener.greet(0.2)
            except Silence:
                if self._process.poll() is not None:
                    raise self._gone() from None
            else:
                return channel
        raise self._gone()

    def _await(self, key: str, timeout_seconds: float) -> Any:
        while True:
            try:
                message = self._channel.receive(timeout_seconds)
            except ConnectionLost:
                raise self._gone() from None
            except Silence:
                # Were it to wake up and answer now, each later answer would be taken for that of the next request.
                error = self._gone()
                self._lost = True
                _end(self._process)
                raise error from None
            if key in message:
                return message[key]
            refuse_tensorflow(message, self._python)
            if "refused" in message:
                raise MeasurementError(message["refused"] + "; use --tfperf-worker=fresh")
            self._note_exit(message)

    def _note_exit(self, message: dict[str, Any]) -> None:
        if "exited" in message:
            self._statuses[message["exited"]] = message["status"]

    def _gone(self) -> MeasurementError:
        status = self._process.poll()
        state = "does not answer" if status is None else describe_exit(status)
        return MeasurementError(
            f"the fork server {state}; the end of its log ({self._log}):\n{log_end(self._log)}\n"
            "Workers can start without it: --tfperf-worker=fresh"
        )


class FreshInterpreters:
    """A new Python for each worker: slower to start, shares nothing with the one before."""

    def __init__(self, python: str, listener: Listener, folder: Path | None = None) -> None:
        self._python = python
        self._listener = listener
        self._folder = folder
        self._workers: list[_Fresh] = []

    def spawn(self, job: dict[str, Any]) -> _Fresh:
        """Start an interpreter that will import TensorFlow and then work."""
        process = _run_module(
            self._python,
            "pytest_tfperf.training.fresh",
            self._listener,
            Path(job["log"]),
            json.dumps(job),
            self._folder,
        )
        self._workers.append(_Fresh(process))
        return self._workers[-1]

    @property
    def gone(self) -> bool:
        """Never: each worker has its own."""
        return False

    def close(self) -> None:
        """Kill what still runs."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()


class _Forked:
    def __init__(self, server: ForkServer, pid: int, number: int) -> None:
        self._server = server
        self._number = number
        self.pid = pid

    def exit_status(self, timeout_seconds: float) -> int | None:
        return self._server.status_of(self._number, timeout_seconds)

    def end(self) -> None:
        if self.exit_status(0.001) is not None:
            return
        self._server.kill(self._number)
        if self.exit_status(_DEATH_SECONDS) is None:
            # The server is gone, and its workers with it, or it hangs. Nobody else kills what the worker left.
            kill_group(self.pid)


class _Fresh:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    def exit_status(self, timeout_seconds: float) -> int | None:
        deadline = time.monotonic() + timeout_seconds
        while (status := self._ended()) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        return status

    def end(self) -> None:
        if self._ended() is None:
            kill_group(self.pid)
            self.exit_status(_DEATH_SECONDS)

    def _ended(self) -> int | None:
        """Its exit code, None while it runs. What it left in its group is killed before it is waited for.

        Until then its pid, and so its group's, is nobody else's.
        """
        if self._process.returncode is None:
            with suppress(ChildProcessError):  # somebody else in this process has waited for it
                if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                    return None
                kill_group(self.pid)
            self._process.wait()
        return self._process.returncode


def kill_group(pid: int) -> None:
    """SIGKILL to a process and to all that it started: TensorFlow's preemption notifier swallows SIGTERM."""
    for kill in (os.killpg, os.kill):  # the group is missing while a worker has not yet made its own
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started, unless it has ended: its number may be a stranger's by then."""
    if process.poll() is None:
        kill_group(process.pid)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_SECONDS)


def describe_exit(status: int) -> str:
    """An exit code in words; negative codes are signals."""
    if status >= 0:
        return f"exited with status {status}"
    known = {s.value: s.name for s in signal.Signals}  # real-time signals have no names
    name = known.get(-status, f"signal {-status}")
    hint = {
        signal.SIGKILL.value: "somebody's kill -9, or the kernel's out-of-memory killer: see dmesg",
        signal.SIGSEGV.value: "a crash in native code",
        signal.SIGABRT.value: "native code gave up",
    }.get(-status, "")
    return f"was ended by {name}" + (f" ({hint})" if hint else "")


def _run_module(
    python: str, module: str, listener: Listener, log: Path, stdin: str = "", folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """With a `folder`, it runs there, and PYTHONPATH, which would bring in this session's code, is not handed on."""
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "TFPERF_ADDRESS": str(listener.address),
        "TFPERF_PARENT": str(os.getpid()),
        # TensorFlow's start-up chatter hides the last words that matter in a log's tail.
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1"),
        "PYTHONDONTWRITEBYTECODE": os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
    }
    if folder is not None:
        environment.pop("PYTHONPATH", None)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [python, "-P", "-c", _BOOTSTRAP, str(_PACKAGE / "__init__.py"), module],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=folder,
            start_new_session=True,  # Ctrl-C in the terminal is pytest's to handle
        )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:  # who reads it may have ended
        process.stdin.write(stdin.encode())
    return process
