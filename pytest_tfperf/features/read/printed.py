"""A program's output and steps, as `tfperf read` watches them."""

from __future__ import annotations

import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from pytest_tfperf.bench.windows import time_windows
from pytest_tfperf.console.output import note
from pytest_tfperf.core.command import STEPS, Command
from pytest_tfperf.core.run import Plan, Run
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import Hung, MeasurementError, NoStep
from pytest_tfperf.lines import Line
from pytest_tfperf.programs import probed_run
from pytest_tfperf.programs.own_formats import FigureLines
from pytest_tfperf.programs.reading import LineSplitter
from pytest_tfperf.reports.progress_line import ProgressLine
from pytest_tfperf.workers.launcher import PreparedCommand

_STEPS_ARE_LATE: Final = 10  # times --seconds: a framework loads its data and compiles before its first step
_GOOD_ERROR: Final = 0.01  # of the rate by the clock, which then is known well enough
_LEAST_LINES: Final = 10  # since the first step, if any comes


@dataclass
class Printed:
    """The output of a program, with its steps if it took any; also a `Program` that prints it at the same times."""

    pieces: list[tuple[float, bytes]]  # the time of each, in seconds since the start
    is_whole: bool = True  # the program had ended
    run: Run | None = None  # of its steps
    how: str = ""  # where these are seen and what each holds, in words, or why there is none
    note: str = ""  # on what is left out of them
    log: str = field(default="", init=False)
    environment: Mapping[str, str] = field(default_factory=dict, init=False)
    silence_seconds: float = field(default=math.inf, init=False)
    now: float = field(default=0.0, init=False)
    _read: int = field(default=0, init=False)

    @classmethod
    def by(cls, command: Command, seconds: float) -> Self:
        """Run a program for so many seconds at most, from its first step or its first line on.

        Raises:
            MeasurementError: it could not be started, or failed.
        """
        printed, silence = cls([]), _STEPS_ARE_LATE * seconds
        with tempfile.TemporaryDirectory(prefix="tfperf-read-") as folder:
            log, scratch = Path(folder) / "output.log", Path(folder) / "scratch"
            scratch.mkdir()
            command = replace(command, env=os.environ, cwd=Path.cwd(), first_within=math.inf)  # `waits_on` decides
            prepared = PreparedCommand(command=command, log=log, silence_seconds=silence, facts={}, scratch=scratch)
            try:
                printed._watch(prepared, seconds)
            except NoStep as error:
                printed.how = error.fact
            except MeasurementError as error:
                below = (str(line).replace(f" ({log})", "") for line in error.below)
                error.below = tuple(line for line in below if str(log) not in line)  # which is removed
                raise
        return printed

    def _watch(self, prepared: PreparedCommand, seconds: float) -> None:
        began, command, figures = time.monotonic(), prepared.command, FigureLines(())

        def waits_on(seen: str) -> bool:
            note(f"it waits for the first step: {seen}")
            may_step = not self.pieces or (command.reads is None and re.search("torch|keras|a step of", seen))
            until = began + _STEPS_ARE_LATE * seconds if may_step else self.pieces[0][0] + seconds
            self.is_whole = time.monotonic() < until
            return self.is_whole

        def enough(run: Run) -> bool:
            return run_value(run).error <= _GOOD_ERROR and len(self.pieces) - before not in range(1, _LEAST_LINES)

        with closing(
            probed_run.start(
                *(prepared, command),
                slowdown=0.0,
                figures=figures,
                phase=note,
                notice=note,
                hear=self.hear,
                waits_on=waits_on,
            )
        ) as training:
            note("it takes steps")
            before = len(self.pieces)
            plan = Plan(steps=sys.maxsize, warmup_steps=3, max_seconds=seconds)
            self.run, self.how = time_windows(training, plan, ProgressLine(), enough), training.how_counted
            self.note = "" if training.note in self.how else training.note

    def by_the_clock(self) -> dict[str, float]:
        """The rate of its steps: in the unit that these hold, and in steps."""
        assert self.run is not None, "it took steps"
        rate, windows = run_value(self.run).examples_per_sec, self.run.windows
        steps = rate * sum(window.steps for window in windows) / sum(map(self.run.examples, windows))
        return {self.run.unit: rate, STEPS: steps}

    def longer(self, seconds: float) -> Iterator[str]:
        """The next step where the program still ran after so many seconds."""
        if not self.is_whole:
            yield f"  or      it still ran after {seconds:g} s, so maybe --seconds {6 * seconds:g}"

    def hear(self, line: str) -> None:
        """Keep a line that has just been printed."""
        self.pieces.append((time.monotonic(), f"{line}\n".encode()))

    def lines(self) -> list[tuple[float, str]]:
        """The lines, with the time at which each ended."""
        splitter = LineSplitter()
        return [(at, line) for at, data in self.pieces for line in splitter.feed(data) if line.strip()]

    def read(self, seconds: float) -> bytes:  # noqa: ARG002  nothing is waited for
        """The next output; b"" at its end."""
        if self._read == len(self.pieces):
            return b""
        self.now, data = self.pieces[self._read]
        self._read += 1
        return data

    def ended_badly(self) -> str:
        """Return "": a program that failed is not read."""
        return ""

    def failure(self, fact: str, next_step: str, *more: Line) -> MeasurementError:
        """The error with the reason why it can't be measured."""
        return MeasurementError(fact, *more, Line(next_step, "next"))

    def hung(self, fact: str, *more: Line) -> Hung:
        """The error for a program that does not end."""
        return Hung(fact, *more)
