"""`tfperf read`: run a program for some seconds, and show how its lines are read or could be read."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Self

from pytest_tfperf.console.arguments import STATUSES, Commands, add_command, checked
from pytest_tfperf.console.output import show, word_of_a_program
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.command import FORMATS_OF_RATES, FORMATS_OF_STEPS, STEPS, Command, Holds, Of, RateIs, Reads
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.features.read.proposals import proposals
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.command_run import CommandRun
from pytest_tfperf.programs.command_windows import WARMUP_READINGS, CommandWindows
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.reading import Kind, LineSplitter, Reading, Unreadable
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.reports.progress_line import ProgressLine
from pytest_tfperf.workers.launcher import PreparedCommand

_SECONDS: Final = 20.0
_SHOWN_LINES: Final = 8
_COLUMNS: Final = 100
_MOST_WAYS: Final = 3
_MOST_TRIED: Final = 20
_LEAST_OF_RATES: Final = 10
_STEPS_ALONE: Final = (
    "It counts steps. To count what a step holds over all devices: --examples-per-step N --unit UNIT/s"
)
_A: Final = {"step": "a step", "epoch": "an epoch"}
_WORDS: Final = {
    Kind.RATE: "{value:,.6g} {unit}/s",
    Kind.MEAN_RATE: "{value:,.6g} {unit}/s since the first step",
    Kind.STEP: "step {value:,.6g}",
    Kind.SECONDS: "{value:.6g} s per step",
    Kind.MEAN_SECONDS: "{value:.6g} s per step since the first one",
}


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        "read",
        _run,
        "run a program for some seconds and show what `check` would read from its lines",
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
    command.add_argument("--format", default="", choices=(*FORMATS_OF_STEPS, *FORMATS_OF_RATES), help="known format")
    command.add_argument("--pattern", default="", metavar="REGEX", help="regular expression, as in Reads(pattern=...)")
    command.add_argument("--field", default="", metavar="NAME", help="field of JSON lines, as in Reads(field=...)")
    command.add_argument("--holds", choices=tuple(Holds), default=Holds.RATE, help="what the field holds")
    command.add_argument("--of", choices=tuple(Of), help="the devices that a printed rate is of")
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
    reads = None
    if given.format or given.pattern or given.field:
        reads = Reads(
            format=given.format,
            pattern=given.pattern,
            field=given.field,
            holds=given.holds,
            rate_is=given.rate_is,
            of=given.of,
        )
    argv = [sys.executable if given.command[0] in ("python", "python3") else given.command[0], *given.command[1:]]
    command = Command(
        argv,
        name="read",
        unit=given.unit or "examples/s",
        examples_per_step=given.examples_per_step,
        reads=reads,
        terminal=given.terminal,
    )
    printed = Printed.by(command, given.seconds)
    if not printed.pieces:
        show("it printed nothing. Let it print its rate to stdout or stderr, or give --seconds more")
        return EXIT_NOT_MEASURED
    if command.reads is not None:
        read = _Read(command, printed, given.devices)
        show(*read.report(), *([] if read.readings else _advice(read, given)))
        return EXIT_GREEN if read.readings else EXIT_NOT_MEASURED
    ways = list(islice(_tried(command, printed, given.devices, unit_is_given=given.unit is not None), _MOST_WAYS))
    if not ways:
        longer = (
            ""
            if printed.is_whole
            else f"; it still ran after {given.seconds:g} s, so maybe --seconds {6 * given.seconds:g}"
        )
        lines = [f"ignored   {_cut(line)}" for _, line in printed.lines() if line.strip()]
        show(
            *_first(lines),
            "",
            "nothing is proposed: no line seems to have a counter, a rate or a time",
            f"  next    state what is read by --format, --pattern or --field, or let a terminal draw its bars{longer}",
        )
        return EXIT_NOT_MEASURED
    show(
        "nothing is read that is not stated",
        "  next    state what reads it; each of these commands was tried on what it printed",
        *(text for way in ways for text in ("", _command_line(way, given), f"    {_worded(way)}")),
    )
    return EXIT_NOT_MEASURED


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
                command=replace(command, env=os.environ, cwd=Path.cwd()),
                log=Path(folder) / "output.log",
                silence_seconds=seconds,
                facts={},
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


class _Result(NamedTuple):
    """The throughput of a run, in the command's unit."""

    units_per_sec: float
    readings: int  # windows that are timed
    units_in_a_step: float | None  # by the time between the lines; None where they name no steps


def _measure(command: Command, printed: Printed, devices: int) -> _Result:
    """The throughput of a run of `check` that prints this."""
    program = replace(printed)
    windows = CommandWindows(program, command, devices=devices, clock=lambda: program.now)
    plan = Plan(warmup_steps=WARMUP_READINGS, counts_readings=True)
    windows.warm_up(plan)
    run = windows.time(plan, ProgressLine())
    return _Result(run_value(run).examples_per_sec, len(run.windows), windows.units_in_a_step)


class _Read:
    """The lines as a command reads them."""

    def __init__(self, command: Command, printed: Printed, devices: int) -> None:
        self.command, self.printed, self.devices = command, printed, devices
        self.reader = Reader(command, devices)
        self.readings: list[tuple[str, Reading]] = []
        self._ignored: list[str] = []
        self.refusal: Unreadable | None = None
        for _, line in printed.lines():
            try:
                reading = self.reader.read(line)
            except Unreadable as error:
                self.refusal, self.readings = error, []
                break
            if reading is not None:
                self.readings.append((line, reading))
            elif line.strip():
                self._ignored.append(line)

    def report(self) -> list[str]:
        """The lines with their readings, the rate, and the call for a test."""
        skipped = {line for line, _ in self.reader.unread}
        texts = []
        for line, reading in self.readings:
            value = _WORDS[reading.kind].format(value=reading.value, unit=self.command.counted)
            texts.append(f"read      {value:>28}  {_cut(line)}")
        texts = _first(texts) + [f"not read  {why}:  {_cut(line)}" for line, why in self.reader.unread]
        texts += _first([f"ignored   {_cut(line)}" for line in self._ignored if line.strip() not in skipped])
        if self.refusal is not None:
            shown = [str(line) for line in self.refusal.lines]
            return [*texts, "", f"refused: {self.refusal.fact}", *shown, f"  next    {self.refusal.next_step}"]
        if not self.readings:
            return [*texts, "", f"nothing is read: {self.reader.nothing_read()}"]
        lines = counted(self.reader.lines, "line")
        return [
            *texts,
            "",
            f"{len(self.readings)} of {lines} are read.",
            *self._measured(),
            *([_STEPS_ALONE] if self.command.counted == STEPS and not self.command.examples_per_step else []),
            "",
            "In a test:",
            "",
            *self._test(),
        ]

    def _measured(self) -> list[str]:
        """The rate that a run of `check` reports, or why it can't."""
        try:
            result = _measure(self.command, self.printed, self.devices)
        except MeasurementError as error:
            fact, *below = map(str, error.lines)
            return [f"check would refuse it: {fact}", *below]
        rate = f"{result.units_per_sec:,.6g} {self.command.unit}, by {counted(result.readings, 'reading')}"
        units, counts = result.units_in_a_step, self.command.counted
        step = "" if units is None else f" By the time between its lines, a step holds {units:,.4g} {counts}."
        return [f"check would report {rate}. Compare this with what you know of the program.{step}"]

    def _test(self) -> list[str]:
        command, reads = self.command, self.command.reads
        assert reads is not None, "it was read by them"
        first, *others = command.words
        argv = ", ".join(["sys.executable" if first == sys.executable else repr(first), *map(repr, others)])
        given = {"format": reads.format, "pattern": reads.pattern, "field": reads.field}
        given["holds"] = "" if reads.holds == Holds.RATE else str(reads.holds)
        given |= {name: str(getattr(reads, name) or "") for name in ("rate_is", "of")}
        options = [f"{name}={value!r}" for name, value in given.items() if value]
        imports = ["import sys"] if "sys.executable" in argv else []
        texts = [
            *imports,
            f"from pytest_tfperf import Command{', Reads' if options else ''}",
            "",
            "program = Command(",
            f"    [{argv}],",
            f"    name={_name_of(command.words)!r},",
            f'    unit="{command.unit}",',
        ]
        texts += [f"    examples_per_step={command.examples_per_step},"] if command.examples_per_step else []
        texts += [f"    reads=Reads({', '.join(options)}),"] if options else []
        texts += ["    terminal=True,"] if command.terminal else []
        return [*texts, ")", "throughput.check(program, on=gpu_topology.take(1))"]


def _name_of(argv: Sequence[str]) -> str:
    """Return a name for the program, which keys its baseline: its script's or module's."""
    words = [word for word in argv[1:] if not word.startswith("-")] or argv
    return Path(words[0]).stem or "my-program"


def _advice(read: _Read, given: argparse.Namespace) -> list[str]:
    """The next step where nothing is read."""
    if read.refusal is not None:
        return []  # it has its own next step
    longer = f"; it still ran after {given.seconds:g} s, so maybe --seconds {6 * given.seconds:g}"
    return [f"  next    {read.reader.next_step()}{'' if read.printed.is_whole else longer}"]


class _Tried(NamedTuple):
    """A command that reads the output, what its numbers count, and the result of all lines, however few."""

    command: Command
    counts: str
    result: _Result


def _tried(command: Command, printed: Printed, devices: int, *, unit_is_given: bool) -> Iterator[_Tried]:
    """The proposed ways that give a rate for this very output, one for each thing that they count."""
    kept = set()
    for proposal in islice(proposals(printed.lines()), _MOST_TRIED):
        if proposal.counts in kept:
            continue
        reads, unit, examples = proposal.reads, f"{proposal.unit}/s", proposal.examples_per_step
        if proposal.counts and command.examples_per_step is not None:
            examples, unit = command.examples_per_step, command.unit
        elif unit_is_given and not proposal.counts:
            unit = command.unit
        way = replace(command, unit=unit, examples_per_step=examples, reads=reads)
        # To its end, because some programs print a few lines in the seconds of a trial.
        to_the_end = replace(way, reads=replace(reads, until_end=True))
        with suppress(MeasurementError):
            result = _measure(to_the_end, printed, devices)
            kept.add(proposal.counts)
            yield _Tried(way, proposal.counts, result)


def _command_line(way: _Tried, given: argparse.Namespace) -> str:
    command, reads = way.command, way.command.reads
    assert reads is not None, "a proposal reads"
    options = {
        "--unit": command.unit,
        "--format": reads.format,
        "--pattern": reads.pattern,
        "--field": reads.field,
        "--examples-per-step": command.examples_per_step,
        "--rate-is": reads.rate_is,
        "--devices": None if given.devices == 1 else given.devices,
        "--seconds": None if given.seconds == _SECONDS else f"{given.seconds:g}",
    }
    words = [word for option, value in options.items() if value for word in (option, str(value))]
    words += ["--terminal"] if given.terminal else []
    return shlex.join(["tfperf", "read", *words, "--", *given.command])


def _worded(way: _Tried) -> str:
    rate, reads = f"{way.result.units_per_sec:,.6g} {way.command.unit}", way.command.reads
    if not way.counts:
        is_average = reads is not None and reads.rate_is == RateIs.AVERAGE
        if is_average:
            return f"{rate} of late, by the averages since the start that it prints"
        is_short = way.result.readings < _LEAST_OF_RATES
        doubt = "; its lines are too few to tell an average since the start: give --seconds more" if is_short else ""
        return f"{rate}, as it prints{doubt}"
    rate += ", by the times that it prints" if reads is not None and "seconds>" in reads.pattern else ""
    if way.counts not in _A or way.command.examples_per_step not in (None, 1):
        return rate
    return f"{rate}. To count what {_A[way.counts]} holds over all devices: --examples-per-step N --unit UNIT/s"


def _first(texts: Sequence[str]) -> list[str]:
    more = len(texts) - _SHOWN_LINES
    return [*texts[:_SHOWN_LINES], *([f"          ... and {more} more"] if more > 0 else [])]


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 3]}..."
