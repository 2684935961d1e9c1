"""One pytest session: which tests were selected, and what came of them."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_tfperf.core.selection import Choice, Selection
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.session.feature_hooks import features
from pytest_tfperf.stores.baselines import BaselineStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_tfperf.bench.recording import BaselineRecorder
    from pytest_tfperf.bench.rerun_queue import RerunQueue
    from pytest_tfperf.core.command import Command, Subject
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionRecord, SessionVerdict
    from pytest_tfperf.reports.progress_line import ProgressLine
    from pytest_tfperf.session.measuring import Measuring
    from pytest_tfperf.stores.history import History
    from pytest_tfperf.workers.launcher import Nodes


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
        not_measured: of each test that ended in an error, that error.
        refused: of each test that was measured and whose baseline was refused, the error.
        is_compared: whether each check is a comparison with the session's other side.
        measured_alone: of each test whose other side had nothing to compare with, the reasons of its checks.
        workload_name: the name that a user's hook gives a workload, None for none.
        under_xdist: how many throughput tests pytest-xdist's workers got, which measure nothing: each is skipped, or
            an error for the nightly gate.
        commands: the command of each name, machine and shape, and the test and call that it was first measured in.
        choice: the tests that there is time for; None for all.
        left_out: those that there is no time for, and the seconds that each would take.
        verdicts: on software and machine as a whole, once all tests have run.
        output_lines: what features say of the files that they wrote, and of what they could not, at the end.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self.selection = Selection()
        self.baselines = BaselineStore(settings.baselines)
        self.remarks: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.not_measured: dict[str, TfperfError] = {}
        self.refused: dict[str, TfperfError] = {}
        self.is_compared = False
        self.measured_alone: dict[str, list[str]] = {}
        self.under_xdist = 0
        self.commands: dict[tuple[str, str, str], tuple[Command, tuple[str, int]]] = {}
        self.choice: Choice | None = None
        self.left_out: dict[str, float] = {}
        self.workload_name: Callable[[Workload], object] = lambda _: None
        self.verdicts: list[SessionVerdict] = []
        self.output_lines: list[str] = []
        self._open = ExitStack()
        self._began = time.monotonic()
        self.say: Callable[[str], None] = lambda _: None  # shows a line at once; a terminal sets it

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

        return BaselineRecorder(self.baselines, self.measuring.launchers.references)

    @cached_property
    def history(self) -> History:
        """Opened when it is first needed, because importing SQLAlchemy takes 0.2 s."""
        from pytest_tfperf.stores.history import History

        return History(self.settings.dir / "history.sqlite")

    @cached_property
    def measuring(self) -> Measuring:
        """Made when it is first needed: a session that only collects does not pay for it."""
        from pytest_tfperf.session.measuring import Measuring

        made = Measuring(
            self.settings,
            self.id,
            self.selection,
            self.baselines,
            self.history,
            self.progress,
            self.nodes,
            lambda text: self.say(text),
        )
        return self._open.enter_context(closing(made))

    @cached_property
    def nodes(self) -> Nodes | None:
        """What starts tests on several nodes; None: this machine's own processes stand for nodes.

        Raises:
            TfperfError: it is not installed here, or has options that it can't take.
        """
        made: Nodes | None = features().ask("nodes", settings=self.settings)
        return None if made is None else self._open.enter_context(closing(made))

    @cached_property
    def known_seconds(self) -> Mapping[str, float]:
        """Seconds that a run (or a comparison) of each test took in an earlier session; none for a broken history."""
        from pytest_tfperf.session.expected_time import earlier_seconds

        with suppress(TfperfError):
            return earlier_seconds(self)
        return {}

    @cached_property
    def longest_seconds(self) -> Mapping[str, float]:
        """The most seconds that a run of each selected test took in an earlier session; none as `known_seconds`."""
        with suppress(TfperfError):
            return self.history.longest_seconds_of(test.id for test in self.measuring.machine.runnable)
        return {}

    @cached_property
    def has_rows(self) -> bool:
        """Whether any baseline of this machine is recorded; files that can't be read have none."""
        with suppress(TfperfError):
            return any(self.baselines.load(machine) for machine in self.measuring.machine.names)
        return False

    @cached_property
    def known_confirmations(self) -> tuple[int, int]:
        """Further runs that confirmations took in earlier sessions, and among how many measurements."""
        with suppress(TfperfError):
            return self.history.confirmation_runs(self.measuring.machine.names)
        return 0, 0

    def prepare(self) -> None:
        """Refuse now what would otherwise fail after hours of measuring.

        Raises:
            BaselineError: `--update-baselines` where the folder can't be written or another session holds it.
            TfperfError: a feature can't do what it was asked for, or tests can't be started on other nodes.
        """
        if self.settings.collects_only:
            return
        features().ask("prepare", settings=self.settings)
        if self.nodes is not None:
            self.nodes.require()
        if self.settings.update_baselines:
            self._open.enter_context(self.baselines.lock())

    def check_stores(self) -> None:
        """Refuse files that the selected tests will need and that can't be used.

        Raises:
            TfperfError: the history, or what a feature writes, can't be written.
            BaselineError: a file of this machine's that can't be read whole.
            MeasurementError: baselines are to be recorded, and other work disturbs the machine.
        """
        settings = self.settings
        if not self.selection or settings.collects_only:
            return
        from pytest_tfperf.revisions.git import refusal_of

        self.remarks += [why] if (why := refusal_of(settings.root)) else []
        self.history.prepare()
        self.remarks += [self.history.moved_aside] if self.history.moved_aside else []
        features().ask("check_stores", settings=settings)
        self.is_compared = self.measuring.launchers.other_side is not None
        if self.is_compared:
            return
        rows = [row for machine in self.measuring.machine.names for row in self.baselines.load(machine).values()]
        references = self.measuring.launchers.references
        if references is not None and not (settings.smoke or settings.update_baselines):
            self.remarks += references.check([row for row in rows if row.is_measured])
        if settings.update_baselines:
            from pytest_tfperf.session.recording import before_recording

            self.remarks += before_recording(self)

    def choose(self, failed: Collection[str]) -> Choice | None:
        """Choose the tests that there is time for, where a feature limits it; `failed` did so last time."""
        from pytest_tfperf.session.expected_time import expected_seconds

        choice: Choice | None = features().ask(
            "select",
            settings=self.settings,
            selection=self.selection,
            seconds=expected_seconds(self),
            failed=failed,
            history=self.history,
        )
        if choice is not None:
            self.choice = choice
            self.remarks += choice.remarks
            self.left_out |= choice.left_out
        return choice

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
    def results(self) -> list[Measurement]:
        """What the tests gave, in order. A test that ended in an error leaves half-finished results, which are none."""
        return [one for one in self.queue.results if one.is_decided or one.test not in self.not_measured]

    @property
    def elapsed_seconds(self) -> float:
        """Since pytest read its settings."""
        return time.monotonic() - self._began

    def judge(self) -> list[SessionVerdict]:
        """Judge software and machine when all tests have run, or end a recording; returns the verdicts that fail."""
        if self.keeps_history and self.settings.update_baselines:
            from pytest_tfperf.session.recording import end_recording

            self.output_lines += end_recording(self)
        elif self.keeps_history:
            self.progress.test, self.progress.why = "software and machine", ""
            self.verdicts += self.measuring.judge.judge(self.results)
        return self._failing

    def remarks_of_features(self, *, in_brief: bool) -> list[str]:
        """What features say of the session, before its tests (in brief) and after them."""
        found: list[list[str]] = features().ask(
            "remarks", settings=self.settings, left_out=self.left_out, in_brief=in_brief
        )
        lines = [line for lines in found for line in lines]
        if in_brief:
            return lines
        lines += self.measuring.launchers.remarks if self.is_compared else []
        alone = [(test, why) for test, reasons in self.measured_alone.items() for why in reasons]
        lines += [f"{test}: measured, not compared: {why}" for test, why in alone]
        return [*lines, "NOTHING WAS COMPARED, so the session does not pass"] if self.compared_nothing else lines

    @property
    def record(self) -> SessionRecord:
        """What came of the session so far."""
        from pytest_tfperf.core.session_verdicts import SessionRecord

        return SessionRecord(
            selection=self.selection,
            results=self.results,
            verdicts=self.verdicts,
            not_measured=self.not_measured,
            refused=self.refused,
            left_out=self.left_out,
            remarks=self.remarks_of_features(in_brief=False),
            keeps_history=self.keeps_history,
        )

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

    @property
    def compared_nothing(self) -> bool:
        """Whether checks were to be compared, and none was; a `throughput.compare` knows no other side."""
        sides = (result.other for result in self.queue.results)
        return self.is_compared and not any(side is not None and side.is_of_session for side in sides)

    def exit_status(self, status: int, *, failures: int) -> int:
        """pytest's status, or our own where nothing failed and something could not be measured.

        Args:
            status: pytest's.
            failures: reports that failed, errors and the session's own verdicts among them.
        """
        if self.settings.collects_only and not self.selection.faulty:
            return status
        from pytest_tfperf.core.exit_status import EXIT_USAGE, exit_status

        if self.settings.collects_only:
            return status or EXIT_USAGE
        from pytest_tfperf.core.session_verdicts import VerdictOn

        machine_failures = sum(verdict.kind is VerdictOn.MACHINE for verdict in self._failing)
        under_xdist = self.under_xdist if self.settings.require_baseline else 0
        errors = len(self.not_measured) + len(self.refused) + under_xdist
        return exit_status(
            status,
            failed=failures - errors - machine_failures,
            not_measured=errors,
            measured_nothing=self.measured_nothing or self.compared_nothing,
            machine_slower=bool(machine_failures),
        )

    def close(self) -> None:
        """End all workers and release the lock on the baselines."""
        self._open.close()
