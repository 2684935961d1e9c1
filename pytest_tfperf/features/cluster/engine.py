"""Engines, which start the ranks of a job on several nodes, by the names that `--tfperf-launcher` takes.

To add a launcher, write its engine: one class that meets `Engine`, in a file of `engines/`; nothing else lists it. For
`--tfperf-launcher="pbs OPTIONS"` that is the class `Pbs` in `pbs.py`, which is made with the options. It only gives the
command that starts the ranks: `rank_launcher.py` runs it, and talks to the ranks. If the command gives ranks their
numbers in variables of its own, in place of TFPERF_RANK, add these to `training/rank.py`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from pytest_tfperf.errors import MeasurementError, TfperfError, known_names


class Engine(Protocol):
    """Starts a session's ranks.

    Attributes:
        most_nodes: the number of nodes; None if only the engine itself knows it.
        starts_ranks: False if something else starts the ranks.
        runs_programs: whether it can run a user's own program, and passes on its output.
    """

    most_nodes: int | None
    starts_ranks: bool
    runs_programs: bool

    def command(
        self, nodes: int, ranks_per_node: int, rank: Sequence[str], variables: Sequence[str], gpus: int = 0
    ) -> list[str]:
        """The command that starts all ranks and ends when they have ended; empty if it starts none.

        Args:
            nodes: the number of nodes.
            ranks_per_node: the number of ranks on each.
            rank: the command of a rank, which finds out its number by itself (`training/rank.py`).
            variables: names of the environment variables that each rank needs.
            gpus: the number of GPUs that the ranks of a node need together, where the engine chooses the nodes.
        """

    def ended_ranks(self, output: str) -> Mapping[int, int]:
        """The exit statuses of ranks that the command's output names, negative for signals, in the order of their ends.

        Empty where the command's own exit status is that of the first rank that failed.
        """

    def cancel(self) -> None:
        """End processes that the killed command left behind; never raises."""


LOCAL: Final = "local"
NAMES: Final = sorted(path.stem for path in (Path(__file__).parent / "engines").glob("[!_]*.py"))


def is_empty(option: str) -> bool:
    """Whether an option lacks its value, because a variable in it is not set: "--host=", or an empty word."""
    return not option.strip() or (option.startswith("--") and option.endswith("="))


def split_launcher(text: str) -> tuple[str, list[str]]:
    """Split the setting into the engine's name and its options.

    Raises:
        ValueError: the name is unknown, a quote is not closed, an option is empty, or `local` has options.
    """
    try:
        name, *options = shlex.split(text) or [""]
    except ValueError as error:
        raise ValueError(f"can't be split into words: {error}") from None
    if name not in (LOCAL, *NAMES):
        raise ValueError(f"is not a launcher. {known_names(name, [LOCAL, *NAMES])}")
    if name == LOCAL and options:
        raise ValueError(f"has options, and {LOCAL} takes none")
    if empty := [option for option in options if is_empty(option)]:
        raise ValueError(f"has an option without its value: {empty[0]!r}")
    return name, options


def find_engine(text: str) -> Engine | None:
    """The engine that this setting names; None for `local`.

    Raises:
        TfperfError: it is not installed here, or does not take these options.
    """
    name, options = split_launcher(text)
    if name == LOCAL:
        return None
    try:
        engine: Engine = getattr(import_module(f"{__package__}.engines.{name}"), name.capitalize())(options)
    except TfperfError as error:
        raise error.at(f"--tfperf-launcher={text}") from None
    return engine


_END_SECONDS = 5.0  # healthy ranks end within a second after the driver closes their connections


class EngineProcess:
    """An engine's command while it runs; there is no process if something else starts the ranks.

    Args:
        engine: cleans up after the command was killed.
        command: the command; empty if something else starts the ranks.
        environment: the command's environment variables.
        log: the file for the command's output.
    """

    def __init__(self, engine: Engine, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._engine = engine
        self._log = log
        self._name = command[0] if command else ""
        self._process: subprocess.Popen[bytes] | None = None
        if command:
            from pytest_tfperf.workers.interpreters import Interpreter  # pytest's start imports this file

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

    def has_ended(self) -> bool:
        """Whether the command has ended, and no further rank will call."""
        return self.exit_status(0) is not None

    def exit_status(self, seconds: float) -> int | None:
        """The command's exit status, or None if it still runs after so many seconds."""
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self._process.returncode

    def exit_status_of(self, rank: int, seconds: float) -> int | None:
        """A rank's exit status where the command's output has it, else the command's own, as `exit_status`."""
        from pytest_tfperf.workers.failures import read_end

        status = self.exit_status(seconds)
        return self._engine.ended_ranks(read_end(self._log)).get(rank, status)

    def failure(self, what: str) -> MeasurementError:
        """The error for ranks that did not all join, with the end of the command's output."""
        from pytest_tfperf.workers.failures import describe_exit, last_line, last_lines, read_end

        if self._process is None:
            return MeasurementError(
                f"{what}", next_step="Ranks: python -m pytest_tfperf.training.rank --repeat, on each node"
            )
        status = self.exit_status(1.0)
        log = read_end(self._log)
        how = "still runs" if status is None else describe_exit(status)
        who = f"{self._name}: a rank" if status is not None and status > 128 else self._name  # mpirun passes it on
        if first := next(iter(self._engine.ended_ranks(log).items()), None):
            who, how = f"{self._name}: rank {first[0]}", describe_exit(first[1])
        return MeasurementError(
            f"{what}",
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
            from pytest_tfperf.workers.process_end import kill_group

            kill_group(self._process.pid)
            self.exit_status(_END_SECONDS)
