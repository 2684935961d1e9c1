"""The command that starts the ranks of one job, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.features.cluster.engine import Engine
from pytest_tfperf.workers.failures import describe_exit, last_line, last_lines, read_end
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.process_group import kill_group

_END_SECONDS = 5.0  # healthy ranks end within a second after the driver closes their connections


class EngineProcess:
    """An engine's command while it runs; there is no process if something else starts the ranks.

    Args:
        engine: cleans up after the command was killed.
        command: what to run; empty if something else starts the ranks.
        environment: the command's environment variables.
        log: file for what the command prints.
    """

    def __init__(self, engine: Engine, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._engine = engine
        self._log = log
        self._name = command[0] if command else ""
        self._process: subprocess.Popen[bytes] | None = None
        if command:
            with_parent = Interpreter(sys.executable).command("pytest_tfperf.workers.process_group")
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [*with_parent, str(os.getpid()), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )

    def has_ended(self) -> bool:
        """Whether the command has ended, and no further rank will call."""
        return self.exit_status(0) is not None

    def exit_status(self, seconds: float) -> int | None:
        """The command's exit status, or None if it still runs after so many seconds.

        The exit statuses of the ranks are not known.
        """
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    def failure(self, what: str) -> MeasurementError:
        """The error for ranks that did not all join, with the end of the command's output."""
        if self._process is None:
            return MeasurementError(f"{what}. Ranks: python -m pytest_tfperf.training.rank --repeat, on each node")
        status = self.exit_status(1.0)
        how = "still runs" if status is None else describe_exit(status)
        who = f"{self._name}: a rank" if status is not None and status > 128 else self._name  # mpirun passes it on
        log = read_end(self._log)
        return MeasurementError(
            f"{what}. {who} {how}; the end of its output ({self._log}):",
            *last_lines(log),
            brief=f"{what}. {who} {how}: {last_line(log)} ({self._log})",
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
