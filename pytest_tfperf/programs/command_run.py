"""A user's command as a process: its output as it is printed, its log, and how it ends."""

from __future__ import annotations

import math
import os
import secrets
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from pytest_tfperf.core.speed_variables import FACT, speed_variables
from pytest_tfperf.errors import Hung, MeasurementError, OutOfMemory, UserCodeFailed, worded
from pytest_tfperf.lines import Line
from pytest_tfperf.workers.failures import OUT_OF_MEMORY, describe_exit, last_line, last_lines, of_program
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.process_end import kernel_oom_kills, kill_group, kill_marked, started_at
from pytest_tfperf.workers.processes import KILL_SECONDS, Interpreter

GRACE_SECONDS = 3.0
"""From SIGTERM to SIGKILL: enough for a signal handler, and short for a program that ignores SIGTERM."""

_LOGGED_BYTES = 2**20
_READ_BYTES = 2**16
_KILLED = 128 + 9  # SIGKILL, which Windows lacks
_MARK = "PYTEST_TFPERF_PROGRAM"
_POLL_SECONDS = 0.1
_NOTICED_SECONDS = 1.0  # after which a supervisor's end is noticed, where the output stays open
_TERMINAL_SIZE = (50, 240)  # rows and columns


class BoundedLog:
    """A log file that keeps the first and the last MiB of what a program prints.

    The first bytes are written at once, the last ones when the log is closed.
    """

    def __init__(self, path: Path, most_bytes: int = _LOGGED_BYTES) -> None:
        self._file = path.open("wb", buffering=0)
        self._most = most_bytes
        self._printed = 0
        self._last = bytearray()

    def write(self, data: bytes) -> None:
        """Add output; if the disk is full the log is incomplete, and the measurement goes on."""
        room = self._most - self._printed
        if room > 0:
            with suppress(OSError):
                self._file.write(data[:room])
        self._printed += len(data)
        self._last += data
        del self._last[: -self._most]

    @property
    def end(self) -> str:
        """The last 64 KiB."""
        return self._last[-_READ_BYTES:].decode(errors="replace")

    def close(self) -> None:
        """Write the end, and how much is missing before it."""
        if self._file.closed:
            return
        not_written = self._printed - self._most
        left_out = not_written - self._most
        with suppress(OSError), self._file:
            if left_out > 0:
                self._file.write(f"\n[tfperf: {left_out:,} bytes are left out here]\n".encode())
            if not_written > 0:
                self._file.write(self._last[-not_written:])


class Program(Protocol):
    """The program that `CommandWindows` reads: a running command, or output that is at hand already."""

    log: str
    environment: Mapping[str, str]
    silence_seconds: float

    def read(self, seconds: float) -> bytes | None:
        """The next output; b"" when the output has ended, None if nothing comes for so many seconds."""

    def ended_badly(self) -> str:
        """Its end in words, as in "exited with status 1"; "" for exit status 0.

        Raises:
            MeasurementError: it was ended because its supervisor was killed.
        """

    def failure(self, fact: str, next_step: str, *more: Line) -> MeasurementError:
        """The error for a program that can't be measured."""

    def hung(self, fact: str, *more: Line) -> Hung:
        """The error for a program that printed nothing useful for too long."""


class CommandRun:
    """A running command, in a process session of its own, under a supervisor that ends all that it starts.

    Raises:
        MeasurementError: it could not be started.
    """

    def __init__(self, prepared: PreparedCommand) -> None:
        self.log = str(prepared.log)
        self.environment: Mapping[str, str] = {**prepared.facts, FACT: speed_variables(prepared.command.env)}
        self.silence_seconds = prepared.silence_seconds
        self._scratch = prepared.scratch
        self._cancel, self._ended_ranks = prepared.cancel, prepared.ended_ranks
        self._oom_kills = kernel_oom_kills()
        try:
            self._start(prepared)
        except MeasurementError:
            self._remove_scratch()
            raise

    def _start(self, prepared: PreparedCommand) -> None:
        command = prepared.command
        argv, folder = command.words, Path(command.cwd)
        require_program(argv[0], folder, command.env.get("PATH", os.defpath))
        python, *supervisor = Interpreter(sys.executable).command("pytest_tfperf.programs.supervisor")
        with worded(prepared.log, "written", "Correct the permissions of its folder", kind=MeasurementError):
            self._log = BoundedLog(prepared.log)
        output, writing_end = _terminal() if command.terminal else os.pipe()
        self._output = os.fdopen(output, "rb", buffering=0)
        # Whatever the program starts inherits these. By them orphans are found if the supervisor is killed.
        mark = secrets.token_hex(8)
        self._mark, self._written_to = f"{_MARK}={mark}", os.fstat(writing_end)
        self._searched_at = -math.inf
        try:
            self._process = subprocess.Popen(
                # -E: variables for the program's Python are none for the supervisor's.
                [python, "-E", *supervisor, str(os.getpid()), str(GRACE_SECONDS), *argv],
                stdin=subprocess.DEVNULL,
                stdout=writing_end,
                stderr=subprocess.STDOUT,
                env={"PYTHONUNBUFFERED": "1", **command.env, _MARK: mark},
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            self._log.close()
            self._output.close()
            raise MeasurementError(f"{argv[0]} could not be started in {folder}: {error.strerror}") from error
        finally:
            os.close(writing_end)
        self._began = started_at(self._process.pid)
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)

    @property
    def pid(self) -> int:
        """The pid of its supervisor, whose only child is the program at first."""
        return self._process.pid

    def fileno(self) -> int:
        """For `select`: its output."""
        return self._output.fileno()

    def read(self, seconds: float) -> bytes | None:
        """See `Program.read`."""
        deadline = time.monotonic() + max(0.0, seconds)
        self._end_orphans()
        while not self._poll.poll(min(_NOTICED_SECONDS, max(0.0, deadline - time.monotonic())) * 1000):
            if time.monotonic() >= deadline:
                return None
            self._end_orphans()
        try:
            data = os.read(self._output.fileno(), _READ_BYTES)
        except OSError:  # EIO: no process writes to the terminal any more
            data = b""
        self._log.write(data)
        return data

    def has_ended(self) -> bool:
        """Whether it has ended, with all that it started."""
        return self._process.poll() is not None

    def ended_badly(self) -> str:
        """See `Program.ended_badly`."""
        status = self._exit_status(KILL_SECONDS)
        if status is None:
            return "still runs"
        if status < 0:
            kind = OutOfMemory if self._lacked_memory else MeasurementError
            how = describe_exit(OUT_OF_MEMORY if kind is OutOfMemory else status)
            raise kind(
                f"the program's supervisor (pid {self.pid}) {how}, so the program and all that it had started "
                "were ended",
                *self._below("look for what killed it, then run the test again"),
            )
        if status == _KILLED and self._lacked_memory:
            return describe_exit(OUT_OF_MEMORY)
        after = " after the kernel's out-of-memory killer had ended a process" if self._lacked_memory else ""
        for rank, first in self._ended_ranks(self._log.end).items():
            return f"ended because its rank {rank} {describe_exit(first)}{after}"
        return describe_exit(status) + after if status else ""

    def failure(self, fact: str, next_step: str, *more: Line) -> MeasurementError:
        """See `Program.failure`; the error has the end of the log, and `more` directly below the fact.

        It is `OutOfMemory`, and not the program's own fault, if the kernel killed processes for memory meanwhile, or if
        the program ended badly and its last lines say so.
        """
        brief = f"{fact}: {last_line(self._log.end)} ({self.log})" if self._process.poll() else ""
        kind, hint = of_program(self._log.end) if brief else (UserCodeFailed, "")
        kind = OutOfMemory if self._lacked_memory else kind
        return kind(f"{fact}{hint}", *more, *self._below(next_step), brief=brief)

    @property
    def _lacked_memory(self) -> bool:
        """Whether it ended badly, and the kernel has killed a process for memory since it began.

        The kernel may have killed a process that it started: then `torchrun` or a shell ends with its own status.
        """
        return bool(self._process.poll()) and kernel_oom_kills() > self._oom_kills

    def hung(self, fact: str, *more: Line) -> Hung:
        """See `Program.hung`; `more` comes directly below the fact."""
        return Hung(fact, *more, *self._below("ini value tfperf_timeout sets a longer limit"))

    def close(self) -> None:
        """End it and all that it started by SIGTERM, then by SIGKILL; never raises."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                self._process.terminate()
            self._exit_status(GRACE_SECONDS + 1.0)
        self._cancel()
        if self._exit_status(KILL_SECONDS) is None:
            kill_group(self._process.pid)
            self._exit_status(_NOTICED_SECONDS)
        self._end_orphans()
        self._log.close()
        self._output.close()
        self._remove_scratch()

    def _end_orphans(self) -> None:
        """End what a killed supervisor leaves: orphans would go on computing, and hold the output open."""
        now, status = time.monotonic(), self._process.poll()
        if status is not None and status < 0 and now - self._searched_at >= _NOTICED_SECONDS:
            self._searched_at = now
            kill_marked(self._mark, self._written_to, self._began)

    def _remove_scratch(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _exit_status(self, seconds: float) -> int | None:
        """Its exit status; None if it runs longer. Reads on meanwhile, so that a full pipe can't block the program."""
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < deadline:
            if self.read(_POLL_SECONDS) == b"":
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(max(0.0, deadline - time.monotonic()))
        return self._process.returncode

    def _below(self, next_step: str) -> tuple[Line, ...]:
        end = f"the end of its output ({self.log}):"
        return Line(next_step, "next"), Line(end), *last_lines(self._log.end)


def _terminal() -> tuple[int, int]:
    """The ends of a new terminal: ours to read, and the program's to write to."""
    import termios  # not at the top: Windows has none, and tests there import our types

    reading_end, writing_end = os.openpty()
    # Progress bars are cut to the terminal's width, which a new terminal lacks.
    termios.tcsetwinsize(writing_end, _TERMINAL_SIZE)
    return reading_end, writing_end


def require_program(program: str, folder: Path, path: str) -> None:
    """Refuse a program that can't be run, with better advice than the operating system's error."""
    name = program if "/" not in program else str(folder / program)
    if shutil.which(name, path=path) is not None:
        return
    if "/" not in program:
        fact, step = "there is no such program on PATH", "write its path, or start it by sys.executable"
    elif not Path(name).exists():
        fact, step = f"there is no such file in {folder}", "correct the path; relative ones begin at pytest's rootdir"
    else:
        fact, step = "this file is not executable", "start it by its interpreter, as in [sys.executable, 'train.py']"
    raise MeasurementError(f"{program} can't be run: {fact}", Line(step, "next"))
