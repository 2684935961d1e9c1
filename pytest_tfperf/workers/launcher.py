"""The start of training: a `Launcher` turns a `Job` into a `TrainingRun`, which runs windows of steps on request.

To support another way of starting processes on several nodes, write an engine (`features/cluster/plugin.py`).

Driver and worker talk in JSON messages over a `wire.Channel`. The worker calls, sends
`{"hello": "worker", "number": ...}`, and gets one message with its job, log, environment and import paths. It sends one
`{"phase": name}` for each phase of its start, and then `{"ready": {...}}`. It answers `{"steps": n}` by
`{"window": {...}}`, `{"profile_step": {...}}` by `{"step_profile": {...}}`, `{"trace": n}` by `{"trace": {...}}`, and
`{"figures": ["peak_memory"]}` by `{"figures": {"peak_memory": 1e9}}`.
At any time it may send `{"error": {...}}` and end. It ends when the driver closes the channel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.workers.processes import Interpreter
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.worker_run import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """A user's command, ready to start, and what was prepared for it."""

    command: Command  # `env` is its whole environment, `cwd` its working folder
    log: Path
    silence_seconds: float  # the most that it may go without a reading
    facts: Mapping[str, str]  # its software, for the measurement's environment
    scratch: Path | None = None  # folder of its temporary files, removed at the end
    cancel: Callable[[], None] = lambda: None  # called when it has ended, to end processes that an engine left behind
    # The exit statuses of its ranks that its output names, the first that failed first.
    ended_ranks: Callable[[str], Mapping[int, int]] = lambda _: {}
    # Watches the processes below a pid while its block runs; raises at the end if they ran other code than they should.
    proof: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext()


class Launcher(Protocol):
    """Starts workers of one kind; a session has one for each Python."""

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """Start a fresh worker; returns when it has compiled the job's step.

        Raises:
            MeasurementError: the worker could not start, or failed as `TrainingRun.receive` says.
        """

    def prepare_command(self, command: Command, devices: Devices, nodes: int) -> PreparedCommand:
        """Prepare the start of a user's command.

        Args:
            devices: those that it sees on each node.

        Raises:
            MeasurementError: its log can't be written.
            TfperfError: this launcher can't start it on several nodes.
        """


class Nodes(Protocol):
    """The nodes of a session, and the start of tests on several of them."""

    @property
    def most_nodes(self) -> int | None:
        """The number of nodes; None if it is not known here."""

    @property
    def link(self) -> str:
        """The network between them, "10gbe"; "" where it is not known."""

    def require(self) -> None:
        """Return if tests can be started on other nodes.

        Raises:
            TfperfError, MeasurementError: they can't be; says what is missing.
        """

    def launcher(self, local: Launcher, interpreter: Interpreter) -> Launcher:
        """A launcher that starts jobs on several nodes under a Python, and all other jobs by `local`."""

    @property
    def refusals(self) -> Sequence[str]:
        """What called in a rank's place and was refused: each reason, with the number of calls."""

    def close(self) -> None:
        """Stop waiting for ranks."""


class ReferenceEnvironments(Protocol):
    """The environments in which a session's baselines were recorded."""

    @property
    def serves_any(self) -> bool:
        """Whether `check` found a usable environment of any baseline."""

    def check(self, rows: Iterable[Baseline]) -> Sequence[str]:
        """Check each environment once; returns sentences on rows without a usable environment, with the reasons."""

    def launcher_for(self, row: Baseline | None) -> Launcher | None:
        """The launcher for the environment of a baseline; None if `check` found no usable one."""

    def before_recording(self, commit: str) -> str:
        """Why environments of baselines recorded at this commit can't be built again; "" if they can."""

    def lock(self, row: Baseline) -> Baseline:
        """The new row, with the lock that its environment will be built from."""

    def recorded(self, row: Baseline, rows: Iterable[Baseline]) -> Sequence[str]:
        """Delete files that no row of the machine needs any more; returns how the row's environment will differ."""
