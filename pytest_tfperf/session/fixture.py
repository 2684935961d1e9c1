"""The `throughput` fixture: what a test author calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pytest_tfperf.bench.comparing import MAX_PAIRS, MAX_SECONDS, Effort
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.figure import Figure, figures_of, with_cold_caches, with_default
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import ONE_WINDOW, Plan
from pytest_tfperf.core.throughput import MIN_WINDOWS_FOR_ERROR, Throughput
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, WorkloadError
from pytest_tfperf.features import module_of
from pytest_tfperf.programs.command_windows import WARMUP_READINGS
from pytest_tfperf.session.calls import CallRunner
from pytest_tfperf.session.outcomes import Outcomes
from pytest_tfperf.session.state import SessionState

AnyTolerance = float | tuple[float | None, float | None] | Tolerance
Also = Iterable[str | Figure]


class ThroughputFixture:
    """The `throughput` fixture of one test; pytest makes it."""

    def __init__(self, state: SessionState, test: str) -> None:
        self._state = state
        self._test = test
        self._calls = CallRunner(state, test)
        self._is_over = False
        self._warnings: list[str] = []

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
        return self._calls.check(subject, on, _accepted(tolerance), plan, name)

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
        return self._calls.measure(subject, on, self._plan(steps, warmup_steps, figures, subject), name)

    def compare(
        self,
        a: Subject,
        b: Subject,
        *,
        on: Topology,
        tolerance: AnyTolerance | None = None,
        max_pairs: int = MAX_PAIRS,
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
            tolerance: the accepted change of b against a, as in `check`; there is no baseline.
            max_pairs: the number of fresh pairs of workers after which an undecided comparison is INCONCLUSIVE.
            max_seconds: the same for the seconds that all pairs may take.
            steps, warmup_steps: as in `check`, for each worker.
            also: further figures to compare, as in `check`, but without those of tfperf_also.

        Raises:
            WorkloadError, TfperfError: an argument that is not allowed.
            MeasurementError: as in `check`.
        """
        self._require_open(on)
        figures = self._figures(also, a, b, of_suite=False)
        a, b = self._here(a, figures), self._here(b, figures)
        plan = self._plan(steps, warmup_steps, figures, a, b)
        effort = Effort(max_pairs=max_pairs, max_seconds=max_seconds)
        return self._calls.compare(a, b, on, _accepted(tolerance), plan, effort)

    def check_ratio(
        self,
        workload: Workload,
        *,
        on: Topology,
        over: Workload,
        over_on: Topology | None = None,
        tolerance: AnyTolerance = 0.1,
        at_least: float | None = None,
        steps: int | None = None,
        warmup_steps: int | None = None,
    ) -> float:
        """Measure two workloads, and judge their ratio by the published documents or by a limit of your own.

        A ratio below the documents' is only a warning on GPUs whose FP32 rate differs from theirs by more than 1.5
        times.

        Args:
            workload: what to train.
            on: what to train it on, from `gpu_topology.take(n)`.
            over: the workload to divide by.
            over_on: what to train that workload on; by default the same devices.
            tolerance: how far the ratio may lie below the documents' lowest one for these two workloads.
            at_least: a limit in place of the documents' ratios, as in `0.9 * 4` for four GPUs. Noise may also fail a
                ratio that is less than 2 % above it.
            steps, warmup_steps: as in `check`, for both.

        Returns:
            the trimmed mean of the ratios of 2 to 20 pairs of alternating runs, as many as it takes to decide.

        Raises:
            ThroughputRegression: the ratio is too low; names the documents' rows and figures.
            BaselineError: no document gives both figures, and no limit is given.
            WorkloadError, TfperfError: at_least is not a ratio, or another argument is not allowed.
            MeasurementError: as in `check`.
        """
        other = on if over_on is None else over_on
        self._require_open(on, other)
        ratios = module_of("ratios", "ratios", "throughput.check_ratio")
        key, over_key = Key(workload.id, on.shape), Key(over.id, other.shape)
        store, settings = self._state.session.baselines, self._state.settings
        published = None
        if at_least is None:
            rows = [*store.published(key), *store.published(over_key)]
            published = ratios.published_ratio(rows, key, over_key)
        else:
            ratios.require_limit(at_least)

        def measure(over_first: bool) -> tuple[float, float]:
            sides = [(workload, on), (over, other)]
            runs = {
                index: self.measure(sides[index][0], on=sides[index][1], steps=steps, warmup_steps=warmup_steps)
                for index in ((1, 0) if over_first else (0, 1))
            }
            return runs[0].examples_per_sec, runs[1].examples_per_sec

        if settings.smoke:
            one, base = measure(False)
            return one / base
        rerun = settings.rerun.of(self._test)
        if published is None:
            found = ratios.require_ratio(measure, at_least, key, over_key, rerun)
        else:
            found = ratios.check_ratio(measure, published, Tolerance.of(tolerance), rerun, on)
        self._warnings += [found.warning] if found.warning else []
        ratio: float = found.value
        return ratio

    def close(self) -> None:
        """Refuse further calls, when the test's body has finished: a teardown's could no longer fail the test."""
        self._is_over = True

    @property
    def outcomes(self) -> Outcomes:
        """The outcomes of the calls that this test has made so far."""
        return Outcomes(state=self._state, test=self._test, calls=self._calls.made, warnings=tuple(self._warnings))

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


def _accepted(tolerance: AnyTolerance | None) -> Tolerance | None:
    return None if tolerance is None else Tolerance.of(tolerance)
