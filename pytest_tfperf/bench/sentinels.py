"""Measures the sentinels, for the verdicts on the whole session: is the software slower, is the machine?

They are four tests that are compared with the reference environment, suspected or not.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.pairs import reference_pairs
from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.session_verdicts import MachineVerdict, SoftwareVerdict
from pytest_tfperf.core.verdict import NOTHING, Tolerance
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.judging.software_and_machine import (
    ReferencePairs,
    judge_machine,
    judge_sentinels,
    sentinels,
    wants_sentinels,
)


def session_verdicts(
    machine: MachineSession, engine: RunEngine, measured: Sequence[Measurement], *, turn: int
) -> tuple[SoftwareVerdict | None, MachineVerdict | None]:
    """The verdicts on the software and on the machine; None if too little is known.

    Args:
        machine: what the session's tests on this machine have in common.
        engine: takes the sentinels' pairs.
        measured: the session's results on this machine; those of suspects also have pairs.
        turn: how many sessions there were before, so that sessions take different sentinels.
    """
    pairs = _of_suspects(measured)
    software = None
    if wants_sentinels(machine.drift):
        chosen = _chosen(machine, turn)
        software = _judged(chosen, machine, engine, pairs)
    found = judge_machine(machine.drift, pairs, between_sessions=machine.between_sessions)
    if found is not None and software is not None and not software.pairs:
        found = replace(found, no_pairs=True)
    return software, found


def _chosen(machine: MachineSession, turn: int) -> list[Task]:
    bounded = [task for task in machine.with_reference_environment if task.tolerance.lower is not None]
    tasks = {f"{task.test} {task.index}": task for task in bounded}
    suspects = {name for name, task in tasks.items() if task.call in machine.suspects}
    return [tasks[name] for name in sentinels(tasks, suspects, turn)]


def _judged(
    tasks: Sequence[Task], machine: MachineSession, engine: RunEngine, known: list[ReferencePairs]
) -> SoftwareVerdict | None:
    """Take pairs of each sentinel, round by round, until the verdict is decided; add them to `known`.

    All of them together may lose what the middle one of them may. A sentinel that fails leaves the others to decide.
    None where there is no reference environment, or all tests with one are suspects.
    """
    accepted = [task.tolerance.lower for task in tasks if task.tolerance.lower is not None]
    tolerance = Tolerance(statistics.median(accepted)) if accepted else Tolerance()
    sentinels, failures = [_Sentinel(task, machine, engine) for task in tasks], dict[str, str]()
    wanted = 1
    while True:
        for one in sentinels:
            one.take(wanted)
        failures |= {one.task.test: one.failure for one in sentinels if one.failure}
        sentinels = [one for one in sentinels if len(one.pairs) >= wanted]
        measured = [_reference_pairs(one.task, one.pairs) for one in sentinels]
        verdict = judge_sentinels(measured, tolerance)
        if verdict is None:
            is_broken = bool(tasks) or (bool(machine.reference_failures) and not known)
            return SoftwareVerdict.without_pairs(failures) if is_broken else None
        if verdict.wants == NOTHING:
            known += measured
            return replace(verdict, failures=failures)
        wanted = verdict.wants.count


class _Sentinel:
    """A test whose pairs tell of all.

    Attributes:
        pairs: the good ones so far.
        failure: why there are no more, unless the reference environment failed, which the machine's session notes.
    """

    def __init__(self, task: Task, machine: MachineSession, engine: RunEngine) -> None:
        self.task = task
        self.pairs: list[Pair] = []
        self.failure = ""
        self._machine = machine
        self._source = reference_pairs(engine, task)

    def take(self, wanted: int) -> None:
        """Take pairs until there are this many, or until that fails."""
        while len(self.pairs) < wanted:
            try:
                pair, _ = self._source.take()
            except MeasurementError as error:
                if self._source.a_fails():
                    self._machine.reference_failed(self.task, error.brief)
                else:
                    self.failure = f"the current environment failed: {error.brief}"
                return
            except TfperfError as error:
                self.failure = error.brief
                return
            if pair is None:
                self.failure = "none of its pairs tells anything: its runs never settle"
                return
            self.pairs.append(pair)


def _reference_pairs(task: Task, pairs: Sequence[Pair]) -> ReferencePairs:
    baseline, noise = task.target.baseline, task.target.noise
    assert baseline is not None, "only tasks with a measured baseline are chosen"
    assert noise is not None, "a baseline comes with its noise"
    return ReferencePairs(baseline, noise, pairs)


def _of_suspects(measured: Sequence[Measurement]) -> list[ReferencePairs]:
    return [
        ReferencePairs(one.verdict.baseline, one.verdict.noise, one.pairs)
        for one in measured
        if one.pairs and one.verdict is not None and one.verdict.baseline and one.verdict.noise
    ]
