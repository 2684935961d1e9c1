"""The launcher of this machine: it starts the workers of a job, or a user's program."""

from __future__ import annotations

import os
import platform
import re
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from pytest_tfperf.core import speed_variables
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import Hung, MeasurementError, TfperfError
from pytest_tfperf.workers.failures import hint_of_full
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.processes import ForkServer, Interpreter, Process, start_process
from pytest_tfperf.workers.training_run import TrainingRun, rank_name
from pytest_tfperf.workers.wire import ConnectionLost, Listener, Silence
from pytest_tfperf.workers.worker_run import Progress, WorkerRun

PROBE = Workload(model="trivial", batch_size=1)
"""A workload that every working device can train."""


class UnresponsiveDevices:
    """The devices of a launcher on which a worker hung, and those of them on which the probe hung, too."""

    def __init__(self) -> None:
        self._suspected: set[str] = set()
        self._reasons: dict[str, str] = {}  # device -> the probe's error

    def suspect(self, devices: Devices) -> None:
        """Note that a worker hung on these devices; the worker or a device is at fault."""
        self._suspected |= _names(devices)

    def check(self, devices: Devices, probe: Callable[[], None]) -> None:
        """Allow a worker on these devices; calls `probe` first if a worker hung on any of them.

        Raises:
            MeasurementError: the probe hung too, now or for an earlier worker.
        """
        names = _names(devices)
        if names & self._suspected:
            try:
                probe()
            except Hung as error:
                self._reasons |= dict.fromkeys(names & self._suspected, error.brief)
            except MeasurementError:
                return  # the devices answer; the worker's own error will explain more
            self._suspected -= names
        if dead := sorted(names & self._reasons.keys()):
            raise MeasurementError(
                f"no worker was started: {', '.join(dead)} no longer answers",
                next_step=f"A worker hung there, and then the probe "
                f"{PROBE.id} did: {self._reasons[dead[0]]}. {_advice(devices)}",
            )


def _names(devices: Devices) -> set[str]:
    return set(devices.gpu_uuids) or {"the CPU"}


def _advice(devices: Devices) -> str:
    if devices.kind is DeviceKind.CPU:
        return "Look for what blocks the machine's disks or memory (`dmesg`), then run the tests again"
    return (
        "Look for the GPU's Xid in the kernel's log (`dmesg`); reset the GPU (`nvidia-smi -r -i UUID`) or reboot. "
        "If it ran for the first time on a GPU like H100, its driver may still have compiled TensorFlow's code: "
        "-o tfperf_timeout=3600 waits for that"
    )


@contextmanager
def worded_start(what: str) -> Iterator[None]:
    """Raise an error of the system at a start, such as a full disk, too many open files, or no memory for a fork.

    Raises:
        MeasurementError: "WHAT could not be started: REASON", with the next step where it is known.
    """
    try:
        yield
    except OSError as error:
        raise MeasurementError(f"{what} could not be started: {error}{hint_of_full(str(error))}") from error


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


# Beside the variables that change the speed, libraries read these once, at import. If one of all of them changes, a new
# fork server is needed.
_READ_AT_IMPORT = ("TF_", "KERAS_", "CUDA_", "PYTHON")


class LocalLauncher:
    """Starts workers on this machine, from a fork server or as fresh interpreters.

    Args:
        silence_seconds: a worker that sends nothing for this long is taken to hang, and is killed.
        interpreter: their Python; None for this one.
    """

    def __init__(
        self,
        *,
        logs: Path,
        silence_seconds: float,
        fresh: bool = False,
        interpreter: Interpreter | None = None,
    ) -> None:
        self._files = WorkerFiles(logs.absolute())  # workers may run in another folder
        self._files.remove_old()
        self._silence_seconds = silence_seconds
        self._fresh = fresh
        self._interpreter = interpreter or Interpreter(sys.executable)
        self._listener = Listener()
        self._server: ForkServer | None = None
        self._imported_under: dict[str, str] = {}
        self._started = 0
        self._unresponsive = UnresponsiveDevices()

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """See `Launcher.start`; the first call also starts the fork server."""
        progress("start")
        with worded_start("a worker"):
            self._unresponsive.check(job.devices, lambda: self._probe(job, progress))
            return self._start(job, progress)

    def prepare_command(self, command: Command, devices: Devices, nodes: int) -> PreparedCommand:
        """See `Launcher.prepare_command`."""
        if nodes > 1:
            raise TfperfError(
                f"{command.id}: processes of this machine can't stand for the {nodes} nodes of a program of your own; "
                "name what starts it on them, as in --tfperf-launcher='mpirun -H nodea,nodeb' or slurm"
            )
        self._started += 1
        with worded_start("it"):
            log, scratch = self._files.worker_log(self._started), self._files.new_scratch_folder()
        folder = self._interpreter.user_folder(str(command.cwd))
        environment = {
            **self._interpreter.environment(),
            "PWD": str(folder),  # else it is pytest's, and leads a program to the current code
            **gpus_of_program(devices),
            "TMPDIR": str(scratch),
            **command.env,
        }
        return PreparedCommand(
            command=replace(command, argv=self._interpreter.user_command(command.words), cwd=folder, env=environment),
            log=log,
            silence_seconds=self._silence_seconds,
            facts=self._interpreter.facts(command),
            scratch=scratch,
        )

    def close(self) -> None:
        """End the fork server and its workers; never raises."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._listener.close()

    def _probe(self, job: Job, progress: Progress) -> None:
        """Take a step of the smallest workload, on the same devices."""
        progress("probe")
        devices = replace(job.devices, count=len(job.devices.gpu_uuids) or job.devices.count)  # the GPUs of all ranks
        job = replace(job, workload=PROBE, nodes=1, devices=devices, slowdown=0.0)
        with closing(self._start(job, progress)) as run:
            run.request(1)
            run.receive()

    def _start(self, job: Job, progress: Progress) -> TrainingRun:
        with ExitStack() as undo:
            first = self._started + 1
            runs = [self._worker(job, rank, undo) for rank in range(job.ranks)]
            callers = [{"hello": "worker", "number": first + rank} for rank in range(job.ranks)]
            try:
                channels = self._listener.wait_for_all(
                    callers, self._silence_seconds, lambda: any(run.has_ended() for run in runs)
                )
            except Silence as silence:
                raise runs[silence.missing[0]].silent() from None
            except ConnectionLost:
                raise next(run for run in runs if run.has_ended()).lost() from None
            for run, channel in zip(runs, channels, strict=True):
                run.adopt(channel, progress if run is runs[0] else lambda _: None)
            training = TrainingRun.of_job(runs, [platform.node()] * job.ranks, job, self._silence_seconds)
            undo.pop_all()
            return training

    def _worker(self, job: Job, rank: int, undo: ExitStack) -> WorkerRun:
        """Start the process of a rank, or of a job without ranks."""
        own = job.for_rank(rank)
        self._started += 1
        log = self._files.worker_log(self._started)
        scratch = self._files.new_scratch_folder()
        undo.callback(shutil.rmtree, scratch, ignore_errors=True)
        message = {
            "job": plain(job),
            "log": str(log),
            "environment": {
                "TF_CPP_MIN_LOG_LEVEL": "1",
                **self._interpreter.environment(),
                **gpus_shown(own.devices),
                "TMPDIR": str(scratch),
            },
            **self._interpreter.imports(),
        }
        run = WorkerRun(
            self._process(log),
            log,
            scratch,
            message,
            python=self._interpreter.python,
            on_cpus=job.devices.kind is DeviceKind.CPU,
            silence_seconds=self._silence_seconds,
            on_hang=partial(self._unresponsive.suspect, own.devices),
            name=rank_name(rank, job.ranks, platform.node()) if job.is_distributed else "the worker",
        )
        undo.callback(run.close)
        return run

    def _process(self, log: Path) -> Process:
        if self._fresh:
            module = "pytest_tfperf.training.process"
            return start_process(self._interpreter, module, self._listener, log, self._started)
        now = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(_READ_AT_IMPORT) or speed_variables.NAME.match(name)
        }
        if self._server is not None and (self._server.has_ended() or now != self._imported_under):
            self._server.close()
            self._server = None
        if self._server is None:
            self._imported_under = now
            self._server = ForkServer(self._interpreter, self._listener, self._files.server_log, self._silence_seconds)
        return self._server.fork(self._started)
