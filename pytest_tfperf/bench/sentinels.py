"""Measures the sentinels, for the verdicts on the whole session: is the software slower, is the machine?

The sentinels are four tests that are compared with the reference environment, although they are not suspected.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.pairs import reference_pairs
from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.session_verdicts import SessionVerdict, VerdictOn
from pytest_tfperf.core.verdict import NOTHING, Outcome, Reason, Tolerance
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.judging.software_and_machine import (
    ReferencePairs,
    judge_machine,
    judge_sentinels,
    sentinels,
    wants_sentinels,
)


def session_verdicts(
    machine: MachineSession, engine: RunEngine, measured: Sequence[Measurement]
) -> tuple[SessionVerdict | None, SessionVerdict | None]:
    """Return the verdicts on the software and on the machine; None if too little is known.

    `measured` are the session's results on this machine; the results of suspects also have pairs.
    """
    pairs = _of_suspects(measured)
    software = None
    if wants_sentinels(machine.drift):
        software = _judged(_chosen(machine), machine, engine, pairs)
    verdict = judge_machine(machine.drift, pairs, between_sessions=machine.between_sessions)
    is_together = verdict is not None and verdict.kind is VerdictOn.TOGETHER
    if verdict is not None and is_together and software is not None and not software.pairs:
        verdict = replace(verdict, reason=Reason.NO_PAIRS)
    return software, verdict


def _chosen(machine: MachineSession) -> list[Task]:
    bounded = [task for task in machine.with_reference_environment if task.tolerance.lower is not None]
    tasks = {f"{task.test} {task.index}": task for task in bounded}
    suspects = {name for name, task in tasks.items() if task.call in machine.suspects}
    return [tasks[name] for name in sentinels(tasks, suspects, machine.sessions_before)]


def _judged(
    tasks: Sequence[Task], machine: MachineSession, engine: RunEngine, known: list[ReferencePairs]
) -> SessionVerdict | None:
    """Take pairs of each sentinel, round by round, until the verdict is decided; add them to `known`.

    The tolerance of all sentinels together is the median of theirs. If a sentinel fails, the others decide. None where
    there is no reference environment, or all tests that have one are suspects.
    """
    accepted = [task.tolerance.lower for task in tasks if task.tolerance.lower is not None]
    tolerance = Tolerance(statistics.median(accepted)) if accepted else Tolerance()
    sentinels, failures = [_Sentinel(task, machine, engine) for task in tasks], dict[str, str]()
    wanted = 1
    while True:
        for sentinel in sentinels:
            sentinel.take(wanted)
        failures |= {sentinel.task.test: sentinel.failure for sentinel in sentinels if sentinel.failure}
        sentinels = [sentinel for sentinel in sentinels if len(sentinel.pairs) >= wanted]
        measured = [
            _reference_pairs(sentinel.task, sentinel.pairs, machine.first_changes[sentinel.task.call])
            for sentinel in sentinels
        ]
        verdict = judge_sentinels(measured, tolerance)
        if verdict is None:
            is_broken = bool(tasks) or (bool(machine.reference_failures) and not known)
            if not is_broken:
                return None
            kind, outcome, reason = VerdictOn.SOFTWARE, Outcome.INCONCLUSIVE, Reason.NO_PAIRS
            return SessionVerdict(kind=kind, outcome=outcome, reason=reason, failures=failures)
        if verdict.wants == NOTHING:
            known += measured
            return replace(verdict, failures=failures)
        wanted = verdict.wants.count


class _Sentinel:
    """A test whose pairs stand for all tests."""

    def __init__(self, task: Task, machine: MachineSession, engine: RunEngine) -> None:
        self.task = task
        self.pairs: list[Pair] = []  # the good ones
        # Why no more pairs are taken; "" also if the reference environment failed, which the machine's session notes.
        self.failure = ""
        self._machine = machine
        self._source = reference_pairs(engine, task)

    def take(self, wanted: int) -> None:
        """Take pairs until there are this many, or until a pair fails."""
        while len(self.pairs) < wanted:
            try:
                pair, _ = self._source.take()
            except MeasurementError as error:
                if self._source.a_fails():
                    self._machine.reference_failures[self.task.call] = error.brief
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


def _reference_pairs(task: Task, pairs: Sequence[Pair], first_change: float) -> ReferencePairs:
    baseline, noise = task.target.baseline, task.target.noise
    assert baseline is not None, "only tasks with a measured baseline are chosen"
    assert noise is not None, "a baseline comes with its noise"
    return ReferencePairs(baseline, noise, pairs, test=task.test, first_change=first_change)


def _of_suspects(measured: Sequence[Measurement]) -> list[ReferencePairs]:
    return [
        ReferencePairs(
            baseline=result.verdict.baseline,
            noise=result.verdict.noise,
            pairs=result.pairs,
            test=result.test,
            first_change=result.throughput.runs[0].log_rate - math.log(result.verdict.baseline.value),
        )
        for result in measured
        if result.pairs and result.verdict is not None and result.verdict.baseline and result.verdict.noise
    ]
