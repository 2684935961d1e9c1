"""What the tests of one machine share in one session: the common drift, earlier sessions, the suspects, the verdicts.

The drift that all tests have in common does not count in the verdict of a single test. If it is 1 % or more, four tests
(the sentinels) are compared with the reference environment, suspected or not, to tell software from machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType

from pytest_tfperf.bench.disturbance_guard import TRIES
from pytest_tfperf.bench.one_run import RunEngine, undisturbed
from pytest_tfperf.bench.pairs import reference_pairs
from pytest_tfperf.bench.task import Call, Task
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastSession
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.session_verdicts import MachineVerdict, SoftwareVerdict
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import NOTHING, Against, Consequence, Noise, Tolerance
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.judging.common_drift import (
    MIN_TESTS,
    CommonDrift,
    change_of_others,
    common_drift,
    first_windows_change,
)
from pytest_tfperf.judging.judge import Evidence
from pytest_tfperf.judging.machine import (
    SENTINEL_STAGES,
    ReferencePairs,
    judge_machine,
    judge_sentinels,
    sentinels,
    wants_sentinels,
)
from pytest_tfperf.judging.noise import noise_of
from pytest_tfperf.judging.session_variance import SessionVariance, session_variance

MAX_SECONDS_DISTURBED = 600.0
"""After a machine's tests have spent this long on disturbed runs, each further test gets only one try.

A busy machine must not cost hours. The one try shows whether it has recovered.
"""

PastSessions = Mapping[Key, Sequence[PastSession]]


class MachineSession:
    """The evidence that tests of one machine have in common; a host's CPUs and its GPUs are two machines.

    Args:
        rows: the machine's baselines.
        past: the machine's earlier sessions.
        tests: how many tests with a baseline of this machine the session will probably run.
        unrecorded: how many tests without a baseline; those share the false alarms of verdicts on earlier sessions.
        hold: a test is REGRESSED only if one of the two sessions before showed it too.
        figure_rows: the machine's baselines of figures beside the throughput.

    Attributes:
        suspects: the calls whose slowdown had to be confirmed.
        reference_failures: the calls whose workload fails in the reference environment, and why.
    """

    def __init__(
        self,
        rows: Mapping[Key, Baseline],
        past: PastSessions,
        *,
        tests: int,
        unrecorded: int = 1,
        hold: bool = False,
        figure_rows: Mapping[Key, Baseline] = MappingProxyType({}),
    ) -> None:
        self._rows = rows
        self._past = past
        self._tests = tests
        self._unrecorded = unrecorded
        self._hold = hold
        self.figure_rows = figure_rows
        self._first_changes: dict[Call, float] = {}
        self._with_reference: dict[Call, Task] = {}
        self.suspects: set[Call] = set()
        self.reference_failures: dict[Call, str] = {}
        self._all_ran_once = False
        self._seconds_disturbed = 0.0

    def note_first_run(self, task: Task, run: Run) -> None:
        """Use a first run for the common drift, if its test has a row of this machine."""
        row = task.reference.baseline
        if row is not None and task.reference.is_own_row:
            self._first_changes[task.call] = first_windows_change(run, row)
            if task.reference_side is not None:
                self._with_reference[task.call] = task

    def suspect(self, task: Task) -> None:
        """Count a test among those that share the false alarms of confirmation, unless its verdict can't fail it."""
        if task.reference.if_slower is Consequence.FAILS:
            self.suspects.add(task.call)

    def reruns_began(self) -> None:
        """Every test has run once, so the common drift is known."""
        self._all_ran_once = True

    def was_disturbed(self, seconds: float) -> None:
        """A test has spent so long on fresh workers that were all disturbed."""
        self._seconds_disturbed += seconds

    def reference_failed(self, task: Task, why: str) -> None:
        """The task's workload fails in the reference environment, so fresh runs confirm its slowdown."""
        self.reference_failures[task.call] = why

    def has_reference(self, task: Task) -> bool:
        """Whether there is a reference environment for the task, and its workload does not fail there."""
        return task.reference_side is not None and task.call not in self.reference_failures

    @property
    def tries(self) -> int:
        """How many fresh runs a test gets until one is undisturbed."""
        return TRIES if self._seconds_disturbed < MAX_SECONDS_DISTURBED else 1

    @property
    def with_reference(self) -> Sequence[Task]:
        """The tasks that can be measured in the reference environment, as far as it is known."""
        return [task for call, task in self._with_reference.items() if call not in self.reference_failures]

    @property
    def sessions_before(self) -> int:
        """How many earlier sessions the history has of the test with the most."""
        return max((len(past) for past in self._past.values()), default=0)

    @property
    def drift(self) -> CommonDrift:
        """The common drift of the first runs so far."""
        return common_drift(list(self._first_changes.values()))

    def evidence(self, task: Task, runs: Sequence[Run], pairs: Sequence[Pair] = ()) -> Evidence:
        """Everything that `judge` needs to know of a task."""
        drift, baseline = self.drift, task.reference.baseline
        of_rows = len(self._first_changes) if self._all_ran_once else self._tests
        judged = self._unrecorded if task.reference.against is Against.EARLIER_SESSIONS else of_rows
        return Evidence(
            throughput=summarise(runs),
            pairs=tuple(pairs),
            reference=task.reference,
            tolerance=task.tolerance,
            drift=drift,
            others=self._change_of_others(task),
            variance=self._variance(of_rows),
            past=() if baseline is None else self._past.get(baseline.key, ()),
            tests=max(1, judged),
            suspects=max(1, len(self.suspects)),
            has_reference_environment=self.has_reference(task),
            hold=self._hold,
            is_drift_to_come=not self._all_ran_once and drift.tests < MIN_TESTS <= self._tests,
        )

    def _change_of_others(self, task: Task) -> float | None:
        return change_of_others([change for call, change in self._first_changes.items() if call != task.call])

    def _variance(self, tests: int) -> SessionVariance:
        """How much a test varies between sessions; more where the tests are too few to take their common drift out."""
        return self._variance_of_many if tests >= MIN_TESTS else self._variance_of_few

    @cached_property
    def _variance_of_many(self) -> SessionVariance:
        return session_variance(self._known_sessions, tests=MIN_TESTS)

    @cached_property
    def _variance_of_few(self) -> SessionVariance:
        return session_variance(self._known_sessions, tests=MIN_TESTS - 1)

    @cached_property
    def _known_sessions(self) -> Sequence[tuple[Noise, int, Sequence[PastSession]]]:
        measured = [row for row in self._rows.values() if row.is_measured]
        return [(noise_of(row, measured), row.runs, self._past.get(row.key, ())) for row in measured]

    @property
    def between_sessions(self) -> float:
        """How much a test varies between sessions, as a standard deviation in log throughput."""
        return self._variance(len(self._first_changes)).mean


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
    bounded = [task for task in machine.with_reference if task.tolerance.lower is not None]
    tasks = {f"{task.test} {task.index}": task for task in bounded}
    suspects = {name for name, task in tasks.items() if task.call in machine.suspects}
    return [tasks[name] for name in sentinels(tasks, suspects, turn)]


def _judged(
    tasks: Sequence[Task], machine: MachineSession, engine: RunEngine, known: list[ReferencePairs]
) -> SoftwareVerdict | None:
    """Take pairs of each sentinel, stage by stage, until the verdict is decided; add them to `known`.

    All of them together may lose what the middle one of them may. A sentinel that fails leaves the others to decide.
    None where there is no reference environment, or all tests with one are suspects.
    """
    accepted = [task.tolerance.lower for task in tasks if task.tolerance.lower is not None]
    tolerance = Tolerance(statistics.median(accepted)) if accepted else Tolerance()
    sentinels, failures = [_Sentinel(task, machine, engine) for task in tasks], dict[str, str]()
    wanted = SENTINEL_STAGES[0]
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
                pair, _ = undisturbed(self._source.take)
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
                self.failure = "all of its pairs were disturbed"
                return
            self.pairs.append(pair)


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
