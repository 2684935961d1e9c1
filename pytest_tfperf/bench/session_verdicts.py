"""The verdicts on a whole session: is the software slower, or the machine?

The drift that all tests have in common does not count in the verdict of a single test. If it is 1 % or more, four tests
(the sentinels) are compared with the reference environment, suspected or not, to tell software from machine.
"""

from __future__ import annotations

from collections.abc import Sequence

from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.one_run import RunEngine, undisturbed
from pytest_tfperf.bench.pairs import reference_pairs
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.session_verdicts import MachineVerdict, SoftwareVerdict
from pytest_tfperf.core.verdict import NOTHING, Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.machine import (
    SENTINEL_STAGES,
    ReferencePairs,
    judge_machine,
    judge_sentinels,
    sentinels,
    wants_sentinels,
)


def session_verdicts(
    machine: MachineSession, engine: RunEngine, measured: Sequence[Measurement], tolerance: Tolerance, *, turn: int
) -> tuple[SoftwareVerdict | None, MachineVerdict | None]:
    """The verdicts on the software and on the machine; None if too little is known.

    Args:
        machine: what the session's tests on this machine have in common.
        engine: takes the sentinels' pairs.
        measured: the session's results on this machine; those of suspects also have pairs.
        tolerance: the session's default.
        turn: how many sessions there were before, so that sessions take different sentinels.
    """
    pairs = _of_suspects(measured)
    software = None
    if wants_sentinels(machine.drift):
        chosen = _chosen(machine, turn)
        software = _judged(chosen, engine, tolerance, pairs)
    return software, judge_machine(machine.drift, pairs, between_sessions=machine.between_sessions)


def _chosen(machine: MachineSession, turn: int) -> list[Task]:
    tasks = {f"{task.test} {task.index}": task for task in machine.with_reference}
    suspects = {name for name, task in tasks.items() if task.call in machine.suspects}
    return [tasks[name] for name in sentinels(tasks, suspects, turn)]


def _judged(
    tasks: Sequence[Task], engine: RunEngine, tolerance: Tolerance, known: list[ReferencePairs]
) -> SoftwareVerdict | None:
    """Take pairs of each sentinel, stage by stage, until the verdict is decided; add them to `known`."""
    sentinels = [_Sentinel(task, engine) for task in tasks]
    wanted = SENTINEL_STAGES[0]
    while True:
        sentinels = [one for one in sentinels if one.take(wanted)]
        measured = [_reference_pairs(one.task, one.pairs) for one in sentinels]
        verdict = judge_sentinels(measured, tolerance)
        if verdict is None or verdict.wants == NOTHING:
            known += measured
            return verdict
        wanted = verdict.wants.count


class _Sentinel:
    def __init__(self, task: Task, engine: RunEngine) -> None:
        self.task = task
        self.pairs: list[Pair] = []
        self._source = reference_pairs(engine, task)

    def take(self, wanted: int) -> bool:
        """Take pairs until there are this many; False if that fails, so that the other sentinels decide."""
        while len(self.pairs) < wanted:
            try:
                pair, _ = undisturbed(self._source.take)
            except TfperfError:
                return False
            if pair is None:
                return False
            self.pairs.append(pair)
        return True


def _reference_pairs(task: Task, pairs: Sequence[Pair]) -> ReferencePairs:
    baseline, noise = task.reference.baseline, task.reference.noise
    assert baseline is not None, "only tasks with a measured baseline are chosen"
    assert noise is not None, "a baseline comes with its noise"
    return ReferencePairs(baseline, noise, pairs)


def _of_suspects(measured: Sequence[Measurement]) -> list[ReferencePairs]:
    return [
        ReferencePairs(one.verdict.baseline, one.verdict.noise, one.pairs)
        for one in measured
        if one.pairs and one.verdict is not None and one.verdict.baseline and one.verdict.noise
    ]
