"""The state of one pytest session, from its settings to its exit status."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import closing, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pytest_tfperf.bench.session import Session
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import FailsHereOnly, FailsThere, NotCompared, TfperfError
from pytest_tfperf.lines import Line
from pytest_tfperf.session.feature_hooks import features, first
from pytest_tfperf.session.owners import Owners
from pytest_tfperf.session.running import can_measure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_tfperf.bench.recording import BaselineRecorder
    from pytest_tfperf.bench.rerun_queue import RerunQueue
    from pytest_tfperf.core.command import Command
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict, UnrecordedTests
    from pytest_tfperf.core.verdict import Consequence
    from pytest_tfperf.reports.progress_line import ProgressLine
    from pytest_tfperf.session.measuring import Measuring
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.history import History
    from pytest_tfperf.workers.launcher import Nodes


class SessionState:
    """The state that the plugin's hooks and fixtures share.

    Modules that measure, judge and record are imported when they are first used: a session that only collects is short.

    Args:
        settings: the values of all settings.

    Attributes:
        context: the settings, tests and stores, for the parts of the session.
        id: marks the measurements of this session.
        selection: the throughput tests that pytest selected.
        say: shows a line at once; a terminal sets it.
        owners: whom tests belong to.
        remarks: lines to print before the first test.
        skipped: the number of tests that could not run here, for each reason.
        not_measured: the error of each test that ended in an error.
        refused: the error of each test whose baseline was refused.
        is_compared: whether each check is a comparison with the session's other side.
        measured_alone: for each test, why the other side of its checks had nothing to compare with: once each, by its
            brief text.
        under_xdist: the number of throughput tests that pytest-xdist's workers got, which measure nothing: each is
            skipped, or an error for the nightly gate.
        commands: the command of each name, machine and shape, and the test and call that it was first measured in.
        unselected: the throughput tests that pytest collected, but deselected or skipped, and why.
        verdicts: on software and machine as a whole, once all tests have run.
        unrecorded: facts from tests without a recorded baseline, once all tests have run; None where all have one.
        interrupted: the test that Ctrl-C or SIGTERM interrupted; "" for none.
        status: the exit status, once all tests have run.
        output_lines: lines on the files that features wrote or could not write.
    """

    def __init__(self, settings: Settings) -> None:
        self.session = Session(settings=settings, say=lambda text: self.say(text))
        self.settings = settings
        self.id = self.session.id
        self.selection = self.session.selection
        self.owners = Owners(settings)
        self.remarks: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.not_measured: dict[str, TfperfError] = {}
        self.refused: dict[str, TfperfError] = {}
        self.is_compared = False
        self.measured_alone: dict[str, dict[str, NotCompared]] = {}
        self.under_xdist = 0
        self.commands: dict[tuple[str, str, str], tuple[Command, tuple[str, int]]] = {}
        self.unselected: dict[str, str] = {}
        self.verdicts: list[SessionVerdict] = []
        self.unrecorded: UnrecordedTests | None = None
        self.interrupted = ""
        self.status = 0
        self.output_lines: list[Line | str] = []
        self._began = time.monotonic()
        self.say: Callable[[str], None] = lambda _: None

    @property
    def baselines(self) -> BaselineStore:
        """The committed baselines."""
        return self.session.baselines

    @property
    def history(self) -> History:
        """The measurements of this session and of earlier ones."""
        return self.session.history

    @property
    def progress(self) -> ProgressLine:
        """The line that shows how a measurement progresses."""
        return self.session.progress

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
    def measuring(self) -> Measuring:
        """Takes and judges measurements; a session that only collects does not pay for it."""
        from pytest_tfperf.session.measuring import Measuring

        return Measuring(self.session, self.nodes)

    @cached_property
    def nodes(self) -> Nodes | None:
        """The launcher of tests on several nodes; None: this machine's own processes stand for nodes.

        Raises:
            TfperfError: it is not installed here, or has options that it can't take.
        """
        hooks = features().hooks(self.settings, lambda feature: feature.nodes)
        made = first(make(self.settings) for make in hooks)
        return None if made is None else self.session.opened.enter_context(closing(made))

    def prepare(self) -> None:
        """Refuse now what would otherwise fail after hours of measuring.

        Raises:
            BaselineError: `--update-baselines` where the folder can't be written or another session holds it.
            TfperfError: a feature can't do what it was asked for, or tests can't be started on other nodes.
        """
        if self.settings.collects_only or not can_measure():
            return
        for prepare in features().hooks(self.settings, lambda feature: feature.prepare):
            prepare(self.settings)
        if self.nodes is not None:
            self.nodes.require()
        if self.settings.update_baselines:
            self.session.opened.enter_context(self.baselines.lock())

    def check_stores(self) -> None:
        """Refuse files that the selected tests will need and that can't be used.

        Raises:
            TfperfError: the history, or what a feature writes, can't be written; a test that is to be slowed down is
                not selected.
            BaselineError: a file of this machine's that can't be read whole.
            MeasurementError: baselines are to be recorded, and other work disturbs the machine.
        """
        settings = self.settings
        if not self.selection or settings.collects_only:
            return
        from pytest_tfperf.revisions.git import refusal_of

        if unknown := [test for test in settings.inject_slowdown_tests if test not in self.selection]:
            raise TfperfError(
                f"tfperf_inject_slowdown_tests: no selected throughput test has the id {unknown[0]}",
                next_step="Give ids as `pytest --collect-only -q` prints them, one a line",
            )
        self.remarks += [why] if (why := refusal_of(settings.root)) else []
        self.history.prepare()
        self.remarks += [self.history.moved_aside] if self.history.moved_aside else []
        for check in features().hooks(settings, lambda feature: feature.check_stores):
            check(settings)
        self.is_compared = self.measuring.launchers.other_side is not None
        if self.is_compared:
            return
        _ = self.session.acknowledgements  # a file that can't be read is refused here
        rows = [row for machine in self.measuring.machine.names for row in self.baselines.load(machine).values()]
        references = self.measuring.launchers.references
        if references is not None and not (settings.smoke or settings.update_baselines):
            self.remarks += references.check([row for row in rows if row.is_measured])
        if settings.update_baselines:
            from pytest_tfperf.session.recording import before_recording

            self.remarks += before_recording(settings, references)

    @property
    def remark_lines(self) -> list[str]:
        """The remarks as a session prints them."""
        return [f"tfperf: {remark}" for remark in self.remarks]

    @property
    def results(self) -> list[Measurement]:
        """The tests' results, in order, without the unfinished ones of tests that ended in an error."""
        return [result for result in self.queue.results if result.is_decided or result.test not in self.not_measured]

    @property
    def elapsed_seconds(self) -> float:
        """Since pytest read its settings."""
        return time.monotonic() - self._began

    def judge(self) -> list[SessionVerdict]:
        """Judge software and machine when all tests have run, or end a recording; returns the verdicts that fail."""
        if not self.keeps_history:
            return []
        if self.settings.update_baselines:
            from pytest_tfperf.session.recording import end_recording

            if self.recorder.changes:
                self.progress.test, self.progress.why = "controls", ""
                self.output_lines += end_recording(self.recorder, self.measuring.controls)
        else:
            self.progress.test, self.progress.why = "software and machine", ""
            self.verdicts += self.measuring.judge.judge(self.results)
        return self._failing

    def uncompared(self, *, with_output: bool = False) -> list[Line | str]:
        """Tests without a proved comparison; the terminal's summary shows the output of what fails there only."""
        doubts = (f"{m.test}: {m.other.doubt}" for m in self.results if m.other is not None and m.other.doubt)
        lines: list[Line | str] = [*dict.fromkeys(doubts)]  # a test may measure one program several times
        for test, reasons in self.measured_alone.items():
            for error in reasons.values():
                why, *output = error.lines
                if isinstance(error, FailsThere):
                    why = Line(f"fails there only: {why if with_output else error.brief}")
                lines += [f"{test}: measured, not compared: {why}", *(output if with_output else [])]
        return [*lines, "NOTHING WAS COMPARED, so the session does not pass"] if self.compared_nothing else lines

    def consequence_of(self, result: Measurement) -> Consequence:
        """The consequence of a result for its test, by this session's options."""
        from pytest_tfperf.judging.consequence import consequence

        return consequence(result, require_baseline=self.settings.require_baseline, strict=self.settings.strict)

    @property
    def result(self) -> SessionResult:
        """What the session has found so far."""
        from pytest_tfperf.core.session_verdicts import SessionResult

        results = self.results
        return SessionResult(
            selection=self.selection,
            results=results,
            consequences=[self.consequence_of(result) for result in results],
            verdicts=self.verdicts,
            not_measured=self.not_measured,
            refused=self.refused,
            not_run=self.not_run,
            remarks=[str(remark) for remark in self.uncompared()],
            keeps_history=self.keeps_history,
            is_compared=self.is_compared,
            exit_status=self.status,
        )

    @cached_property
    def not_run(self) -> dict[str, str]:
        """The unselected tests that this machine measured lately and not in this session, and why; at its end."""
        if not (self.unselected and self.keeps_history):
            return {}
        known = [test for test in self.unselected if not self.queue.results_of(test)]
        lately = self.measuring.earlier.measured_lately(known)
        return {test: self.unselected[test] for test in known if test in lately}

    @property
    def keeps_history(self) -> bool:
        """Whether this session adds what it measures to the history."""
        return bool(self.selection) and not (self.settings.collects_only or self.settings.smoke)

    @property
    def _failing(self) -> list[SessionVerdict]:
        from pytest_tfperf.core.verdict import Outcome

        return [verdict for verdict in self.verdicts if verdict.outcome is Outcome.REGRESSED]

    @property
    def newest_log(self) -> Path | None:
        """The log that a worker or a program of this session wrote last, or the fork server's; None without any."""
        began = time.time() - self.elapsed_seconds
        for kind in ("worker", "server"):
            with suppress(OSError):  # another session may remove old ones
                logs = {path: path.stat().st_mtime for path in (self.settings.dir / "logs").glob(f"{kind}-*.log")}
                if recent := [path for path, written in logs.items() if written >= began]:
                    return max(recent, key=logs.__getitem__)
        return None

    @property
    def measured_nothing(self) -> bool:
        """Whether the nightly gate selected throughput tests, and none of them measured anything."""
        wanted = self.settings.require_baseline and bool(self.selection) and not self.settings.collects_only
        return wanted and not list(self.queue.results)

    @property
    def errors(self) -> int:
        """The number of tests that could not be measured and are no failures."""
        return sum(not isinstance(error, FailsHereOnly) for error in self.not_measured.values())

    @property
    def compared_nothing(self) -> bool:
        """Whether checks were to be compared, and none was; a `throughput.compare` knows no other side."""
        sides = (result.other for result in self.queue.results)
        return self.is_compared and not any(side is not None and side.is_of_session for side in sides)

    def exit_status(self, status: int, *, failures: int) -> int:
        """The status that a feature wants, or our own where nothing failed and something could not be measured.

        Args:
            status: pytest's.
            failures: reports that failed, errors and the session's own verdicts among them.
        """
        ours = self._exit_status(status, failures)
        hooks = features().hooks(self.settings, lambda feature: feature.exit_status)
        wanted = first(hook(self.settings, lambda: self.result, ours) for hook in hooks)
        self.status = ours if wanted is None else wanted
        return self.status

    def _exit_status(self, status: int, failures: int) -> int:
        if not (self.selection or self.under_xdist) or (self.settings.collects_only and not self.selection.faulty):
            return status
        from pytest_tfperf.core.exit_status import EXIT_USAGE, exit_status

        if self.settings.collects_only:
            return status or EXIT_USAGE
        from pytest_tfperf.core.session_verdicts import VerdictOn

        machine_failures = sum(verdict.kind is VerdictOn.MACHINE for verdict in self._failing)
        under_xdist = self.under_xdist if self.settings.require_baseline else 0
        errors = self.errors + len(self.refused) + under_xdist
        return exit_status(
            status,
            failed=failures - errors - machine_failures,
            not_measured=errors,
            measured_nothing=self.measured_nothing or self.compared_nothing,
            machine_slower=bool(machine_failures),
        )

    def conclude(self) -> None:
        """Compute what the summary shows, and let features write the files that were asked for."""
        settings = self.settings
        if settings.collects_only or not can_measure():
            return
        if not self.selection and all(settings.of(setting) == setting.default for setting in features().settings):
            return  # nothing was asked for, and what writes takes time to import
        measurements = [result for result in self.results if result.other is None]
        if measurements and not settings.update_baselines:
            from pytest_tfperf.core.verdict import Tolerance
            from pytest_tfperf.judging.unrecorded import unrecorded_tests

            self.unrecorded = unrecorded_tests(measurements, Tolerance.of(settings.tolerance))
        if self.keeps_history:
            self.output_lines += filter(None, (self.history.moved_aside, str(self.history.unread)))
        self.output_lines += features().session_ended(self.session, self.result)

    def exited(self, status: int) -> None:
        """Let features correct their files where other plugins have changed the session's exit status since."""
        if self.status != status and not self.settings.collects_only and can_measure():
            for correct in features().hooks(self.settings, lambda feature: feature.exited):
                correct(self.settings, status)

    @property
    def has_nothing_to_say(self) -> bool:
        """Whether our section of pytest's summary would be empty: importing what words it takes time."""
        if self.settings.collects_only:
            return not self.selection.faulty
        return not (self.selection or self.skipped or self.under_xdist or self.output_lines)

    def close(self) -> None:
        """End all workers and release the lock on the baselines."""
        self.session.opened.close()
