"""One pytest session: what was asked for, the machine, the bench once something is measured, and what came out."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Collection
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.baseline import Baseline, Change, Key
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.consequence import EXIT_REGRESSED, EXIT_USAGE, exit_status
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineError, NoBaseline, NoData, NotBuiltYet, NotEnoughDevices, TfperfError
from pytest_tfperf.judging.noise import noise_of
from pytest_tfperf.judging.reference import floor_rate, reference_for
from pytest_tfperf.judging.resolution import rows_too_tight, too_tight, without_spread
from pytest_tfperf.reports import resolution, summary
from pytest_tfperf.reports.coverage import coverage
from pytest_tfperf.reports.document_coverage import not_built, unmeasured
from pytest_tfperf.reports.live import LiveLine
from pytest_tfperf.settings import Settings, WorkerStart
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.launcher import Launcher

if TYPE_CHECKING:
    from pytest_tfperf.bench.bench import Bench
    from pytest_tfperf.bench.largest_batch import LargestBatch
    from pytest_tfperf.stores.recorder import Recorder

_GUESSED_SECONDS = 15.0  # for a test that was never timed on this machine
_SMOKE_SECONDS = 3.0  # a worker, a compilation, a window: 2.6 s on average over the CPU tests on two slow cores


class Session:
    """The state that the plugin's hooks share.

    Args:
        settings: what the user asked for.
        live: shows how a measurement comes along.
    """

    def __init__(self, settings: Settings, live: LiveLine) -> None:
        self.settings = settings
        self.live = live
        self.runs_nothing = False  # with --collect-only or --tfperf-coverage
        self.tests: list[str] = []
        self.refused: dict[str, list[str]] = {}  # tests whose parameters ask for what can't be, and why
        self.marks: dict[str, tuple[bool, bool]] = {}  # whether a test is marked `cpu`, and `gpu`
        self.reading: set[str] = set()  # the tests whose parameters name a pipeline that reads photographs
        self.records: list[Measurement] = []
        self.comparisons: dict[str, list[Comparison]] = {}
        self.deferred: dict[str, list[Measurement]] = {}
        self.changes: list[Change] = []
        self.keys: set[Key] = set()
        self.skipped: Counter[str] = Counter()
        self.not_measured: list[tuple[str, str]] = []  # each test that errored so, and why
        self.nothing_to_record = ""  # why --update-baselines=failed selects no test
        self._remarks: list[str] = []  # of the baselines, for before the first test
        self._not_kept = ""  # why the history lacks a comparison
        self.baselines = BaselineStore(settings.baselines)
        self.history = History(settings.dir / "history.sqlite")
        self._open = ExitStack()

    def prepare(self) -> None:
        """Before anything runs: what can be refused now must not be found out after a night's measuring.

        Raises:
            BaselineError: `--update-baselines` where the folder can't be written or another session holds it;
                `--tfperf-coverage`, which counts every row, where a file can't be read whole.
            TfperfError: `--tfperf-against` names a Python that can't train; `--tfperf-save-trials` a folder that can't
                be written.
        """
        if self.settings.against is not None:
            from pytest_tfperf.workers.interpreters import require_tensorflow

            require_tensorflow(self.settings.against)
        if self.settings.save_trials is not None:
            self.recorder.prepare()
        if self.settings.coverage:
            assert self._published is not None
        if self.settings.update_baselines:
            self.baselines.check_writable()
            self._open.enter_context(self.baselines.lock())

    @cached_property
    def topology(self) -> Topology:
        """The machine, asked once."""
        from pytest_tfperf.hardware.discovery import discover

        found = discover()
        return found.named(self.settings.machine) if self.settings.machine else found

    def topology_for(self, *, cpu: bool, gpu: bool) -> Topology:
        """What a test with these marks takes devices from: CPUs where it is marked `cpu` and GPUs don't serve it."""
        machine = self.topology
        if cpu and not (gpu and machine.gpus):
            named = f"{self.settings.machine}-cpu" if self.settings.machine and machine.gpus else self.settings.machine
            return machine.on_cpu().named(named)
        return machine.split() if self.settings.split_gpu and machine.gpus else machine

    @property
    def runnable(self) -> list[str]:
        """The tests that can run here, as far as marks and parameters tell: with GPUs and data, and none is refused."""
        lacking = set(self.refused) | (set() if self.settings.data_dir else self.reading)
        if not self.topology.gpus:
            lacking |= {test for test in self.tests if self.marks.get(test) == (False, True)}
        return [test for test in self.tests if test not in lacking]

    def fault(self, error: NoData | NotEnoughDevices | NotBuiltYet | NoBaseline) -> str:
        """Why what else skips a test is an error to a nightly gate, of which nothing may pass unmeasured; else ""."""
        if isinstance(error, NoData):
            return str(error)
        return self._lost_devices(error) if isinstance(error, NotEnoughDevices) else ""

    def _lost_devices(self, error: NotEnoughDevices) -> str:
        """Why GPUs that should be there are not: a driver that fails, fewer than a named machine's rows; else ""."""
        if self.topology.driver_fault:
            return f"{error}. A driver is installed, so that this is no machine without GPUs"
        name = self.settings.machine
        if not (name and error.wanted):
            return ""
        rows = self.baselines.load(name).values()
        had = any(row.gpu and row.key.topology == f"1x{error.wanted}" for row in rows if row.is_measured)
        return f"{error}. Its baselines were measured on {error.wanted} GPUs: one is missing" if had else ""

    @cached_property
    def bench(self) -> Bench:
        """Made when the first test measures, so that a session that only collects pays nothing."""
        from pytest_tfperf.bench.bench import Bench

        return Bench(
            launcher=self.launcher,
            baselines=self.baselines,
            history=self.history,
            settings=self.settings,
            watch=self.live,
            tests=len(self.runnable),
            largest_batch=self.largest_batch,
        )

    @cached_property
    def largest_batch(self) -> LargestBatch:
        """Searches, in checks and comparisons, for no longer in all than a night can spare."""
        from pytest_tfperf.bench.largest_batch import LargestBatch

        return LargestBatch(self.live)

    @cached_property
    def recorder(self) -> Recorder:
        """Keeps whole trials, where `--tfperf-save-trials` asks for it."""
        from pytest_tfperf.stores.recorder import Recorder

        return Recorder(self.settings, self.baselines, lambda: self.bench.sharing, lambda row: self.bench.nights(row))

    @cached_property
    def launcher(self) -> Launcher:
        """Starts workers under this Python."""
        return self._launcher(Path(sys.executable))

    @cached_property
    def other_launcher(self) -> Launcher:
        """Starts workers under the Python of `--tfperf-against`."""
        assert self.settings.against is not None
        return self._launcher(self.settings.against)

    def _launcher(self, python: Path) -> Launcher:
        from pytest_tfperf.workers.local import LocalLauncher

        launcher = LocalLauncher(
            logs=self.settings.dir / "logs",
            silence_seconds=self.settings.timeout,
            fresh=self.settings.worker is WorkerStart.FRESH,
            python=str(python),
        )
        self._open.callback(launcher.close)
        return launcher

    def expected_seconds(self) -> tuple[float, int]:
        """How long the session will take by its tests' last times, and how many of them were never timed here."""
        if self.settings.smoke:
            return _SMOKE_SECONDS * len(self.runnable), 0
        known = self.history.seconds_of(self.runnable)
        unknown = len(self.runnable) - len(known)
        typical = math.fsum(known.values()) / len(known) if known else _GUESSED_SECONDS
        runs = self.settings.runs if self.settings.update_baselines else 1
        return runs * (math.fsum(known.values()) + unknown * typical), unknown

    def check(self) -> None:
        """Once the tests are known: what can be refused now must not be found out after a night's measuring.

        Raises:
            TfperfError: the history can't be written; with `--tfperf-strict` a tolerance that was asked for and that no
                verdict could keep.
            BaselineError: a file of this machine's that can't be read whole.
        """
        if not self.tests:
            return
        self.history.prepare()
        if self.settings.against is None:  # which needs no baselines
            self._remarks = self._of_baselines()

    def before(self) -> list[str]:
        """What to say before the first test."""
        if self.nothing_to_record:
            return [f"tfperf: {self.nothing_to_record}. --update-baselines records every selected test"]
        if not self.tests or self.runs_nothing:
            return []
        said = summary.before(self.topology.machine, len(self.runnable), *self.expected_seconds(), self.settings)
        if self.settings.data_dir and self.reading.isdisjoint(self.runnable):
            said.append(summary.nothing_reads(self.settings.data_dir))
        return [*said, *(f"tfperf: {line}" for line in self._remarks), *self._refused("will be errors")]

    def _of_baselines(self) -> list[str]:
        """What this machine's baselines can't keep, or don't know, of what they are asked for; as `check`."""
        settings = self.settings
        machines = sorted({self.topology_for(cpu=cpu, gpu=gpu).machine for cpu, gpu in self.marks.values()})
        tables = [list(self.baselines.load(machine).values()) for machine in machines]
        lines = [f"passed over, as another machine's: {fault}" for fault in self.baselines.unreadable(*machines)]
        if settings.update_baselines or settings.smoke:
            return lines
        for rows in tables:
            found = list(rows_too_tight(rows, Tolerance.of(settings.tolerance), len(self.runnable)))
            asked = [one for one in found if one.own or settings.tolerance_asked]
            if asked and settings.strict:
                raise TfperfError("--tfperf-strict: " + "\n".join(resolution.sentence(one) for one in asked))
            unknown = without_spread(rows)
            noise = noise_of(unknown[0], rows) if unknown else None
            lines += resolution.before(found, unknown, noise, asked=settings.tolerance_asked)
        return lines

    def refuse_too_tight(self, workload: Workload, topology: Topology, tolerance: Tolerance) -> str:
        """What to say of a tolerance that a test asks for itself and that its row can't keep; "" where it can.

        Raises:
            BaselineError: with `--tfperf-strict`; or the machine's file can't be read.
        """
        if self.settings.update_baselines or self.settings.smoke:
            return ""
        key = Key(workload.id, topology.shape)
        found = reference_for(self.baselines, topology.machine, key, gpu_fp32_tflops=floor_rate(topology))
        if found.baseline is None or found.noise is None:
            return ""
        tight = too_tight(found.baseline, found.noise, tolerance, len(self.runnable))
        if tight is not None and self.settings.strict:
            raise BaselineError(f"--tfperf-strict: {resolution.sentence(tight)}")
        return resolution.sentence(tight) if tight else ""

    def defer(self, test: str, records: list[Measurement]) -> None:
        """Keep what a test measured until it is run again, after all others."""
        self.deferred[test] = records
        self.records = [record for record in self.records if record not in records]

    def keep(self, comparison: Comparison) -> None:
        """In the history, as `Bench` keeps records: a smoke run's is left out, and a full disk costs no verdict."""
        if self.settings.smoke:
            return
        try:
            self.history.append_comparison(comparison)
        except TfperfError as error:
            self._not_kept = self._not_kept or str(error)

    def summary(self, *, skips: bool) -> list[str]:
        """What to say after the last test; a test that was to be run again, and was not, is in doubt.

        `skips`: count also what kept tests from measuring.
        """
        if self.runs_nothing:
            return [*(self._coverage() if self.settings.coverage else []), *self._refused("would be errors")]
        compared = [comparison for found in self.comparisons.values() for comparison in found]
        parts = (
            summary.comparisons(compared),
            summary.summary(
                [*self.records, *self._unsettled],
                self.changes,
                self.settings,
                not_measured=[(test, why) for test, why in self.not_measured if test not in self.refused],
                measured_nothing=self._measured_nothing,
                shifts=self.bench.shifts if "bench" in vars(self) else {},
                not_kept=self._not_kept or (self.bench.not_kept if "bench" in vars(self) else ""),
                not_saved=self.recorder.not_kept if "recorder" in vars(self) else "",
            ),
        )
        refused = self._refused("were errors", {test for test, _ in self.not_measured})
        return [
            *parts[0],
            *([""] if all(parts) else []),
            *parts[1],
            *refused,
            *(summary.skips(self.skipped) if skips else []),
        ]

    def _coverage(self) -> list[str]:
        return coverage(self._published, unmeasured(self._published, self.keys), not_built(self._published))

    def _refused(self, what: str, came: Collection[str] | None = None) -> list[str]:
        """What is said of the tests that ask for what can't be, and what becomes of them; of those that `came` up."""
        faults = {test: found for test, found in self.refused.items() if came is None or test in came}
        return summary.refused(faults, len(self.tests), what)

    @property
    def _unsettled(self) -> list[Measurement]:
        """Of tests that were to be run again, and were not."""
        done = {record.test for record in self.records} | {test for test, _ in self.not_measured}
        return [record for test, records in self.deferred.items() if test not in done for record in records]

    def exit_status(self, status: int, *, failures: int) -> int:
        """pytest's status, or our own where nothing failed and something could not be measured."""
        if self.settings.coverage and unmeasured(self._published, self.keys):
            return status or EXIT_REGRESSED
        if self.runs_nothing and self.refused:
            return status or EXIT_USAGE
        return exit_status(
            status,
            failed=failures - len(self.not_measured),
            not_measured=len(self.not_measured),
            measured_nothing=self._measured_nothing,
        )

    @cached_property
    def _published(self) -> list[Baseline]:
        return self.baselines.published()

    @property
    def _measured_nothing(self) -> bool:
        wanted = self.settings.require_baseline and bool(self.tests) and not self.runs_nothing
        return wanted and not self.records and not self.comparisons

    def close(self) -> None:
        """End all workers, give the lock back."""
        self._open.close()
