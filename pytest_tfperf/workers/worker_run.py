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

from pytest_tfperf.errors import (
    DeviceFailed,
    FunctionMissing,
    Hung,
    MeasurementError,
    NotEnoughDevices,
    OutOfMemory,
    UserCodeFailed,
)
from pytest_tfperf.lines import Line
from pytest_tfperf.workers import failures
from pytest_tfperf.workers.process_end import kernel_oom_kills
from pytest_tfperf.workers.processes import Process, require_usable_import
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Silence

Progress = Callable[[str], None]
"""Takes the name of each phase of a worker's start: "start", "devices", "model", "input pipeline", "compile"."""

# A busy machine lets a worker write its stacks late; a worker that hangs in a driver writes none.
_STACKS_SECONDS = 3.0

_THE_WORKER = "the worker"


class Fault(IntEnum):
    """The way in which a worker failed. If several ranks fail, the rank with the lowest value is to blame."""

    RAISED = 0
    LOST = 1
    SILENT = 2
    PEER = 3  # it raised because it missed another rank


class WorkerRun:
    """A worker process of a `TrainingRun`.

    Args:
        scratch: folder of its temporary files, removed at the end; None if it has none here. TensorFlow writes a file
            for each function that it compiles, and removes them in an exit handler, which a killed worker never runs.
        message: with its job, for when it has called.
        silence_seconds: a worker that sends nothing for this long is taken to hang, and is killed.
    """

    def __init__(
        self,
        process: Process,
        log: Path,
        scratch: Path | None,
        message: Mapping[str, Any],
        *,
        python: str,
        on_cpus: bool,
        silence_seconds: float,
        on_hang: Callable[[], None] = lambda: None,
        name: str = _THE_WORKER,
        oom_kills: Callable[[], int] = kernel_oom_kills,
    ) -> None:
        self.log = str(log)
        self._process = process
        self._message = message
        self.name = name
        self._python = python
        self.silence_seconds = silence_seconds  # the most that it may send nothing now
        self._timeout_seconds = silence_seconds
        self._on_hang = on_hang
        self._on_cpus = on_cpus
        self._oom_kills, self._oom_kills_before = oom_kills, oom_kills()
        self._phase = "start"
        self._progress: Progress = lambda _: None
        self.fault: Fault | None = None  # None if it has not failed
        self._end = ExitStack()
        if scratch is not None:
            self._end.callback(shutil.rmtree, scratch, ignore_errors=True)
        self._end.callback(process.end)

    def adopt(self, channel: Channel, progress: Progress) -> None:
        """Take over the channel on which the worker has called, and send it its message."""
        self.channel = channel
        self._progress = progress
        self._end.callback(channel.close)
        self.send(self._message)

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
            raise self.raised(message["error"])
        if "phase" in message:
            self._phase = message["phase"]
            self._progress(self._phase)
            return None
        return message

    def raised(self, error: Mapping[str, Any]) -> MeasurementError:
        """The error for a worker that sent an `error` message and ended."""
        message, phase = error["message"], repr(self._phase)
        text = f"{self._log_text()}\n{message}" if "DNN" in message else message
        hint = error["hint"] or failures.hint_of(text)
        hint = hint or failures.hint_of_full(message) or failures.hint_of_status(message)
        kind: type[MeasurementError] = UserCodeFailed
        if error["out_of_memory"]:
            kind = OutOfMemory
        elif error.get("missing"):
            kind = FunctionMissing
        elif hint:
            kind = DeviceFailed
        elif error["type"] == NotEnoughDevices.__name__:
            kind = MeasurementError
        if not error["ours"]:
            why = failures.first_line(message)
            text = f"{self.name} raised {error['type']} in phase {phase}" + (f": {why}" if why else "")
            return kind(f"{text}{hint}", *self._log_end())
        # Our own errors are complete. The log adds something only if it shows a line of the user's code.
        first = message if self.name == _THE_WORKER else f"{self.name}: {message}"
        heading, *end = self._log_end()
        shows_user_code = failures.user_frames(line.text for line in end)
        below = [*error["below"], *([heading, *end] if shows_user_code else [Line(f"its log: {self.log}")])]
        if next_step := error.get("next_step", ""):
            return kind(first, *below, next_step=f"{next_step} (in phase {phase})")
        return kind(f"{first} (in phase {phase}){hint}", *below)

    def lost(self, seconds: float = 0) -> MeasurementError:
        """The error for a worker whose connection broke; waits up to `seconds` for its exit status."""
        self.fault = Fault.LOST
        kind: type[MeasurementError] = MeasurementError
        status = self._process.exit_status(seconds)
        status = None if status is None else failures.as_signal(status)
        how = "closed its connection" if status is None else failures.describe_exit(status)
        log = self._log_text()
        is_counted = status == -signal.SIGKILL and self._oom_kills() > self._oom_kills_before
        if is_counted or status == failures.OUT_OF_MEMORY:
            kind, how = OutOfMemory, failures.describe_exit(failures.OUT_OF_MEMORY)
        elif status in (-signal.SIGABRT, -signal.SIGSEGV) and failures.lacked_memory(log):
            kind = OutOfMemory
        fact = f"{self.name} (pid {self._process.pid}) {how} in phase {self._phase!r}"
        hint = "" if self._on_cpus else failures.hint_of(log)
        if kind is MeasurementError:
            hint = hint or failures.hint_of_full(log) or ("" if self._on_cpus else failures.hint_of_status(log))
            kind = DeviceFailed if hint else kind
        return kind(fact + hint, *self._log_end(), brief=f"{fact}: {failures.last_line(log)} ({self.log})")

    def silent(self, seconds: float | None = None) -> Hung:
        """The error for a worker that was silent for `seconds`, or for as long as it may be."""
        self.fault = Fault.SILENT
        # faulthandler adds the stacks of all threads to the log.
        stacks = self._stacks() if self._process.is_here and self._process.exit_status(0) is None else ""
        self._on_hang()
        silence = self.silence_seconds if seconds is None else seconds
        is_by_setting = self.silence_seconds == self._timeout_seconds
        limit = "; ini value tfperf_timeout sets a longer limit" if is_by_setting else ""
        lines = []
        if frames := failures.user_frames(stacks.splitlines()):
            lines = ["its threads were in these lines of your code:", *(f"  {frame}" for frame in frames)]
        before = f"the end of its log ({self.log}){', before its threads wrote their stacks' if stacks else ''}:"
        text = self._log_text().removesuffix(stacks)
        who = f"{self.name} (pid {self._process.pid})"
        fact = f"{who} said nothing for {silence:g} s in phase {self._phase!r} and was killed{limit}"
        return Hung(fact, *lines, before, *failures.last_lines(text, on_cpus=self._on_cpus))

    def _log_text(self) -> str:
        return failures.read_end(Path(self.log))

    def _log_end(self) -> list[Line]:
        """A heading, and the last lines."""
        last = failures.last_lines(self._log_text(), on_cpus=self._on_cpus)
        return [Line(f"the end of its log ({self.log}):"), *last]

    def _stacks(self) -> str:
        """Make faulthandler add every thread's stack to the log; returns the stacks."""
        log = Path(self.log)
        begin = log.stat().st_size if log.exists() else 0
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid, signal.SIGUSR1)
        stacks, deadline = "", time.monotonic() + _STACKS_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.1)
            before, stacks = stacks, failures.read_end(log, begin)
            if stacks and stacks == before:
                break
        return stacks
