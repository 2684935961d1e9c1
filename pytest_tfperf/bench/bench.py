"""Measures one task: the first run of a check, another run of one in doubt, or the runs of a baseline."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pytest_tfperf.bench.environment import environment
from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.one_run import AlwaysDisturbed, RunEngine, T, undisturbed
from pytest_tfperf.bench.pairs import reference_pairs
from pytest_tfperf.bench.profiler import Profiler
from pytest_tfperf.bench.task import Task
from pytest_tfperf.core.breakdown import breakdown
from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plan import ONE_WINDOW
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.throughput import run_value, summarise
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.judge import judge, may_stop
from pytest_tfperf.judging.new_baseline import runs_wanted
from pytest_tfperf.judging.reference import floor_rate, refuse_other_devices, require_same_unit
from pytest_tfperf.reports.advice import loss_advice
from pytest_tfperf.reports.message import loss_fact


class Bench:
    """Measures tasks and judges what they gave; one for a session.

    Args:
        engine: takes the runs.
        machine: the shared evidence of a topology's machine.
        profiler: profiles regressions and new baselines; None: nothing does.
        session: the session's id.
        commit: git commit of the tests' repository; "" outside of one.
    """

    def __init__(
        self,
        engine: RunEngine,
        machine: Callable[[Topology], MachineSession],
        *,
        profiler: Profiler | None = None,
        session: str = "",
        commit: str = "",
    ) -> None:
        self._engine = engine
        self._profiler = profiler
        self._machine = machine
        self._session = session
        self._commit = commit

    def measure(self, task: Task) -> Measurement:
        """One undisturbed run of all of the plan's steps, nothing judged.

        Raises:
            WorkloadError: a name that nobody has.
            AlwaysDisturbed: each of several fresh runs was disturbed.
            MeasurementError: the worker died, hung or raised, or the loss is not finite.
        """
        started = time.monotonic()
        run, discarded = self._good_run(task, "run")
        result = self._measurement(task, [run], discarded=discarded, seconds=time.monotonic() - started)
        _require_finite_loss(result)
        return result

    def check(self, task: Task, earlier: Measurement | None = None) -> Measurement:
        """Measure once and judge. Where that decides nothing, call again with the result as `earlier`.

        Raises:
            as `measure`, and BaselineError: the row was measured on other devices.
        """
        if task.reference.baseline is not None and task.reference.is_own_row:
            refuse_other_devices(task.reference.baseline, task.topology)
        return self._first_run(task) if earlier is None else self._another_run(task, earlier)

    def record(self, task: Task, runs: int, earlier: Measurement | None = None) -> Measurement:
        """One more run towards a baseline of at least `runs`; slow and noisy runs ask for more, up to twice as many.

        Raises:
            as `measure`.
        """
        started = time.monotonic()
        run, discarded = self._good_run(task, "baseline run")
        done = [*(earlier.runs if earlier else ()), run]
        result = self._measurement(
            task,
            done,
            discarded=[*(earlier.discarded if earlier else ()), *discarded],
            seconds=time.monotonic() - started + (earlier.seconds if earlier else 0.0),
        )
        _require_finite_loss(result)
        result = replace(result, runs_wanted=runs_wanted([run_value(one) for one in done], runs))
        # Of a program there is none to compare with later, and nothing to tell today.
        return self._profiled(task, result) if result.is_decided and isinstance(task.workload, Workload) else result

    def _first_run(self, task: Task) -> Measurement:
        """A disturbed first run counts as long as it is good news; one that never settled counts for nothing."""
        started = time.monotonic()
        machine = self._machine(task.topology)

        def enough(run: Run) -> bool:
            has_other = task.reference_side is not None
            return may_stop(run_value(run), task.reference, task.tolerance, has_reference_environment=has_other)

        unsettled: list[Run] = []
        while True:
            run = self._engine.run(task.side, task.topology, task.plan, enough=enough)
            if run.disturbance is None or run.disturbance.kind is not DisturbanceKind.NOT_STEADY:
                break
            unsettled.append(run)
            if len(unsettled) >= machine.tries:
                machine.seconds_disturbed += time.monotonic() - started
                raise _always_disturbed(task, unsettled)
        machine.note_first_run(task, run)
        return self._judged(task, [run], unsettled, (), (), started)

    def _another_run(self, task: Task, earlier: Measurement) -> Measurement:
        """Judge again, now that the common drift is known; where that decides nothing, one more run or pair."""
        started = time.monotonic() - earlier.seconds
        machine = self._machine(task.topology)
        machine.all_ran_once = True
        verdict = judge(machine.evidence(task, earlier.runs, earlier.pairs))
        runs, discarded = list(earlier.runs), list(earlier.discarded)
        pairs, discarded_pairs = list(earlier.pairs), list(earlier.discarded_pairs)
        if not verdict.is_decided:
            machine.suspect(task)
            disturbed = [run for run in runs if run.disturbance is not None]
            pair = None
            if verdict.pairs_wanted and not disturbed:
                pair, bad_pairs = self._pair(task, machine)
                discarded_pairs += bad_pairs
            if pair is not None:
                pairs.append(pair)
            else:  # rule 2, a first run whose bad news is not believed, or a reference environment that fails
                if task.call in machine.reference_failures:
                    discarded_pairs, pairs = [*discarded_pairs, *pairs], []
                try:
                    tries = 1 if task.reference.is_provisional else None
                    good, bad_runs = self._good_run(task, "confirmation run", tries)
                except AlwaysDisturbed as error:
                    if not task.reference.is_provisional:
                        raise
                    return self._in_doubt(task, earlier, verdict, [*discarded, *error.runs], started)
                discarded += [*disturbed, *bad_runs]
                runs = [run for run in runs if run.disturbance is None] + [good]
        return self._judged(task, runs, discarded, pairs, discarded_pairs, started)

    def _in_doubt(
        self, task: Task, earlier: Measurement, verdict: Verdict, discarded: Sequence[Run], started: float
    ) -> Measurement:
        """A slowdown against earlier sessions that a busy machine keeps from being confirmed: no error, but a doubt."""
        result = self._measurement(task, earlier.runs, discarded=discarded, seconds=time.monotonic() - started)
        doubt = replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=Reason.NOT_CONFIRMED, runs_wanted=0)
        return replace(result, verdict=doubt, document=task.reference.document)

    def _judged(
        self,
        task: Task,
        runs: Sequence[Run],
        discarded: Sequence[Run],
        pairs: Sequence[Pair],
        discarded_pairs: Sequence[Pair],
        started: float,
    ) -> Measurement:
        if task.reference.baseline is not None:
            require_same_unit(task.reference.baseline, summarise(runs))
        verdict = judge(self._machine(task.topology).evidence(task, runs, pairs))
        result = self._measurement(
            task,
            runs,
            discarded=discarded,
            pairs=pairs,
            discarded_pairs=discarded_pairs,
            seconds=time.monotonic() - started,
        )
        if verdict.is_decided and verdict.outcome is Outcome.REGRESSED:
            rate = self._engine.rate_on_device_data(task.side, task.topology, task.plan, runs)
            broken_down = breakdown(runs, result.throughput.examples_per_sec, task.workload, rate)
            result = replace(result, breakdown=broken_down)
            if not verdict.is_provisional:  # its warning is one line
                result = self._profiled(task, result)
            result = replace(result, seconds=time.monotonic() - started)
        return replace(result, verdict=verdict, document=task.reference.document)

    def _profiled(self, task: Task, result: Measurement) -> Measurement:
        return result if self._profiler is None else replace(result, profile=self._profiler.profile(task, result))

    def _good_run(self, task: Task, label: str, tries: int | None = None) -> tuple[Run, tuple[Run, ...]]:
        """A run that nothing disturbed, and those before it that were."""
        run, discarded = self._undisturbed(
            task, lambda: self._engine.run(task.side, task.topology, task.plan, label=label), tries
        )
        if run is None:
            raise _always_disturbed(task, discarded)
        return run, discarded

    def _undisturbed(
        self, task: Task, take: Callable[[], T], tries: int | None = None
    ) -> tuple[T | None, tuple[T, ...]]:
        """As `undisturbed`, with fewer tries where the machine's tests have spent too long on disturbed runs."""
        machine, started = self._machine(task.topology), time.monotonic()
        taken, discarded = undisturbed(take, tries=tries or machine.tries)
        if taken is None:
            machine.seconds_disturbed += time.monotonic() - started
        return taken, discarded

    def _pair(self, task: Task, machine: MachineSession) -> tuple[Pair | None, tuple[Pair, ...]]:
        """A pair with the reference environment; None where that fails, so that rule 2 takes over."""
        source = machine.pair_source(task, lambda: reference_pairs(self._engine, task))
        try:
            pair, discarded = self._undisturbed(task, source.take)
        except MeasurementError as error:
            if source.failed_side == "b" or (source.failed_side == "" and not self._reference_fails(task)):
                raise
            machine.give_up_reference(task, str(error).splitlines()[0])
            return None, ()
        if pair is None:
            raise _always_disturbed(task, [run for bad in discarded for run in (bad.a, bad.b) if run.disturbance])
        return pair, discarded

    def _reference_fails(self, task: Task) -> bool:
        """Whether it can't run by itself either: of two workers at once it is not known which one failed."""
        assert task.reference_side is not None, "it has just been asked for a pair"
        try:
            self._engine.run(task.reference_side, task.topology, ONE_WINDOW, label="reference environment")
        except MeasurementError:
            return True
        return False

    def _measurement(
        self,
        task: Task,
        runs: Sequence[Run],
        *,
        discarded: Sequence[Run] = (),
        pairs: Sequence[Pair] = (),
        discarded_pairs: Sequence[Pair] = (),
        seconds: float,
    ) -> Measurement:
        topology, throughput = task.topology, summarise(runs)
        return Measurement(
            test=task.test,
            session=self._session,
            workload=task.workload,
            topology=topology.shape,
            machine=topology.machine,
            devices=topology.describe(),
            runs=tuple(runs),
            throughput=throughput,
            discarded=tuple(discarded),
            pairs=tuple(pairs),
            discarded_pairs=tuple(discarded_pairs),
            gpu=topology.gpus[0].name if topology.gpus else "",
            gpu_fp32_tflops=floor_rate(topology),
            breakdown=breakdown(runs, throughput.examples_per_sec, task.workload),
            environment=environment(runs[-1].environment, topology, task.side.slowdown, self._commit),
            commit=self._commit,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=seconds,
        )


def _always_disturbed(task: Task, runs: Sequence[Run]) -> AlwaysDisturbed:
    disturbance = next(run.disturbance for run in reversed(runs) if run.disturbance is not None)
    return AlwaysDisturbed(f"{task.workload.id} on {task.topology.describe()}", disturbance, len(runs), tuple(runs))


def _require_finite_loss(result: Measurement) -> None:
    if result.throughput.is_diverged:
        raise MeasurementError(
            f"{result.workload.id} on {result.devices}: INVALID: {loss_fact(result.throughput, result.workload)}\n"
            f"  next        {loss_advice(result.workload)}"
        )
