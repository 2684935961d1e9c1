"""A worker process of a training run, and the driver's channel to it."""

from __future__ import annotations

import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.failures import Failures, read_end
from pytest_tfperf.workers.interpreters import require_usable_import
from pytest_tfperf.workers.processes import Process
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Silence

Progress = Callable[[str], None]
"""Takes the name of each phase of a worker's start: "start", "devices", "model", "input pipeline", "compile"."""

# A busy machine lets a worker write its stacks late; a worker that hangs in a driver writes none.
_STACKS_SECONDS = 3.0


class Fault(IntEnum):
    """The way in which a worker failed. If several ranks fail, the rank with the lowest value is to blame."""

    RAISED = 0
    LOST = 1
    SILENT = 2
    PEER = 3  # it raised because it missed another rank


class WorkerRun:
    """A worker process of a `TrainingRun`.

    Args:
        process: the worker; it may not have called yet.
        log: its log file.
        scratch: folder of its temporary files, removed at the end; None if it has none here. TensorFlow writes a file
            for each function that it compiles, and removes them in an exit handler, which a killed worker never runs.
        python: the interpreter that it runs under, for messages.
        on_cpus: it has no GPUs.
        silence_seconds: a worker that sends nothing for this long is taken to hang, and is killed.
        on_hang: called when the worker hung.
        name: the worker's name in messages.

    Attributes:
        channel: the connection to it, once it has called.
        fault: the way in which it failed; None if it has not.
        silence_seconds: the most that it may send nothing now.
    """

    def __init__(
        self,
        process: Process,
        log: Path,
        scratch: Path | None,
        *,
        python: str,
        on_cpus: bool,
        silence_seconds: float,
        on_hang: Callable[[], None] = lambda: None,
        name: str = "the worker",
    ) -> None:
        self.log = str(log)
        self._process = process
        self.name = name
        self._python = python
        self.silence_seconds = silence_seconds
        self._timeout_seconds = silence_seconds
        self._on_hang = on_hang
        self._failures = Failures(process.pid, log, on_cpus=on_cpus, name=name)
        self._phase = "start"
        self._progress: Progress = lambda _: None
        self.fault: Fault | None = None
        self._end = ExitStack()
        if scratch is not None:
            self._end.callback(shutil.rmtree, scratch, ignore_errors=True)
        self._end.callback(process.end)

    def adopt(self, channel: Channel, message: Mapping[str, Any], progress: Progress) -> None:
        """Take over the channel on which the worker has called, and send it the message with its job."""
        self.channel = channel
        self._progress = progress
        self._end.callback(channel.close)
        self.send(message)

    def has_ended(self) -> bool:
        """Whether its process is gone."""
        return self._process.exit_status(0) is not None

    def begin(self, phase: str, silence_seconds: float = math.inf) -> None:
        """Note the worker's phase from now on, in which it may send nothing for at most this long."""
        self._phase = phase
        self.silence_seconds = min(self._timeout_seconds, silence_seconds)

    @property
    def pids(self) -> tuple[int, ...]:
        """Its process id; nothing if it runs on another machine."""
        return (self._process.pid,) if self._process.is_here else ()

    def close(self) -> None:
        """End it and all that it started; never raises."""
        self._end.close()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send it a message. If the worker is gone, the next read raises the error that says why."""
        with suppress(ConnectionLost):
            self.channel.send(message)

    def poll(self) -> dict[str, Any] | None:
        """The answer that has arrived; None if it is incomplete, or a phase of the start.

        Raises:
            MeasurementError: as `TrainingRun.receive`, except that silence is no error.
        """
        try:
            message = self.channel.receive(0)
        except Silence:
            return None
        except ConnectionLost:
            raise self.lost(5) from None
        try:
            require_usable_import(message, self._python)
        except MeasurementError:
            self.fault = Fault.RAISED
            raise
        if "error" in message:
            self.fault = Fault.PEER if message["error"].get("about_a_peer") else Fault.RAISED
            raise self._failures.raised(message["error"], self._phase)
        if "phase" in message:
            self._phase = message["phase"]
            self._progress(self._phase)
            return None
        return message

    def silent(self, seconds: float | None = None) -> MeasurementError:
        """The error for a worker that was silent for `seconds`, or for as long as it may be."""
        self.fault = Fault.SILENT
        stacks = self._stacks() if self._process.is_here and self._process.exit_status(0) is None else ""
        self._on_hang()
        silence = self.silence_seconds if seconds is None else seconds
        by_setting = self.silence_seconds == self._timeout_seconds
        return self._failures.hung(silence, self._phase, stacks, by_setting=by_setting)

    def lost(self, seconds: float = 0) -> MeasurementError:
        """The error for a worker whose connection broke; waits up to `seconds` for its exit status."""
        self.fault = Fault.LOST
        return self._failures.died(self._process.exit_status(seconds), self._phase)

    def _stacks(self) -> str:
        """Make faulthandler add every thread's stack to the log; returns the stacks."""
        log = Path(self.log)
        begin = log.stat().st_size if log.exists() else 0
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid, signal.SIGUSR1)
        stacks, deadline = "", time.monotonic() + _STACKS_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.1)
            before, stacks = stacks, read_end(log, begin)
            if stacks and stacks == before:
                break
        return stacks
