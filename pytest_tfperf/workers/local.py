"""Workers on this machine."""

from __future__ import annotations

import math
import os
import re
import secrets
import shutil
import signal
import site
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.image_data import Data
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.step_profile import StepProfile
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.errors import Hung, MeasurementError, OutOfMemory, OutOfTime
from pytest_tfperf.workers.failures import cause, log_end, read_end, shows_the_users_code
from pytest_tfperf.workers.interpreters import refuse_tensorflow
from pytest_tfperf.workers.launcher import SKIPPED, Job, Progress
from pytest_tfperf.workers.processes import (
    ForkServer,
    FreshInterpreters,
    Spawner,
    WorkerProcess,
    describe_exit,
)
from pytest_tfperf.workers.wedged import PROBE, Wedged
from pytest_tfperf.workers.wire import Channel, ConnectionLost, Listener, Silence

# What TensorFlow, Keras and XLA read once, when they are imported: a server that imported under other values is no use.
_READ_AT_IMPORT = ("TF_", "KERAS_", "XLA_", "CUDA_", "LD_LIBRARY_PATH", "OMP_", "MKL_", "ONEDNN_", "PYTHON")

# The last words of native code that a failed allocation ended: TensorFlow's kernels, CUDA's libraries and NCCL check
# for it and abort, or don't and crash. An allocator also warns where it could do with less: that is no failure.
_NO_MEMORY_IN_CPP = re.compile(
    r"std::bad_alloc|out of memory(?!.*not a failure)|RESOURCE_EXHAUSTED|_ALLOC_FAILED", re.IGNORECASE
)

# A killed process ends when the driver has freed its memory, and the next worker wants that memory.
_GPU_FREED_SECONDS = 60.0

_LOGS_KEPT_SECONDS = 30 * 86_400.0
# As `LocalLauncher` names them, to the letter: the folder may be a project's own `logs/`.
_OUR_LOG = re.compile(r"(worker|server)-\d{8}-\d{6}-\d+-[0-9a-f]{4}(-\d+)?\.log")

_SCRATCH = "tfperf-worker-"
_SCRATCH_KEPT_SECONDS = 2 * 86_400.0  # longer than any worker lives

# A machine that is busy lets a worker write its stacks late; one that hangs in a driver writes none.
_STACKS_SECONDS = 3.0

# A pipeline that ends or stalls just now must not hold up the night: its windows are measured already.
_PARTS_SECONDS = 60.0


class LocalLauncher:
    """Starts workers on this machine, from a fork server or as fresh interpreters.

    Args:
        logs: folder for the workers' log files; made where missing.
        silence_seconds: a worker that says nothing for so long is taken for hung, and is killed.
        fresh: a new interpreter for each worker instead of a fork.
        python: the interpreter to run.
        import_paths: where workers find the users' own modules, the folder that they run in first; None: where this
            process finds them, in its own folder.
    """

    def __init__(
        self,
        *,
        logs: Path,
        silence_seconds: float,
        fresh: bool = False,
        python: str = sys.executable,
        import_paths: Callable[[], list[str]] | None = None,
    ) -> None:
        self._logs = logs
        # In containers that cron starts pytest has one pid everywhere; a comparison's sides begin in one second.
        self._session = f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}-{secrets.token_hex(2)}"
        self._silence_seconds = silence_seconds
        self._fresh = fresh
        self._python = python
        self._own_code = import_paths is None
        self._import_paths = import_paths or session_import_paths
        self._listener: Listener | None = None
        self._spawner: Spawner | None = None
        self._imported_under: dict[str, str] = {}
        self._started = 0
        self._wedged = Wedged()

    def start(self, job: Job, progress: Progress) -> LocalRun:
        """See `Launcher.start`; the first call also starts the fork server."""
        progress("start")
        self._wedged.require(job.devices, lambda: self._probe(job, progress))
        try:
            return self._start(job, progress)
        except OSError as error:  # a full disk, too many open files, no memory for a fork
            raise MeasurementError(f"a worker could not be started: {error}") from error

    def _probe(self, job: Job, progress: Progress) -> None:
        """One step of the least workload, on the same devices."""
        progress("probe")
        run = self._start(replace(job, workload=PROBE, slowdown=0.0, data=Data()), progress)
        try:
            run.request(1)
            run.receive()
        finally:
            run.close()

    def _start(self, job: Job, progress: Progress) -> LocalRun:
        listener, spawner = self._ready()
        self._started += 1
        log = self._logs.absolute() / f"worker-{self._session}-{self._started}.log"
        self._logs.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH))
        try:
            process = spawner.spawn(self._message(job, log, scratch))
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        run = LocalRun(
            process,
            log,
            scratch,
            self._silence_seconds,
            self._python,
            on_hang=partial(self._wedged.suspect, job.devices),
            on_cpus=job.devices.kind is DeviceKind.CPU,
            max_seconds=job.max_seconds,
        )
        try:
            run.prepare(listener, self._started, progress)
        except BaseException:
            run.close()
            raise
        return run

    def _message(self, job: Job, log: Path, scratch: Path) -> dict[str, Any]:
        """What `training.worker.work` takes."""
        return {
            "number": self._started,
            "workload": job.workload.to_json(),
            "devices": asdict(job.devices),
            "seed": job.seed,
            "slowdown": job.slowdown,
            "data": asdict(job.data),
            "cores": job.cores,
            "names": catalogue.registered(),
            "log": str(log),
            "environment": _environment(job) | {"TMPDIR": str(scratch)},
            "import_paths": self._import_paths(),
        }

    def close(self) -> None:
        """End the server and every worker."""
        if self._spawner is not None:
            self._spawner.close()
        if self._listener is not None:
            self._listener.close()
        self._spawner = self._listener = None

    def _ready(self) -> tuple[Listener, Spawner]:
        now = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_IMPORT)}
        if self._spawner is not None and (self._spawner.gone or now != self._imported_under):
            self.close()
        if self._listener is None or self._spawner is None:
            self._imported_under = now
            _forget_old(self._logs)
            listener = Listener()
            try:
                self._spawner = self._make_spawner(listener)
            except BaseException:
                listener.close()
                raise
            self._listener = listener
        return self._listener, self._spawner

    def _make_spawner(self, listener: Listener) -> Spawner:
        folder = None if self._own_code else Path(self._import_paths()[0])
        if self._fresh:
            return FreshInterpreters(self._python, listener, folder)
        return ForkServer(self._python, listener, self._logs / f"server-{self._session}.log", folder)


class LocalRun:
    """A `TrainingRun` in a process on this machine.

    Its temporary files lie in `scratch` and end with it: TensorFlow writes one for each function that it compiles, and
    removes them only in an exit handler, which a killed worker never reaches.
    """

    def __init__(
        self,
        process: WorkerProcess,
        log: Path,
        scratch: Path,
        silence_seconds: float,
        python: str,
        *,
        on_hang: Callable[[], None] = lambda: None,
        on_cpus: bool = False,
        max_seconds: float = math.inf,
    ) -> None:
        self._ends = time.monotonic() + max_seconds
        self._max_seconds = max_seconds
        self._process = process
        self._on_cpus = on_cpus
        self._scratch = scratch
        self._python = python
        self._silence_seconds = silence_seconds
        self._on_hang = on_hang
        self._channel: Channel | None = None
        self._phase = "start"
        self._out_of_memory_kills = _out_of_memory_kills()
        self.log = str(log)
        self.images_per_step = 0
        self.compile_seconds = 0.0
        self.fetches = False
        self.environment: Mapping[str, str] = {}

    def prepare(self, listener: Listener, number: int, progress: Progress) -> None:
        """Take the worker's call and follow it until its step is compiled."""
        self._channel = self._await_call(listener, number)
        while True:
            message = self._next()
            if "phase" in message:
                self._phase = message["phase"]
                progress(self._phase)
            elif "ready" in message:
                ready = message["ready"]
                self.images_per_step = ready["images_per_step"]
                self.compile_seconds = ready["compile_seconds"]
                self.fetches = ready["fetches"]
                self.environment = ready["environment"]
                self._phase = "steps"
                return

    def request(self, steps: int) -> None:
        """See `TrainingRun.request`."""
        assert self._channel is not None
        with suppress(ConnectionLost):  # `receive` tells why, with all that is known
            self._channel.send({"steps": steps})

    def receive(self) -> Window:
        """See `TrainingRun.receive`."""
        window = self._next()["window"]
        if window["skipped"]:
            self.environment = {**self.environment, SKIPPED: window["skipped"].replace(" ", "_")}
        return Window(steps=window["steps"], seconds=window["seconds"], loss=window["loss"])

    def examine(self, *, products: bool, multiply_adds: bool) -> StepProfile:
        """See `TrainingRun.examine`."""
        assert self._channel is not None
        self._phase = "parts"
        self._silence_seconds = min(self._silence_seconds, _PARTS_SECONDS)
        with suppress(ConnectionLost):  # `_next` tells why
            self._channel.send({"examine": {"products": products, "multiply_adds": multiply_adds}})
        while "parts" not in (message := self._next()):
            pass
        return build(StepProfile, message["parts"], "the worker's parts")

    def close(self) -> None:
        """See `TrainingRun.close`."""
        if self._channel is not None:
            self._channel.close()
        self._process.end()
        if not self._on_cpus:
            self._process.exit_status(_GPU_FREED_SECONDS)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _await_call(self, listener: Listener, number: int) -> Channel:
        deadline = time.monotonic() + self._patience_seconds
        while time.monotonic() < deadline:
            try:
                channel, hello = listener.greet(0.2)
            except Silence:
                if (status := self._process.exit_status(0.001)) is not None:
                    raise self._died(status) from None
                continue
            if hello.get("number") == number:
                return channel
            channel.close()  # a worker that was given up meanwhile
        raise self._silent()

    def _next(self) -> dict[str, Any]:
        assert self._channel is not None
        try:
            message = self._channel.receive(self._patience_seconds)
        except Silence:
            raise self._silent() from None
        except ConnectionLost:
            raise self._died(self._process.exit_status(5)) from None
        refuse_tensorflow(message, self._python)
        if "error" in message:
            raise self._raised(message["error"])
        return message

    def _raised(self, error: Mapping[str, Any]) -> MeasurementError:
        kind = OutOfMemory if error["out_of_memory"] else MeasurementError
        if error["ours"]:  # written to be shown as it is; our own frames below it would say nothing
            first, *more = error["message"].splitlines()
            text = "\n".join([f"{first} (in phase {self._phase!r})", *more])
            return kind(f"{text}\n{self._tail() if shows_the_users_code(self._tail()) else f'its log: {self.log}'}")
        why = cause(error["message"])
        text = f"the worker raised {error['type']} in phase {self._phase!r}" + (f": {why}" if why else "")
        return kind(f"{text}{error['hint']}\n{self._tail()}")

    def _died(self, status: int | None) -> MeasurementError:
        how = "closed its connection" if status is None else describe_exit(status)
        kind = MeasurementError
        if status == -signal.SIGKILL and _out_of_memory_kills() > self._out_of_memory_kills:
            kind, how = OutOfMemory, "was ended by the kernel's out-of-memory killer"
        elif status in (-signal.SIGABRT, -signal.SIGSEGV) and _NO_MEMORY_IN_CPP.search(self._said()):
            kind = OutOfMemory
        return kind(f"the worker (pid {self._process.pid}) {how} in phase {self._phase!r}\n{self._tail()}")

    @property
    def _patience_seconds(self) -> float:
        """How long the next message may take."""
        return max(0.001, min(self._silence_seconds, self._ends - time.monotonic()))

    def _silent(self) -> MeasurementError:
        if time.monotonic() < self._ends:
            return self._hung()
        return OutOfTime(
            f"the worker (pid {self._process.pid}) was not through after {self._max_seconds:.0f} s, in phase "
            f"{self._phase!r}, and was killed"
        )

    def _hung(self) -> MeasurementError:
        if self._process.exit_status(0.001) is None:
            self._ask_for_stacks()
        self._on_hang()
        return Hung(
            f"the worker (pid {self._process.pid}) said nothing for {self._silence_seconds:g} s in phase "
            f"{self._phase!r} and was killed; a longer limit: --tfperf-timeout SECONDS\n{self._tail()}"
        )

    def _tail(self) -> str:
        return f"the end of its log ({self.log}):\n{log_end(Path(self.log), on_cpus=self._on_cpus)}"

    def _said(self) -> str:
        try:
            return read_end(Path(self.log))
        except OSError:
            return ""

    def _ask_for_stacks(self) -> None:
        """Have faulthandler write every thread's stack to the log; returns once nothing more comes."""
        before = last = self._said()
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self._process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + _STACKS_SECONDS
        while time.monotonic() < deadline:
            time.sleep(0.1)
            now = self._said()
            if now != before and now == last:
                return
            last = now


def _environment(job: Job) -> dict[str, str]:
    environment = dict(os.environ)
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    if job.devices.gpu_uuids:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(job.devices.gpu_uuids)
    elif job.devices.kind == "CPU":
        environment["CUDA_VISIBLE_DEVICES"] = "-1"  # a worker on CPUs must not take memory on a GPU
    return environment


def session_import_paths() -> list[str]:
    """Where pytest finds the tests' own modules: a user's model lies there, and the worker must find it too.

    What is installed is not among them: the worker's interpreter has its own, and may be another.
    """
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed = [Path(path) for path in (*libraries, *site.getsitepackages(), site.getusersitepackages()) if path]
    ours = (path for path in sys.path if path and not any(Path(path).is_relative_to(folder) for folder in installed))
    return [str(Path.cwd()), *ours]


def _forget_old(logs: Path) -> None:
    """Logs of ours that nobody asked about for a month; temporary files of workers whose session was killed."""
    for log in logs.glob("*.log"):
        if _OUR_LOG.fullmatch(log.name) and _older(log, _LOGS_KEPT_SECONDS):
            with suppress(OSError):
                log.unlink()
    for scratch in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        if _older(scratch, _SCRATCH_KEPT_SECONDS):
            shutil.rmtree(scratch, ignore_errors=True)


def _older(path: Path, seconds: float) -> bool:
    """Whether it is this user's and was last written to so long ago."""
    try:
        found = path.stat()
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mtime < time.time() - seconds


def _out_of_memory_kills() -> int:
    try:
        with Path("/proc/vmstat").open(encoding="ascii") as counters:
            return sum(int(line.split()[1]) for line in counters if line.startswith("oom_kill "))
    except OSError:
        return 0
