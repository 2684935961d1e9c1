"""Starts training on several nodes: an engine starts the ranks there, and call this process."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pytest_tfperf.core import speed_variables
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job, digest
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.features.cluster.plugin import Engine
from pytest_tfperf.workers.failures import describe_exit, last_line, last_lines, read_end
from pytest_tfperf.workers.launcher import Launcher, PreparedCommand
from pytest_tfperf.workers.local import WorkerFiles, gpus_shown, worded_start
from pytest_tfperf.workers.process_end import kill_group
from pytest_tfperf.workers.processes import Interpreter, Process
from pytest_tfperf.workers.training_run import TrainingRun, rank_name
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Silence
from pytest_tfperf.workers.worker_run import Progress, WorkerRun

if TYPE_CHECKING:
    from pytest_tfperf.features.cluster.nodes import ClusterNodes

_POLL_SECONDS = 0.2
_END_SECONDS = 5.0  # healthy ranks end within a second after the driver closes their connections


class EngineProcess:
    """An engine's command while it runs; there is no process if something else starts the ranks: it is empty."""

    def __init__(self, engine: Engine, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._engine = engine
        self._log = log
        self._name = command[0] if command else ""
        self._process: subprocess.Popen[bytes] | None = None
        if command:
            with_parent = Interpreter(sys.executable).command("pytest_tfperf.workers.process_end")
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*with_parent, str(os.getpid()), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )

    def exit_status(self, seconds: float) -> int | None:
        """The command's exit status, or None if it still runs after so many seconds."""
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    def exit_status_of(self, rank: int, seconds: float) -> int | None:
        """A rank's exit status where the command's output has it, else the command's own, as `exit_status`."""
        status = self.exit_status(seconds)
        return self._engine.ended_ranks(read_end(self._log)).get(rank, status)

    def failure(self, what: str) -> MeasurementError:
        """The error for ranks that did not all join, with the end of the command's output."""
        if self._process is None:
            return MeasurementError(
                what, next_step="Ranks: python -m pytest_tfperf.training.rank --repeat, on each node"
            )
        status = self.exit_status(1.0)
        log = read_end(self._log)
        how = "still runs" if status is None else describe_exit(status)
        who = f"{self._name}: a rank" if status is not None and status > 128 else self._name  # mpirun passes it on
        if first := next(iter(self._engine.ended_ranks(log).items()), None):
            who, how = f"{self._name}: rank {first[0]}", describe_exit(first[1])
        return MeasurementError(
            what,
            *last_lines(log),
            brief=f"{what}. {who} {how}: {last_line(log)} ({self._log})",
            next_step=f"{who} {how}; the end of its output ({self._log}):",
        )

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


class RankCall(NamedTuple):
    """The first message of a rank, and its channel."""

    channel: Channel
    rank: int
    size: int
    host: str
    pid: int
    versions: Mapping[str, str]

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine.

        A rank in a container may have this machine's name. Its pid then belongs to another process.
        """
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes()
        except OSError:
            return False
        return self.host == platform.node() and b"pytest_tfperf.training.rank" in command


def wait_for_ranks(
    listener: Listener, job: Job, name: str, silence_seconds: float, engine: EngineProcess
) -> list[RankCall]:
    """The calls of all ranks, in the order of their numbers, within `silence_seconds`.

    Raises:
        MeasurementError: a rank never called, called twice, or fits neither the job nor the other ranks.
    """
    calls: dict[int, RankCall] = {}
    deadline = time.monotonic() + silence_seconds
    with ExitStack() as undo:
        while len(calls) < job.ranks:
            missing = [str(rank) for rank in range(job.ranks) if rank not in calls]
            names = f"rank{'s' if len(missing) > 1 else ''} {', '.join(missing)} of {job.ranks}"
            if time.monotonic() >= deadline:
                raise engine.failure(
                    "; ".join([f"{names} did not call within {silence_seconds:g} s", *listener.refusals])
                )
            try:
                channel, hello = listener.greet(_POLL_SECONDS)
            except Silence:
                if engine.exit_status(0) is not None:
                    fact = f"{names} did not call, and the engine has ended"
                    raise engine.failure("; ".join([fact, *listener.refusals])) from None
                continue
            if hello.get("hello") != "rank" or hello.get("job") not in (name, ""):
                channel.close()  # a rank of an earlier job that was given up
                continue
            undo.callback(channel.close)
            call = RankCall(channel, *(hello[key] for key in ("rank", "size", "host", "pid", "versions")))
            if fault := _fault(job, call, calls):
                for refused in (call, *calls.values()):
                    with suppress(ConnectionLost):
                        refused.channel.send({"refused": fault})  # it ends
                raise engine.failure(fault)
            calls[call.rank] = call
        undo.pop_all()
    return [calls[rank] for rank in range(job.ranks)]


def _fault(job: Job, call: RankCall, earlier: Mapping[int, RankCall]) -> str:
    """Why a rank can't join those that have called earlier; "" if it can."""
    before = earlier.get(call.rank)
    # A rank that called, ended and was started again while the driver waited for others may join.
    if before is not None and not before.channel.is_closed:
        return (
            f"rank {call.rank} was started twice: pid {before.pid} on {before.host}, and pid {call.pid} on {call.host}"
        )
    if call.size != job.ranks or not 0 <= call.rank < job.ranks:
        return (
            f"pid {call.pid} on {call.host} says that it is rank {call.rank} of {call.size}, and the test trains on "
            f"{job.ranks}: what starts the ranks (TF_CONFIG, TFPERF_SIZE, the scheduler) must start as many"
        )
    ours = {"pytest-tfperf": digest()}
    first = next(iter(earlier.values()), call)
    for name, version in call.versions.items():
        wanted = ours.get(name, first.versions.get(name, ""))
        other = "pytest's" if name in ours else f"that of rank {first.rank} on {first.host}"
        if version != wanted:
            return (
                f"rank {call.rank} on {call.host} runs {name} {version or 'none'}, and {other} is {wanted}: "
                "install the same on all nodes"
            )
    return ""


_VARIABLES = ("TFPERF_ADDRESS", "TFPERF_KEY_FILE", "TFPERF_JOB", "PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL")

# Variables that change the computations of TensorFlow, Keras and Horovod, beside those that may change their speed.
_PASSED_ON = ("TF_", "KERAS_", "HOROVOD_", "CUDA_")
_OWN = {"TF_CONFIG", "CUDA_VISIBLE_DEVICES", *_VARIABLES}  # each node has its own


class ClusterLauncher:
    """Starts jobs of several processes through an engine, and all other jobs through the local launcher.

    A rank on a node without the folder of the logs writes to the engine's output.
    """

    def __init__(self, nodes: ClusterNodes, local: Launcher, interpreter: Interpreter) -> None:
        self._nodes = nodes
        self._local = local
        self._files = WorkerFiles(nodes.folder / "logs")
        self._interpreter = interpreter

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """See `Launcher.start`."""
        if not job.is_distributed:
            return self._local.start(job, progress)
        with worded_start("ranks"):
            return self._start(job, progress)

    def _start(self, job: Job, progress: Progress) -> TrainingRun:
        progress("start")
        if not self._nodes.engine.starts_ranks and self._interpreter.python != sys.executable:
            raise MeasurementError(
                f"ranks that something else starts can't run in another environment, {self._interpreter.python}",
                next_step="For --tfperf-against and reference environments use another --tfperf-launcher",
            )
        job = replace(job, cores=None)  # each node counts its own
        number = next(self._nodes.numbers)
        rank_command = self._interpreter.command("pytest_tfperf.training.rank")
        variables = [*_VARIABLES, *_settings()]
        gpus = job.devices.count if job.devices.kind is DeviceKind.GPU else 0
        command = self._nodes.engine.command(job.nodes, job.ranks_per_node, rank_command, variables, gpus)
        with ExitStack() as undo:
            log = self._files.worker_log(number, "engine")
            with self._nodes.key_file() as key_file:
                engine = EngineProcess(self._nodes.engine, command, self._environment(number, key_file), log)
                undo.callback(engine.end)
                calls = wait_for_ranks(self._nodes.listener, job, str(number), self._nodes.silence_seconds, engine)
            if not (job.nodes == 1 and all(call.is_here for call in calls)):
                job = replace(job, devices=replace(job.devices, gpu_uuids=()))  # other nodes' GPUs have other UUIDs
            runs = []
            for call in calls:
                log = self._files.worker_log(number, f"rank{call.rank}")
                run = self._run_of(call, job, log, engine, progress if call.rank == 0 else lambda _: None)
                undo.callback(run.close)
                runs.append(run)
            together = TrainingRun.of_job(
                runs, [call.host for call in calls], job, self._nodes.silence_seconds, end=engine.end
            )
            undo.pop_all()
            return together

    def prepare_command(self, command: Command, devices: Devices, nodes: int) -> PreparedCommand:
        """See `Launcher.prepare_command`."""
        if nodes == 1:
            return self._local.prepare_command(command, devices, nodes)
        if not self._nodes.engine.runs_programs:
            raise TfperfError(
                f"{command.id}: this --tfperf-launcher can't run a program of your own and pass on what it prints; use "
                "mpirun or slurm"
            )
        with worded_start("it"):
            log = self._files.worker_log(next(self._nodes.numbers), "command")
        interpreter = self._interpreter
        argv = interpreter.user_command(command.words)
        ours = {"PYTHONUNBUFFERED": "1", **_visible(command, devices)} | dict(command.env)
        variables = ["PYTHONPATH", *ours, *_settings()]
        return PreparedCommand(
            command=replace(
                command,
                argv=self._nodes.engine.command(nodes, command.ranks_per_node, argv, variables),
                env={**interpreter.environment(), **ours},
                cwd=interpreter.user_folder(str(command.cwd)),
            ),
            log=log,
            silence_seconds=self._nodes.silence_seconds,
            facts=interpreter.facts(command),
            cancel=self._nodes.engine.cancel,
            ended_ranks=self._nodes.engine.ended_ranks,
        )

    def _environment(self, job: int, key_file: Path) -> dict[str, str]:
        environment = {
            **self._interpreter.environment(),
            "TFPERF_ADDRESS": self._nodes.listener.address.rpartition(":")[0],
            "TFPERF_KEY_FILE": str(key_file),
            "TFPERF_JOB": str(job),
            "TF_CPP_MIN_LOG_LEVEL": "1",
        }
        environment.pop("TF_CONFIG", None)  # pytest's own, which does not describe these ranks
        return environment

    def _run_of(self, call: RankCall, job: Job, log: Path, engine: EngineProcess, progress: Progress) -> WorkerRun:
        # A rank on another machine makes its own scratch folder, which stays there if the rank is killed.
        scratch = self._files.new_scratch_folder() if call.is_here else None
        message = {
            "job": plain(job),
            "log": str(log),
            "scratch": str(scratch or ""),
            "environment": gpus_shown(job.for_rank(call.rank).devices),
            **self._interpreter.imports(),
        }
        run = WorkerRun(
            Process(call.pid, partial(engine.exit_status_of, call.rank), call.is_here, is_ended_here=False),
            log,
            scratch,
            message,
            python=self._interpreter.python,
            on_cpus=job.devices.kind is DeviceKind.CPU,
            silence_seconds=self._nodes.silence_seconds,
            name=rank_name(call.rank, job.ranks, call.host),
        )
        run.adopt(call.channel, progress)
        return run


def _visible(command: Command, devices: Devices) -> dict[str, str]:
    """The variables with a program's GPUs on each node: the first that the user shows, else the first of all, by index.

    Other nodes' GPUs have other UUIDs. A program on CPUs must not take a GPU's memory.
    """
    if devices.kind is DeviceKind.CPU:
        return {"CUDA_VISIBLE_DEVICES": "-1"}
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if not shown:
        indices = ",".join(str(index) for index in range(devices.count))
        return {"CUDA_VISIBLE_DEVICES": indices, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    entries = [entry.strip() for entry in shown.split(",")][: devices.count]
    if not all(entry.isdecimal() for entry in entries):
        raise TfperfError(
            f"{command.id}: CUDA_VISIBLE_DEVICES={shown} names GPUs of this machine, and those of other nodes have "
            "other names",
            next_step="Give indices, which mean the same on all nodes, as in CUDA_VISIBLE_DEVICES=0,1",
        )
    return {"CUDA_VISIBLE_DEVICES": ",".join(entries)}


def _settings() -> list[str]:
    """Names of this process's variables that change computations or their speed, and so must be the same for ranks."""
    names = {name for name in os.environ if name.startswith(_PASSED_ON) or speed_variables.NAME.match(name)}
    return sorted(names - _OWN)
