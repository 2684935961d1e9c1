"""What pytest's side keeps of a session while it runs, from its settings to its exit status."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

import pytest

from pytest_tfperf.bench.feature import Feature, first, nothing
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_MACHINE, EXIT_NOT_MEASURED, EXIT_REGRESSED, EXIT_USAGE
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.errors import FailsHereOnly, Lack, NotCompared, TfperfError
from pytest_tfperf.features import features
from pytest_tfperf.lines import Line

if TYPE_CHECKING:
    from pytest_tfperf.bench.recording import BaselineRecorder
    from pytest_tfperf.bench.rerun_queue import RerunQueue
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.command import Command
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.selection import SelectedTest
    from pytest_tfperf.core.session_verdicts import SessionResult, SessionVerdict
    from pytest_tfperf.core.verdict import Consequence
    from pytest_tfperf.session.fixture import ThroughputFixture
    from pytest_tfperf.session.selecting import Owners
    from pytest_tfperf.workers.launcher import Nodes


SESSION: pytest.StashKey[SessionState] = pytest.StashKey()
FIXTURE: pytest.StashKey[ThroughputFixture] = pytest.StashKey()


def can_measure() -> bool:
    """Whether this system is one that measurements are made on."""
    return sys.platform == "linux"


def is_xdist_worker(config: pytest.Config) -> bool:
    """Whether this process is one of pytest-xdist's workers."""
    return hasattr(config, "workerinput")


class SessionState:
    """What the plugin's hooks and fixtures share: the session, and what it has found so far.

    Modules that measure, judge and record are imported when they are first used: a session that only collects is short.
    What is kept of a test goes by its node id.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.selection: dict[str, SelectedTest] = {}  # the throughput tests that pytest selected, in its order
        self.collected: set[str] = set()  # all tests in files that were collected whole, whether selected or not
        self.opened = ExitStack()  # closed when the session ends
        self.remarks: list[str] = []  # printed before the first test
        self.store_remarks: list[str] = []  # what features say of their stores, which the result has, too
        self.skipped: Counter[str] = Counter()  # how many tests could not run here, for each reason
        self.not_measured: dict[str, TfperfError] = {}  # tests that ended in an error
        self.refused: dict[str, TfperfError] = {}  # tests whose baseline was refused
        self.is_compared = False  # whether each check is a comparison with the session's other side
        # Why the other side of a test's checks had nothing to compare with: once each, by its brief text.
        self.measured_alone: dict[str, dict[str, NotCompared]] = {}
        # Throughput tests of pytest-xdist's workers: each is skipped, or an error for the nightly gate.
        self.under_xdist = 0
        # The command of each name, machine and shape, and the test and call that it was first measured in.
        self.commands: dict[tuple[str, str, str], tuple[Command, tuple[str, int]]] = {}
        self.unselected: dict[str, str] = {}  # throughput tests that pytest deselected or skipped, and why
        self.verdicts: list[SessionVerdict] = []  # on software and machine as a whole, once all tests have run
        self.interrupted = ""  # the test that Ctrl-C or SIGTERM interrupted
        self.status = 0  # pytest's exit status, once all tests have run
        self.output_lines: list[Line | str] = []  # on the files that features wrote or could not write
        self.began = time.time()

    @property
    def features(self) -> dict[str, Feature]:
        """The features that take part; files that ask for one may come after pytest's start, as from a conftest.py."""
        return {name: feature for name, feature in features().items() if feature.takes_part(self.settings)}

    @cached_property
    def session(self) -> Session:
        """What the session measures with; one that only collects does not pay for it."""
        from pytest_tfperf.bench.session import Session

        return Session(
            settings=self.settings,
            features=tuple(self.features.values()),
            nodes=self.nodes,
            selection=self.selection,
            collected=self.collected,
            opened=self.opened,
        )

    @cached_property
    def nodes(self) -> Nodes | None:
        """The launcher of tests on several nodes; None: this machine's own processes stand for nodes.

        Raises:
            TfperfError: it is not installed here, or has options that it can't take.
        """
        made = first(feature.nodes(self.settings) for feature in self.features.values())
        return None if made is None else self.opened.enter_context(closing(made))

    @cached_property
    def queue(self) -> RerunQueue:
        """The tests' results, and which of them run again."""
        from pytest_tfperf.bench.rerun_queue import RerunQueue

        return RerunQueue(None if self.settings.smoke else self.session.history)

    @cached_property
    def recorder(self) -> BaselineRecorder:
        """Writes baselines."""
        from pytest_tfperf.bench.recording import BaselineRecorder

        return BaselineRecorder(self.session.baselines, self.session.references)

    def prepare(self) -> None:
        """Refuse now what would otherwise fail after hours of measuring.

        Raises:
            BaselineError: `--update-baselines` where the folder can't be written or another session holds it.
            TfperfError: a feature can't do what it was asked for, or tests can't be started on other nodes.
        """
        if self.settings.collects_only or not can_measure():
            return
        for feature in self.features.values():
            feature.prepare(self.settings)
        if self.nodes is not None:
            self.nodes.require()
        if self.settings.update_baselines:
            self.opened.enter_context(self.session.baselines.lock())

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

        session, history = self.session, self.session.history
        history.prepare()
        self.remarks += filter(None, (refusal_of(settings.root), history.moved_aside))
        for feature in self.features.values():
            self.store_remarks += feature.check_stores(session)
        self.is_compared = session.other_side is not None
        if self.is_compared:
            return
        _ = session.acknowledgements  # a file that can't be read is refused here
        rows = [row for machine in session.machines for row in session.baselines.load(machine).values()]
        if settings.update_baselines:
            self._prepare_recording()
        elif session.references is not None and not settings.smoke:
            self.remarks += session.references.check([row for row in rows if row.is_measured])

    def _prepare_recording(self) -> None:
        """Refuse a machine that other work disturbs, and remark on what is recorded all the same."""
        from pytest_tfperf.bench.disturbance_guard import look_before_recording
        from pytest_tfperf.reports.invalid import accepted_load, refused_load
        from pytest_tfperf.revisions.git import commit_of

        settings, references = self.settings, self.session.references
        commit, limits = commit_of(settings.root, besides=settings.baselines), settings.disturbance_limits
        load = look_before_recording(limits)
        if load.refused is not None:
            raise refused_load(load.refused, limits)
        if references is not None:
            self.remarks += filter(None, [references.before_recording(commit)])
        if load.accepted is not None:
            self.remarks.append(accepted_load(load.accepted, limits))

    @cached_property
    def owners(self) -> Owners:
        """Whom tests belong to."""
        from pytest_tfperf.session.selecting import Owners

        return Owners(self.settings)

    @property
    def results(self) -> list[Measurement]:
        """The tests' results, in order, without the unfinished ones of tests that ended in an error."""
        return [result for result in self.queue.results if result.is_decided or result.test not in self.not_measured]

    def judge(self) -> list[SessionVerdict]:
        """Judge software and machine when all tests have run, or end a recording; returns the verdicts that fail."""
        if not self.keeps_history:
            return []
        session, progress = self.session, self.session.progress
        if self.settings.update_baselines:
            if self.recorder.changes:
                progress.test, progress.why = "controls", ""
                self.output_lines += self.recorder.end(session.controls)
            return []
        progress.test, progress.why = "software and machine", ""
        self.verdicts += [*self._verdicts()]  # all or none: they may take runs, which Ctrl-C ends
        now = datetime.now(UTC).isoformat()
        with session.noting_history_faults():  # a verdict counts even where it can't be written
            for verdict in self.verdicts:
                session.history.append_verdict(verdict, session=session.id, time=now)
        return self.failing

    def _verdicts(self) -> Iterator[SessionVerdict]:
        """Judge each machine, which may take further runs, and what features judge."""
        from pytest_tfperf.bench.sentinels import session_verdicts

        for name, machine in self.session.machine_sessions.items():
            measured = [result for result in self.results if result.machine == name and result.other is None]
            if not machine.drift.is_known and not any(result.pairs for result in measured):
                continue  # too few tests tell of the whole
            for verdict in session_verdicts(machine, self.session.engine, measured):
                if verdict is not None:
                    yield verdict.on(name, measured)
        with self.session.noting_history_faults():
            for feature in self.features.values():
                yield from feature.session_verdicts(self.session, self.session.machines)

    @property
    def failing(self) -> list[SessionVerdict]:
        """The verdicts that fail the session."""
        from pytest_tfperf.core.verdict import Outcome

        return [verdict for verdict in self.verdicts if verdict.outcome is Outcome.REGRESSED]

    def uncompared(self, *, with_output: bool = False) -> list[Line | str]:
        """Tests without a proved comparison; the terminal's summary shows the output of what fails there only."""
        doubts = (f"{m.test}: {m.other.doubt}" for m in self.results if m.other is not None and m.other.doubt)
        lines: list[Line | str] = [*dict.fromkeys(doubts)]  # a test may measure one program several times
        for test, reasons in self.measured_alone.items():
            for error in reasons.values():
                why, *output = error.lines
                if error.lack is Lack.RUNNING_CODE:
                    why = Line(f"fails there only: {why if with_output else error.brief}")
                lines += [f"{test}: measured, not compared: {why}", *(output if with_output else [])]
        if self.compared_nothing:
            lines.append("NO CHECK WAS COMPARED with the other side, so the session does not pass")
        return lines

    def consequence_of(self, result: Measurement) -> Consequence:
        """The consequence of a result for its test, by this session's options."""
        from pytest_tfperf.judging.consequence import consequence

        return consequence(result, require_baseline=self.settings.require_baseline, strict=self.settings.strict)

    @cached_property
    def result(self) -> SessionResult:
        """What the session has found, frozen at its end."""
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
            remarks=[*self.store_remarks, *map(str, self.uncompared())],
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
        lately = self.session.measured_lately(known)
        return {test: self.unselected[test] for test in known if test in lately}

    @property
    def keeps_history(self) -> bool:
        """Whether this session adds what it measures to the history."""
        return bool(self.selection) and not (self.settings.collects_only or self.settings.smoke)

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
        if not self.is_compared:
            return False
        sides = (result.other for result in self.queue.results)
        return not any(side is not None and side.is_of_session for side in sides)

    def exit_status(self, status: int, *, failures: int) -> int:
        """The status that tells "regressed" from "could not measure" and "the machine is slower".

        Failures are reports that failed, errors and the session's own verdicts among them.
        """
        if self.settings.collects_only and any(test.faults for test in self.selection.values()):
            return status or EXIT_USAGE
        if self.settings.collects_only or not (self.selection or self.under_xdist):
            return status
        from pytest_tfperf.core.session_verdicts import VerdictOn

        slower_machines = sum(verdict.kind is VerdictOn.MACHINE for verdict in self.failing)
        under_xdist = self.under_xdist if self.settings.require_baseline else 0
        errors = self.errors + len(self.refused) + under_xdist
        if status not in (EXIT_GREEN, EXIT_REGRESSED) or failures != errors + slower_machines:
            return status
        if slower_machines:
            return EXIT_MACHINE
        is_empty = status == EXIT_GREEN and (self.measured_nothing or self.compared_nothing)
        return EXIT_NOT_MEASURED if errors or is_empty else status

    def conclude(self) -> None:
        """Compute what the summary shows, and let features write the files that were asked for."""
        settings = self.settings
        if settings.collects_only or not can_measure():
            return
        ending = {name: feature for name, feature in self.features.items() if feature.session_ended is not nothing}
        given = [setting for feature in ending.values() for setting in feature.settings]
        if not self.selection and all(settings.of(setting) == setting.default for setting in given):
            return  # nothing was asked for, and what writes takes time to import
        result = self.result
        self.output_lines += self.store_remarks
        if self.keeps_history:
            history = self.session.history
            with self.session.noting_history_faults():
                history.end_session(self.session.id, time=datetime.now(UTC).isoformat())
            self.output_lines += filter(None, (history.moved_aside, str(history.unread)))
        for name, feature in ending.items():
            try:
                self.output_lines += feature.session_ended(self.session, result)
            except (OSError, TfperfError) as error:  # a feature's fault stops no other
                self.output_lines.append(str(error))
            except Exception as error:
                self.output_lines.append(f"{name}: a fault of pytest-tfperf itself, please report it: {error!r}")

    def exited(self, status: int) -> None:
        """Let features correct their files where other plugins have changed the session's exit status since."""
        if self.status != status and not self.settings.collects_only and can_measure():
            for feature in self.features.values():
                feature.exited(self.settings, status)
