"""The Python that runs workers, and their processes: their start, forked or as fresh interpreters, and their end."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.history_url import VARIABLE
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers import process_end
from pytest_tfperf.workers.failures import describe_exit, last_line, last_lines, read_end
from pytest_tfperf.workers.wire import ConnectionLost, Listener, Silence

_PACKAGE = str(Path(__file__).parents[1] / "__init__.py")

# Runs a module of this copy of the package, without its folder or the working folder on the path. Any Python can parse
# it, even 2.7.
_BOOTSTRAP = """
import sys
sys.path[:] = [path for path in sys.path if path]
if sys.version_info < (3, 11):
    sys.exit("it is Python %d.%d.%d; workers need 3.11 or newer" % sys.version_info[:3])
import importlib.util, runpy
spec = importlib.util.spec_from_file_location("pytest_tfperf", sys.argv[1])
sys.modules["pytest_tfperf"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
module = sys.argv[2]
del sys.argv[1:3]
runpy.run_module(module, run_name="__main__")
"""

_VERSIONS = """
import json, platform
from importlib import metadata
versions = {"python": platform.python_version()}
for name in ("tensorflow", "tensorflow-cpu", "keras", "torch", "jax", "jaxlib", "numpy"):
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""
_SECRET = (VARIABLE, "TFPERF_NOTIFY", "TFPERF_GITHUB_TOKEN")
_COVERAGE = ("COV_CORE_", "COVERAGE_PROCESS_")  # pytest-cov and coverage would trace workers and slow them down

IMPORT_SECONDS = 300
"""The most that importing TensorFlow may take: from a cold network disk it takes minutes."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that runs workers, and where they look for the user's modules."""

    python: str
    # Code that workers take from another folder, old -> new: the project's -> its checkout at the reference's commit.
    moved: Mapping[Path, Path] = field(default_factory=dict)
    # An environment variable's value for workers, from its name and its value here.
    variable: Callable[[str, str], str] = lambda _, value: value

    def command(self, module: str) -> list[str]:
        """The command that runs a module of this copy of the package, which need not be installed for that Python."""
        return [self.python, "-c", _BOOTSTRAP, _PACKAGE, module]

    def folder(self) -> Path:
        """The working folder of workers: pytest's, the same folder of the other checkout, or that checkout's top."""
        here = Path(self._move(str(Path.cwd())))
        return here if here.is_dir() else next(new for new in self.moved.values() if here.is_relative_to(new))

    def user_command(self, argv: Sequence[str]) -> list[str]:
        """A user's command with this Python instead of pytest's.

        >>> Interpreter("/venv/bin/python").user_command([sys.executable, "train.py"])
        ['/venv/bin/python', 'train.py']
        """
        return [self.python if word == sys.executable else word for word in argv]

    def user_folder(self, folder: str) -> Path:
        """The working folder of a user's command: this folder, or the same folder of the other checkout."""
        return Path(self._move(folder)) if folder else self.folder()

    def facts(self, command: Command) -> dict[str, str]:
        """A user command's digest and, if this Python runs it, the versions of packages that it may train with."""
        packages = packages_of(self.python) if command.runs_this_python else {}
        return {"command": command.digest, **packages}

    def environment(self) -> dict[str, str]:
        """This process's environment variables, as `variable` gives them, with PYTHONPATH leading into moved folders.

        Left out are our own passwords and tokens, and the variables that start coverage in subprocesses.
        """
        folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        kept = {
            name: self.variable(name, value)
            for name, value in os.environ.items()
            if name not in _SECRET and not name.startswith(_COVERAGE)
        }
        return {**kept, "PYTHONPATH": os.pathsep.join(self._move(folder) for folder in folders if folder)}

    def imports(self) -> dict[str, Any]:
        """The items of a worker's first message from which it finds the user's modules."""
        moved = {str(old.resolve()): str(new.resolve()) for old, new in self.moved.items()}
        return {"import_paths": self.import_paths(), "moved": moved}

    def import_paths(self) -> list[str]:
        """The folders of pytest's import path with the tests' own modules, and then the working folder.

        Folders of installed packages are left out: workers have their interpreter's.
        """
        paths = sysconfig.get_paths()
        libraries = [paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]]
        installed = set(map(Path, filter(None, [*libraries, *site.getsitepackages(), site.getusersitepackages()])))
        ours = [path for path in sys.path if path and installed.isdisjoint([Path(path), *Path(path).parents])]
        return list(dict.fromkeys(map(self._move, [*ours, str(Path.cwd())])))

    def _move(self, path: str) -> str:
        for old, new in self.moved.items():
            if Path(path).resolve().is_relative_to(old.resolve()):
                return str(new / Path(path).resolve().relative_to(old.resolve()))
        return path


@cache
def packages_of(python: str) -> dict[str, str]:
    """The installed versions of packages that a program may train with; empty if this Python can't be run."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run([python, "-c", _VERSIONS], capture_output=True, timeout=IMPORT_SECONDS, check=False)
        return {str(name): str(version) for name, version in json.loads(done.stdout).items()}
    return {}


def require_usable_import(message: Mapping[str, Any], python: Path | str) -> None:
    """Check a worker's message about its import of TensorFlow; other messages pass.

    Raises:
        MeasurementError: TensorFlow cannot be imported, or is too old.
    """
    problem = f"can't import TensorFlow: {message['failed']}" if "failed" in message else ""
    for package, least in (("TensorFlow", (2, 16)), ("Keras", (3, 0))):
        version = str(message.get("imported", {}).get(package.lower(), ""))
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is not None and tuple(map(int, numbers.groups())) < least:
            problem = f"has {package} {version}; workers need TensorFlow 2.16 or newer, with Keras 3"
    if problem:
        raise MeasurementError(
            f"{python} {problem}",
            f"Install one: {python} -m pip install --upgrade tensorflow (without GPUs: "
            "tensorflow-cpu; for NVIDIA's: 'tensorflow[and-cuda]'), or a nightly or vendor's build",
        )


# Processes

_ANSWER_SECONDS = 60.0
_LEAST_ANSWER_SECONDS = 10.0  # a busy machine may take seconds for what needs milliseconds

KILL_SECONDS = 60.0
"""The most that a killed process may take to end: the driver frees its GPU's memory, which the next worker needs."""


@dataclass(frozen=True, slots=True)
class Process:
    """A worker, a rank that an engine started, or the fork server."""

    pid: int  # and, where it is ended here, the id of its group; perhaps of another machine
    # Its exit status (negative for a signal), or None if it still runs after so many seconds; of a rank the engine's
    # command's, where a rank's own is not known.
    exit_status: Callable[[float], int | None]
    is_here: bool = True  # the process id is of this machine
    is_ended_here: bool = True  # a rank ends when its connection closes, and the engine ends ranks that do not

    def end(self) -> None:
        """Kill it unless it has ended, with all that it started in its group, and wait for its end; never raises.

        As a client of MPS it gets time to end by itself, since its connection is closed.
        """
        if not self.is_ended_here:
            return
        # Once its end is known, its pid may belong to another process. Without the server, nobody else would kill it.
        if self.exit_status(process_end.MPS_END_SECONDS if process_end.mps_is_on() else 0) is None:
            process_end.end_mps_clients(self.pid)
            process_end.kill_group(self.pid)
            self.exit_status(KILL_SECONDS)


def start_process(interpreter: Interpreter, module: str, listener: Listener, log: Path, number: int = 0) -> Process:
    """Start a module of this package in a session of its own, so that only pytest gets Ctrl-C of the terminal.

    Its environment has the driver's address and the worker's number.
    """
    environment = {"TF_CPP_MIN_LOG_LEVEL": "1", **interpreter.environment(), "TFPERF_NUMBER": str(number)}
    environment |= {"TFPERF_ADDRESS": listener.address, "TFPERF_PARENT": str(os.getpid())}
    with log.open("ab") as output:
        process = subprocess.Popen(
            interpreter.command(module),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=interpreter.folder(),
            start_new_session=True,
        )
    return Process(process.pid, partial(_wait, process))


class ForkServer:
    """`training.server` as a process; it imports TensorFlow once and then forks a worker for each number.

    It is killed as hung where it neither answers nor works for `silence_seconds`, but for 10 to 60 s.

    Raises:
        MeasurementError: it did not start, or cannot import TensorFlow.
    """

    def __init__(
        self, interpreter: Interpreter, listener: Listener, log: Path, silence_seconds: float = _ANSWER_SECONDS
    ) -> None:
        self._python = interpreter.python
        self._silence_seconds = min(_ANSWER_SECONDS, max(_LEAST_ANSWER_SECONDS, silence_seconds))
        self._log = log
        self._statuses: dict[int, int] = {}  # by the worker's number, because the system reuses pids
        self.process = start_process(interpreter, "pytest_tfperf.training.server", listener, log)
        with ExitStack() as undo:
            undo.callback(self.process.end)
            try:
                [channel] = listener.wait_for_all([{"hello": "server"}], self._silence_seconds, self.has_ended)
            except Silence:
                raise self._gone(0) from None
            except ConnectionLost:
                raise self._gone() from None
            self._channel = undo.enter_context(closing(channel))
            self._answer("ready", IMPORT_SECONDS)
            undo.pop_all()

    def has_ended(self) -> bool:
        """Whether the server is gone, and must be started anew."""
        return self.process.exit_status(0) is not None

    def fork(self, number: int) -> Process:
        """Fork the worker of this number, within milliseconds.

        When a worker ends, the server kills what is left in its group.

        Raises:
            MeasurementError: the server is gone, or holds a GPU open.
        """
        try:
            self._channel.send({"fork": number})
        except ConnectionLost:
            raise self._gone() from None
        pid = self._answer("forked", self._silence_seconds)
        return Process(pid, partial(self._exit_status, number))

    def close(self) -> None:
        """Close the connection: the server kills its workers and exits; it is killed if it does not."""
        self._channel.close()
        self.process.exit_status(0.5)
        self.process.end()

    def _exit_status(self, number: int, seconds: float) -> int | None:
        """The exit status of the worker of this number; None if it still runs or the server is gone."""
        deadline = time.monotonic() + seconds
        with suppress(Silence, ConnectionLost):
            while number not in self._statuses:
                self._note_exit(self._channel.receive(max(0.001, deadline - time.monotonic())))
        return self._statuses.get(number)

    def _answer(self, key: str, seconds: float) -> Any:
        """Wait for so many seconds, or until the server has done nothing meanwhile; kill it if it does not answer."""
        deadline = time.monotonic() + seconds
        while True:
            before = _work_done(self.process.pid)
            try:
                message = self._channel.receive(max(0.001, min(self._silence_seconds, deadline - time.monotonic())))
            except ConnectionLost:
                raise self._gone() from None
            except Silence:
                works = before is None or before != _work_done(self.process.pid)
                if works and time.monotonic() < deadline:
                    continue
                # A late answer would look like the answer to the next request.
                error = self._gone(0)
                self.process.end()
                raise error from None
            if key in message:
                return message[key]
            require_usable_import(message, self._python)
            if "refused" in message:
                raise MeasurementError(f"{message['refused']}; use --tfperf-worker=fresh")
            self._note_exit(message)

    def _note_exit(self, message: Mapping[str, Any]) -> None:
        if "exited" in message:
            self._statuses[message["exited"]] = message["status"]

    def _gone(self, seconds: float = 5.0) -> MeasurementError:
        status = self.process.exit_status(seconds)  # its connection closes before it has ended
        silent = f"did not answer for {self._silence_seconds:g} s and was killed"
        fact = f"the fork server {silent if status is None else describe_exit(status)}"
        log = read_end(self._log)
        return MeasurementError(
            f"{fact}; the end of its log ({self._log}):",
            *last_lines(log),
            "To start workers without it, use --tfperf-worker=fresh",
            brief=f"{fact}: {last_line(log)} ({self._log})",
        )


def _work_done(pid: int) -> tuple[str, ...] | None:
    """The page faults and the CPU time of a process so far; None where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[7], fields[9], fields[11], fields[12]


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    if process.returncode is None:
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            process_end.kill_group(process.pid)  # at once: no other process has this number yet
    return process.returncode
