"""Training on several nodes: an engine starts the ranks there, and they call this process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.own_code import digest
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.workers.command_run import CommandRun
from pytest_tfperf.workers.engines.engine import Engine
from pytest_tfperf.workers.failures import describe_exit, last_lines, read_end
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher, Progress, TrainingRun
from pytest_tfperf.workers.processes import kill_group
from pytest_tfperf.workers.ranks import RanksRun, rank_name
from pytest_tfperf.workers.session_key import read_key, write_key
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Silence
from pytest_tfperf.workers.worker_files import WorkerFiles
from pytest_tfperf.workers.worker_run import WorkerRun

_VARIABLES = ("TFPERF_ADDRESS", "TFPERF_KEY_FILE", "TFPERF_JOB", "PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL")

# What changes how TensorFlow, its libraries and Horovod compute, or where they are found.
_SETTINGS = ("TF_", "KERAS_", "XLA_", "NCCL_", "HOROVOD_", "OMP_", "ONEDNN_", "MKL_", "LD_LIBRARY_PATH")

_RANK = b"pytest_tfperf.training.rank"

_POLL_SECONDS = 0.2
_END_SECONDS = 5.0  # ranks that are well end within a second of the driver's closing their connections


class Entrance:
    """Where the ranks of a session call, and the key that they need; one for all of its launchers.

    Args:
        host: this process's address, which ranks on other nodes can reach.
        port: to listen on; 0 for any.
        key_file: a file that holds the key already, for ranks that something else starts; None makes one.
        key_folder: gets that file, of mode 600; it is removed at the end.

    Raises:
        MeasurementError: nothing can listen there.
        TfperfError: as `read_key`.
    """

    def __init__(self, host: str, port: int, key_file: Path | None, key_folder: Path) -> None:
        try:
            self.listener = Listener(host, port, None if key_file is None else read_key(key_file))
        except OSError as error:
            name = "tfperf_port" if port else "tfperf_interface"
            raise MeasurementError(
                f"ranks can't call {host}:{port or 'any port'} of this machine: {error}. Change the ini value {name}"
            ) from None
        self._is_made = key_file is None
        self.address, _, key = self.listener.address.rpartition(":")
        self.key_file = key_file or write_key(key_folder.absolute(), key)
        self._jobs = count(1)

    def new_job(self) -> str:
        """A name that no other job of the session has."""
        return str(next(self._jobs))

    def close(self) -> None:
        """Listen no more, and remove the key."""
        self.listener.close()
        if self._is_made:
            self.key_file.unlink(missing_ok=True)


class ClusterLauncher:
    """Starts jobs of several processes by an engine, and all others by another launcher.

    Args:
        engine: starts the ranks.
        local: starts jobs of one process.
        entrance: gives the place where ranks call, once there are any.
        logs: folder for the ranks' logs; ranks on a node that does not have it write to the engine's output.
        silence_seconds: ranks that do not call, or send nothing, for so long are given up.
        interpreter: runs the ranks.
    """

    def __init__(
        self,
        engine: Engine,
        local: Launcher,
        entrance: Callable[[], Entrance],
        *,
        logs: Path,
        silence_seconds: float,
        interpreter: Interpreter,
    ) -> None:
        self._engine = engine
        self._local = local
        self._entrance = entrance
        self._files = WorkerFiles(logs.absolute())
        self._silence_seconds = silence_seconds
        self._interpreter = interpreter
        self._commands = count(1)

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """See `Launcher.start`."""
        if not job.is_distributed:
            return self._local.start(job, progress)
        try:
            return self._start(job, progress)
        except OSError as error:  # a full disk, too many open files
            raise MeasurementError(f"ranks could not be started: {error}") from error

    def _start(self, job: Job, progress: Progress) -> TrainingRun:
        progress("start")
        if not self._engine.starts_ranks and self._interpreter.python != sys.executable:
            raise MeasurementError(
                f"ranks that something else starts can't run in another environment, {self._interpreter.python}. "
                "For --tfperf-against and reference environments use another --tfperf-launcher"
            )
        # Other nodes' GPUs have other UUIDs, and their cores are theirs to count.
        job = replace(job, devices=replace(job.devices, gpu_uuids=()), cores=None)
        name = self._entrance().new_job()
        with ExitStack() as undo:
            engine = _EngineProcess(
                self._engine, self._command(job), self._environment(name), self._log(name, "engine")
            )
            undo.callback(engine.end)
            callers = self._called(job, name, engine)
            runs = []
            for rank, caller in enumerate(callers):
                log = self._log(name, f"rank{rank}")
                run = self._adopted(job, rank, caller, log, engine, progress if rank == 0 else lambda _: None)
                undo.callback(run.close)
                runs.append(run)
            hosts = [caller.host for caller in callers]
            together = RanksRun(runs, hosts, job, self._silence_seconds, end=engine.end)
            undo.pop_all()
            return together

    def start_command(self, command: Command, devices: Devices, nodes: int) -> CommandRun:
        """See `Launcher.start_command`."""
        if nodes == 1:
            return self._local.start_command(command, devices, nodes)
        if not self._engine.starts_ranks:
            raise TfperfError(
                f"{command.id}: ranks that something else starts can't run a program of your own; use another "
                "--tfperf-launcher, such as mpirun or slurm"
            )
        interpreter = self._interpreter
        argv = interpreter.user_command(command.argv)
        # Other nodes' GPUs have other UUIDs. A program on CPUs must not take a GPU's memory.
        visible = "-1" if devices.kind is DeviceKind.CPU else ",".join(map(str, range(devices.count)))
        ours = {"PYTHONUNBUFFERED": "1", "CUDA_VISIBLE_DEVICES": visible}
        variables = ["PYTHONPATH", *ours, *_settings()]
        return CommandRun(
            self._engine.command(nodes, command.ranks_per_node, argv, variables),
            environment={**interpreter.environment(), **self._engine.environment(), **ours},
            folder=interpreter.user_folder(command.folder),
            log=self._files.job_log(next(self._commands), "command"),
            silence_seconds=self._silence_seconds,
            facts=interpreter.facts(command),
            cancel=self._engine.cancel,
        )

    def close(self) -> None:
        """See `Launcher.close`; a job's processes end with its run."""

    def _log(self, job: str, name: str) -> Path:
        return self._files.job_log(int(job), name)

    def _command(self, job: Job) -> list[str]:
        rank = self._interpreter.command("pytest_tfperf.training.rank")
        return self._engine.command(job.nodes, job.ranks_per_node, rank, [*_VARIABLES, *_settings()])

    def _environment(self, job: str) -> dict[str, str]:
        ours = {
            "TFPERF_ADDRESS": self._entrance().address,
            "TFPERF_KEY_FILE": str(self._entrance().key_file),
            "TFPERF_JOB": job,
            "TF_CPP_MIN_LOG_LEVEL": "1",
        }
        environment = {**self._interpreter.environment(), **self._engine.environment(), **ours}
        environment.pop("TF_CONFIG", None)  # pytest's own, if any: it does not say which of these ranks one is
        return environment

    def _called(self, job: Job, name: str, engine: _EngineProcess) -> list[_Caller]:
        """All ranks, by rank, once they have called.

        Raises:
            MeasurementError: one never did, called twice, or fits neither the job nor the others.
        """
        callers: dict[int, _Caller] = {}
        deadline = time.monotonic() + self._silence_seconds
        with ExitStack() as undo:
            while len(callers) < job.ranks:
                missing = [rank for rank in range(job.ranks) if rank not in callers]
                names = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))} of {job.ranks}"
                if time.monotonic() >= deadline:
                    raise engine.failure(f"{names} did not call within {self._silence_seconds:g} s")
                try:
                    channel, hello = self._entrance().listener.greet(_POLL_SECONDS)
                except Silence:
                    if engine.has_ended():
                        raise engine.failure(f"{names} did not call, and the engine has ended") from None
                    continue
                if hello.get("hello") != "rank" or hello.get("job") not in (name, ""):
                    channel.close()  # a rank of a job that was given up
                    continue
                undo.callback(channel.close)
                caller = _Caller.of(channel, hello)
                before = callers.get(caller.rank)
                if before is not None and before.channel.is_closed:
                    before = None  # it called, ended, and was started again while others were awaited
                fault = _fault(job, caller, before, next(iter(callers.values()), caller))
                if fault:
                    for one in (caller, *callers.values()):
                        one.refuse(fault)
                    raise engine.failure(fault)
                callers[caller.rank] = caller
            undo.pop_all()
        return [callers[rank] for rank in range(job.ranks)]

    def _adopted(
        self, job: Job, rank: int, caller: _Caller, log: Path, engine: _EngineProcess, progress: Progress
    ) -> WorkerRun:
        """The run of a rank that has called."""
        # A rank elsewhere makes a folder of its own, which stays if it is killed.
        scratch = self._files.new_scratch_folder() if caller.is_here else None
        run = WorkerRun(
            _RemoteProcess(caller.pid, engine.exit_status, caller.is_here),
            log,
            scratch,
            python=self._interpreter.python,
            on_cpus=job.devices.kind is DeviceKind.CPU,
            silence_seconds=self._silence_seconds,
            name=rank_name(rank, job.ranks, caller.host),
        )
        message = {
            "job": plain(job),
            "log": str(log),
            "scratch": str(scratch or ""),
            "import_paths": self._interpreter.import_paths(),
        }
        run.adopt(caller.channel, message, progress)
        return run


def _settings() -> list[str]:
    """Names of variables that each rank needs besides those that it finds its driver by."""
    return sorted({name for name in os.environ if name.startswith(_SETTINGS)} - {"TF_CONFIG", *_VARIABLES})


class _Caller(NamedTuple):
    """A rank that has called, and what it said of itself."""

    channel: Channel
    rank: int
    size: int
    host: str
    pid: int
    versions: Mapping[str, str]

    @classmethod
    def of(cls, channel: Channel, hello: Mapping[str, Any]) -> _Caller:
        return cls(channel, hello["rank"], hello["size"], hello["host"], hello["pid"], hello["versions"])

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine; in a container of the same name, its pid would mean another process."""
        try:
            return self.host == platform.node() and _RANK in Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return False

    @property
    def where(self) -> str:
        return f"pid {self.pid} on {self.host}"

    def refuse(self, why: str) -> None:
        """Tell the rank why it is not wanted; it ends."""
        with suppress(ConnectionLost):
            self.channel.send({"refused": why})


def _fault(job: Job, caller: _Caller, before: _Caller | None, first: _Caller) -> str:
    """Why a rank can't join; "" if it can."""
    if before is not None:
        return f"rank {caller.rank} was started twice: {before.where}, and {caller.where}"
    if caller.size != job.ranks or not 0 <= caller.rank < job.ranks:
        return (
            f"{caller.where} says that it is rank {caller.rank} of {caller.size}, and the test trains on {job.ranks}: "
            "what starts the ranks (TF_CONFIG, TFPERF_SIZE, the scheduler) must start as many"
        )
    ours = {"pytest-tfperf": digest()}
    for name, version in caller.versions.items():
        wanted = ours.get(name, first.versions.get(name, ""))
        other = "pytest's" if name in ours else f"that of rank {first.rank} on {first.host}"
        if version != wanted:
            return (
                f"rank {caller.rank} on {caller.host} runs {name} {version or 'none'}, and {other} is {wanted}: "
                "install the same on all nodes"
            )
    return ""


class _RemoteProcess(NamedTuple):
    """A rank's process, which its engine ends; its pid may be of another machine."""

    pid: int
    exit_status: Callable[[float], int | None]
    is_here: bool

    def end(self) -> None:
        """Nothing: a rank ends when its connection closes, and its engine ends those that do not."""


class _EngineProcess:
    """The command that started the ranks of one job; without a command something else has started them."""

    def __init__(self, engine: Engine, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._engine = engine
        self._log = log
        self._name = command[0] if command else ""
        self._process: subprocess.Popen[bytes] | None = None
        if command:
            tied = Interpreter(sys.executable).command("pytest_tfperf.workers.tied")
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*tied, str(os.getpid()), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=dict(environment),
                    start_new_session=True,
                )

    def has_ended(self) -> bool:
        return self.exit_status(0) is not None

    def exit_status(self, seconds: float) -> int | None:
        """That of the command, once it has ended; a rank's own is not known."""
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    def failure(self, what: str) -> MeasurementError:
        """The error for ranks that did not all join, with what the command wrote."""
        if self._process is None:
            return MeasurementError(f"{what}. Ranks: python -m pytest_tfperf.training.rank --repeat, on each node")
        status = self.exit_status(1.0)
        how = "still runs" if status is None else describe_exit(status)
        text = last_lines(read_end(self._log))
        return MeasurementError(f"{what}. {self._name} {how}; the end of its output ({self._log}):\n{text}")

    def end(self) -> None:
        """End the command and all ranks; never raises."""
        if self._process is None:
            return
        if self.exit_status(_END_SECONDS) is None:
            self._process.terminate()  # mpirun then ends its ranks, even those that are stopped
            self.exit_status(_END_SECONDS)
        self._engine.cancel()
        if self.exit_status(0) is None:
            kill_group(self._process.pid)
            self.exit_status(_END_SECONDS)
