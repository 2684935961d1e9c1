"""The `throughput` fixture: what a test author calls."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from pytest_tfperf.bench.run_engine import Side
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.figure import Figure, figures_of, with_cold_caches, with_default
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import ONE_WINDOW, Plan
from pytest_tfperf.core.throughput import MIN_WINDOWS_FOR_ERROR, Throughput
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.errors import TfperfError, WorkloadError
from pytest_tfperf.judging.pairs import MAX_SECONDS, MOST_PAIRS, PAIRS_THAT_TELL, Terms
from pytest_tfperf.judging.target import published_ratio
from pytest_tfperf.programs.command_windows import WARMUP_READINGS
from pytest_tfperf.session.calls import Calls
from pytest_tfperf.session.state import SessionState

AnyTolerance = float | tuple[float | None, float | None] | Tolerance
Also = Iterable[str | Figure]


class ThroughputFixture:
    """The `throughput` fixture of one test; pytest makes it.

    Attributes:
        calls: those that the test has made so far.
    """

    def __init__(self, state: SessionState, test: str) -> None:
        self._state = state
        self._test = test
        self.calls = Calls(state, test)
        self._is_over = False

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
            also: further figures to judge: "peak_memory", "first_step", "loss", "retraces", or a `Figure` with
                tolerances or a limit of your own, which may be read from what a command prints, as in
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
        return self.calls.check(subject, on, _accepted(tolerance), plan, name)

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
        return self.calls.measure(subject, on, self._plan(steps, warmup_steps, figures, subject), name)

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
        left = Side(workload=self._here(a, figures), topology=on, launcher=launcher)
        right = Side(workload=self._here(b, figures), topology=b_on, launcher=launcher)
        plan = self._plan(steps, warmup_steps, figures, left.workload, right.workload)
        terms = Terms(
            tolerance=Tolerance.of(settings.tolerance if tolerance is None else tolerance),
            max_pairs=max_pairs,
            max_seconds=max_seconds,
        )
        if settings.smoke or at_least is None:
            return self.calls.compare(left, right, plan, terms, judged=not settings.smoke)
        if at_least != "published":
            terms = replace(terms, tolerance=Tolerance(), at_least=_ratio(at_least, tolerance))
            return self.calls.compare(left, right, plan, terms, judged=True)
        accepted = Tolerance.of(0.1 if tolerance is None else tolerance)
        published = published_ratio(
            self._state.session.baselines.published(), Key(a.id, on.shape), Key(b.id, b_on.shape)
        )
        least = published.value * (1 + (-1.0 if accepted.lower is None else accepted.lower))
        terms = replace(terms, tolerance=accepted, at_least=least)
        left, right = replace(left, document=published.a), replace(right, document=published.b)
        binds = published.binds(b_on) and accepted.lower is not None
        result = self.calls.compare(left, right, plan, terms, judged=binds)
        if not binds and result.ratio < least:
            self.calls.warnings.append(published.is_not_required(result.ratio, b_on))
        return result

    def close(self) -> None:
        """Refuse further calls, when the test's body has finished: a teardown's could no longer fail the test."""
        self._is_over = True

    def _require_open(self, *topologies: Topology) -> None:
        if self._is_over:
            raise TfperfError(
                "throughput: the test's body has finished, so a measurement could no longer fail it",
                next_step="Measure in the test, or in a fixture before its yield",
            )
        if any(not on.is_taken for on in topologies):
            raise TfperfError("on=gpu_topology: say how many devices, on=gpu_topology.take(n)")

    def _figures(self, also: Also, *subjects: Subject, of_suite: bool = True) -> tuple[Figure, ...]:
        """The figures of a call, with the suite's where it is a check; a smoke run measures none."""
        kinds = {isinstance(subject, Command) for subject in subjects if isinstance(subject, Subject)}
        if len(kinds) != 1 or not all(isinstance(subject, Subject) for subject in subjects):
            given = " and ".join(f"{subject!r:.80}" for subject in subjects)
            raise WorkloadError(f"{given}: give a Workload or a Command(argv, name=...), for both sides the same kind")
        of_a_program = kinds == {True}
        asked, settings = figures_of(also, of_a_program=of_a_program), self._state.settings
        default: list[Figure] = []
        if of_suite:
            default = [figure for feature in self._state.features.values() for figure in feature.figures(settings)]
        return () if settings.smoke else with_default(asked, default, of_a_program=of_a_program)

    def _plan(self, steps: int | None, warmup_steps: int | None, also: tuple[Figure, ...], *subjects: Subject) -> Plan:
        settings = self._state.settings
        programs = [subject for subject in subjects if isinstance(subject, Command)]
        plan = settings.plan(steps, WARMUP_READINGS if programs else warmup_steps, also=also)
        if programs and warmup_steps is not None:
            raise WorkloadError(
                f"{programs[0]}: warmup_steps is of a workload; a program's first reading is its warm-up"
            )
        if programs and plan.steps < MIN_WINDOWS_FOR_ERROR and not settings.smoke:
            if steps is not None:
                raise WorkloadError(
                    f"{programs[0]}: steps={steps}: give at least {MIN_WINDOWS_FOR_ERROR} readings, because fewer have "
                    "no error estimate, or reads=Reads(until_end=True) without steps for a program that prints less"
                )
            plan = replace(plan, steps=MIN_WINDOWS_FOR_ERROR)
        to_the_end = any(program.reads.reads_to_the_end for program in programs)
        return replace(ONE_WINDOW if settings.smoke else plan, counts_readings=bool(programs), until_end=to_the_end)

    def _here(self, subject: Subject, figures: tuple[Figure, ...]) -> Subject:
        """A command as this session runs it: in a folder below rootdir, with cold caches where a figure needs them."""
        if not isinstance(subject, Command):
            return subject
        settings, reads = self._state.settings, subject.reads
        if not subject.argv:
            raise WorkloadError(f"{subject}: name the program, as in Command([sys.executable, 'train.py'], ...)")
        if settings.smoke:
            reads = replace(reads, until_end=False)
        folder = str(settings.root / subject.cwd)
        return replace(subject, cwd=folder, reads=reads, env=with_cold_caches(figures, subject.env))


def _ratio(at_least: object, tolerance: object) -> float:
    if isinstance(at_least, bool) or not isinstance(at_least, int | float) or not 0 < at_least < math.inf:
        raise WorkloadError(f"at_least={at_least!r:.80} must be a ratio above 0, as 3.6 for four GPUs over one")
    if tolerance is not None:
        raise WorkloadError(f"at_least={at_least!r} and tolerance={tolerance!r}: give one of them")
    return at_least


def _accepted(tolerance: AnyTolerance | None) -> Tolerance | None:
    return None if tolerance is None else Tolerance.of(tolerance)
