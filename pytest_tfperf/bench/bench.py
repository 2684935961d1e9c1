"""Measures one task: the first run of a check, another run of a check that wants more, or the runs of a baseline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pytest_tfperf.bench.machine_session import MachineSession
from pytest_tfperf.bench.pairs import PairSource, reference_pairs
from pytest_tfperf.bench.run_engine import RunEngine
from pytest_tfperf.bench.task import Call, Profiler, Task, judged, unjudged
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import InvalidMeasurement, Measurement
from pytest_tfperf.core.run import OwnRun, Pair, Run
from pytest_tfperf.core.throughput import run_value, summarise
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import (
    NOTHING,
    Consequence,
    Outcome,
    Reason,
    Verdict,
    Want,
    combined,
    effect_of_slowdown,
)
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.hardware.host import host_facts
from pytest_tfperf.judging.breakdown import breakdown, of_a_slowdown
from pytest_tfperf.judging.judge import may_stop_early
from pytest_tfperf.judging.new_baselines import wants
from pytest_tfperf.judging.target import peak_rates, refuse_other_devices, require_same_unit, require_same_way
from pytest_tfperf.judging.validity import ALL_DISTURBED, invalid

_WELL = (Outcome.PASS, Outcome.IMPROVED)


class Bench:
    """Measures and judges tasks; one for a session.

    `machine` returns the evidence that the tests on a topology's machine share, and `profiler` profiles regressions and
    new baselines. `commit` is of the tests' repository; "" outside of one.
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
        # The source of a task's pairs stays the same when the test runs again.
        self._pair_sources: dict[Call, PairSource] = {}

    def measure(self, task: Task) -> Measurement:
        """Take one undisturbed run of all of the plan's steps; nothing is judged.

        Raises:
            WorkloadError: an unknown name.
            InvalidMeasurement: each of several fresh runs was disturbed, or the loss is not finite.
            MeasurementError: the worker died, hung or raised.
        """
        return self._another_valid(task, OwnRun.FIRST, _RunsSoFar())

    def check(self, task: Task, earlier: Measurement | None = None) -> Measurement:
        """Measure once and judge. If the result is not decided, call again with the result as `earlier`.

        Raises:
            as `measure`, and BaselineError: the row was measured on other devices.
        """
        if task.target.baseline is not None and task.target.is_own_row:
            refuse_other_devices(task.target.baseline, task.topology)
        rows = self._machine(task.topology).figure_rows
        for figure in task.plan.also:
            if (row := rows.get(Key(task.workload.id, task.topology.shape, figure.name))) is not None:
                refuse_other_devices(row, task.topology)
        return self._first_run(task) if earlier is None else self._another_run(task, earlier)

    def free_run(self, task: Task, decided: Measurement) -> Measurement:
        """Take one more run of a decided measurement, which changes no verdict: a baseline may rest on it.

        Raises:
            as `measure`.
        """
        taken = _RunsSoFar.of(decided)
        run = self._good_run(task, OwnRun.BASELINE, taken)
        throughput = replace(decided.throughput, runs=(*decided.throughput.runs, run_value(run)))
        runs, discarded = (*decided.runs, run), tuple(taken.discarded)
        return replace(decided, runs=runs, discarded=discarded, throughput=throughput, seconds=taken.seconds)

    def record(self, task: Task, earlier: Measurement | None = None) -> Measurement:
        """Take one more run towards a baseline; slow and noisy runs ask for more.

        Raises:
            as `measure`.
        """
        taken = _RunsSoFar() if earlier is None else _RunsSoFar.of(earlier)
        result = self._another_valid(task, OwnRun.BASELINE, taken)
        result = replace(result, recording=wants([run_value(run) for run in taken.runs]))
        # A program that is read by its output can't be profiled.
        if result.is_decided and (isinstance(task.workload, Workload) or task.workload.is_probed):
            result = self._profiled(task, result)
        return result

    def _another_valid(self, task: Task, label: str, taken: _RunsSoFar) -> Measurement:
        """Take one more run, and judge nothing but whether its values can be used."""
        taken.runs.append(self._good_run(task, label, taken))
        result = self._measurement(task, taken)
        if (verdict := invalid(result.throughput)) is not None:
            raise _invalid(task, verdict, result.runs)
        return result

    def _first_run(self, task: Task) -> Measurement:
        """Take and judge the first run; a disturbed run counts if it passes, but not if it never became steady."""
        taken, machine = _RunsSoFar(), self._machine(task.topology)

        # Baselines are recorded in runs of the whole plan.
        grows = any(figure.definition.grows for figure in task.plan.also)

        def enough(run: Run) -> bool:
            has_pairs = task.reference_environment is not None
            return not grows and may_stop_early(
                run_value(run), task.target, task.tolerance, has_reference_environment=has_pairs
            )

        while True:
            run = self._engine.run(task.side, task.plan, enough=enough)
            if run.disturbance is None or run.disturbance.kind is not DisturbanceKind.NOT_STEADY:
                break
            taken.discarded.append(run)
            if len(taken.discarded) >= machine.tries:
                machine.seconds_disturbed += taken.seconds
                raise _invalid(task, ALL_DISTURBED, taken.discarded)
        if task.target.baseline is not None:  # before the run counts: the common drift must not hold another unit
            require_same_unit(task.target.baseline, run.unit)
            require_same_way(task.target.baseline, run.environment)
        machine.note_first_run(task, run)
        taken.runs.append(run)
        return self._judged(task, taken)

    def _another_run(self, task: Task, earlier: Measurement) -> Measurement:
        """Judge again, because the common drift is known now; if that decides nothing, take one more run or pair."""
        taken, machine = _RunsSoFar.of(earlier), self._machine(task.topology)
        machine.all_ran_once = True
        verdicts = self._verdicts(task, taken)
        wants = combined(verdict.wants for verdict in verdicts)
        if wants == NOTHING:
            return self._judged(task, taken, verdicts)
        # A figure with a row or a limit can fail the test, whatever its throughput is judged against.
        can_fail = effect_of_slowdown(task.target.against) is Consequence.FAILS or any(
            not verdict.is_decided for verdict in verdicts[1:]
        )
        can_fail = can_fail and not all(verdict.is_decided or verdict.outcome in _WELL for verdict in verdicts)
        if can_fail:
            machine.suspects.add(task.call)
        was_disturbed = any(run.disturbance is not None for run in taken.runs)
        step = Want.RUNS if was_disturbed and not taken.pairs else wants.what
        failed: InvalidMeasurement | None = None
        while step is not Want.NOTHING:
            if step is Want.PAIRS and self._take_pair(task, taken, machine):
                step = Want.NOTHING
            elif failed is None:
                failed = self._take_run(task, taken, machine, tries=None if can_fail else 1)
                # A machine that stays busy is as busy for both sides of a pair.
                may_pair = wants.what is Want.PAIRS and machine.has_reference_environment(task)
                step = Want.NOTHING if failed is None else Want.PAIRS if may_pair else Want.RUNS
            elif can_fail:
                raise failed
            else:  # a slowdown against earlier sessions that can't be confirmed on a busy machine is no error
                return self._measurement(task, taken, tuple(map(_in_doubt, verdicts)))
        return self._judged(task, taken)

    def _take_run(
        self, task: Task, taken: _RunsSoFar, machine: MachineSession, *, tries: int | None
    ) -> InvalidMeasurement | None:
        """Add a fresh run in place of disturbed ones; return the error if each of the tries was disturbed, too."""
        if task.call in machine.reference_failures:
            taken.discarded_pairs += taken.pairs
            taken.pairs = []
        before = list(taken.discarded)
        taken.discarded += [run for run in taken.runs if run.disturbance is not None]
        try:
            run = self._good_run(task, OwnRun.CONFIRMATION, taken, tries)
        except InvalidMeasurement as error:
            taken.discarded = [*before, *error.runs]
            return error
        taken.runs = [*(run for run in taken.runs if run.disturbance is None), run]
        return None

    def _verdicts(self, task: Task, taken: _RunsSoFar) -> tuple[Verdict, ...]:
        """Return the verdicts on the throughput and the figures, from the runs and pairs so far."""
        machine = self._machine(task.topology)
        evidence = machine.evidence(task, taken.runs, taken.pairs)
        return judged(task, taken.runs, taken.pairs, evidence, machine.figure_rows)

    def _judged(self, task: Task, taken: _RunsSoFar, verdicts: Sequence[Verdict] = ()) -> Measurement:
        """Return the measurement with its verdicts, judged now where they are not given."""
        result = self._measurement(task, taken, tuple(verdicts) or self._verdicts(task, taken))
        verdict = result.verdicts[0]
        if result.is_decided and verdict.outcome is Outcome.REGRESSED:
            rate = self._engine.rate_on_device_data(task.side, task.plan, taken.runs)
            broken_down = breakdown(taken.runs, result.throughput.examples_per_sec, task.workload, rate)
            if broken_down is not None and verdict.expected is not None:
                broken_down = of_a_slowdown(broken_down, result.throughput.examples_per_sec, verdict.expected)
            result = replace(result, breakdown=broken_down)
            if verdict.if_slower is Consequence.FAILS:  # a warning is one line
                result = self._profiled(task, result)
                if result.profile is None and taken.pairs:
                    result = replace(result, profile=self._pairs_of(task).what_grew(taken.pairs))
            result = replace(result, seconds=taken.seconds)
        return result

    def _profiled(self, task: Task, result: Measurement) -> Measurement:
        return result if self._profiler is None else replace(result, profile=self._profiler(task, result))

    def _good_run(self, task: Task, label: str, taken: _RunsSoFar, tries: int | None = None) -> Run:
        """Return an undisturbed run; add the disturbed runs before it to `taken`.

        There are fewer tries if the machine's tests have spent too long on disturbed runs.
        """
        machine, started = self._machine(task.topology), time.monotonic()
        disturbed: list[Run] = []
        for _ in range(tries or machine.tries):
            run = self._engine.run(task.side, task.plan, label=label)
            if run.disturbance is None:
                taken.discarded += disturbed
                return run
            disturbed.append(run)
        machine.seconds_disturbed += time.monotonic() - started
        raise _invalid(task, ALL_DISTURBED, disturbed)

    def _take_pair(self, task: Task, taken: _RunsSoFar, machine: MachineSession) -> bool:
        """Add a pair with the reference environment; False if that environment fails, so that rule 2 takes over."""
        source, started = self._pairs_of(task), time.monotonic()
        try:
            pair, discarded = source.take(machine.tries)
        except TfperfError as error:  # also if it would run the current code, and so prove nothing
            if not source.a_fails():
                raise
            machine.reference_failures[task.call] = error.brief
            return False
        if pair is None or not pair.is_even:
            machine.seconds_disturbed += time.monotonic() - started
        if pair is None:
            disturbed = [run for bad in discarded for run in (bad.a, bad.b) if run.disturbance]
            raise _invalid(task, ALL_DISTURBED, disturbed)
        taken.discarded_pairs += discarded
        taken.pairs.append(pair)
        return True

    def _pairs_of(self, task: Task) -> PairSource:
        return self._pair_sources.setdefault(task.call, reference_pairs(self._engine, task))

    def _measurement(self, task: Task, taken: _RunsSoFar, verdicts: tuple[Verdict, ...] = ()) -> Measurement:
        """Return the measurement with these verdicts; without any, its values are not judged."""
        topology, throughput = task.topology, summarise(taken.runs)
        fp32_tflops, memory_gb_per_sec = peak_rates(topology)
        return Measurement(
            test=task.test,
            session=self._session,
            workload=task.workload,
            topology=topology.shape,
            machine=topology.machine,
            devices=topology.describe(),
            name=task.side.name,
            runs=tuple(taken.runs),
            throughput=throughput,
            verdicts=verdicts or unjudged(task, taken.runs, throughput),
            document=task.target.document if verdicts else None,
            discarded=tuple(taken.discarded),
            pairs=tuple(taken.pairs),
            discarded_pairs=tuple(taken.discarded_pairs),
            gpu=topology.gpus[0].name if topology.gpus else "",
            gpu_fp32_tflops=fp32_tflops,
            gpu_memory_gb_per_sec=memory_gb_per_sec,
            breakdown=breakdown(taken.runs, throughput.examples_per_sec, task.workload),
            environment=environment(taken.runs[-1].environment, topology, task.side.slowdown, self._commit),
            commit=self._commit,
            time=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=taken.seconds,
        )


@dataclass
class _RunsSoFar:
    """The runs and pairs of a task so far, and the runs and pairs discarded as disturbed."""

    runs: list[Run] = field(default_factory=list)
    discarded: list[Run] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    discarded_pairs: list[Pair] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, earlier: Measurement) -> _RunsSoFar:
        return cls(
            runs=list(earlier.runs),
            discarded=list(earlier.discarded),
            pairs=list(earlier.pairs),
            discarded_pairs=list(earlier.discarded_pairs),
            started=time.monotonic() - earlier.seconds,
        )

    @property
    def seconds(self) -> float:
        """How long they took so far."""
        return time.monotonic() - self.started


def _in_doubt(verdict: Verdict) -> Verdict:
    """Return the verdict on a slowdown whose confirmation run could not be taken."""
    if verdict.is_decided or verdict.outcome in _WELL:  # a pass that more runs were to call a recovery stays a pass
        return replace(verdict, wants=NOTHING)
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=Reason.NOT_CONFIRMED, wants=NOTHING)


def _invalid(task: Task, verdict: Verdict, runs: Sequence[Run]) -> InvalidMeasurement:
    return InvalidMeasurement(verdict, task.workload, runs, where=f"{task.side.shown} on {task.topology.describe()}")


def environment(worker: Mapping[str, str], topology: Topology, inject_slowdown: float, commit: str) -> dict[str, str]:
    """Return name -> value without blanks: the worker's software, the driver, the host's settings and the commit."""
    facts = host_facts() | {
        "driver": topology.driver_version,
        "gpu_links": topology.slowest_link,
        "commit": commit,
        "injected_slowdown": str(inject_slowdown or ""),  # so that it is not taken for a real slowdown
    }
    return dict(worker) | {name: value.replace(" ", "_") for name, value in facts.items() if value}
