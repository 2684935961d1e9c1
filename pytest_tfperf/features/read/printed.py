"""A program's output with its times, and the run of `check` that it would give."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, Self

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.command_windows import WARMUP_READINGS, CommandWindows
from pytest_tfperf.programs.reading import LineSplitter
from pytest_tfperf.reports.progress_line import ProgressLine
from pytest_tfperf.workers.launcher import PreparedCommand


@dataclass
class Printed:
    """The output of a program, and a `Program` that prints it again at the same times."""

    pieces: list[tuple[float, bytes]]  # the time of each, in seconds since the start
    is_whole: bool = True  # the program had ended
    log: str = field(default="", init=False)
    environment: Mapping[str, str] = field(default_factory=dict, init=False)
    silence_seconds: float = field(default=math.inf, init=False)
    now: float = field(default=0.0, init=False)
    _read: int = field(default=0, init=False)

    @classmethod
    def by(cls, command: Command, seconds: float) -> Self:
        """Run a program for so many seconds at most."""
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

    def read(self, seconds: float) -> bytes:  # noqa: ARG002  nothing is waited for
        """The next output; b"" at its end."""
        if self._read == len(self.pieces):
            return b""
        self.now, data = self.pieces[self._read]
        self._read += 1
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


class Result(NamedTuple):
    """The throughput of a run, in the command's unit."""

    units_per_sec: float
    readings: int  # windows that are timed
    units_in_a_step: float | None  # by the time between the lines; None where they name no steps


def measure(command: Command, printed: Printed, devices: int) -> Result:
    """The throughput of a run of `check` that prints this.

    Raises:
        MeasurementError: the run is refused.
    """
    program = replace(printed)
    windows = CommandWindows(program, command, devices=devices, clock=lambda: program.now)
    plan = Plan(warmup_steps=WARMUP_READINGS, counts_readings=True)
    windows.warm_up(plan)
    run = windows.time(plan, ProgressLine())
    return Result(run_value(run).examples_per_sec, len(run.windows), windows.units_in_a_step)
