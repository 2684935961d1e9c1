"""The lines of a program that can be read, and the rate that `check_command` would report.

For users who gate a program of their own, and first want to see which of its lines have a rate.
`tfperf read`; a session is not touched.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pytest_tfperf.console.arguments import STATUSES, Commands, add_command, checked
from pytest_tfperf.console.output import show, word_of_a_program
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.command import Command, RateIs, Reads
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED
from pytest_tfperf.core.run import Plan, Run
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.command_windows import WARMUP_READINGS, CommandWindows
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.reading import Kind, LineSplitter, Reading, Unreadable
from pytest_tfperf.reports.numbers import counted

_SECONDS: Final = 20.0
_SHOWN_LINES: Final = 8
_COLUMNS: Final = 100
_WORDS: Final = {
    Kind.RATE: "{value:,.6g} {unit}/s",
    Kind.MEAN_RATE: "{value:,.6g} {unit}/s since the first step",
    Kind.STEP: "step {value:,.6g}",
    Kind.EXAMPLES: "{value:,.6g} {unit} so far",
    Kind.SECONDS: "{value:.6g} s per step",
    Kind.MEAN_SECONDS: "{value:.6g} s per step since the first one",
    Kind.STEP_RATE: "{value:,.6g} steps/s",
}


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "read",
        _run,
        "run a program for some seconds and show what `check_command` would read from its lines",
        examples=(
            "tfperf read -- python train.py --epochs=1",
            "tfperf read --unit images/s --seconds 60 -- ./train.sh",
            r"tfperf read --pattern 'speed (?P<rate>[\d.,]+)' -- python train.py",
        ),
        statuses=STATUSES | {EXIT_NOT_MEASURED: "nothing can be read, or no memory, no space or no permission"},
    )
    command.add_argument(
        "command",
        nargs="+",
        type=word_of_a_program,
        metavar="COMMAND",
        help="program and its arguments, after --",
    )
    command.add_argument("--unit", metavar="UNIT/s", help="what its rate counts (default: what its lines name)")
    command.add_argument("--pattern", default="", metavar="REGEX", help="regular expression, as in Reads(pattern=...)")
    command.add_argument("--field", default="", metavar="NAME", help="field of JSON lines, as in Reads(field=...)")
    command.add_argument("--examples-per-step", type=int, metavar="N", help="units in a step over all devices")
    command.add_argument("--rate-is", choices=tuple(RateIs), help="what a printed rate stands for")
    command.add_argument(
        "--devices", type=checked(parse.count(1)), default=1, metavar="N", help="devices it runs on (default: 1)"
    )
    command.add_argument(
        "--seconds",
        type=checked(parse.seconds),
        default=_SECONDS,
        metavar="S",
        help=f"how long it runs at most (default: {_SECONDS:g})",
    )
    command.add_argument("--terminal", action="store_true", help="let it print into a terminal, as progress bars want")


def _run(given: argparse.Namespace) -> int:
    reads = Reads(
        pattern=given.pattern, field=given.field, examples_per_step=given.examples_per_step, rate_is=given.rate_is
    )
    argv = [sys.executable if given.command[0] in ("python", "python3") else given.command[0], *given.command[1:]]
    command = Command.of(argv, name="read", unit=given.unit or "examples/s", reads=reads, terminal=given.terminal)
    printed = _printed(command, given.seconds)
    if not printed:
        show("it printed nothing. Let it print its rate to stdout or stderr, or give --seconds more")
        return EXIT_NOT_MEASURED
    read = _best(command, printed, given.devices, unit_is_given=given.unit is not None)
    show(*read.report())
    return EXIT_GREEN if read.readings else EXIT_NOT_MEASURED


_Printed = list[tuple[float, bytes]]


def _printed(command: Command, seconds: float) -> _Printed:
    """The program's output in so many seconds, with its times in seconds since the start."""
    from pytest_tfperf.workers.launcher import PreparedCommand

    printed = []
    with tempfile.TemporaryDirectory(prefix="tfperf-read-") as folder:
        prepared = PreparedCommand(
            argv=command.argv,
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
                printed.append((time.monotonic() - start, data))
    return printed


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


class _NoObserver:
    """An observer that does nothing."""

    def window(self, run: Run, plan: Plan) -> None:
        """Do nothing."""

    def ended(self, run: Run) -> None:
        """Do nothing."""


def _measured(command: Command, printed: _Printed, devices: int) -> list[str]:
    """The rate that a run of `check_command` reports, or why it can't."""
    program = _PrintedAgain(iter(printed))
    windows = CommandWindows(program, command, devices=devices, clock=lambda: program.now)
    plan = Plan(warmup_steps=WARMUP_READINGS, counts_readings=True)
    try:
        windows.warm_up(plan)
        run = windows.time(plan, _NoObserver())
    except MeasurementError as error:
        fact, *below = map(str, error.lines)
        return [f"check_command would refuse it: {fact}", *below]
    rate, units = run_value(run).examples_per_sec, windows.units_in_a_step
    step = "" if units is None else f" By the time between its lines, a step holds {units:,.4g} {command.unit}."
    return [
        f"check_command would report {rate:,.6g} {command.unit}/s, by {counted(len(run.windows), 'reading')}. Compare "
        f"this with what you know of the program.{step}"
    ]


class _Read:
    """The lines as a command reads them."""

    def __init__(self, command: Command, printed: _Printed, devices: int) -> None:
        self.command = command
        self.reader = Reader(command, devices)
        self._measured = _measured(command, printed, devices)
        splitter = LineSplitter()
        lines = [line for _, data in printed for line in splitter.feed(data)]
        lines += [splitter.unfinished] if splitter.unfinished else []
        self.readings: list[tuple[str, Reading]] = []
        self._ignored: list[str] = []
        self._refusal: Unreadable | None = None
        for line in lines:
            try:
                reading = self.reader.read(line)
            except Unreadable as error:
                self._refusal, self.readings = error, []
                break
            if reading is not None:
                self.readings.append((line, reading))
            elif line.strip():
                self._ignored.append(line)

    def report(self) -> list[str]:
        """The lines with their readings, the rate, and the call for a test."""
        skipped = {line for line, _ in self.reader.unread}
        texts = [f"read      {_shown(reading, self.command.unit):>28}  {_cut(line)}" for line, reading in self.readings]
        texts = _first(texts) + [f"not read  {why}:  {_cut(line)}" for line, why in self.reader.unread]
        texts += _first([f"ignored   {_cut(line)}" for line in self._ignored if line.strip() not in skipped])
        if self._refusal is not None:
            return [*texts, "", f"refused: {self._refusal.fact}", f"  next    {self._refusal.next_step}"]
        if not self.readings:
            return [
                *texts,
                "",
                f"nothing is read: {self.reader.nothing_read()}",
                f"  next    {self.reader.next_step()}",
            ]
        lines = counted(self.reader.lines, "line")
        return [
            *texts,
            "",
            f"{len(self.readings)} of {lines} are read, as {self.reader.read_as}.",
            *self._measured,
            "",
            "In a test:",
            "",
            *self._test(),
        ]

    def _test(self) -> list[str]:
        command, reads = self.command, self.command.reads
        first, *others = command.argv
        argv = ", ".join(["sys.executable" if first == sys.executable else repr(first), *map(repr, others)])
        given = {"pattern": reads.pattern, "field": reads.field, "examples_per_step": reads.examples_per_step}
        given["rate_is"] = None if reads.rate_is is None else str(reads.rate_is)
        options = [f"{name}={value!r}" for name, value in given.items() if value]
        texts = [
            "throughput.check_command(",
            f"    [{argv}],",
            '    name="my-program",',
            "    on=gpu_topology.take(1),",
        ]
        texts.append(f'    unit="{command.unit}/s",')
        texts += [f"    reads=Reads({', '.join(options)}),"] if options else []
        texts += ["    terminal=True,"] if command.terminal else []
        return [*texts, ")"]


def _best(command: Command, printed: _Printed, devices: int, *, unit_is_given: bool) -> _Read:
    """The lines as the command reads them; if it reads none and no unit is given, in the unit that most lines name."""
    read = _Read(command, printed, devices)
    unit = read.reader.likely_unit
    if read.readings or unit_is_given or not unit:
        return read
    other = _Read(replace(command, unit=unit), printed, devices)
    return other if other.readings else read


def _shown(reading: Reading, unit: str) -> str:
    return _WORDS[reading.kind].format(value=reading.value, unit=unit)


def _first(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _SHOWN_LINES
    return [*texts[:_SHOWN_LINES], *([f"          ... and {more} more"] if more > 0 else [])]


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 3]}..."
