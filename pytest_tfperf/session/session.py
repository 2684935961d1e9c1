"""One pytest session: which tests were selected, and what came of them."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import NoData, NotEnoughDevices, NotEnoughNodes, NotInstalled, TfperfError
from pytest_tfperf.features.cluster.names import LOCAL
from pytest_tfperf.session.settings import Settings
from pytest_tfperf.stores import atomic
from pytest_tfperf.stores.baselines import BaselineStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_tfperf.bench.recording import BaselineRecorder
    from pytest_tfperf.bench.rerun_queue import RerunQueue, Result
    from pytest_tfperf.core.command import Command, Subject
    from pytest_tfperf.core.session_verdicts import SessionVerdict
    from pytest_tfperf.reports.progress_line import ProgressLine
    from pytest_tfperf.session.measuring import Measuring
    from pytest_tfperf.stores.history import History


class Session:
    """What the plugin's hooks and fixtures share.

    What measures, judges and records is imported when it is first used, because a session that only collects is short.

    Args:
        settings: what the user asked for.

    Attributes:
        id: marks the measurements of this session.
        selection: the throughput tests that pytest selected.
        baselines: the files.
        remarks: lines to print before the first test.
        skipped: how many tests could not run here, for each reason.
        not_measured: of each test that ended in an error, the message.
        refused: of each test that was measured and whose baseline was refused, the message.
        workload_name: the name that a user's hook gives a workload, None for none.
        under_xdist: how many throughput tests pytest-xdist's workers got, which measure nothing.
        commands: the command of each name, machine and shape, and the test that it was first measured in.
        left_out: tests that `--tfperf-budget` has no time for, and the seconds that each would take.
        verdicts: on software and machine as a whole, once all tests have run.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self.selection = Selection()
        self.baselines = BaselineStore(settings.baselines)
        self.remarks: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.not_measured: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.under_xdist = 0
        self.commands: dict[tuple[str, str, str], tuple[Command, str]] = {}
        self.left_out: dict[str, float] = {}
        self.workload_name: Callable[[Workload], object] = lambda _: None
        self.verdicts: list[SessionVerdict] = []
        self._open = ExitStack()
        self._began = time.monotonic()

    @cached_property
    def progress(self) -> ProgressLine:
        """Shows how a measurement progresses."""
        from pytest_tfperf.reports.progress_line import ProgressLine

        return ProgressLine()

    @cached_property
    def queue(self) -> RerunQueue:
        """The tests' results, and which of them run again."""
        from pytest_tfperf.bench.rerun_queue import RerunQueue

        return RerunQueue(None if self.settings.smoke else lambda: self.history)

    @cached_property
    def recorder(self) -> BaselineRecorder:
        """Writes baselines."""
        from pytest_tfperf.bench.recording import BaselineRecorder

        return BaselineRecorder(self.baselines, self.settings.root)

    @cached_property
    def history(self) -> History:
        """Opened when it is first needed, because importing SQLAlchemy takes 0.2 s."""
        from pytest_tfperf.stores.history import History

        return History(self.settings.dir / "history.sqlite")

    @cached_property
    def measuring(self) -> Measuring:
        """Made when it is first needed: a session that only collects does not pay for it."""
        from pytest_tfperf.session.measuring import Measuring

        made = Measuring(self.settings, self.id, self.selection, self.baselines, self.history, self.progress)
        return self._open.enter_context(closing(made))

    @cached_property
    def known_seconds(self) -> Mapping[str, float]:
        """Seconds that a run of each selected test took in an earlier session; none where the history is broken."""
        with suppress(TfperfError):
            return self.history.seconds_of(test.id for test in self.measuring.runnable)
        return {}

    @cached_property
    def longest_seconds(self) -> Mapping[str, float]:
        """The most seconds that a run of each selected test took in an earlier session; none as `known_seconds`."""
        with suppress(TfperfError):
            return self.history.longest_seconds_of(test.id for test in self.measuring.runnable)
        return {}

    @cached_property
    def has_rows(self) -> bool:
        """Whether any baseline of this machine is recorded; files that can't be read have none."""
        with suppress(TfperfError):
            return any(self.baselines.load(machine) for machine in self.measuring.machine_names)
        return False

    @cached_property
    def known_confirmations(self) -> tuple[int, int]:
        """Further runs that confirmations took in earlier sessions, and among how many measurements."""
        with suppress(TfperfError):
            return self.history.confirmation_runs(self.measuring.machine_names)
        return 0, 0

    def prepare(self) -> None:
        """Refuse now what would otherwise fail after hours of measuring.

        Raises:
            BaselineError: `--update-baselines` where the folder can't be written or another session holds it.
            TfperfError: `--tfperf-against` names a Python that can't train, or `--tfperf-launcher` something that can't
                be used here, or a report can't be written.
        """
        if self.settings.collects_only:
            return
        for path, option in ((self.settings.html, "--tfperf-html"), (self.settings.markdown, "tfperf_markdown")):
            if path is not None:
                atomic.require_writable(path, option)
        if self.settings.against is not None:
            from pytest_tfperf.workers.interpreters import require_python, try_imports

            # Where tests only run programs of another framework, neither Python need have TensorFlow.
            (try_imports if find_spec("tensorflow") else require_python)(self.settings.against)
        if self.settings.launcher != LOCAL:
            self.measuring.require_launcher()
        if self.settings.update_baselines:
            self._open.enter_context(self.baselines.lock())

    def check_stores(self) -> None:
        """Refuse files that the selected tests will need and that can't be used.

        Raises:
            TfperfError: the history, or the folder of --tfperf-profile-on-regression, can't be written.
            BaselineError: a file of this machine's that can't be read whole.
            MeasurementError: baselines are to be recorded, and other work disturbs the machine.
        """
        settings = self.settings
        if not self.selection or settings.collects_only:
            return
        from pytest_tfperf.workers.git_worktree import commit_of, refusal_of

        self.remarks += [why] if (why := refusal_of(settings.root)) else []
        self.history.prepare()
        self.remarks += [self.history.moved_aside] if self.history.moved_aside else []
        if settings.against is not None:
            return
        if settings.profile_on_regression is not None and not settings.smoke:
            from pytest_tfperf.features.profiles.traces import TraceStore

            TraceStore(settings.profile_on_regression).prepare()
        rows = [row for machine in self.measuring.machine_names for row in self.baselines.load(machine).values()]
        if not (settings.smoke or settings.update_baselines):
            self.remarks += self.measuring.references.check(row for row in rows if row.is_measured)
        if settings.update_baselines:
            from pytest_tfperf.bench.first_look import look_before_recording
            from pytest_tfperf.features.references.environment import unrepeatable_commit

            commit = commit_of(settings.root, besides=settings.baselines)
            found = unrepeatable_commit(commit), look_before_recording(settings.disturbance_limits)
            self.remarks += filter(None, found)

    def why_missing_is_an_error(self, error: NoData | NotEnoughDevices | NotInstalled) -> str:
        """Reason to report a skip as an error under --tfperf-require-baseline; empty if the test may skip."""
        if isinstance(error, NoData):
            return str(error)
        if not isinstance(error, NotEnoughDevices):
            return ""
        if isinstance(error, NotEnoughNodes) and self.measuring.cluster_engine is not None:
            return str(error)  # who names a launcher for the gate wants its tests to run
        if self.measuring.topology.driver_fault:
            return f"{error}. A driver is installed, so this machine should have GPUs"
        name = self.settings.machine
        if not (name and error.wanted):
            return ""
        rows = self.baselines.load(name).values()
        had = any(row.gpu and row.key.topology == f"1x{error.wanted}" for row in rows if row.is_measured)
        return f"{error}. Its baselines were measured on {error.wanted} GPUs: one is missing" if had else ""

    def name_of(self, subject: Subject, given: str = "") -> str:
        """The name for tables and messages, from the test or from a user's hook; "" for the subject's id.

        Raises:
            TfperfError: the name is not one line of text.
        """
        name = given or (self.workload_name(subject) if isinstance(subject, Workload) else None) or ""
        if not isinstance(name, str) or not name.isprintable() or name != name.strip():
            raise TfperfError(f"name={name!r} of {subject.id}: give it as a line of text, as in 'small-cnn'")
        return name

    @property
    def remark_lines(self) -> list[str]:
        """The remarks as a session prints them."""
        return [f"tfperf: {remark}" for remark in self.remarks]

    @property
    def results(self) -> list[Result]:
        """What the tests gave, in order. A test that ended in an error leaves half-finished results, which are none."""
        return [one for one in self.queue.results if one.is_decided or one.test not in self.not_measured]

    @property
    def elapsed_seconds(self) -> float:
        """Since pytest read its settings."""
        return time.monotonic() - self._began

    def judge(self) -> list[SessionVerdict]:
        """Judge software and machine as a whole when all tests have run; returns the verdicts that fail the session."""
        settings = self.settings
        if self.selection and not (settings.collects_only or settings.smoke or settings.update_baselines):
            self.progress.test, self.progress.why = "software and machine", ""
            self.verdicts += self.measuring.session_verdicts(self.queue.results)
            if settings.fail_on_drift:
                self.verdicts += self._drift_verdicts()
            self._keep_verdicts()
        return self._failing

    def _drift_verdicts(self) -> Iterator[SessionVerdict]:
        """What `--tfperf-fail-on-drift` fails the session for; nothing if the history can't be read."""
        from pytest_tfperf.core.session_verdicts import SessionVerdict
        from pytest_tfperf.features.changes.lasting_slowdowns import lasting_slowdowns  # imports NumPy
        from pytest_tfperf.features.changes.table import drift_message

        for machine in self.measuring.machine_names:
            try:
                found = lasting_slowdowns(self.history.results(machine=machine), self.id)
            except TfperfError as error:
                self.measuring.history_fault = str(error)
                return
            if found:
                yield SessionVerdict("drift", machine, Outcome.REGRESSED, None, drift_message(machine, found))

    def _keep_verdicts(self) -> None:
        """Add the verdicts to the history; they count even if it can't be written."""
        now = datetime.now(UTC).isoformat()
        try:
            for verdict in self.verdicts:
                self.history.append_verdict(verdict, session=self.id, time=now)
        except TfperfError as error:
            self.measuring.history_fault = str(error)

    @property
    def keeps_history(self) -> bool:
        """Whether this session adds what it measures to the history."""
        return bool(self.selection) and not (self.settings.collects_only or self.settings.smoke)

    @property
    def _failing(self) -> list[SessionVerdict]:
        return [verdict for verdict in self.verdicts if verdict.outcome is Outcome.REGRESSED]

    @property
    def measured_nothing(self) -> bool:
        """Whether the nightly gate selected throughput tests, and none of them measured anything."""
        wanted = self.settings.require_baseline and bool(self.selection) and not self.settings.collects_only
        return wanted and not list(self.queue.results)

    def exit_status(self, status: int, *, failures: int) -> int:
        """pytest's status, or our own where nothing failed and something could not be measured.

        Args:
            status: pytest's.
            failures: reports that failed, errors and the session's own verdicts among them.
        """
        if self.settings.collects_only and not self.selection.faulty:
            return status
        from pytest_tfperf.core.consequence import EXIT_USAGE, exit_status

        if self.settings.collects_only:
            return status or EXIT_USAGE
        machine_failures = sum(verdict.kind == "machine" for verdict in self._failing)
        errors = len(self.not_measured) + len(self.refused)
        return exit_status(
            status,
            failed=failures - errors - machine_failures,
            not_measured=errors,
            measured_nothing=self.measured_nothing,
            machine_slower=bool(machine_failures),
        )

    def close(self) -> None:
        """End all workers and release the lock on the baselines."""
        self._open.close()
