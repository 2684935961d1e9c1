"""The `throughput` fixture: what a test author calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_tfperf.bench.comparing import MAX_PAIRS, MAX_SECONDS, Effort
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import Command, Reads
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
        workload: Workload,
        *,
        on: Topology,
        tolerance: AnyTolerance | None = None,
        steps: int | None = None,
        warmup_steps: int | None = None,
        also: Also = (),
        name: str = "",
    ) -> Throughput:
        """Measure and judge; the outcome is applied when the test's body has finished, so further asserts run first.

        Args:
            workload: what to train.
            on: what to train it on, from `gpu_topology.take(n)`.
            tolerance: the accepted change: `0.05`, or `(-0.05, None)` for no upper bound.
            steps: the most steps that are timed.
            warmup_steps: the fewest steps before them that are not timed.
            also: further figures to judge: "peak_memory", "first_step", "loss", "retraces", or a `Figure` with
                tolerances or a limit of your own. Those of the ini value tfperf_also are judged, too.
            name: the workload's name in tables and messages; the key of its baseline stays its id.

        Returns:
            the measured throughput, also where there is no baseline. Its `examples_per_sec` serves further asserts.

        Raises:
            WorkloadError, TfperfError: an argument that is not allowed.
            MeasurementError: the worker died, hung or raised.
            BaselineError: the machine's file can't be read.
        """
        self._require_open(on)
        plan = self._plan(steps, warmup_steps, self._figures(also, of_a_program=False))
        return self._calls.check(workload, on, _accepted(tolerance), plan, name)

    def check_command(
        self,
        argv: Sequence[str | Path],
        *,
        name: str,
        on: Topology,
        unit: str = "examples/s",
        reads: Reads | None = None,
        tolerance: AnyTolerance | None = None,
        readings: int | None = None,
        ranks_per_node: int = 1,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: bool = False,
        also: Also = (),
    ) -> Throughput:
        """Run a program of your own as it is, and judge the rate that it prints, as `check` judges a workload's.

        The program is ended when enough is known. Its standard input is empty.

        Args:
            argv: the program and its arguments, as in `[sys.executable, "train.py", "--epochs=1"]`.
            name: the key of its baseline.
            on: the devices that it sees, from `gpu_topology.take(n)`.
            unit: the unit of its rate, such as "images/s".
            reads: how its output is read; by default, lines in the known formats are.
            tolerance: as in `check`.
            readings: the most readings that are timed, at least 3; by default the ini value tfperf_steps.
            ranks_per_node: the number of its processes on each of several nodes.
            cwd: the folder where it runs, relative to pytest's rootdir, which is the default.
            env: environment variables that it gets beside pytest's own.
            terminal: whether it prints into a terminal of its own, for progress bars that are drawn only there.
            also: as in `check`; also figures that the program prints, as in `Figure("eval_loss", field="eval.loss")`.

        Returns:
            the measured throughput, as `check` does.

        Raises:
            WorkloadError, TfperfError: an argument that is not allowed.
            MeasurementError: the program can't be run, fails, hangs, or prints nothing that can be read.
            BaselineError: the machine's file can't be read.
        """
        self._require_open(on)
        figures = self._figures(also, of_a_program=True)
        with_caches = with_cold_caches(figures, env)
        command = self._command(argv, name, unit, reads, cwd, with_caches, terminal, ranks_per_node)
        plan = self._plan_of(command, readings, figures)
        return self._calls.check(command, on, _accepted(tolerance), plan)

    def measure(
        self,
        workload: Workload,
        *,
        on: Topology,
        steps: int | None = None,
        warmup_steps: int | None = None,
        name: str = "",
    ) -> Throughput:
        """Measure and judge nothing; the arguments, the result and the errors are those of `check`."""
        self._require_open(on)
        return self._calls.measure(workload, on, self._plan(steps, warmup_steps), name)

    def compare(
        self,
        a: Workload,
        b: Workload,
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
            a: what to train on side a.
            b: what to train on side b; the result's `ratio` is b / a.
            on: what to train both on, from `gpu_topology.take(n)`.
            tolerance: the accepted change of b against a, as in `check`; there is no baseline.
            max_pairs: the number of fresh pairs of workers after which an undecided comparison is INCONCLUSIVE.
            max_seconds: the same for the seconds that all pairs may take.
            steps: the most steps that each worker times.
            warmup_steps: the fewest steps before them that are not timed.
            also: further figures to compare, as in `check`, but without those of tfperf_also.

        Raises:
            WorkloadError, TfperfError: an argument that is not allowed.
            MeasurementError: a worker died, hung or raised.
        """
        self._require_open(on)
        plan = self._plan(steps, warmup_steps, self._figures(also, of_a_program=False, of_suite=False))
        effort = Effort(max_pairs=max_pairs, max_seconds=max_seconds)
        return self._calls.compare(a, b, on, _accepted(tolerance), plan, effort)

    def compare_command(
        self,
        a: Sequence[str | Path],
        b: Sequence[str | Path],
        *,
        names: tuple[str, str],
        on: Topology,
        unit: str = "examples/s",
        reads: Reads | None = None,
        tolerance: AnyTolerance | None = None,
        max_pairs: int = MAX_PAIRS,
        max_seconds: float = MAX_SECONDS,
        readings: int | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        terminal: bool = False,
        also: Also = (),
    ) -> Measurement:
        """Compare the program b with the program a, in alternating runs; the outcome is applied as that of `compare`.

        Args:
            a: a program and its arguments.
            b: another program and its arguments.
            names: the names of a and b.
            max_pairs, max_seconds: as in `compare`.
            on, unit, reads, tolerance, readings, cwd, env, terminal: as in `check_command`, for both.
            also: as in `compare`; also figures that both programs print.

        Raises:
            WorkloadError, TfperfError, MeasurementError: as in `check_command`.
        """
        self._require_open(on)
        figures = self._figures(also, of_a_program=True, of_suite=False)
        env = with_cold_caches(figures, env)
        one, another = (
            self._command(argv, name, unit, reads, cwd, env, terminal) for argv, name in zip((a, b), names, strict=True)
        )
        plan = self._plan_of(one, readings, figures)
        effort = Effort(max_pairs=max_pairs, max_seconds=max_seconds)
        return self._calls.compare(one, another, on, _accepted(tolerance), plan, effort)

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
            rows = [*store.published_like(key), *store.published_like(over_key)]
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

    def _command(
        self,
        argv: Sequence[str | Path],
        name: str,
        unit: str,
        reads: Reads | None,
        cwd: str | Path | None,
        env: Mapping[str, str] | None,
        terminal: bool,
        ranks_per_node: int = 1,
    ) -> Command:
        settings = self._state.settings
        return Command.of(
            argv,
            name=name,
            unit=unit,
            folder=str(settings.root / (cwd or "")),
            reads=replace(reads or Reads(), until_end=False) if settings.smoke else reads,
            ranks_per_node=ranks_per_node,
            environment=env,
            terminal=terminal,
        )

    def _plan_of(self, command: Command, readings: int | None, also: tuple[Figure, ...]) -> Plan:
        if readings is not None and readings < MIN_WINDOWS_FOR_ERROR and not self._state.settings.smoke:
            raise WorkloadError(
                f"{command.name}: readings={readings}: give at least {MIN_WINDOWS_FOR_ERROR}, because fewer have no "
                "error estimate, or reads=Reads(until_end=True) without readings for a program that prints less"
            )
        plan = self._plan(readings, WARMUP_READINGS, also)
        if readings is None and not self._state.settings.smoke:
            plan = replace(plan, steps=max(MIN_WINDOWS_FOR_ERROR, plan.steps))
        return replace(plan, counts_readings=True, until_end=command.reads.reads_to_the_end)

    def _figures(self, also: Also, *, of_a_program: bool, of_suite: bool = True) -> tuple[Figure, ...]:
        """The figures of a call, with the suite's where it is a check; a smoke run measures none."""
        asked, settings = figures_of(also, of_a_program=of_a_program), self._state.settings
        default: list[Figure] = []
        if of_suite:
            default = [figure for feature in self._state.features.values() for figure in feature.figures(settings)]
        return () if settings.smoke else with_default(asked, default, of_a_program=of_a_program)

    def _plan(self, steps: int | None, warmup_steps: int | None, also: tuple[Figure, ...] = ()) -> Plan:
        settings = self._state.settings
        plan = settings.plan(steps, warmup_steps, also=also)
        return ONE_WINDOW if settings.smoke else plan


def _accepted(tolerance: AnyTolerance | None) -> Tolerance | None:
    return None if tolerance is None else Tolerance.of(tolerance)
