"""A program whose output and clock are played, and what is measured of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import chain

from pytest_tfperf.core.run import Plan, Run
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.command_windows import CommandWindows
from tests.helpers.measurements import command
from tests.helpers.played import Notes

PLAN = Plan(steps=40, warmup_steps=1, counts_readings=True)


@dataclass
class PlayedProgram:
    """Prints each text after so many seconds, and then ends or hangs."""

    script: Iterable[tuple[float, str]]
    how_it_ended: str = ""
    hangs: bool = False
    silence_seconds: float = 100.0
    log: str = "command.log"
    environment: Mapping[str, str] = field(default_factory=dict)
    now: float = 0.0
    prints: Iterator[tuple[float, str]] = field(init=False)

    def __post_init__(self) -> None:
        self.prints = iter(self.script)

    def read(self, seconds: float) -> bytes | None:
        after, text = next(self.prints, (math.inf if self.hangs else 0.0, ""))
        if after > seconds:
            self.now += seconds
            self.prints = chain([(after - seconds, text)], self.prints)
            return None
        self.now += after
        return text.encode()

    def ended_badly(self) -> str:
        return self.how_it_ended

    def failure(self, fact: str, next_step: str, *more: Line) -> MeasurementError:
        return MeasurementError(fact, *more, Line(next_step, "next"))

    def hung(self, fact: str, *more: Line) -> Hung:
        return Hung(fact, *more)

    def proof(self, pid: int) -> AbstractContextManager[None]:
        return nullcontext()

    pid, scratch = 0, None

    def close(self) -> None:
        pass


def measured(program: PlayedProgram, plan: Plan = PLAN, *, devices: int = 1, **how: object) -> Run:
    windows = CommandWindows(program, command(**how), devices=devices, clock=lambda: program.now)
    windows.warm_up(plan)
    return windows.time(plan, Notes())


def per_sec(run: Run) -> float:
    return run_value(run).examples_per_sec
