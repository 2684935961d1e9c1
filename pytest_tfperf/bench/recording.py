"""Records measurements as baselines, for `--update-baselines`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_tfperf.bench.controls import ControlledRecording, Controls
from pytest_tfperf.core.baseline import Baseline, BaselineUpdate, Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import BaselineError, BaselineRefused, TfperfError
from pytest_tfperf.judging.new_baselines import MOST_REFUSED, new_baselines
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.stores.baseline_file import require_plausible
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.workers.launcher import ReferenceEnvironments


class BaselineRecorder:
    """Writes baselines; one for a session.

    Args:
        store: the baselines.
        references: notes the sources of reference environments; None for none.

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

        A refused row, of the throughput or a figure, does not prevent the others.

        Args:
            measurement: of at least two runs.
            load: text for the rows' notes about the load during the recording; "" for none.
            controls: the results so far of the controls beside a recording of few rows; None without controls.

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
            if update.new.machine == machine and update.new.key in corrected:
                row = corrected[update.new.key]
                update = replace(update, new=replace(update.new, value=row.value, note=row.note))
            changes.append(update)
        self._store.update(machine, {update.new.key: update.new for update in changes if update.new.machine == machine})
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
