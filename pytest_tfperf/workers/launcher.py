"""The start of training: a `Launcher` turns a `Job` into a `TrainingRun`, which runs windows of steps on request.

To support another way of starting processes on several nodes, write an engine (`features/cluster/engine.py`).

Driver and worker talk in JSON messages over a `wire.Channel`. The worker calls, sends
`{"hello": "worker", "number": ...}`, and gets one message with its job, log, environment and import paths. It sends one
`{"phase": name}` for each phase of its start, and then `{"ready": {...}}`. It answers `{"steps": n}` by
`{"window": {...}}`, `{"profile_step": {...}}` by `{"step_profile": {...}}`, `{"trace": n}` by `{"trace": {...}}`, and
`{"figures": ["peak_memory"]}` by `{"figures": {"peak_memory": 1e9}}`.
At any time it may send `{"error": {...}}` and end. It ends when the driver closes the channel.

Workers leave logs and temporary folders behind; old ones are removed here.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.worker_run import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCommand:
    """A user's command, ready to start, and what was prepared for it.

    Args:
        command: what is started: `env` is its whole environment, `cwd` its working folder.
        log: the file for its output.
        silence_seconds: the most that it may go without a reading.
        facts: its software, for the measurement's environment.
        scratch: folder of its temporary files, removed at the end; None without one.
        cancel: called when it has ended, to end processes that an engine left behind.
        ended_ranks: the exit statuses of its ranks that its output names, the first that failed first.
        proof: watches the processes below a pid while its block runs, and raises at the end if they ran other code than
            they should.
    """

    command: Command
    log: Path
    silence_seconds: float
    facts: Mapping[str, str]
    scratch: Path | None = None
    cancel: Callable[[], None] = lambda: None
    ended_ranks: Callable[[str], Mapping[int, int]] = lambda _: {}
    proof: Callable[[int], AbstractContextManager[None]] = lambda _: nullcontext()


def gpus_shown(devices: Devices) -> dict[str, str]:
    """The environment variable that says which GPUs of this machine a process sees."""
    if devices.gpu_uuids:
        return {"CUDA_VISIBLE_DEVICES": ",".join(devices.gpu_uuids)}
    # A process on CPUs must not take a GPU's memory.
    return {"CUDA_VISIBLE_DEVICES": "-1"} if devices.kind is DeviceKind.CPU else {}


def gpus_of_program(devices: Devices) -> dict[str, str]:
    """As `gpus_shown`, for a program on this machine: by index where possible.

    DeepSpeed, vLLM and others call int() on each entry (microsoft/DeepSpeed#5278, vllm-project/vllm#13815).
    """
    if not devices.gpu_indices:
        return gpus_shown(devices)
    indices = ",".join(map(str, devices.gpu_indices))
    return {"CUDA_VISIBLE_DEVICES": indices, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


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
            command: the command.
            devices: the devices that it sees on each node.
            nodes: the number of nodes that it runs on.

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


_LOGS_KEPT_SECONDS = 30 * 86_400.0
# Exactly as `WorkerFiles` names them: the folder may be a project's own `logs/`.
_OUR_LOG = re.compile(r"(worker|server)-\d{8}-\d{6}-\d+-[0-9a-f]{4}(-\d+(-engine|-command|-rank\d+)?)?\.log")

_SCRATCH = "tfperf-worker-"
_SCRATCH_KEPT_SECONDS = 2 * 86_400.0  # longer than any worker lives


class WorkerFiles:
    """Names the files of one launcher's workers, so that no two launchers share a file."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        # pytest in a container may always have the same pid, and a comparison starts two launchers in one second.
        self._name = f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}-{secrets.token_hex(2)}"

    @property
    def server_log(self) -> Path:
        """The fork server's log."""
        return self._logs / f"server-{self._name}.log"

    def worker_log(self, number: int, part: str = "") -> Path:
        """The log of a worker, or of a part of a job on several nodes: "engine", "rank0" or "command"."""
        self._logs.mkdir(parents=True, exist_ok=True)
        end = f"-{part}" if part else ""
        return self._logs / f"worker-{self._name}-{number}{end}.log"

    def new_scratch_folder(self) -> Path:
        """An empty folder for one worker's temporary files."""
        return Path(tempfile.mkdtemp(prefix=_SCRATCH))

    def remove_old(self) -> None:
        """Remove our logs that are older than a month, and temporary folders that killed sessions left."""
        for log in self._logs.glob("*.log"):
            if _OUR_LOG.fullmatch(log.name) and _is_older(log, _LOGS_KEPT_SECONDS):
                with suppress(OSError):
                    log.unlink()
        for scratch in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
            if _is_older(scratch, _SCRATCH_KEPT_SECONDS):
                shutil.rmtree(scratch, ignore_errors=True)


def _is_older(path: Path, seconds: float) -> bool:
    """Whether it belongs to this user and was last written longer ago than this."""
    try:
        status = path.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mtime < time.time() - seconds
