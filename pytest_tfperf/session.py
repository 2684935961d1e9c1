"""One pytest session: settings, machine, stores, results."""

from __future__ import annotations

import math
import secrets
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from pytest_tfperf.bench.rerun_queue import RerunQueue
from pytest_tfperf.core.baseline import Baseline, Change, Key
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.consequence import EXIT_USAGE, exit_status
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past_session import PastSession
from pytest_tfperf.core.selection import SelectedTest, Selection
from pytest_tfperf.core.session_verdicts import MachineVerdict, SoftwareVerdict
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.errors import NoBaseline, NoData, NotBuiltYet, NotEnoughDevices, TfperfError
from pytest_tfperf.reports import summary
from pytest_tfperf.reports.progress_line import ProgressLine
from pytest_tfperf.settings import Settings, WorkerStart
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History

if TYPE_CHECKING:
    from pytest_tfperf.bench.bench import Bench
    from pytest_tfperf.bench.machine_session import MachineSession
    from pytest_tfperf.bench.one_run import RunEngine
    from pytest_tfperf.bench.task import Task
    from pytest_tfperf.core.plan import Plan
    from pytest_tfperf.core.workload import Workload
    from pytest_tfperf.workers.launcher import Launcher
    from pytest_tfperf.workers.reference_launchers import ReferenceLaunchers

_GUESSED_SECONDS = 15.0  # for a test that was never timed on this machine
_NOTHING_MOVED: Mapping[Path, Path] = MappingProxyType({})
_SMOKE_SECONDS = 3.0  # a worker, a compilation, a window: 2.6 s on average over the CPU tests on two slow cores


class SessionFailure(NamedTuple):
    """Why the session fails as a whole.

    Args:
        kind: "software", "machine", or "together" where nothing tells which of them.
        machine: the machine's key.
        text: fact, location, next step.
    """

    kind: str
    machine: str
    text: str


class Session:
    """What the plugin's hooks share.

    Args:
        settings: what the user asked for.
        progress: shows how a measurement progresses.
        collects_only: nothing will run.
    """

    def __init__(self, settings: Settings, progress: ProgressLine, *, collects_only: bool = False) -> None:
        self.settings = settings
        self.progress = progress
        self.id = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self.collects_only = collects_only
        self.selection = Selection()
        self.baselines = BaselineStore(settings.baselines)
        self.history = History(settings.dir / "history.sqlite")
        self.queue = RerunQueue(None if settings.smoke else self.history)
        self._changes: list[Change] = []
        self._skipped: Counter[str] = Counter()
        self._not_measured: set[str] = set()
        self._nothing_to_record = ""
        self._machines: dict[str, MachineSession] = {}
        self._verdicts: dict[str, tuple[SoftwareVerdict | None, MachineVerdict | None]] = {}
        self._past_fault = ""
        self._reference_remarks: list[str] = []
        self._reference_warnings: dict[str, None] = {}
        self._locks: dict[str, str] = {}
        self._machine_failures = 0
        self._open = ExitStack()

    # Before the first test

    def prepare(self) -> None:
        """Refuse now what would otherwise fail after hours of measuring.

        Raises:
            BaselineError: `--update-baselines` where the folder can't be written or another session holds it.
            TfperfError: `--tfperf-against` names a Python that can't train.
        """
        if self.settings.against is not None:
            from pytest_tfperf.workers.interpreters import try_imports

            try_imports(self.settings.against)
        if self.settings.update_baselines:
            self._open.enter_context(self.baselines.lock())

    def select(self, tests: list[SelectedTest]) -> None:
        """Take note of the selected throughput tests."""
        self.selection = Selection(tests)

    def check_stores(self) -> None:
        """Refuse files that the selected tests will need and that can't be used.

        Raises:
            TfperfError: the history can't be written.
            BaselineError: a file of this machine's that can't be read whole.
        """
        if not self.selection or self.collects_only:
            return
        self.history.prepare()
        if self.settings.against is not None:
            return
        rows = [row for machine in self._machine_names for row in self.baselines.load(machine).values()]
        if not (self.settings.smoke or self.settings.update_baselines):
            self._reference_remarks = self.references.check(row for row in rows if row.is_measured)

    def note_nothing_to_record(self, why: str) -> None:
        """Say why `--update-baselines=failed` selects no test."""
        self._nothing_to_record = why

    def header(self) -> list[str]:
        """What to say before the first test."""
        if self._nothing_to_record:
            return [f"tfperf: {self._nothing_to_record}. --update-baselines records every selected test"]
        if not self.selection or self.collects_only:
            return []
        seconds, never_timed = self._expected_seconds()
        settings = self.settings
        lines = summary.before(
            self.topology.machine,
            len(self._runnable),
            seconds,
            never_timed,
            recording=settings.runs if settings.update_baselines else 0,
            baselines=settings.shown_baselines,
            smoke=settings.smoke,
            inject_slowdown=settings.inject_slowdown,
            hold=settings.hold,
            against=str(settings.against or ""),
        )
        if self.settings.against is None:
            unreadable = self.baselines.unreadable(*self._machine_names)
            lines += [f"tfperf: ignored, the file of another machine: {fault}" for fault in unreadable]
            lines += [f"tfperf: {remark}" for remark in self._reference_remarks]
        return [*lines, *summary.refused(self.selection.faulty, len(self.selection))]

    # The machine

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

    def why_missing_is_an_error(self, error: NoData | NotEnoughDevices | NotBuiltYet | NoBaseline) -> str:
        """Reason to report a skip as an error under --tfperf-require-baseline; empty if the test may skip."""
        if isinstance(error, NoData):
            return str(error)
        if not isinstance(error, NotEnoughDevices):
            return ""
        if self.topology.driver_fault:
            return f"{error}. A driver is installed, so this machine should have GPUs"
        name = self.settings.machine
        if not (name and error.wanted):
            return ""
        rows = self.baselines.load(name).values()
        had = any(row.gpu and row.key.topology == f"1x{error.wanted}" for row in rows if row.is_measured)
        return f"{error}. Its baselines were measured on {error.wanted} GPUs: one is missing" if had else ""

    # Measuring

    def task(
        self, test: str, index: int, workload: Workload, topology: Topology, tolerance: Tolerance | None, plan: Plan
    ) -> Task:
        """Everything that is known of a measurement before it starts.

        Args:
            test: pytest's node id.
            index: which of the test's calls it is, from 0.
            workload, topology, plan: what to measure.
            tolerance: the test's own; None: the row's, or the default.

        Raises:
            BaselineError: the machine's file can't be read whole.
        """
        from pytest_tfperf.bench.one_run import Side
        from pytest_tfperf.bench.task import Task
        from pytest_tfperf.judging.reference import floor_rate, reference_for

        key = Key(workload.id, topology.shape)
        rows, published = self.baselines.load(topology.machine), self.baselines.published_like(key)
        reference = reference_for(rows, published, topology.machine, key, gpu_fp32_tflops=floor_rate(topology))
        other = None if reference.is_floor else self.references.launcher_for(reference.baseline)
        return Task(
            test=test,
            index=index,
            topology=topology,
            plan=plan,
            side=Side(workload=workload, launcher=self.launcher, slowdown=self.settings.inject_slowdown),
            reference_side=None if other is None else Side(workload=workload, launcher=other),
            reference=reference,
            tolerance=reference.tolerance(tolerance, Tolerance.of(self.settings.tolerance)),
        )

    @cached_property
    def bench(self) -> Bench:
        """Made when the first test measures, so that a session that only collects pays nothing."""
        from pytest_tfperf.bench.bench import Bench

        return Bench(self.engine, self._machine_session, session=self.id, commit=self._commit)

    @cached_property
    def _commit(self) -> str:
        from pytest_tfperf.workers.git_worktree import commit_of

        return commit_of(self.settings.root, besides=self.settings.baselines)

    @cached_property
    def engine(self) -> RunEngine:
        """Takes every run of the session."""
        from pytest_tfperf.bench.disturbance import DisturbanceGuard
        from pytest_tfperf.bench.one_run import RunEngine

        guard = DisturbanceGuard(self.settings.disturbance_limits)
        data_dir = str(self.settings.data_dir or "")
        return RunEngine(self.progress, guard, data_dir, sampled=not self.settings.smoke)

    @cached_property
    def launcher(self) -> Launcher:
        """Starts workers under this Python."""
        return self._launcher(Path(sys.executable))

    @cached_property
    def other_launcher(self) -> Launcher:
        """Starts workers under the Python of `--tfperf-against`."""
        assert self.settings.against is not None, "asked only with --tfperf-against"
        return self._launcher(self.settings.against)

    @cached_property
    def references(self) -> ReferenceLaunchers:
        """The reference environments that suspected slowdowns are confirmed in."""
        from pytest_tfperf.workers.reference_launchers import ReferenceLaunchers
        from pytest_tfperf.workers.reference_store import ReferenceStore

        settings, named = self.settings, self.settings.reference
        store = ReferenceStore(settings.dir, baselines=settings.baselines, root=settings.root)
        return ReferenceLaunchers(
            store.find if named is None else lambda _: named,
            lambda environment: self._launcher(environment.python, environment.moved(settings.root)),
            settings.root,
        )

    def _launcher(self, python: Path, moved: Mapping[Path, Path] = _NOTHING_MOVED) -> Launcher:
        from pytest_tfperf.workers.local import LocalLauncher

        launcher = LocalLauncher(
            logs=self.settings.dir / "logs",
            silence_seconds=self.settings.timeout,
            fresh=self.settings.worker is WorkerStart.FRESH,
            python=str(python),
            moved=moved,
        )
        self._open.callback(launcher.close)
        return launcher

    def _machine_session(self, topology: Topology) -> MachineSession:
        from pytest_tfperf.bench.machine_session import MachineSession

        name = topology.machine
        if name not in self._machines:
            rows = self.baselines.load(name)
            tests = min(len(self._runnable), sum(row.is_measured for row in rows.values()))
            self._machines[name] = MachineSession(
                rows, lambda: self._past_sessions(rows), tests=tests, hold=self.settings.hold
            )
        return self._machines[name]

    def _past_sessions(self, rows: Mapping[Key, Baseline]) -> Mapping[Key, tuple[PastSession, ...]]:
        """Where the history broke in the middle of the session, the session is judged by itself."""
        try:
            return self.history.past_sessions_of_machine(
                rows.values(), before=self.id, least_tests=math.ceil(len(self._runnable) / 2)
            )
        except TfperfError as error:
            self._past_fault = str(error)
            return {}

    def judge_session(self) -> list[SessionFailure]:
        """Judge software and machine as a whole, when all tests have run; what fails the session."""
        from pytest_tfperf.bench.session_verdicts import session_verdicts

        settings = self.settings
        if not self._machines or settings.smoke or settings.update_baselines:
            return []
        failures = []
        self.progress.test = "software and machine"
        for name, machine in self._machines.items():
            measured = [r for r in self.queue.results if isinstance(r, Measurement) and r.machine == name]
            software, hardware = session_verdicts(
                machine, self.engine, measured, Tolerance.of(settings.tolerance), turn=machine.sessions_before
            )
            self._verdicts[name] = software, hardware
            if software is not None and software.outcome is Outcome.REGRESSED:
                failures.append(SessionFailure("software", name, summary.software_line(name, software, measured)))
            if hardware is not None and hardware.outcome is Outcome.REGRESSED:
                kind = "machine" if hardware.is_apart else "together"
                failures.append(SessionFailure(kind, name, summary.machine_line(name, hardware, measured)))
        self._machine_failures = sum(failure.kind == "machine" for failure in failures)
        return failures

    # What came of it

    def record(self, measurement: Measurement) -> None:
        """Make a measurement its machine's baseline; bounds that someone wrote into the old row by hand are kept.

        The packages that it was measured with are written beside it, so that its reference environment can be built.

        Raises:
            MeasurementError: its runs differ too much, or there is only one.
            BaselineError: the file can't be read whole or written.
        """
        from pytest_tfperf.judging.new_baseline import baseline_of
        from pytest_tfperf.workers.reference_environment import unrepeatable
        from pytest_tfperf.workers.reference_lock import forget_locks, read_lock, write_lock

        folder, machine = self.settings.baselines, measurement.machine
        row = baseline_of(measurement)
        if machine not in self._locks:  # the packages stay the same, and reading them takes a while
            self._locks[machine] = write_lock(folder, machine, root=self.settings.root)
        row = replace(row, lock=self._locks[machine])
        old = self.baselines.load(machine).get(row.key)
        if old is not None and old.is_measured:
            row = replace(row, lower=old.lower, upper=old.upper)
        self._changes += self.baselines.update(machine, {row.key: row})
        forget_locks(folder, machine, {one.lock for one in self.baselines.load(machine).values()})
        warnings = [unrepeatable(row), *read_lock(folder / row.lock).warnings]
        self._reference_warnings |= dict.fromkeys(filter(None, warnings))

    def note_skip(self, reason: str) -> None:
        """A test was skipped because it can't be measured here."""
        self._skipped[reason] += 1

    def note_not_measured(self, test: str) -> None:
        """A test ended in an error."""
        self._not_measured.add(test)

    def summary(self, *, skips: bool) -> list[str]:
        """What to say after the last test.

        Args:
            skips: count what kept tests from measuring, because pytest itself does not (`-rs`).
        """
        if self.collects_only:
            return summary.refused(self.selection.faulty, len(self.selection))
        measured, compared = self._shown
        sections = [
            summary.comparison_summary(compared),
            summary.summary(
                measured,
                baselines=self.settings.shown_baselines,
                changes=self._changes,
                machine=self._machine_lines(measured),
                not_measured=len(self._not_measured),
                measured_nothing=self._measured_nothing,
                history_error=self.queue.history_fault or self._past_fault,
            ),
            [f"reference environment: {warning}" for warning in self._reference_warnings],
            [
                f"{test}: confirmed by fresh runs, because its reference environment failed: {why}"
                for machine in self._machines.values()
                for (test, _), why in machine.reference_failures.items()
            ],
            summary.skips(self._skipped) if skips else [],
        ]
        between = [""] if sections[0] and sections[1] else []
        return [*sections[0], *between, *(line for section in sections[1:] for line in section)]

    def exit_status(self, status: int, *, failures: int) -> int:
        """pytest's status, or our own where nothing failed and something could not be measured."""
        if self.collects_only:
            return (status or EXIT_USAGE) if self.selection.faulty else status
        return exit_status(
            status,
            failed=failures - len(self._not_measured) - self._machine_failures,
            not_measured=len(self._not_measured),
            measured_nothing=self._measured_nothing,
            machine_slower=bool(self._machine_failures),
        )

    def close(self) -> None:
        """End all workers and release the lock on the baselines."""
        self._open.close()

    def _machine_lines(self, measured: list[Measurement]) -> list[str]:
        lines = []
        for name, (software, hardware) in self._verdicts.items():
            of_machine = [m for m in measured if m.machine == name]
            if software is not None:
                lines.append(summary.software_line(name, software, of_machine))
            if hardware is not None:
                lines.append(summary.machine_line(name, hardware, of_machine))
        return lines

    @property
    def _shown(self) -> tuple[list[Measurement], list[Comparison]]:
        """What the tests gave; not the half-finished results of tests that then ended in an error."""
        results = [r for r in self.queue.results if isinstance(r, Comparison) or self._counts(r)]
        measured = [r for r in results if isinstance(r, Measurement)]
        return measured, [r for r in results if isinstance(r, Comparison)]

    def _counts(self, result: Measurement) -> bool:
        return result.is_decided or result.test not in self._not_measured

    @property
    def _measured_nothing(self) -> bool:
        wanted = self.settings.require_baseline and bool(self.selection) and not self.collects_only
        return wanted and not list(self.queue.results)

    @property
    def _runnable(self) -> list[SelectedTest]:
        return self.selection.runnable(has_gpus=bool(self.topology.gpus), has_data=self.settings.data_dir is not None)

    @property
    def _machine_names(self) -> list[str]:
        return sorted({self.topology_for(cpu=cpu, gpu=gpu).machine for cpu, gpu in self.selection.marks})

    def _expected_seconds(self) -> tuple[float, int]:
        """How long the session will take by its tests' last times, and how many of them were never timed here."""
        tests = [test.id for test in self._runnable]
        if self.settings.smoke:
            return _SMOKE_SECONDS * len(tests), 0
        known = self.history.seconds_of(tests)
        unknown = len(tests) - len(known)
        typical = math.fsum(known.values()) / len(known) if known else _GUESSED_SECONDS
        runs = self.settings.runs if self.settings.update_baselines else 1
        return runs * (math.fsum(known.values()) + unknown * typical), unknown
