"""The calls that a test makes: each measures, or gives what it gave when the test ran before.

When the test's body has finished, their outcomes are applied: failure, error or warning, and the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pytest_tfperf.bench.comparing import OtherSide, compare
from pytest_tfperf.bench.rerun_queue import asked_for
from pytest_tfperf.bench.run_engine import Side
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.measurement import InvalidMeasurement, Measurement
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Consequence, Outcome, Tolerance
from pytest_tfperf.errors import (
    BaselineRefused,
    GateFailure,
    Lack,
    MeasurementError,
    NoData,
    NotCompared,
    NotEnoughDevices,
    NotEnoughNodes,
    NotInstalled,
    TfperfError,
    ThroughputRegression,
    WorkloadError,
)
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.judging.target import peak_rates, target_for
from pytest_tfperf.judging.validity import load_of
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.invalid import load_note, worded
from pytest_tfperf.reports.message import message, not_measured
from pytest_tfperf.reports.verdict import bad_figures, headline, in_brief
from pytest_tfperf.session.state import SessionState
from pytest_tfperf.workers import catalogue


class Calls:
    """The calls of one test, in their order, and what their outcomes do to it.

    Args:
        state: the session's state.
        test: pytest's node id.

    Attributes:
        made: how many there were so far.
        warnings: further warnings of the test.
    """

    def __init__(self, state: SessionState, test: str) -> None:
        self._state = state
        self._test = test
        self.made = 0
        self.warnings: list[str] = []
        state.queue.begin(test)

    def check(
        self, subject: Subject, on: Topology, accepted: Tolerance | None, plan: Plan, name: str = ""
    ) -> Throughput:
        """Measure and judge, in the way that the session's options say."""
        self._require_one_meaning(subject, on)
        settings, session = self._state.settings, self._state.session
        if settings.smoke:
            return self.measure(subject, on, plan, name)
        if session.other_side is not None:
            return self._check_against(session.other_side, subject, on, accepted, plan, name)
        task = self._task(subject, on, accepted, plan, name)
        if settings.update_baselines:
            return self._measured(task, lambda earlier: self._recorded(task, earlier))
        return self._measured(task, lambda earlier: session.bench.check(task, earlier))

    def _recorded(self, task: Task, earlier: Measurement | None) -> Measurement:
        """One more run towards a baseline, after those of the controls where it begins a round."""
        session = self._state.session
        session.controls.before_run(task, len(earlier.runs) if earlier else 0)
        return session.bench.record(task, earlier)

    def measure(self, subject: Subject, on: Topology, plan: Plan, name: str = "") -> Throughput:
        """Measure, and judge nothing."""
        task = self._task(subject, on, None, plan, name)
        return self._measured(task, lambda _: self._state.session.bench.measure(task))

    def compare(self, a: Side, b: Side, plan: Plan, terms: Terms, *, judged: bool) -> Measurement:
        """Compare b with a, interleaved."""
        return self._compared(replace(a, may_lack_figures=True), self._slowed(b), plan, terms, judged=judged)

    def _check_against(
        self, other: OtherSide, subject: Subject, on: Topology, accepted: Tolerance | None, plan: Plan, name: str
    ) -> Throughput:
        """Compare with the other side of the session; what it has nothing to compare with is measured alone."""
        a_launcher, b_launcher = self._state.session.compared
        if not other.compares_figures:
            plan = replace(plan, also=())
        tolerance = other.terms.tolerance or accepted or Tolerance.of(self._state.settings.tolerance)
        terms = replace(other.terms, tolerance=tolerance)
        side = Side(workload=subject, topology=on, launcher=b_launcher, name=name)
        a = replace(side, launcher=a_launcher, may_lack_figures=True, facts=other.a.facts)
        b = replace(self._slowed(side), facts=other.b.facts)
        try:
            other.refuse(subject, self._test)
            return self._compared(a, b, plan, terms, other=other).throughput
        except NotCompared as error:
            if not other.may_lack_code:
                raise error.of_type(MeasurementError) from error
            try:
                alone = self.measure(subject, on, plan, name)
            except MeasurementError as here:
                if error.lack is Lack.RUNNING_CODE:
                    raise here.and_below(Line(str(error.lines[0]), "there, too"), *error.lines[1:]) from here
                raise
            self._state.measured_alone.setdefault(self._test, {}).setdefault(error.brief, error)
            return alone

    def _require_one_meaning(self, subject: Subject, on: Topology) -> None:
        """Refuse a second test or program of one name, or model: it would be judged by the first one's baseline."""
        if not isinstance(subject, Command):
            catalogue.require_own_modules(subject, (self._state.settings.root / self._test.partition("::")[0]).parent)
            return
        # A function in a test's body is another one each time it runs.
        program = replace(subject, reads=replace(subject.reads, parse=None))
        call, key = (self._test, self.made), (subject.name, on.machine, on.shape)
        first, its_call = self._state.commands.get(key, (program, call))
        if its_call == call:
            self._state.commands[key] = (program, call)  # a test that runs again has another temporary folder
        elif first != program or its_call[0] != self._test:
            raise WorkloadError(
                f"name={subject.name!r} in {self._test} is the name of another command already, in {its_call[0]}, and "
                "both would have one baseline: give each its own name"
            )

    def _task(self, subject: Subject, on: Topology, accepted: Tolerance | None, plan: Plan, name: str) -> Task:
        """Everything that the call's measurement needs; `accepted` is the test's own tolerance.

        Raises:
            BaselineError: the machine's file can't be read whole.
        """
        _require_one_line(name, subject)
        session, settings, key = self._state.session, self._state.settings, Key(subject.id, on.shape)
        rows, (fp32_tflops, memory_gb_per_sec) = session.baselines.load(on.machine), peak_rates(on)
        # The nightly gate requires rows, so nothing stands in for one.
        is_provisional = key not in rows and not settings.require_baseline
        target = target_for(
            rows,
            session.baselines.published(key),
            on.machine,
            key,
            gpu_fp32_tflops=fp32_tflops,
            gpu_memory_gb_per_sec=memory_gb_per_sec,
            provisional=session.provisional_baselines(on) if is_provisional else {},
        )
        # A comparison measures alone what the other side lacks; an end that has come must not fail that.
        known = () if session.other_side else session.acknowledgements
        may_move = target.is_own_row and (not isinstance(subject, Command) or subject.runs_this_python)
        other = session.references.launcher_for(target.baseline) if session.references and may_move else None
        side = Side(workload=subject, topology=on, launcher=session.here, name=name)
        return Task(
            test=self._test,
            index=self.made,
            plan=plan,
            side=self._slowed(side),
            reference_environment=None if other is None else replace(side, launcher=other),
            target=target,
            tolerance=target.tolerance(accepted, Tolerance.of(settings.tolerance)),
            acknowledged={loss.figure: loss for loss in known if loss.is_of(on.machine, self._test, key)},
        )

    def _slowed(self, side: Side) -> Side:
        """The side, with the slowdown of `--tfperf-inject-slowdown`: on both sides it would cancel out."""
        return replace(side, slowdown=self._state.settings.slowdown_of(self._test))

    def _measured(self, task: Task, take: Callable[[Measurement | None], Measurement]) -> Throughput:
        asked = asked_for(task.topology.machine, (task.workload, task.topology.shape))
        return self._result(asked, lambda earlier: replace(take(earlier), name=task.side.name)).throughput

    def _compared(
        self, a: Side, b: Side, plan: Plan, terms: Terms, *, other: OtherSide | None = None, judged: bool = True
    ) -> Measurement:
        """Compare two sides; `other` is the session's other side, where a belongs to it."""
        state = self._state
        _require_one_line(b.name, b.workload)
        asked = asked_for(b.topology.machine, *((side.workload, side.topology.shape) for side in (a, b)))

        def take(_: Measurement | None) -> Measurement:
            engine = state.session.engine
            return compare(
                engine, a, b, plan, terms, other=other, judged=judged, test=self._test, session=state.session.id
            )

        return self._result(asked, take)

    def _result(self, asked: str, take: Callable[[Measurement | None], Measurement]) -> Measurement:
        """The call's result from an earlier run of the test, where it is decided; else the result that `take` gives."""
        queue, index = self._state.queue, self.made
        result = queue.earlier(self._test, index, asked)
        if result is None or not result.is_decided:
            try:
                result = take(result)
            except MeasurementError as error:
                raise self._explained(error, result) from error
            result = replace(result, owner=self._state.selection[self._test].owner)
            queue.keep(self._test, index, result)
        self.made += 1
        return result

    def _explained(self, error: MeasurementError, earlier: Measurement | None) -> MeasurementError:
        """The error, with what earlier runs measured and the command that measures again."""
        invalid = error if isinstance(error, InvalidMeasurement) else None
        return (worded(invalid) if invalid else error).and_below(
            *not_measured(
                self._test,
                self._state.settings.rerun,
                disturbance=invalid.disturbance if invalid else None,
                runs=invalid.runs if invalid else (),
                earlier=earlier,
            )
        )

    # Outcomes

    def conclude(self, warn: Callable[[list[Line]], None]) -> None:
        """Apply the outcomes: called when the test's body has finished, and only if it did not fail.

        Where a call is undecided no outcome is applied: the test runs again after all others.

        Raises:
            ThroughputRegression, GateFailure: the test fails.
            MeasurementError, BaselineError, TfperfError: it errors.
        """
        self._state.queue.require_all_calls(self._test, self.made)
        if not self.is_decided:
            return
        by_consequence: dict[Consequence, list[Measurement]] = {kind: [] for kind in Consequence}
        for result in self.results:
            by_consequence[self._state.consequence_of(result)].append(result)
        for text in self.warnings:
            warn([Line(text)])
        for result in by_consequence[Consequence.WARNS]:
            warn(self._warning(result))
        if failing := by_consequence[Consequence.FAILS]:
            regressed = any(result.outcome is Outcome.REGRESSED for result in failing)
            raise (ThroughputRegression if regressed else GateFailure)(*self._messages(failing))
        if invalid := by_consequence[Consequence.ERRORS]:
            fact, *below = self._messages(invalid)
            raise MeasurementError(fact, *below, brief="; ".join(map(in_brief, invalid)))
        self._record()

    @property
    def results(self) -> Sequence[Measurement]:
        """The results of the calls so far, in order."""
        return self._state.queue.results_of(self._test)[: self.made]

    @property
    def is_decided(self) -> bool:
        """Whether no call wants fresh runs at the end of the session."""
        return self._state.queue.is_decided(self._test)

    @property
    def properties(self) -> list[tuple[str, object]]:
        """The JUnit properties of the calls that are decided."""
        decided = [result for result in self.results if result.is_decided]
        return [pair for feature in self._state.features.values() for pair in feature.properties(decided)]

    def unreported(self) -> list[Line]:
        """Messages of regressions, confirmed or suspected, in a test whose body failed first."""
        against = (Consequence.FAILS, Consequence.WARNS)
        return self._messages([r for r in self.results if self._state.consequence_of(r) in against])

    def confirmed_failures(self) -> list[Line]:
        """Messages of regressions that were confirmed before the test ended in an error."""
        return self._messages(self._failed)

    def failures_in_brief(self) -> str:
        """`confirmed_failures` in one line."""
        return "; ".join(map(in_brief, self._failed))

    @property
    def _failed(self) -> list[Measurement]:
        return [r for r in self.results if r.is_decided and self._state.consequence_of(r) is Consequence.FAILS]

    def _record(self) -> None:
        """Write the measured baselines; a refused baseline does not keep the others from being written."""
        refused: list[BaselineRefused] = []
        for index, result in enumerate(self.results):
            if result.recording is not None:
                try:
                    load = load_note(load_of(result.runs), len(result.runs))
                    controls = self._state.session.controls.found_on(result.machine)
                    self._state.recorder.record(result, load, controls)
                except BaselineRefused as error:
                    refused.append(error)
                    self._state.queue.keep(self._test, index, replace(result, is_refused=True))
        if refused:
            first, *others = refused
            below = [line for error in others for line in (Line(""), *error.lines)]
            raise first.and_below(*below) if others else first

    def _messages(self, results: Sequence[Measurement]) -> list[Line]:
        """The messages, with an empty line between two of them."""
        command = self._state.settings.rerun
        return [line for result in results for line in (Line(""), *message(result, command))][1:]

    def _warning(self, result: Measurement) -> list[Line]:
        """The message; in one line where the baseline is only provisional, because it needs no action today."""
        verdict = None if bad_figures(result) else result.verdict
        if verdict and verdict.if_slower is Consequence.WARNS:
            rerun = self._state.settings.rerun.of(self._test)
            return [Line(f"{headline(result)}: {verdict.why}. Rerun: {rerun}")]
        return self._messages([result])


def _require_one_line(name: object, subject: Subject) -> None:
    if not isinstance(name, str) or not name.isprintable() or name != name.strip():
        raise TfperfError(f"name={name!r} of {subject.id}: give it as a line of text, as in 'small-cnn'")


def missing_as_error(state: SessionState, error: NoData | NotEnoughDevices | NotInstalled) -> MeasurementError | None:
    """The error that takes a skip's place under --tfperf-require-baseline; None if the test may skip."""
    if isinstance(error, NoData):
        return error.of_type(MeasurementError)
    if not isinstance(error, NotEnoughDevices):
        return None
    if isinstance(error, NotEnoughNodes) and state.nodes is not None:
        return error.of_type(MeasurementError)  # who names a launcher for the gate wants its tests to run
    machine = state.session.topology
    if machine.driver_fault:
        why = "A driver is installed, so this machine should have GPUs"
    elif 0 < error.wanted <= len(machine.gpus) + len(machine.lost):
        why = "With the lost GPUs it would have enough"
    elif _had(state, error.wanted):
        why = f"Its baselines were measured on {error.wanted} GPUs: one is missing"
    else:
        return None
    return MeasurementError(error.fact, next_step=". ".join(filter(None, (error.next_step, why))))


def _had(state: SessionState, gpus: int) -> bool:
    """Whether the machine, where it has a name of its own, was measured with so many GPUs."""
    name = state.settings.machine
    if not (name and gpus):
        return False
    rows = state.session.baselines.load(name).values()
    return any(row.gpu and row.key.topology == f"1x{gpus}" for row in rows if row.is_measured)
