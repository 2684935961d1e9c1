"""The evidence that the tests of one machine share in one session: common drift, earlier sessions, suspects.

The drift that all tests have in common does not count in the verdict of a single test. If it is 1 % or more,
`sentinels.py` measures whether software or machine is the cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from pytest_tfperf.bench.disturbance_guard import TRIES
from pytest_tfperf.bench.task import Call, Task
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Against, Noise
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.noise import mean_square, noise_of
from pytest_tfperf.judging.session_effects import (
    MIN_OTHERS,
    MIN_TESTS,
    CommonDrift,
    SessionVariance,
    change_of_others,
    common_drift,
    noise_of_changes,
    of_first_windows,
    session_variance,
)

MAX_SECONDS_DISTURBED = 600.0
"""After a machine's tests have spent this long on disturbed runs, each further test gets only one try.

A busy machine must not cost hours. The one try shows whether it has recovered.
"""


class MachineSession:
    """The evidence that tests of one machine have in common; a host's CPUs and its GPUs are two machines.

    Args:
        rows, figure_rows: the machine's baselines, of the throughput and of figures beside it.
        past: the machine's earlier sessions.
        tests: how many tests with a baseline of this machine the session will probably run.
        unrecorded: how many tests without a baseline; they share the false alarms of verdicts against earlier sessions.
    """

    def __init__(
        self,
        rows: Mapping[Key, Baseline],
        past: Mapping[Key, Sequence[SessionChanges]],
        *,
        tests: int,
        unrecorded: int = 1,
        figure_rows: Mapping[Key, Baseline] = MappingProxyType({}),
    ) -> None:
        self._rows = rows
        self._past = past
        self._tests = tests
        self._unrecorded = unrecorded
        self.figure_rows = figure_rows
        self.first_changes: dict[Call, float] = {}  # of the first windows of tasks with a row, in log throughput
        self._first_errors: list[float] = []
        self._with_reference: dict[Call, Task] = {}
        self.suspects: set[Call] = set()  # that can fail, and so share the false alarms of confirmation
        self.reference_failures: dict[Call, str] = {}  # why; fresh runs confirm their slowdowns
        self.all_ran_once = False  # so the common drift is known
        self.seconds_disturbed = 0.0  # that tests have spent on fresh workers that were all disturbed

    def note_first_run(self, task: Task, run: Run) -> None:
        """Use a first run for the common drift, if its test has a row of this machine."""
        row = task.target.baseline
        if row is not None and task.target.is_own_row:
            first = of_first_windows(run)
            self.first_changes[task.call] = first.log_rate - math.log(row.value)
            self._first_errors.append(first.error)
            if task.reference_environment is not None:
                self._with_reference[task.call] = task

    def has_reference_environment(self, task: Task) -> bool:
        """Whether there is a reference environment for the task, and its workload does not fail there."""
        return task.reference_environment is not None and task.call not in self.reference_failures

    @property
    def tries(self) -> int:
        """How many fresh runs a test gets until one is undisturbed."""
        return TRIES if self.seconds_disturbed < MAX_SECONDS_DISTURBED else 1

    @property
    def with_reference_environment(self) -> Sequence[Task]:
        """The tasks that can be measured in the reference environment, as far as it is known."""
        return [task for call, task in self._with_reference.items() if call not in self.reference_failures]

    @property
    def sessions_before(self) -> int:
        """The number of earlier sessions of the test that has the most of them in the history."""
        return max((len(past) for past in self._past.values()), default=0)

    @property
    def drift(self) -> CommonDrift:
        """The common drift of the first runs so far."""
        changes = list(self.first_changes.values())
        if len(changes) < MIN_TESTS:
            return common_drift(changes)
        noise = noise_of_changes(
            [(noise, runs) for noise, runs, _ in self._known_sessions],
            within_runs=math.sqrt(mean_square(self._first_errors) or 0.0),
            between_sessions=self._variance_of_many.mean,
        )
        return common_drift(changes, noise)

    def evidence(self, task: Task, runs: Sequence[Run], pairs: Sequence[Pair] = ()) -> Evidence:
        """Return all the evidence that `judge` needs on a task's throughput."""
        drift, baseline = self.drift, task.target.baseline
        of_rows = len(self.first_changes) if self.all_ran_once else self._tests
        judged = self._unrecorded if task.target.against is Against.EARLIER_SESSIONS else of_rows
        has_reference = self.has_reference_environment(task)
        others = [change for call, change in self.first_changes.items() if call != task.call]
        return Evidence(
            throughput=summarise(runs),
            pairs=tuple(pairs),
            target=task.target,
            tolerance=task.tolerance,
            drift=drift,
            others=change_of_others(others),
            variance=self._variance(of_rows),
            past=() if baseline is None else self._past.get(baseline.key, ()),
            tests=max(1, judged),
            suspects=max(1, len(self.suspects)),
            has_reference_environment=has_reference,
            # Tests are still to run that show a drift which this test shares.
            is_drift_to_come=not self.all_ran_once and self._tests >= (MIN_OTHERS + 1 if has_reference else MIN_TESTS),
        )

    def _variance(self, tests: int) -> SessionVariance:
        """Return a test's variance between sessions; more where too few tests show a common drift to take out."""
        return self._variance_of_many if tests >= MIN_TESTS else self._variance_of_few

    @cached_property
    def _variance_of_many(self) -> SessionVariance:
        return session_variance(self._known_sessions, tests=MIN_TESTS)

    @cached_property
    def _variance_of_few(self) -> SessionVariance:
        return session_variance(self._known_sessions, tests=MIN_TESTS - 1)

    @cached_property
    def _known_sessions(self) -> Sequence[tuple[Noise, int, Sequence[SessionChanges]]]:
        measured = [row for row in self._rows.values() if row.is_measured]
        return [(noise_of(row, measured), row.runs, self._past.get(row.key, ())) for row in measured]

    @property
    def between_sessions(self) -> float:
        """How much a test varies between sessions, as a standard deviation in log throughput."""
        return self._variance(len(self.first_changes)).mean
