"""Worker processes: their start, forked or as fresh interpreters, and their end."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers import process_end
from pytest_tfperf.workers.failures import describe_exit, last_line, last_lines, read_end
from pytest_tfperf.workers.interpreters import IMPORT_SECONDS, Interpreter, require_usable_import
from pytest_tfperf.workers.wire import ConnectionLost, Listener, Silence

_ANSWER_SECONDS = 60.0
_LEAST_ANSWER_SECONDS = 10.0  # a busy machine may take seconds for what needs milliseconds

KILL_SECONDS = 60.0
"""The most that a killed process may take to end: the driver frees its GPU's memory, which the next worker needs."""


@dataclass(frozen=True, slots=True)
class Process:
    """A worker, a rank that an engine started, or the fork server.

    Args:
        pid: the id of the process and, where it is ended here, of its group; perhaps of another machine.
        exit_status: returns its exit status (negative for a signal), or None if it still runs after so many seconds;
            of a rank the engine's command's, where a rank's own is not known.
        is_here: whether the process id is of this machine.
        is_ended_here: False for a rank: it ends when its connection closes, and the engine ends ranks that do not.
    """

    pid: int
    exit_status: Callable[[float], int | None]
    is_here: bool = True
    is_ended_here: bool = True

    def end(self) -> None:
        """Kill it unless it has ended, with all that it started in its group, and wait for its end; never raises.

        As a client of MPS it gets time to end by itself, since its connection is closed.
        """
        if not self.is_ended_here:
            return
        # Once its end is known, its pid may belong to another process. Without the server, nobody else would kill it.
        if self.exit_status(process_end.MPS_END_SECONDS if process_end.mps_is_on() else 0) is None:
            process_end.end_mps_clients(self.pid)
            process_end.kill_group(self.pid)
            self.exit_status(KILL_SECONDS)


def start_process(interpreter: Interpreter, module: str, listener: Listener, log: Path, number: int = 0) -> Process:
    """Start a module of this package in a session of its own, so that only pytest gets Ctrl-C of the terminal.

    Its environment has the driver's address and the worker's number.
    """
    environment = {"TF_CPP_MIN_LOG_LEVEL": "1", **interpreter.environment(), "TFPERF_NUMBER": str(number)}
    environment |= {"TFPERF_ADDRESS": listener.address, "TFPERF_PARENT": str(os.getpid())}
    with log.open("ab") as output:
        process = subprocess.Popen(
            interpreter.command(module),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=interpreter.folder(),
            start_new_session=True,
        )
    return Process(process.pid, partial(_wait, process))


class ForkServer:
    """`training.server` as a process; it imports TensorFlow once and then forks a worker for each number.

    Args:
        interpreter: its Python.
        listener: where it calls.
        log: the file for its output.
        silence_seconds: it is killed as hung where it neither answers nor works for this long, for 10 to 60 s.

    Raises:
        MeasurementError: it did not start, or cannot import TensorFlow.
    """

    def __init__(
        self, interpreter: Interpreter, listener: Listener, log: Path, silence_seconds: float = _ANSWER_SECONDS
    ) -> None:
        self._python = interpreter.python
        self._silence_seconds = min(_ANSWER_SECONDS, max(_LEAST_ANSWER_SECONDS, silence_seconds))
        self._log = log
        self._statuses: dict[int, int] = {}  # by the worker's number, because the system reuses pids
        self.process = start_process(interpreter, "pytest_tfperf.training.server", listener, log)
        with ExitStack() as undo:
            undo.callback(self.process.end)
            try:
                channel = listener.wait_for({"hello": "server"}, self._silence_seconds, self.has_ended)
            except Silence:
                raise self._gone(0) from None
            except ConnectionLost:
                raise self._gone() from None
            self._channel = undo.enter_context(closing(channel))
            self._answer("ready", IMPORT_SECONDS)
            undo.pop_all()

    def has_ended(self) -> bool:
        """Whether the server is gone, and must be started anew."""
        return self.process.exit_status(0) is not None

    def fork(self, number: int) -> Process:
        """Fork the worker of this number, within milliseconds.

        When a worker ends, the server kills what is left in its group.

        Raises:
            MeasurementError: the server is gone, or holds a GPU open.
        """
        try:
            self._channel.send({"fork": number})
        except ConnectionLost:
            raise self._gone() from None
        pid = self._answer("forked", self._silence_seconds)
        return Process(pid, partial(self._exit_status, number))

    def close(self) -> None:
        """Close the connection: the server kills its workers and exits; it is killed if it does not."""
        self._channel.close()
        self.process.exit_status(0.5)
        self.process.end()

    def _exit_status(self, number: int, seconds: float) -> int | None:
        """The exit status of the worker of this number; None if it still runs or the server is gone."""
        deadline = time.monotonic() + seconds
        with suppress(Silence, ConnectionLost):
            while number not in self._statuses:
                self._note_exit(self._channel.receive(max(0.001, deadline - time.monotonic())))
        return self._statuses.get(number)

    def _answer(self, key: str, seconds: float) -> Any:
        """Wait for so many seconds, or until the server has done nothing meanwhile; kill it if it does not answer."""
        deadline = time.monotonic() + seconds
        while True:
            before = _work_done(self.process.pid)
            try:
                message = self._channel.receive(max(0.001, min(self._silence_seconds, deadline - time.monotonic())))
            except ConnectionLost:
                raise self._gone() from None
            except Silence:
                works = before is None or before != _work_done(self.process.pid)
                if works and time.monotonic() < deadline:
                    continue
                # A late answer would look like the answer to the next request.
                error = self._gone(0)
                self.process.end()
                raise error from None
            if key in message:
                return message[key]
            require_usable_import(message, self._python)
            if "refused" in message:
                raise MeasurementError(f"{message['refused']}; use --tfperf-worker=fresh")
            self._note_exit(message)

    def _note_exit(self, message: Mapping[str, Any]) -> None:
        if "exited" in message:
            self._statuses[message["exited"]] = message["status"]

    def _gone(self, seconds: float = 5.0) -> MeasurementError:
        status = self.process.exit_status(seconds)  # its connection closes before it has ended
        silent = f"did not answer for {self._silence_seconds:g} s and was killed"
        fact = f"the fork server {silent if status is None else describe_exit(status)}"
        log = read_end(self._log)
        return MeasurementError(
            f"{fact}; the end of its log ({self._log}):",
            *last_lines(log),
            "To start workers without it, use --tfperf-worker=fresh",
            brief=f"{fact}: {last_line(log)} ({self._log})",
        )


def _work_done(pid: int) -> tuple[str, ...] | None:
    """The page faults and the CPU time of a process so far; None where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[7], fields[9], fields[11], fields[12]


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    if process.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            process_end.kill_group(process.pid)  # at once: no other process has this number yet
    return process.returncode
