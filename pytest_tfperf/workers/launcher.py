"""How training starts: a `Launcher` turns a `Job` into a `TrainingRun`, which runs windows of steps on request.

To support another way of starting processes on several nodes, write an engine (`engines/engine.py`).

Driver and worker talk in JSON messages over a `wire.Channel`. The worker calls, sends
`{"hello": "worker", "number": ...}`, and gets one message with its job, log, environment and import paths. It sends one
`{"phase": name}` for each phase of its start, and then `{"ready": {...}}`. It answers `{"steps": n}` by
`{"window": {...}}`, `{"profile_step": {...}}` by `{"step_profile": {...}}`, and `{"trace": n}` by `{"trace": {...}}`.
At any time it may send `{"error": {...}}` and end. It ends when the driver closes the channel.
"""

from __future__ import annotations

from typing import Protocol

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.worker_run import Progress


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
