"""Records measurements as baselines, for `--update-baselines`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pytest_tfperf.bench.controls import ControlledRecording
from pytest_tfperf.core.baseline import Baseline, BaselineUpdate
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import BaselineError, BaselineRefused
from pytest_tfperf.judging.new_baselines import new_baselines
from pytest_tfperf.lines import Line
from pytest_tfperf.stores.baseline_file import require_plausible
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.workers.launcher import ReferenceEnvironments


class BaselineRecorder:
    """Writes baselines; one for a session.

    Args:
        store: the baselines.
        references: notes what reference environments are built from; None for none.

    Attributes:
        changes: the rows that were written.
        warnings: why their reference environments will differ or can't be built; each once, in order.
        controlled: of each machine where few rows were recorded, what the controls showed.
    """

    def __init__(self, store: BaselineStore, references: ReferenceEnvironments | None = None) -> None:
        self._store = store
        self._references = references
        self.changes: list[BaselineUpdate] = []
        self.warnings: dict[str, None] = {}
        self.controlled: dict[str, ControlledRecording] = {}
        self._recorded: list[tuple[Measurement, str]] = []

    def record(self, measurement: Measurement, load: str = "", controls: ControlledRecording | None = None) -> None:
        """Record a measurement as its machine's baselines; bounds that a user wrote into the old row are kept.

        What is refused, the throughput or a figure, leaves the others recorded.

        Args:
            measurement: of at least two runs.
            load: what the rows' notes say of the load that they were recorded under; "" for none.
            controls: what the controls beside a recording of few rows showed so far; None where it takes none.

        Raises:
            BaselineRefused: some of its rows, because its runs differ too much, there is only one, or reading the file
                would refuse them.
            BaselineError: the file can't be read whole or written.
        """
        machine = measurement.machine
        rows, refusals = new_baselines(measurement, controls.correction if controls else 0.0)
        old = self._store.load(machine)
        note = "; ".join(filter(None, (load, controls.note if controls else "")))
        completed = []
        for row in (self._completed(row, note, old.get(row.key)) for row in rows):
            try:
                require_plausible(row)  # else the file could not be read again
                completed.append(row)
            except BaselineError as error:
                refusals.append(error.of_type(BaselineRefused).at(" ".join(filter(None, row.key))))
        self._recorded.append((measurement, load))
        self.changes += self._store.update(machine, {row.key: row for row in completed})
        if self._references is not None and completed:
            rows_now = [*self._store.load(machine).values(), *self._store.figures(machine).values()]
            self.warnings |= dict.fromkeys(self._references.recorded(completed[0], rows_now))
        if refusals:
            first, *others = refusals
            raise first.and_below(*(line for error in others for line in (Line(""), *error.lines)))

    def correct(self, machine: str, controls: ControlledRecording) -> None:
        """Write the rows that were recorded on a machine again, by what all runs of the controls showed.

        Raises:
            BaselineError: the file can't be read whole or written; the rows then stay as they were recorded.
        """
        self.controlled[machine] = controls
        known = {(one.new.machine, one.new.key): one.old for one in self.changes}
        again = [one for one in self._recorded if one[0].machine == machine]
        self._recorded, self.changes = [], [one for one in self.changes if one.new.machine != machine]
        for measurement, load in again:
            with suppress(BaselineRefused):  # said when it was recorded
                self.record(measurement, load, controls)
        self.changes = [replace(one, old=known.get((one.new.machine, one.new.key), one.old)) for one in self.changes]

    def _completed(self, row: Baseline, note: str, old: Baseline | None) -> Baseline:
        """A new row with its note, its lock, and the bounds of the row that it replaces."""
        row = replace(row, note="; ".join(filter(None, (note, row.note))))
        if old is not None and old.is_measured:
            row = replace(row, lower=old.lower, upper=old.upper)
        return row if self._references is None else self._references.lock(row)

    @property
    def apart(self) -> tuple[int, int]:
        """How many workloads were recorded, and how many others of these machines have a measured row already.

        Machines whose recording took controls are left out.
        """
        changes = [one.new for one in self.changes if one.new.machine not in self.controlled]
        recorded = {(row.machine, row.key.workload, row.key.topology) for row in changes}
        rows = [row for machine in {one[0] for one in recorded} for row in self._store.load(machine).values()]
        measured = {(row.machine, row.key.workload, row.key.topology) for row in rows if row.is_measured}
        return len(recorded), len(measured - recorded)
