"""How training starts: a `Launcher` turns a `Job` into a `TrainingRun`, which runs windows of steps on request.

To support another way of starting processes on several nodes, write an engine (`engines/engine.py`).

Driver and worker talk in JSON messages over a `wire.Channel`. The worker calls, sends
`{"hello": "worker", "number": ...}`, and gets one message with its job, log, environment and import paths. It sends one
`{"phase": name}` for each phase of its start, and then `{"ready": {...}}`. It answers `{"steps": n}` by
`{"window": {...}}`, `{"profile_step": {...}}` by `{"step_profile": {...}}`, and `{"trace": n}` by `{"trace": {...}}`.
At any time it may send `{"error": {...}}` and end. It ends when the driver closes the channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.profile import Trace
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.step_profile import StepProfile
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.workers.command_run import CommandRun

Progress = Callable[[str], None]
"""Takes the name of each phase of a worker's start: "start", "devices", "model", "input pipeline", "compile"."""


class TrainingRun(Protocol):
    """Training that is compiled and ready, in one process or in several ranks.

    Always request the next window before you read an answer. While a worker is idle, its input pipeline fills its
    buffers, and the next window would be too fast.
    """

    @property
    def examples_per_step(self) -> int:
        """Batch size times replicas, over all nodes, in units."""

    @property
    def unit(self) -> str:
        """What is counted: "images", "tokens", ..."""

    @property
    def compile_seconds(self) -> float:
        """Duration of the first call: tracing, compiling and one step."""

    @property
    def fetches(self) -> bool:
        """Whether each step fetches its batch from an input pipeline."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Versions and settings that the worker runs with, by name."""

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of those of its processes that run on this machine."""

    @property
    def log(self) -> str:
        """Path of the worker's log file."""

    def request(self, steps: int) -> None:
        """Queue a window of `steps` steps; returns at once."""

    def receive(self) -> Window:
        """The result of the oldest requested window.

        Raises:
            MeasurementError: the worker raised, died or hung; names the phase and the cause, and shows the log's end.
                `OutOfMemory` where memory was short.
        """

    def profile_step(self, *, matrix_products: bool, multiply_adds: bool) -> StepProfile:
        """What one step spends its time on; None for what the worker cannot find out.

        Call it after the last window was read: windows that are still queued are dropped. It may be called again.

        Args:
            matrix_products: also time matrix products, on the first device alone.
            multiply_adds: also count the model's multiply-adds.

        Raises:
            MeasurementError: the worker raised, died or hung.
        """

    def trace(self, steps: int) -> tuple[Trace, ...]:
        """Run this many steps under TensorFlow's profiler; returns each process's trace, rank 0 first.

        Raises:
            MeasurementError: the worker raised, died, or said nothing for a minute.
        """

    def close(self) -> None:
        """End the worker and all that it started; never raises."""


class Launcher(Protocol):
    """Starts workers of one kind; a session has one for each Python."""

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """Start a fresh worker; returns when it has compiled the job's step.

        Raises:
            MeasurementError: the worker could not start, or failed as `TrainingRun.receive` says.
        """

    def start_command(self, command: Command, devices: Devices, nodes: int) -> CommandRun:
        """Start a user's command.

        Args:
            command: what to start.
            devices: the devices that it sees on each node.
            nodes: on how many nodes it runs.

        Raises:
            MeasurementError: it could not be started.
            TfperfError: this launcher can't start it on several nodes.
        """
