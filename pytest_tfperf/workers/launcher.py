"""How training starts: a `Launcher` turns a `Job` into a `TrainingRun`, which runs windows of steps on request.

To add a launcher (mpirun, Slurm, Ray, ...), write one class that meets `Launcher`, in a file of its own here, and name
it in `session.py`. It needs three parts, of which `local.py` is the example:

1. Start the processes. Give each the listener's address and a number in its environment (see `training/process.py`).
2. Wrap them in a class that meets `worker_run.WorkerProcess`: it waits for them, and kills all that they started.
3. Pass it to `worker_run.WorkerRun`, which speaks the protocol below and explains how a worker failed.

Protocol, as JSON over a `wire.Channel`. The worker calls, sends `{"hello": "worker", "number": ...}`, and gets one
message with its job, log, environment and import paths. It sends one `{"phase": name}` for each phase of its start,
and then `{"ready": {...}}`. It answers `{"steps": n}` by `{"window": {...}}`, `{"profile_step": {...}}` by
`{"step_profile": {...}}`, and `{"trace": n}` by `{"trace": {...}}`. At any time it may send `{"error": {...}}` and
end. It ends when the driver closes the channel.
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
    """A training process that is compiled and ready.

    Keep one window requested ahead of the answers that you read. A worker that idles between windows lets its input
    pipeline fill its buffers, and reads its next window too fast.
    """

    @property
    def examples_per_step(self) -> int:
        """Batch size times replicas, over all nodes, in units."""

    @property
    def unit(self) -> str:
        """What is counted, as in `Run`."""

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

        Call it after the last window that is read: a window that is still queued is dropped. It may be called again.

        Args:
            matrix_products: also time matrix products, on the first device alone.
            multiply_adds: also count the model's multiply-adds.

        Raises:
            MeasurementError: the worker raised, died or hung.
        """

    def trace(self, steps: int) -> tuple[Trace, ...]:
        """So many steps under TensorFlow's profiler: what each process traced, rank 0 first.

        Raises:
            MeasurementError: the worker raised, died, or said nothing for a minute.
        """

    def close(self) -> None:
        """End the worker and all that it started; never raises."""


class Launcher(Protocol):
    """Starts workers of one kind; one for a session."""

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """A fresh worker that has compiled the job's step.

        Raises:
            MeasurementError: the worker could not start, or failed as `TrainingRun.receive` says.
        """

    def start_command(self, command: Command, devices: Devices, nodes: int) -> CommandRun:
        """A user's command that has just been started.

        Args:
            command: what to start.
            devices: the GPUs that it sees, on one node.
            nodes: on how many.

        Raises:
            MeasurementError: it could not be started.
            TfperfError: nothing here starts it on several nodes.
        """

    def close(self) -> None:
        """End everything that was started; never raises."""
