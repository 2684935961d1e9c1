"""The `throughput` fixture: each call measures, or gives what it gave when the test ran before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Literal

from pytest_tfperf.bench.comparing import OtherSide, compare
from pytest_tfperf.bench.run_engine import Side
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.figure import Figure, Source, figures_of, with_cold_caches, with_default
from pytest_tfperf.core.measurement import InvalidMeasurement, Measurement
from pytest_tfperf.core.run import ONE_WINDOW, Plan
from pytest_tfperf.core.throughput import MIN_WINDOWS_FOR_ERROR, Throughput
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import Lack, MeasurementError, NotCompared, TfperfError, WorkloadError
from pytest_tfperf.judging.pairs import MAX_SECONDS, MOST_PAIRS, PAIRS_THAT_TELL, Terms
from pytest_tfperf.judging.target import published_ratio
from pytest_tfperf.lines import Line
from pytest_tfperf.programs.command_windows import WARMUP_READINGS
from pytest_tfperf.reports.invalid import worded
from pytest_tfperf.reports.message import not_measured
from pytest_tfperf.session.outcomes import Outcomes
from pytest_tfperf.session.state import SessionState
from pytest_tfperf.workers import catalogue

AnyTolerance = float | tuple[float | None, float | None] | Tolerance
Also = Iterable[str | Figure]


class ThroughputFixture:
    """The `throughput` fixture of one test; pytest makes it."""

    def __init__(self, state: SessionState, test: str) -> None:
        self._state = state
        self._test = test
        self._calls = 0
        self._is_over = False
        self._warnings: list[str] = []
        state.queue.begin(test)

    def check(
        self,
        subject: Subject,
        *,
        on: Topology,
        tolerance: AnyTolerance | None = None,
        steps: int | None = None,
        warmup_steps: int | None = None,
        also: Also = (),
        name: str = "",
    ) -> Throughput:
        """Measure and judge; the outcome is applied when the test's body has finished, so further asserts run first.

        A `Command` is run as it is, and the rate that it prints is judged. It is ended when enough is known, and its
        standard input is empty.

        Args:
            subject: what to train, a `Workload` or a `Command` of your own.
            on: what to train it on, from `gpu_topology.take(n)`.
            tolerance: the accepted change: `0.05`, or `(-0.05, None)` for no upper bound.
            steps: the most steps that are timed; of a command, the most readings, at least 3.
            warmup_steps: the fewest steps before them that are not timed; not for a command.
            also: further figures to judge: "peak_memory", "first_step", "loss", "compilations" and others, or a
                `Figure` with tolerances or a limit of your own, which may be read from what a command prints, as in
                `Figure("eval_loss", field="eval.loss")`. Those of the ini value tfperf_also are judged, too.
            name: its name in tables and messages; the key of its baseline stays its id.

        Returns:
            the measured throughput, also where there is no baseline. Its `examples_per_sec` serves further asserts.

        Raises:
            WorkloadError, TfperfError: an argument that is not allowed.
            MeasurementError: the worker or the program died, hung or failed, or printed nothing that can be read.
            BaselineError: the machine's file can't be read.
        """
        self._require_open(on)
        figures = self._figures(also, subject)
        subject = self._here(subject, figures)
        plan = self._plan(steps, warmup_steps, figures, subject)
        accepted = None if tolerance is None else Tolerance.of(tolerance)
        self._require_one_meaning(subject, on)
        settings, session = self._state.settings, self._state.session
        if settings.smoke:
            return self._measured(subject, on, plan, name)
        if session.other_side is not None:
            return self._check_against(session.other_side, subject, on, accepted, plan, name)
        task = session.task(self._test, self._calls, subject, on, accepted, plan, name)
        take = self._recorded if settings.update_baselines else session.checked
        return self._result(partial(take, task), task.side).throughput

    def measure(
        self,
        subject: Subject,
        *,
        on: Topology,
        steps: int | None = None,
        warmup_steps: int | None = None,
        name: str = "",
    ) -> Throughput:
        """Measure and judge nothing; the arguments, the result and the errors are those of `check`."""
        self._require_open(on)
        figures = self._figures((), subject, of_suite=False)
        subject = self._here(subject, figures)
        return self._measured(subject, on, self._plan(steps, warmup_steps, figures, subject), name)

    def compare(
        self,
        a: Subject,
        b: Subject,
        *,
        on: Topology,
        b_on: Topology | None = None,
        tolerance: AnyTolerance | None = None,
        at_least: float | Literal["published"] | None = None,
        max_pairs: int = MOST_PAIRS,
        max_seconds: float = MAX_SECONDS,
        steps: int | None = None,
        warmup_steps: int | None = None,
        also: Also = (),
    ) -> Measurement:
        """Compare b with a, interleaved. REGRESSED fails the test when its body has finished: b is slower.

        Args:
            a: what to train on side a, a `Workload` or a `Command`.
            b: what to train on side b, one of the same kind; the result's `ratio` is b / a.
            on: what to train both on, from `gpu_topology.take(n)`.
            b_on: what to train b on, where that differs, as to see how four devices scale.
            tolerance: the accepted change of b against a, as in `check`; there is no baseline.
            at_least: the ratio b / a that is required, in place of a tolerance, as `0.9 * 4` for four GPUs over one.
                Noise may also fail a ratio that is less than 2 % above it. "published" requires the lowest ratio that a
                document gives for these workloads, less `tolerance` (0.1); on GPUs whose FP32 rate is not within 1.5
                times of the document's, one pair is measured, and a lower ratio is only a warning.
            max_pairs: the number of fresh pairs of workers after which an undecided comparison is INCONCLUSIVE.
            max_seconds: the same for the seconds that all pairs may take.
            steps, warmup_steps: as in `check`, for each worker.
            also: further figures to compare, as in `check`, but without those of tfperf_also.

        Raises:
            WorkloadError, TfperfError: an argument that is not allowed.
            BaselineError: no document gives both figures of a published ratio.
            MeasurementError: as in `check`.
        """
        b_on = on if b_on is None else b_on
        self._require_open(on, b_on)
        if type(max_pairs) is not int or max_pairs < PAIRS_THAT_TELL:
            raise TfperfError(f"max_pairs={max_pairs!r}: it takes a whole number from {PAIRS_THAT_TELL} to decide")
        if not max_seconds > 0:
            raise TfperfError(f"max_seconds={max_seconds!r} must be above 0")
        settings, launcher = self._state.settings, self._state.session.here
        figures = self._figures(also, a, b, of_suite=False)
        left = Side(workload=self._here(a, figures), topology=on, launcher=launcher, may_lack_figures=True)
        right = self._slowed(Side(workload=self._here(b, figures), topology=b_on, launcher=launcher))
        plan = self._plan(steps, warmup_steps, figures, left.workload, right.workload)
        terms = Terms(
            tolerance=Tolerance.of(settings.tolerance if tolerance is None else tolerance),
            max_pairs=max_pairs,
            max_seconds=max_seconds,
        )
        if at_least is not None and at_least != "published":
            terms = replace(terms, tolerance=Tolerance(), at_least=_ratio(at_least, tolerance))
        if at_least != "published":
            return self._compared(left, right, plan, terms, judged=not settings.smoke)
        accepted = Tolerance.of(0.1 if tolerance is None else tolerance)
        published = published_ratio(
            self._state.session.baselines.published(), Key(a.id, on.shape), Key(b.id, b_on.shape)
        )
        least = None if accepted.lower is None else published.value * (1 + accepted.lower)
        terms = replace(terms, tolerance=accepted, at_least=least)
        left, right = replace(left, document=published.a), replace(right, document=published.b)
        binds = least is not None and published.binds(b_on)
        result = self._compared(left, right, plan, terms, judged=binds and not settings.smoke)
        if not (binds or least is None or settings.smoke) and result.ratio < least:
            self._warnings.append(published.is_not_required(result.ratio, b_on))
        return result

    def close(self) -> None:
        """Refuse further calls, when the test's body has finished: a teardown's could no longer fail the test."""
        self._is_over = True

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of the calls that this test has made so far."""
        return Outcomes(state=self._state, test=self._test, calls=self._calls, warnings=tuple(self._warnings))

    # How a call is measured

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
                alone = self._measured(subject, on, plan, name)
            except MeasurementError as here:
                if error.lack is Lack.RUNNING_CODE:
                    raise here.and_below(Line(str(error.lines[0]), "there, too"), *error.lines[1:]) from here
                raise
            self._state.measured_alone.setdefault(self._test, {}).setdefault(error.brief, error)
            return alone

    def _recorded(self, task: Task, earlier: Measurement | None) -> Measurement:
        """One more run towards a baseline, after those of the controls where it begins a round."""
        session = self._state.session
        session.controls.before_run(task, len(earlier.runs) if earlier else 0)
        return session.bench.record(task, earlier)

    def _measured(self, subject: Subject, on: Topology, plan: Plan, name: str) -> Throughput:
        """Measure, and judge nothing."""
        session = self._state.session
        task = session.task(self._test, self._calls, subject, on, None, plan, name)
        return self._result(lambda _: session.bench.measure(task), task.side).throughput

    def _compared(
        self, a: Side, b: Side, plan: Plan, terms: Terms, *, other: OtherSide | None = None, judged: bool = True
    ) -> Measurement:
        """Compare b with a, interleaved; `other` is the session's other side, where a belongs to it."""
        session = self._state.session

        def take(_: Measurement | None) -> Measurement:
            return compare(
                session.engine, a, b, plan, terms, other=other, judged=judged, test=self._test, session=session.id
            )

        return self._result(take, a, b)

    def _result(self, take: Callable[[Measurement | None], Measurement], *sides: Side) -> Measurement:
        """The call's result from an earlier run of the test, where it is decided; else the result that `take` gives."""
        queue, index, side = self._state.queue, self._calls, sides[-1]
        if not isinstance(side.name, str) or not side.name.isprintable() or side.name != side.name.strip():
            raise TfperfError(f"name={side.name!r} of {side.workload.id}: give it as a line of text, as in 'small-cnn'")
        asked = [(each.workload, each.topology.shape) for each in sides]
        result = queue.earlier(self._test, index, side.topology.machine, *asked)
        if result is None or not result.is_decided:
            try:
                result = take(result)
            except MeasurementError as error:
                raise self._explained(error, result) from error
            result = replace(result, owner=self._state.selection[self._test].owner)
            queue.keep(self._test, index, result)
        self._calls += 1
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

    # What a call may ask for

    def _require_one_meaning(self, subject: Subject, on: Topology) -> None:
        """Refuse a second test or program of one name, or model: it would be judged by the first one's baseline."""
        if not isinstance(subject, Command):
            catalogue.require_own_modules(subject, (self._state.settings.root / self._test.partition("::")[0]).parent)
            return
        call, key = (self._test, self._calls), (subject.name, on.machine, on.shape)
        first, its_call = self._state.commands.get(key, (subject, call))
        if its_call == call:
            self._state.commands[key] = (subject, call)  # a test that runs again has another temporary folder
        elif first != subject or its_call[0] != self._test:
            raise WorkloadError(
                f"name={subject.name!r} in {self._test} is the name of another command already, in {its_call[0]}, and "
                "both would have one baseline: give each its own name"
            )

    def _slowed(self, side: Side) -> Side:
        """The side, with the slowdown of `--tfperf-inject-slowdown`: on both sides it would cancel out."""
        return replace(side, slowdown=self._state.settings.slowdown_of(self._test))

    def _require_open(self, *topologies: Topology) -> None:
        if self._is_over:
            raise TfperfError(
                "throughput: the test's body has finished, so a measurement could no longer fail it",
                next_step="Measure in the test, or in a fixture before its yield",
            )
        for topology in topologies:
            if not topology.is_taken:
                raise TfperfError("on=gpu_topology: say how many devices, on=gpu_topology.take(n)")

    def _figures(self, also: Also, *subjects: Subject, of_suite: bool = True) -> tuple[Figure, ...]:
        """The figures of a call, with the suite's where it is a check; a smoke run measures none."""
        kinds = set(map(type, subjects))
        if kinds not in ({Workload}, {Command}):
            given = " and ".join(f"{subject!r:.80}" for subject in subjects)
            same = ", for both sides the same kind" if len(subjects) > 1 else ""
            raise WorkloadError(f"{given}: give a Workload or a Command(argv, name=...){same}")
        is_read = any(isinstance(subject, Command) and subject.reads is not None for subject in subjects)
        source = Source.OUTPUT if is_read else Source.PROBE if Command in kinds else Source.WORKER
        asked, settings = figures_of(also, source), self._state.settings
        default: list[Figure] = []
        if of_suite:
            for feature in self._state.features.values():
                default += feature.figures(settings)
        return () if settings.smoke else with_default(asked, default, source)

    def _plan(self, steps: int | None, warmup_steps: int | None, also: tuple[Figure, ...], *subjects: Subject) -> Plan:
        settings = self._state.settings
        programs = [subject for subject in subjects if isinstance(subject, Command) and not subject.is_probed]
        if not programs:
            plan = settings.plan(steps, warmup_steps, also=also)
            if steps is None and isinstance(subjects[0], Command):  # its steps may take a millisecond or a minute
                seconds = min(plan.max_seconds, _PROGRAM_SECONDS)
                plan = replace(plan, steps=_MOST_STEPS, max_seconds=seconds, is_by_time=True)
            return ONE_WINDOW if settings.smoke else plan
        plan = settings.plan(steps, WARMUP_READINGS, also=also)
        if warmup_steps is not None:
            raise WorkloadError(
                f"{programs[0]}: warmup_steps is of a workload; a program's first reading is its warm-up"
            )
        if plan.steps < MIN_WINDOWS_FOR_ERROR and not settings.smoke:
            if steps is not None:
                raise WorkloadError(
                    f"{programs[0]}: steps={steps}: give at least {MIN_WINDOWS_FOR_ERROR} readings, because fewer have "
                    "no error estimate, or until_end=True in Reads(...), without steps, for a program that prints less"
                )
            plan = replace(plan, steps=MIN_WINDOWS_FOR_ERROR)
        to_the_end = any(program.runs_to_its_end for program in programs)
        return replace(ONE_WINDOW if settings.smoke else plan, counts_readings=True, until_end=to_the_end)

    def _here(self, subject: Subject, figures: tuple[Figure, ...]) -> Subject:
        """A command as this session runs it: in a folder below rootdir, with cold caches where a figure needs them."""
        if not isinstance(subject, Command):
            return subject
        settings, reads = self._state.settings, subject.reads
        if not subject.argv:
            raise WorkloadError(f"{subject}: name the program, as in Command([sys.executable, 'train.py'], ...)")
        if settings.smoke and reads is not None:
            reads = replace(reads, until_end=False)
        folder = str(settings.root / subject.cwd)
        return replace(subject, cwd=folder, reads=reads, env=with_cold_caches(figures, subject.env))


_MOST_STEPS = 1_000_000
_PROGRAM_SECONDS = 15.0
"""How long a program is timed whose test gives no steps: a hundred windows."""


def _ratio(at_least: object, tolerance: object) -> float:
    if isinstance(at_least, bool) or not isinstance(at_least, int | float) or not 0 < at_least < math.inf:
        raise WorkloadError(
            f"at_least={at_least!r:.80} must be 'published' or a ratio above 0, as in 3.6 for 4 GPUs over 1"
        )
    if tolerance is not None:
        raise WorkloadError(f"at_least={at_least!r} and tolerance={tolerance!r}: give one of them")
    return at_least
