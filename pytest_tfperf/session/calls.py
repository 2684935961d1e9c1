"""The calls that a test makes: each measures, or gives what it gave when the test ran before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pytest_tfperf.bench.comparing import OtherSide, compare
from pytest_tfperf.bench.rerun_queue import asked_for
from pytest_tfperf.bench.run_engine import Side
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.measurement import InvalidMeasurement, Measurement
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import Lack, MeasurementError, NotCompared, TfperfError, WorkloadError
from pytest_tfperf.judging.pairs import Terms
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.invalid import worded
from pytest_tfperf.reports.message import not_measured
from pytest_tfperf.session.state import SessionState
from pytest_tfperf.workers import catalogue


class CallRunner:
    """The calls of one test, in their order.

    Args:
        state: the session's state.
        test: pytest's node id.

    Attributes:
        made: how many there were so far.
    """

    def __init__(self, state: SessionState, test: str) -> None:
        self._state = state
        self._test = test
        self.made = 0
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
        _require_one_line(name, subject)
        return self._state.session.task(self._test, self.made, subject, on, accepted, plan, name)

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


def _require_one_line(name: object, subject: Subject) -> None:
    if not isinstance(name, str) or not name.isprintable() or name != name.strip():
        raise TfperfError(f"name={name!r} of {subject.id}: give it as a line of text, as in 'small-cnn'")
