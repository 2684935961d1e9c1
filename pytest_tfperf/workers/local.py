"""Workers on this machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.topology import DeviceKind
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Progress
from pytest_tfperf.workers.processes import ForkServer, LocalProcess, start_process
from pytest_tfperf.workers.unresponsive import PROBE, UnresponsiveDevices
from pytest_tfperf.workers.wire import Listener
from pytest_tfperf.workers.worker_files import WorkerFiles
from pytest_tfperf.workers.worker_run import WorkerRun

# TensorFlow, Keras and XLA read these once, at import: a server that imported under other values cannot be used.
_READ_AT_IMPORT = ("TF_", "KERAS_", "XLA_", "CUDA_", "LD_LIBRARY_PATH", "OMP_", "MKL_", "ONEDNN_", "PYTHON")


class LocalLauncher:
    """Starts workers on this machine, from a fork server or as fresh interpreters.

    Args:
        logs: folder for the workers' log files; made where missing.
        silence_seconds: a worker that sends nothing for so long hangs, and is killed.
        fresh: a new interpreter for each worker instead of a fork.
        python: the interpreter to run.
        moved: as in `Interpreter`.
    """

    def __init__(
        self,
        *,
        logs: Path,
        silence_seconds: float,
        fresh: bool = False,
        python: str = sys.executable,
        moved: Mapping[Path, Path] | None = None,
    ) -> None:
        self._files = WorkerFiles(logs.absolute())  # workers may run in another folder
        self._files.remove_old()
        self._silence_seconds = silence_seconds
        self._fresh = fresh
        self._interpreter = Interpreter(python, moved or {})
        self._listener = Listener()
        self._server: ForkServer | None = None
        self._imported_under: dict[str, str] = {}
        self._started = 0
        self._unresponsive = UnresponsiveDevices()

    def start(self, job: Job, progress: Progress) -> WorkerRun:
        """See `Launcher.start`; the first call also starts the fork server."""
        progress("start")
        try:
            self._unresponsive.check(job.devices, lambda: self._probe(job, progress))
            return self._start(job, progress)
        except OSError as error:  # a full disk, too many open files, no memory for a fork
            raise MeasurementError(f"a worker could not be started: {error}") from error

    def close(self) -> None:
        """End the fork server and its workers."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._listener.close()

    def _probe(self, job: Job, progress: Progress) -> None:
        """One step of the smallest workload, on the same devices."""
        progress("probe")
        run = self._start(replace(job, workload=PROBE, slowdown=0.0), progress)
        try:
            run.request(1)
            run.receive()
        finally:
            run.close()

    def _start(self, job: Job, progress: Progress) -> WorkerRun:
        self._started += 1
        log = self._files.worker_log(self._started)
        scratch = self._files.new_scratch_folder()
        message = {
            "job": plain(job),
            "log": str(log),
            "environment": {**self._environment(job), "TMPDIR": str(scratch)},
            "import_paths": self._interpreter.import_paths(),
        }
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, scratch, ignore_errors=True)
            run = WorkerRun(
                self._process(log),
                log,
                scratch,
                python=self._interpreter.python,
                on_cpus=job.devices.kind is DeviceKind.CPU,
                silence_seconds=self._silence_seconds,
                on_hang=partial(self._unresponsive.suspect, job.devices),
            )
            undo.callback(run.close)
            run.prepare(self._listener, self._started, message, progress)
            undo.pop_all()
        return run

    def _process(self, log: Path) -> LocalProcess:
        if self._fresh:
            module = "pytest_tfperf.training.process"
            return start_process(self._interpreter, module, self._listener, log, self._started)
        now = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_IMPORT)}
        if self._server is not None and (self._server.has_ended() or now != self._imported_under):
            self._server.close()
            self._server = None
        if self._server is None:
            self._imported_under = now
            self._server = ForkServer(self._interpreter, self._listener, self._files.server_log)
        return self._server.fork(self._started)

    def _environment(self, job: Job) -> dict[str, str]:
        environment = {"TF_CPP_MIN_LOG_LEVEL": "1", **self._interpreter.environment()}
        if job.devices.gpu_uuids:
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(job.devices.gpu_uuids)
        elif job.devices.kind is DeviceKind.CPU:
            environment["CUDA_VISIBLE_DEVICES"] = "-1"  # a worker on CPUs must not take a GPU's memory
        return environment
