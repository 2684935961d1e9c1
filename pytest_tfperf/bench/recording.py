"""Records measurements as baselines, for `--update-baselines`, with controls where the rows are few.

Runs of few tests follow one another, and share the state of the machine in these minutes, such as its temperature. So
before each round of such a recording, and after the last, three controls, which are other recorded workloads, run once
each. The new rows are corrected by the change of the controls against their own rows.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Baseline, BaselineUpdate, Key, require_plausible
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import OwnRun, Plan
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import BaselineError, BaselineRefused, TfperfError
from pytest_tfperf.judging.new_baselines import CONTROLS, MOST_REFUSED, controls, correction, new_baselines
from pytest_tfperf.judging.session_effects import MIN_TESTS
from pytest_tfperf.judging.target import refuse_other_devices, require_same_unit
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.workers.launcher import ReferenceEnvironments


class BaselineRecorder:
    """Writes baselines, and the sources of their reference environments; one for a session."""

    def __init__(self, store: BaselineStore, references: ReferenceEnvironments | None = None) -> None:
        self._store = store
        self._references = references
        self.changes: list[BaselineUpdate] = []  # the rows that were written
        self.warnings: dict[str, None] = {}  # why their reference environments will differ or can't be built, in order
        self.controlled: dict[str, ControlledRecording] = {}  # by machine, where few rows were recorded
        self._recorded: list[tuple[Measurement, str]] = []

    def record(self, measurement: Measurement, load: str = "", controls: ControlledRecording | None = None) -> None:
        """Record a measurement as its machine's baselines; bounds that a user wrote into the old row are kept.

        A refused row, of the throughput or a figure, does not prevent the others. `load` is a text for the rows' notes.
        `controls` are the results so far of the controls beside a recording of few rows.

        Raises:
            BaselineRefused: some rows are refused, because the runs differ too much, there is only one run, or reading
                the file would refuse the rows.
            BaselineError: the file can't be read whole or written.
        """
        machine = measurement.machine
        rows, refusals = new_baselines(measurement, controls.correction if controls else 0.0)
        old = self._store.load(machine)
        note = _note(load, controls)
        completed = []
        for row in (self._completed(row, note, old.get(row.key)) for row in rows):
            try:
                require_plausible(row)  # else the file could not be read again
                completed.append(row)
            except BaselineError as error:
                refusals.append(error.of_type(BaselineRefused).at(" ".join(filter(None, row.key))))
        self._recorded.append((measurement, load))
        if completed:  # else the files stay as they are
            self._write(machine, completed)
        if refusals:
            first, *others = refusals
            raise first.and_below(*(line for error in others for line in (Line(""), *error.lines)))

    def end(self, controls: Controls) -> list[str]:
        """Run the controls of a recording of few rows a last time, and correct the rows by what they showed.

        Gives a line for each machine whose rows could not be written again, and for each figure that is too noisy.
        """
        faults = []
        for machine, controlled in controls.after_last_run().items():
            try:
                self.correct(machine, controlled)
            except TfperfError as error:
                faults.append(f"{machine}: the new rows could not be corrected by their controls: {error}")
        try:
            return faults + self.refuse_calm_by_luck()
        except TfperfError as error:
            return [*faults, f"noisy rows could not be taken back: {error}"]

    def correct(self, machine: str, controls: ControlledRecording) -> None:
        """Correct the rows recorded on a machine by all runs of the controls, where they were corrected by a part.

        Raises:
            BaselineError: the file can't be read whole or written; the rows then stay as they were recorded.
        """
        self.controlled[machine] = controls
        corrected: dict[Key, Baseline] = {}
        for measurement, load in self._recorded:
            if measurement.machine == machine:
                rows, _ = new_baselines(measurement, controls.correction)  # refusals were reported when it was recorded
                corrected |= {row.key: self._completed(row, _note(load, controls), None) for row in rows}
        changes = []
        for update in self.changes:
            if update.new.machine == machine and (row := corrected.get(update.new.key)) is not None:
                update = replace(update, new=replace(update.new, value=row.value, note=row.note))
            changes.append(update)
        if of_machine := {update.new.key: update.new for update in changes if update.new.machine == machine}:
            self._store.update(machine, of_machine)  # else the file stays as it is
        self.changes = changes

    def refuse_calm_by_luck(self) -> list[str]:
        """Take back the rows of a figure of which the recording refused too many; return a line for each figure.

        Raises:
            BaselineError: the file can't be read whole or written.
        """
        lines, recorded = [], (measurement for measurement, _ in self._recorded)
        times = Counter((m.machine, v.figure.name) for m in recorded for v in m.figures if v.figure.with_speed)
        for (machine, name), count in times.items():
            rows = [update for update in self.changes if (update.new.machine, update.new.key.figure) == (machine, name)]
            refused = count - len(rows)
            if not rows or refused <= MOST_REFUSED * count:
                continue
            old = {update.new.key: update.old for update in rows if update.old is not None}
            self._store.update(machine, old, without=[update.new.key for update in rows])
            self.changes = [update for update in self.changes if update not in rows]
            lines.append(
                f"{name} on {machine}: {refused} of {counted(count, 'row')} were refused as too noisy, "
                f"so the other {len(rows)} are not kept: where runs differ so much, calm ones are luck. Free the "
                "machine of other work, or give a larger tolerance, and record again"
            )
        return lines

    def _completed(self, row: Baseline, note: str, old: Baseline | None) -> Baseline:
        """Return a new row with its note, and the bounds of the row that it replaces."""
        row = replace(row, note="; ".join(filter(None, (note, row.note))))
        if old is not None and old.is_measured:
            row = replace(row, lower=old.lower, upper=old.upper)
        return row

    def _write(self, machine: str, rows: Sequence[Baseline]) -> None:
        """Write the rows, and the lock that they name; forget locks that no row names any more."""
        if self._references is not None:
            rows = [self._references.lock(row) for row in rows]
        self.changes += self._store.update(machine, {row.key: row for row in rows})
        if self._references is not None:
            rows_now = [*self._store.load(machine).values(), *self._store.figures(machine).values()]
            self.warnings |= dict.fromkeys(self._references.recorded(rows[0], rows_now))

    @property
    def apart(self) -> tuple[int, int]:
        """How many workloads were recorded, and how many others of these machines have a measured row already.

        Machines whose recording took controls are left out.
        """
        new_rows = [update.new for update in self.changes if update.new.machine not in self.controlled]
        recorded = {(row.machine, row.key.workload, row.key.topology) for row in new_rows}
        rows = [row for machine in {row.machine for row in new_rows} for row in self._store.load(machine).values()]
        measured = {(row.machine, row.key.workload, row.key.topology) for row in rows if row.is_measured}
        return len(recorded), len(measured - recorded)


def _note(load: str, controls: ControlledRecording | None) -> str:
    return "; ".join(filter(None, (load, controls.note if controls else "")))


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledRecording:
    """The results of the controls beside a machine's recording of few rows."""

    change: float  # the median of the controls' ln(run / row); 0 without any run of a control
    correction: float  # to be added to the logarithms of the new baselines
    controls: Sequence[str]  # the workloads that ran
    runs: int  # how many of their runs count
    others: int  # how many other workloads have a measured row, whether they can be controls or not
    failures: Mapping[str, str]  # why a workload could not serve as a control

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

    `rows` and `tests` return a machine's rows, and how many tests the session will probably record on it.
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
