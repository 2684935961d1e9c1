"""`tfperf read`: run a program for some seconds, show its steps and what it prints, and print the test for it."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pytest_tfperf.console.arguments import Commands, Group, add_command, checked
from pytest_tfperf.console.output import show, word_of_a_program
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.command import (
    EXAMPLES,
    FORMATS_OF_RATES,
    FORMATS_OF_STEPS,
    STEPS,
    Command,
    Holds,
    Of,
    RateIs,
    Reads,
)
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED
from pytest_tfperf.core.run import Plan, Run
from pytest_tfperf.core.speed_variables import NAME
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import MeasurementError, TfperfError, worded
from pytest_tfperf.features.read.printed import Printed
from pytest_tfperf.features.read.proposals import proposals
from pytest_tfperf.lines import without_passwords
from pytest_tfperf.programs.command_run import require_program
from pytest_tfperf.programs.command_windows import WARMUP_READINGS, CommandWindows
from pytest_tfperf.programs.output_reader import Reader
from pytest_tfperf.programs.probed_program import require_probe
from pytest_tfperf.programs.reading import Unreadable
from pytest_tfperf.reports.numbers import counted, percent
from pytest_tfperf.reports.progress_line import ProgressLine

_SIZE: Final = "--examples-per-step N --unit UNIT/s"
_UNIT: Final = "examples/s"
_SECONDS: Final = 20.0
_SAME: Final = 0.05  # two rates of one thing that differ by less agree
_SHOWN_LINES: Final = 8
_COLUMNS: Final = 100
_MOST_WAYS: Final = 3
_MOST_TRIED: Final = 20
_LEAST_OF_RATES: Final = 10
_quoted = partial(json.dumps, ensure_ascii=False)
_NO_NAMES: Final = ("main", "__main__", "run")


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        _run,
        "read: run your program briefly, and print the test that gates it. It shows the steps and their rate",
        group=Group.START,
        examples=(
            "tfperf read -- python train.py --epochs=1",
            "tfperf read --write perf_tests/test_train.py -- torchrun --nproc-per-node=2 train.py",
            r"tfperf read --pattern 'speed (?P<rate>[\d.,]+)' --unit images/s -- ./train.sh",
        ),
        statuses={EXIT_NOT_MEASURED: "nothing can be measured"},
    )
    command.add_argument("command", nargs="+", type=word_of_a_program, metavar="COMMAND", help="program, after --")
    command.add_argument("--write", type=Path, metavar="FILE", help="save the test in a new file")
    command.add_argument("--unit", metavar="UNIT/s", help="what its rate counts (default: examples/s, or steps/s)")
    command.add_argument("--examples-per-step", type=int, metavar="N", help="units in a step over all devices")
    command.add_argument("--format", choices=(*FORMATS_OF_STEPS, *FORMATS_OF_RATES), help="known format")
    command.add_argument("--pattern", metavar="REGEX", help="regular expression, as in Reads(pattern=...)")
    command.add_argument("--field", metavar="NAME", help="field of JSON lines, as in Reads(field=...)")
    command.add_argument("--holds", choices=tuple(Holds), help="what the field holds (default: rate)")
    command.add_argument("--of", choices=tuple(Of), help="the devices that a printed rate is of")
    command.add_argument("--rate-is", choices=tuple(RateIs), help="what a printed rate stands for")
    devices = checked(parse.count(1))
    command.add_argument("--devices", type=devices, default=1, metavar="N", help="devices it runs on (default: 1)")
    most = f"how long it is watched at most, from its first step or line (default: {_SECONDS:g})"
    command.add_argument("--seconds", type=checked(parse.seconds), default=_SECONDS, metavar="S", help=most)
    command.add_argument("--terminal", action="store_true", help="let it print into a terminal, as progress bars want")


def _run(given: argparse.Namespace) -> int:
    if given.write is not None and given.write.exists():
        raise TfperfError(f"{given.write} exists, and is not overwritten", next_step="Name another file, or remove it")
    argv = [sys.executable if given.command[0] in ("python", "python3") else given.command[0], *given.command[1:]]
    require_program(argv[0], Path.cwd(), os.environ.get("PATH", os.defpath))
    stated = {each.name: value for each in fields(Reads) if (value := getattr(given, each.name, None))}
    command = Command(
        argv,
        name=_name_of(argv),
        unit=given.unit or _UNIT,
        examples_per_step=given.examples_per_step,
        reads=Reads(**stated) if stated else None,
        terminal=given.terminal,
    )
    try:
        printed = Printed.by(command, given.seconds)
    except MeasurementError as error:
        show(*error.lines)
        return EXIT_NOT_MEASURED
    if command.reads is not None:
        measured = _as_stated(command, printed, given)
    elif printed.run is not None:
        measured = _by_steps(command, printed, printed.run, given.devices)
    else:
        measured = None
        show(*_without_steps(command, printed, given))
    if measured is None:
        return EXIT_NOT_MEASURED
    test = _test(measured, given.devices)
    if given.write is None:
        show("", "The test, which --write FILE saves:", "", *test)
        return EXIT_GREEN
    with worded(given.write, "written", "Name another file"):
        given.write.parent.mkdir(parents=True, exist_ok=True)
        with given.write.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(f"{line}\n" for line in test)
    show("", f"wrote {given.write}; its first baseline:  pytest {given.write} --update-baselines")
    return EXIT_GREEN


def _by_steps(command: Command, printed: Printed, run: Run, devices: int) -> Command:
    """Show the steps, and what the program prints beside them; returns the command that is measured by them."""
    clock = printed.by_the_clock()
    lines = [f"steps     by {printed.how}"]
    lines.append(
        f"clock     {', '.join(f'{rate:,.6g} {unit}/s' for unit, rate in clock.items())}, in {len(run.windows)} windows"
    )
    lines += [f"  note    {printed.note}"] if printed.note else []
    lines += [_beside(way, clock) for way in _proposed(command, printed, devices)]
    if run.unit == STEPS and command.counted != STEPS:
        lines.append(f"  next    to count what a step holds over all devices: {_SIZE}")
    show(*lines)
    return replace(command, unit=f"{run.unit}/s")


def _beside(way: _Way, clock: Mapping[str, float]) -> str:
    """A printed rate, and whether it agrees with the clock's of the same thing."""
    ratios = {unit: way.units_per_sec / rate for unit, rate in clock.items()}
    units = [unit for unit in clock if unit == way.command.counted or {unit, way.command.counted} <= EXAMPLES]
    # "[640/60000]" counts examples, and looks like a counter of steps.
    units += [unit for unit in clock if way.counts == "step" and _is_near(ratios[unit])]
    if not units:
        per_step = f": a step would hold {ratios[STEPS]:,.4g} {way.command.counted}"
        return f"printed   {_worded(way)}{'' if way.counts else per_step}"
    unit = min(units, key=lambda unit: abs(math.log(ratios[unit])))
    text, ratio = f"printed   {_worded(way, unit if way.counts else '')}", ratios[unit]
    if abs(ratio - 1) <= _SAME:
        return f"{text}: agrees with the clock"
    if way.readings < _LEAST_OF_RATES and _is_near(ratio):
        return f"{text}: its lines are too few to compare with the clock"
    more = f"{ratio:,.3g} times" if ratio >= 2 else f"{percent(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} than"
    return f"{text}: differs, {more} the clock's"


def _is_near(ratio: float) -> bool:
    return 1 / 2 < ratio < 2


def _as_stated(command: Command, printed: Printed, given: argparse.Namespace) -> Command | None:
    """Show what the options read, and the rate that a test would report; None where they read nothing."""
    reader, read = Reader(command, given.devices), []
    try:
        for _, line in printed.lines():
            if (reading := reader.read(line)) is not None:
                read.append(f"read      {reading.kind.value} {reading.value:,.6g}  {_cut(line)}")
        show(*_first(read), *(f"not read  {why}:  {_cut(line)}" for line, why in reader.unread), "")
        way = _measured(command, printed, given.devices)
    except Unreadable as error:
        show(f"refused: {error.fact}", *error.lines, f"  next    {error.next_step}")
        return None
    except MeasurementError as error:
        show(f"check would refuse it: {error.lines[0]}", *error.lines[1:], *printed.longer(given.seconds))
        return command if read else None
    show(f"{len(read)} of {counted(reader.lines, 'line')} are read; check would report {_worded(way)}")
    if printed.run is not None:
        show(_beside(way, printed.by_the_clock()))
    return command


def _without_steps(command: Command, printed: Printed, given: argparse.Namespace) -> Iterator[str]:
    """What a program without steps prints, and the next step: commands that read it, tried on this very output."""
    yield from _first(f"printed   {_cut(line)}" for _, line in printed.lines())
    yield printed.how
    try:
        require_probe(command)
        yield '  next    in a Python program, tell each step at its end: sys.audit("tfperf.step", EXAMPLES)'
    except MeasurementError as error:
        yield f"  next    {error.text}"
    if not printed.pieces:
        yield "  or      let it print its rate to stdout or stderr"
        return
    ways = _proposed(command, printed, given.devices)
    if not ways:
        yield "  or      state its rate by --pattern or --field: no line seems to have a rate or a counter"
        yield from printed.longer(given.seconds)
        return
    yield "  or      state what it prints; each of these commands was tried on what it printed"
    for way in ways:
        yield from ("", _command_line(way, given), f"    {_worded(way)}{_doubt(way)}")


class _Way(NamedTuple):
    """A command that reads the output, what its numbers count, and the result."""

    command: Command
    counts: str  # "step", "epoch"; "" for a rate that the program prints
    units_per_sec: float
    readings: int  # windows that are timed


def _measured(command: Command, printed: Printed, devices: int, counts: str = "") -> _Way:
    """The result of a run of `check` that prints this."""
    program = replace(printed)
    windows = CommandWindows(program, command, devices=devices, clock=lambda: program.now)
    plan = Plan(warmup_steps=WARMUP_READINGS, counts_readings=True)
    windows.warm_up(plan)
    run = windows.time(plan, ProgressLine())
    return _Way(command, counts, run_value(run).examples_per_sec, len(run.windows))


def _proposed(command: Command, printed: Printed, devices: int) -> list[_Way]:
    """The ways that give a rate for this very output, one for each thing that they count."""
    ways: dict[str, _Way] = {}
    for proposal in islice(proposals(printed.lines()), _MOST_TRIED):
        if proposal.counts in ways or len(ways) == _MOST_WAYS:
            continue
        is_given = command.examples_per_step is not None if proposal.counts else command.unit != _UNIT
        unit = command.unit if is_given else f"{proposal.unit}/s"
        examples, reads = proposal.examples_per_step, proposal.reads
        if proposal.counts and is_given:
            examples = command.examples_per_step
        way = replace(command, unit=unit, examples_per_step=examples, reads=reads)
        # To its end, because some programs print a few lines in the seconds of a trial.
        to_the_end = replace(way, reads=replace(reads, until_end=True))
        with suppress(MeasurementError):
            ways[proposal.counts] = _measured(to_the_end, printed, devices, proposal.counts)._replace(command=way)
    return list(ways.values())


def _options(reads: Reads | None) -> dict[str, str]:
    """The arguments that were given to it, by name."""
    given = {each.name: getattr(reads, each.name, each.default) for each in fields(Reads)}
    return {each.name: str(given[each.name]) for each in fields(Reads) if given[each.name] != each.default}


def _command_line(way: _Way, given: argparse.Namespace) -> str:
    options = {"unit": way.command.unit, "examples-per-step": way.command.examples_per_step}
    options |= {name.replace("_", "-"): value for name, value in _options(way.command.reads).items()}
    options |= {"devices": None if given.devices == 1 else given.devices, "write": given.write}
    options["seconds"] = None if given.seconds == _SECONDS else f"{given.seconds:g}"
    words = [word for name, value in options.items() if value for word in (f"--{name}", str(value))]
    words += ["--terminal"] if given.terminal else []
    return shlex.join(["tfperf", "read", *words, "--", *given.command])


def _worded(way: _Way, unit: str = "") -> str:
    """Its rate, and how that is known; in another unit than the command's, if one is given."""
    text, reads = f"{way.units_per_sec:,.6g} {unit or way.command.counted}/s", way.command.reads
    assert reads is not None, "it was read"
    if reads.group in (Holds.SECONDS, Holds.MILLISECONDS):
        return f"{text}, by the times that it prints"
    if reads.reads_steps:
        return f"{text}, by the time between its lines"
    return f"{text}, {'by the averages' if reads.rate_is == RateIs.AVERAGE else 'as'} it prints"


def _doubt(way: _Way) -> str:
    if not way.counts and way.readings < _LEAST_OF_RATES:
        return "; its lines are too few to tell an average since the start: give --seconds more"
    if way.counts not in ("step", "epoch") or way.command.examples_per_step not in (None, 1):
        return ""
    return f". To count what {'a' if way.counts == 'step' else 'an'} {way.counts} holds over all devices: {_SIZE}"


def _test(command: Command, devices: int) -> list[str]:
    """The test that measures this command, as a file."""
    from pytest_tfperf.hardware.discovery import discover  # here, because it imports NVML

    marker = "gpu" if discover().gpus else "cpu"
    words = ["sys.executable" if word == sys.executable else _quoted(word) for word in command.words]
    reads = [f"{name}={_quoted(value)}" for name, value in _options(command.reads).items()]
    arguments = [f"[{', '.join(words)}]", f"name={_quoted(command.name)}", f"unit={_quoted(command.unit)}"]
    arguments += [f"examples_per_step={command.examples_per_step}"] if command.examples_per_step else []
    arguments += [f"reads=Reads({', '.join(reads)})"] if reads else []
    arguments += ["terminal=True"] if command.terminal else []
    arguments += [f"env={_quoted(variables)}"] if (variables := _variables()) else []
    return [
        *(["import sys", ""] if sys.executable in command.words else []),
        *("import pytest", ""),
        *(f"from pytest_tfperf import Command{', Reads' if reads else ''}", "", ""),
        f"@pytest.mark.{marker}",
        f"def test_{re.sub('[^A-Za-z0-9]', '_', command.name)}(throughput, gpu_topology):",
        "    program = Command(",
        *(f"        {argument}," for argument in arguments),
        "    )",
        f"    throughput.check(program, on=gpu_topology.take({devices}))",
    ]


def _name_of(argv: Sequence[str]) -> str:
    """A name for the program, which keys its baseline: its script's or module's, or that of the folder of `main.py`."""
    modules = [module.replace(".", "/") for option, module in pairwise(argv) if option == "-m"]
    program = Path([*(word for word in argv[1:] if word.endswith(".py")), *modules, argv[0]][0]).absolute()
    name = program.parent.name if program.stem in _NO_NAMES else program.stem
    return name if re.fullmatch(r"[A-Za-z0-9][\w.-]{0,99}", name, re.ASCII) else "my-program"


def _variables() -> dict[str, str]:
    """The variables of this environment that may change its speed, but for secrets, and for paths of this machine."""
    known = {name: value for name, value in sorted(os.environ.items()) if NAME.match(name) and "/" not in value}
    return {
        name: value for name, value in known.items() if value and without_passwords(text := f"{name}={value}") == text
    }


def _first(texts: Iterable[str]) -> list[str]:
    shown = list(texts)
    if len(shown) > _SHOWN_LINES:
        shown[_SHOWN_LINES:] = [f"          ... and {len(shown) - _SHOWN_LINES} more"]
    return shown


def _cut(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 3]}..."
