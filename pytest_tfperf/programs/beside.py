"""A silent probe beside a program whose output is read: what its lines state, against the steps that were counted."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from pytest_tfperf.core.command import EXAMPLES, STEPS, Command
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.probe import entry, frameworks, link, steps
from pytest_tfperf.probe.hook_folder import HookFolder
from pytest_tfperf.programs.checks import AGREE
from pytest_tfperf.programs.reading import Unreadable
from pytest_tfperf.programs.window_aggregator import Stated
from pytest_tfperf.workers.launcher import PreparedCommand

_LEAST_WINDOWS = 5
_LEAST_STATED = 10  # a smoothed rate has the noise of its first readings for long
_ERRORS = 5.0  # by which both differ at least: a true reading must never be refused


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    at: float
    source: str
    batches: int | None  # in a step
    steps: int
    paused_seconds: float
    examples: int | None
    others: int  # steps of other optimizers


class Beside:
    """A probe that notes a program's steps; the program goes on alike where it sees none."""

    def __init__(self, prepared: PreparedCommand) -> None:
        self.prepared = prepared
        self._notes = Path()
        if prepared.scratch is not None:  # it runs on this machine
            self._notes = prepared.scratch / "steps"
            hook = HookFolder(prepared.scratch)
            hook.add(entry, "begin", str(self._notes), beside=(steps, link, frameworks))
            environment = hook.environment(prepared.command.env)
            self.prepared = replace(prepared, command=replace(prepared.command, env=environment))

    def confirms(self, stated: Sequence[Stated], command: Command) -> bool:
        """Whether the steps show what was stated; False where they can't be compared.

        Raises:
            Unreadable: they show something else.
        """
        windows = self._read()
        if len(stated) <= _LEAST_STATED:
            return False
        begin, *stated = stated  # it contains the start
        between = [
            (after, after.at - before.at)
            for before, after in pairwise(windows)
            if before.at >= begin.end and before.at < after.at <= stated[-1].end
        ]
        units = _units([window for window, _ in between], command, is_counted=begin.is_counted)
        seconds = math.fsum(seconds for _, seconds in between)
        counted = [number / seconds for number, (_, seconds) in zip(units, between, strict=False) if number]
        if len(counted) < _LEAST_WINDOWS or seconds < (stated[-1].end - begin.end) / 2:
            return False
        # Printed rates may leave out evaluation and rare pauses.
        paused = math.fsum(window.paused_seconds for window, _ in between)
        ours = [statistics.median(counted), sum(units) / seconds, sum(units) / max(seconds - paused, 1e-9)]
        lasted = [window.end - window.begin for window in stated]
        printed = [window.per_sec for window in stated]
        theirs = [statistics.median(printed), _weighted(printed, lasted)]
        gap = math.log(max(min(theirs) / max(ours), min(ours) / max(theirs)))
        if gap > AGREE and gap > _ERRORS * math.hypot(_error(printed), _error(counted)):
            by = f"{theirs[0]:.4g} {command.unit}, and {ours[0]:.4g} by the steps of {windows[-1].source}"
            raise Unreadable(
                f"its lines state {by}, which were counted meanwhile",
                "a printed number may leave out the data, count evaluation, or be of one device or in another unit: "
                "leave reads out to measure the program by its steps; or correct unit=, examples_per_step= or of=",
            )
        return max(theirs) / max(ours) <= math.exp(AGREE) and min(ours) / min(theirs) <= math.exp(AGREE)

    def _read(self) -> list[_Window]:
        """The windows that one process has noted; none where several train, or its steps could not be followed."""
        windows, pids = [], set()
        with suppress(OSError, ValueError, TfperfError):
            for line in self._notes.read_text("utf-8", "replace").splitlines():
                pid, _, text = line.partition("\t")
                kind, _, values = text.partition(" ")
                if kind == "ended":
                    return []
                if kind == "window":
                    pids.add(pid)
                    windows.append(build(_Window, json.loads(values), "its notes", newer=True))
        return windows if len(pids) == 1 else []


def _units(windows: Sequence[_Window], command: Command, *, is_counted: bool) -> Sequence[float]:
    """The units in each window; empty where the probe's steps and the units are not of one thing."""
    is_optimizer = any(window.source == steps.OPTIMIZER for window in windows)
    if is_optimizer and any(window.others for window in windows):
        return ()
    examples = [window.examples for window in windows if window.examples is not None]
    if command.counted in EXAMPLES and len(examples) == len(windows) and any(examples):
        return examples
    # Steps of an environment are no optimizer's, and neither is a batch where several make a step.
    is_step = not is_optimizer or all(window.batches == 1 for window in windows)
    per_step = command.counted_per_step
    if not is_step or per_step is None or (is_counted and command.counted != STEPS):
        return ()
    return [window.steps * per_step for window in windows]


def _weighted(rates: Sequence[float], seconds: Sequence[float]) -> float:
    total = math.fsum(seconds)
    return math.fsum(rate * of / total for rate, of in zip(rates, seconds, strict=True))


def _error(rates: Sequence[float]) -> float:
    return statistics.stdev(map(math.log, rates)) / math.sqrt(len(rates))
