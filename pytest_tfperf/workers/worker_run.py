"""A training run in one worker process that the driver talks to over a channel."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.step_profile import StepProfile
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.failures import Failures, read_end
from pytest_tfperf.workers.interpreters import require_usable_import
from pytest_tfperf.workers.launcher import Progress
from pytest_tfperf.workers.wire import ConnectionLost, Listener, Silence

# A busy machine lets a worker write its stacks late; a worker that hangs in a driver writes none.
_STACKS_SECONDS = 3.0

# The windows are measured by then: a pipeline that ends or stalls in the profile must not delay the session.
_PROFILE_SECONDS = 60.0


class WorkerProcess(Protocol):
    """A worker's process, as its launcher handles it."""

    @property
    def pid(self) -> int:
        """Its process id, for messages and signals."""

    def exit_status(self, timeout_seconds: float, /) -> int | None:
        """Its exit status, negative for a signal; None if it still runs after the time-out."""

    def end(self) -> None:
        """Kill it unless it has ended, with all that it started, and wait until it is gone; never raises."""


class WorkerRun:
    """A `TrainingRun` in one worker process.

    Args:
        process: the worker; it may not have called yet.
        log: its log file.
        scratch: folder of its temporary files, removed at the end. TensorFlow writes a file for each function that it
            compiles and removes them in an exit handler, which a killed worker never runs.
        python: the interpreter that it runs under, for messages.
        on_cpus: it has no GPUs.
        silence_seconds: if it sends nothing for so long it hangs, and is killed.
        on_hang: called when it hung.
    """

    def __init__(
        self,
        process: WorkerProcess,
        log: Path,
        scratch: Path,
        *,
        python: str,
        on_cpus: bool,
        silence_seconds: float,
        on_hang: Callable[[], None] = lambda: None,
    ) -> None:
        self.log = str(log)
        self._process = process
        self._python = python
        self._silence_seconds = silence_seconds
        self._on_hang = on_hang
        self._failures = Failures(process.pid, log, on_cpus=on_cpus)
        self._phase = "start"
        self._end = ExitStack()
        self._end.callback(shutil.rmtree, scratch, ignore_errors=True)
        self._end.callback(process.end)

    def prepare(self, listener: Listener, number: int, message: Mapping[str, Any], progress: Progress) -> None:
        """Wait until the worker of this number has called, send it the message, and wait for its compiled step.

        Raises:
            MeasurementError: as `TrainingRun.receive`.
        """
        try:
            self._channel = listener.wait_for(
                {"hello": "worker", "number": number},
                self._silence_seconds,
                lambda: self._process.exit_status(0) is not None,
            )
            self._end.callback(self._channel.close)
            self._channel.send(message)
        except Silence:
            raise self._silent() from None
        except ConnectionLost:
            raise self._failures.died(self._process.exit_status(0), self._phase) from None
        while "ready" not in (answer := self._next()):
            if "phase" in answer:
                self._phase = answer["phase"]
                progress(self._phase)
        ready = answer["ready"]
        self.images_per_step: int = ready["images_per_step"]
        self.compile_seconds: float = ready["compile_seconds"]
        self.fetches: bool = ready["fetches"]
        self.environment: Mapping[str, str] = ready["environment"]
        self._phase = "steps"

    def request(self, steps: int) -> None:
        """See `TrainingRun.request`."""
        self._send({"steps": steps})

    def receive(self) -> Window:
        """See `TrainingRun.receive`."""
        window = self._next()["window"]
        return Window(steps=window["steps"], seconds=window["seconds"], loss=window["loss"])

    def profile_step(self, *, matrix_products: bool, multiply_adds: bool) -> StepProfile:
        """See `TrainingRun.profile_step`."""
        self._phase, self._silence_seconds = "step profile", min(self._silence_seconds, _PROFILE_SECONDS)
        self._send({"profile_step": {"matrix_products": matrix_products, "multiply_adds": multiply_adds}})
        while "step_profile" not in (message := self._next()):
            pass  # the window that was still queued
        return build(StepProfile, message["step_profile"], "step profile")

    def close(self) -> None:
        """See `TrainingRun.close`."""
        self._end.close()

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(ConnectionLost):  # the next `receive` explains why
            self._channel.send(message)

    def _next(self) -> dict[str, Any]:
        try:
            message = self._channel.receive(self._silence_seconds)
        except Silence:
            raise self._silent() from None
        except ConnectionLost:
            raise self._failures.died(self._process.exit_status(5), self._phase) from None
        require_usable_import(message, self._python)
        if "error" in message:
            raise self._failures.raised(message["error"], self._phase)
        return message

    def _silent(self) -> MeasurementError:
        stacks = self._stacks() if self._process.exit_status(0) is None else ""
        self._on_hang()
        return self._failures.hung(self._silence_seconds, self._phase, stacks)

    def _stacks(self) -> str:
        """Has faulthandler add every thread's stack to the log; returns what it added once no more comes."""
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
