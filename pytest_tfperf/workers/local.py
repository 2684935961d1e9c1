"""Workers on this machine."""

from __future__ import annotations

import os
import shutil
import site
import sys
import sysconfig
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers.launcher import Progress
from pytest_tfperf.workers.processes import ForkServer, Interpreter, LocalProcess, start_fresh
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
        import_paths: gives the folders in which workers find the user's modules, and first the one that they run in;
            None: those of this process.
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
        self._files = WorkerFiles(logs)
        self._files.remove_old()
        self._silence_seconds = silence_seconds
        self._fresh = fresh
        self._python = python
        self._runs_other_code = import_paths is not None
        self._import_paths = import_paths or session_import_paths
        self._listener: Listener | None = None
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
        if self._listener is not None:
            self._listener.close()
        self._server = self._listener = None

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
        self._listener = listener = self._listener or Listener()
        self._started += 1
        log = self._files.worker_log(self._started)
        scratch = self._files.new_scratch_folder()
        paths = self._import_paths()
        interpreter = Interpreter(self._python, Path(paths[0]) if self._runs_other_code else None)
        message = {
            "job": job.to_json(),
            "number": self._started,
            "log": str(log),
            "environment": interpreter.environment() | _visible_gpus(job.devices) | {"TMPDIR": str(scratch)},
            "import_paths": paths,
        }
        with ExitStack() as undo:
            undo.callback(shutil.rmtree, scratch, ignore_errors=True)
            run = WorkerRun(
                self._process(interpreter, listener, message),
                job,
                log,
                scratch,
                self._python,
                silence_seconds=self._silence_seconds,
                on_hang=partial(self._unresponsive.suspect, job.devices),
            )
            undo.callback(run.close)
            run.prepare(listener, self._started, progress)
            undo.pop_all()
        return run

    def _process(self, interpreter: Interpreter, listener: Listener, message: dict[str, Any]) -> LocalProcess:
        if self._fresh:
            return start_fresh(interpreter, listener, message)
        now = {name: value for name, value in os.environ.items() if name.startswith(_READ_AT_IMPORT)}
        if self._server is not None and (self._server.gone or now != self._imported_under):
            self._server.close()
            self._server = None
        if self._server is None:
            self._imported_under = now
            self._server = ForkServer(interpreter, listener, self._files.server_log)
        return self._server.fork(message)


def session_import_paths() -> list[str]:
    """Folders in which pytest finds the tests' own modules, the working folder first.

    Folders of installed packages are left out: the worker's interpreter has its own, and may be another.
    """
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed = [Path(path) for path in (*libraries, *site.getsitepackages(), site.getusersitepackages()) if path]
    ours = (path for path in sys.path if path and not any(Path(path).is_relative_to(folder) for folder in installed))
    return [str(Path.cwd()), *ours]


def _visible_gpus(devices: Devices) -> dict[str, str]:
    if devices.gpu_uuids:
        return {"CUDA_VISIBLE_DEVICES": ",".join(devices.gpu_uuids)}
    # A worker on CPUs must not take a GPU's memory.
    return {"CUDA_VISIBLE_DEVICES": "-1"} if devices.kind is DeviceKind.CPU else {}
