"""A program's output with its times, and the run of `check` that it would give."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.command_windows import WARMUP_READINGS, CommandWindows
from pytest_tfperf.programs.reading import LineSplitter
from pytest_tfperf.reports.progress_line import ProgressLine


@dataclass(frozen=True)
class Printed:
    """The output of a program.

    Args:
        pieces: the time of each piece, in seconds since the start, and the piece.
        is_whole: the program had ended.
    """

    pieces: list[tuple[float, bytes]]
    is_whole: bool = True

    @classmethod
    def by(cls, command: Command, seconds: float) -> Self:
        """Run a program for so many seconds at most."""
        from pytest_tfperf.workers.launcher import PreparedCommand

        pieces = []
        with tempfile.TemporaryDirectory(prefix="tfperf-read-") as folder:
            prepared = PreparedCommand(
                argv=command.words,
                environment=os.environ,
                folder=Path.cwd(),
                log=Path(folder) / "output.log",
                silence_seconds=seconds,
                facts={},
                terminal=command.terminal,
            )
            with closing(CommandRun(prepared)) as run:
                start = time.monotonic()
                while (left := start + seconds - time.monotonic()) > 0 and (data := run.read(left)):
                    pieces.append((time.monotonic() - start, data))
        return cls(pieces, is_whole=left > 0)

    def lines(self) -> list[tuple[float, str]]:
        """The lines, with the time at which each ended."""
        splitter = LineSplitter()
        lines = [(at, line) for at, data in self.pieces for line in splitter.feed(data)]
        return [*lines, (self.pieces[-1][0], splitter.unfinished)] if splitter.unfinished else lines


@dataclass(frozen=True)
class Result:
    """The throughput of a run.

    Args:
        units_per_sec: in the command's unit.
        readings: the number of windows that are timed.
        units_in_a_step: by the time between the lines; None where they name no steps.
    """

    units_per_sec: float
    readings: int
    units_in_a_step: float | None


def measure(command: Command, printed: Printed, devices: int) -> Result:
    """The throughput of a run of `check` that prints this.

    Raises:
        MeasurementError: the run is refused.
    """
    program = _PrintedAgain(iter(printed.pieces))
    windows = CommandWindows(program, command, devices=devices, clock=lambda: program.now)
    plan = Plan(warmup_steps=WARMUP_READINGS, counts_readings=True)
    windows.warm_up(plan)
    run = windows.time(plan, ProgressLine())
    return Result(run_value(run).examples_per_sec, len(run.windows), windows.units_in_a_step)


@dataclass
class _PrintedAgain:
    """A program that repeats an output, at the same times."""

    printed: Iterator[tuple[float, bytes]]
    log: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    silence_seconds: float = math.inf
    now: float = 0.0

    def read(self, seconds: float) -> bytes:  # noqa: ARG002  nothing is waited for
        """The next output; b"" at its end."""
        self.now, data = next(self.printed, (self.now, b""))
        return data

    def ended_badly(self) -> str:
        """Return "": nobody waited for its end."""
        return ""

    def failure(self, fact: str, next_step: str, *more: Line) -> MeasurementError:
        """The error with the reason why it can't be measured."""
        return MeasurementError(fact, *more, Line(next_step, "next"))

    def hung(self, fact: str, *more: Line) -> Hung:
        """The error for a program that does not end."""
        return Hung(fact, *more)
