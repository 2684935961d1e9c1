"""Controls: other recorded workloads that run beside a recording of few rows, to show the state of the machine.

Runs of few tests follow one another, and share the state of the machine in these minutes, such as its temperature. So
before each round of a recording, and after the last, three controls run once each. The new rows are corrected by the
change of the controls against their own rows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.run import OwnRun, Plan
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import MIN_TESTS
from pytest_tfperf.judging.new_baselines import CONTROLS, controls, correction
from pytest_tfperf.judging.target import refuse_other_devices, require_same_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledRecording:
    """The results of the controls beside a machine's recording of few rows.

    Args:
        change: the median of the controls' ln(run / row); 0 without any run of a control.
        correction: to be added to the logarithms of the new baselines.
        controls: the workloads that ran.
        runs: how many of their runs count.
        others: how many other workloads have a measured row, whether they can be controls or not.
        failures: why a workload could not serve as a control, for each such workload.
    """

    change: float
    correction: float
    controls: Sequence[str]
    runs: int
    others: int
    failures: Mapping[str, str]

    @property
    def note(self) -> str:
        """The text for the new rows' notes."""
        if not self.runs:
            return "recorded without controls"
        if self.change and not self.correction:
            return f"not corrected, although controls changed by {100 * math.expm1(self.change):+.1f} %"
        return f"corrected by {100 * math.expm1(self.correction):+.1f} % by {self.runs} runs of controls"


class Controls:
    """The controls of a session that records; for each machine its own.

    Args:
        engine: takes the controls' runs.
        rows: returns a machine's rows.
        tests: returns how many tests the session will probably record on a machine.
        plan: the steps of a control.
    """

    def __init__(
        self,
        engine: RunEngine,
        rows: Callable[[str], Mapping[Key, Baseline]],
        tests: Callable[[str], int],
        plan: Plan,
    ) -> None:
        self._engine = engine
        self._rows = rows
        self._tests = tests
        self._plan = plan
        self._machines: dict[str, _ControlsOfMachine] = {}

    def before_run(self, task: Task, taken: int) -> None:
        """Run the controls if a task's next run, after `taken` runs, begins a round of a recording of few rows."""
        name = task.topology.machine
        if name not in self._machines:
            self._machines[name] = _ControlsOfMachine(self._engine, self._plan, task, self._tests(name))
        self._machines[name].before_run(task, taken, self._rows(name))

    def found_on(self, machine: str) -> ControlledRecording | None:
        """Return the controls' results so far; None for a machine on which the recording takes no controls."""
        of_machine = self._machines.get(machine)
        return None if of_machine is None or not of_machine.is_needed else of_machine.results

    def after_last_run(self) -> Mapping[str, ControlledRecording]:
        """Run the controls once more; return their results on each machine where few rows were recorded."""
        for name, of_machine in self._machines.items():
            of_machine.run(self._rows(name))
        return {name: of_machine.results for name, of_machine in self._machines.items() if of_machine.is_needed}


class _ControlsOfMachine:
    """The controls of one machine; they run on the topology of the first task."""

    def __init__(self, engine: RunEngine, plan: Plan, first: Task, tests: int) -> None:
        self._engine = engine
        self._plan = plan
        self._first = first
        self._tests = tests
        self._rounds = 0
        self._recorded: set[Key] = set()
        self._known: set[Key] = set()
        self._changes: list[tuple[Key, float]] = []
        self._failures: dict[Key, str] = {}

    @property
    def is_needed(self) -> bool:
        """Whether the session records so few rows here that they need controls."""
        return self._tests < MIN_TESTS and len(self._recorded) < MIN_TESTS

    @property
    def results(self) -> ControlledRecording:
        """The results so far; a row that turned out to be recorded, too, is no control."""
        counted = [(key, change) for key, change in self._changes if key not in self._recorded]
        change = statistics.median(change for _, change in counted) if counted else 0.0
        return ControlledRecording(
            change=change,
            correction=correction(change, len(self._known | self._recorded)),
            controls=list(dict.fromkeys(key.workload for key, _ in counted)),
            runs=len(counted),
            others=len({key._replace(figure="") for key in self._known} - self._recorded),
            failures={key.workload: why for key, why in self._failures.items()},
        )

    def before_run(self, task: Task, taken: int, rows: Mapping[Key, Baseline]) -> None:
        self._recorded.add(Key(task.workload.id, task.topology.shape))
        if taken >= self._rounds:
            self._rounds += 1
            self.run(rows)

    def run(self, rows: Mapping[Key, Baseline]) -> None:
        """Run each control once; a control that fails is replaced in the next round, and fails no recording."""
        if not self.is_needed:
            return
        self._known = {key for key, row in rows.items() if row.is_measured}
        candidates = controls(rows.values(), self._first.topology.shape, {*self._recorded, *self._failures})
        for row in candidates[:CONTROLS]:
            try:
                self._changes += [(row.key, change) for change in self._change(row)]
            except TfperfError as error:
                self._failures[row.key] = error.brief

    def _change(self, row: Baseline) -> list[float]:
        """Return ln(run / row) of one run; nothing for a disturbed run."""
        topology = self._first.topology
        refuse_other_devices(row, topology)
        side = replace(self._first.side, workload=parse_subject(row.key.workload), slowdown=0.0, name="")
        run = self._engine.run(side, self._plan, label=OwnRun.CONTROL)
        require_same_unit(row, run.unit)
        change = run_value(run).log_rate - math.log(row.value)
        return [change] if run.disturbance is None and math.isfinite(change) else []
