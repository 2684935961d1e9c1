"""Holds one side against another: pairs of fresh workers, until the interval of their ratio decides."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime

from pytest_tfperf.bench.disturbance import Guard, Seen
from pytest_tfperf.bench.interleaved import Pair, may_take_turns, pair_of_runs, take_turns
from pytest_tfperf.bench.largest_batch import LargestBatch
from pytest_tfperf.bench.naming import naming
from pytest_tfperf.bench.one_run import TRIES
from pytest_tfperf.bench.step_parts import Examiner, brief
from pytest_tfperf.bench.windows import Plan, Watch, run_attempt
from pytest_tfperf.core import catalogue
from pytest_tfperf.core.breakdown import breakdown
from pytest_tfperf.core.comparison import LEAST_PAIRS, Comparison, Finding, How, Measured, SetAside, decide
from pytest_tfperf.core.image_data import Data
from pytest_tfperf.core.run import Run, Trial
from pytest_tfperf.core.samples import remedy
from pytest_tfperf.core.step_profile import Input
from pytest_tfperf.core.supported import require_possible
from pytest_tfperf.core.throughput import run_value, summarise
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError, OutOfMemory, TfperfError
from pytest_tfperf.judging.loss import no_number
from pytest_tfperf.workers.launcher import Job, Launcher, Progress, TrainingRun

MOST_PAIRS = 20
MOST_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two: they differ by what they train, by what starts it (another Python), or by a loss on purpose."""

    workload: Workload
    launcher: Launcher
    slowdown: float = 0.0
    data: Data = field(default_factory=Data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """Where a comparison ends undecided.

    Args:
        pairs: fresh pairs of workers; more find smaller losses and cost time. Each look is stricter for it.
        seconds: no pair is begun that would probably end later.

    Raises:
        TfperfError: fewer pairs than a decision takes.
    """

    pairs: int = MOST_PAIRS
    seconds: float = MOST_SECONDS

    def __post_init__(self) -> None:
        if type(self.pairs) is not int or self.pairs < LEAST_PAIRS:
            raise TfperfError(f"max_pairs={self.pairs!r}: it takes a whole number from {LEAST_PAIRS} to decide")
        if not self.seconds > 0:
            raise TfperfError(f"max_seconds={self.seconds!r} must be above 0")

    def reached(self, pairs: int, seconds: float) -> int:
        """The most pairs that there will be, from what the first ones took: each look is stricter for each to come."""
        return max(pairs, int(min(self.pairs, self.seconds * pairs / seconds)))


def compare(
    a: Side,
    b: Side,
    topology: Topology,
    plan: Plan,
    tolerance: Tolerance,
    watch: Watch,
    *,
    cap: Cap | None = None,
    guard: Guard | None = None,
    largest_batch: LargestBatch | None = None,
    judged: bool = True,
    test: str = "",
) -> Comparison:
    """Hold b against a in fresh pairs of workers, until their ratio decides or the cap is reached.

    Workers take turns where both fit in memory and neither computes while it waits; else whole runs alternate,
    A B, B A, ... A pair that something disturbed is set aside and measured again; where that happens to three pairs one
    after the other, the comparison is INVALID.

    Args:
        a, b: the two sides; the ratio is b / a.
        topology: what both run on.
        plan: the steps of each worker.
        tolerance: the drop of b that is accepted.
        watch: is told how it comes along.
        cap: where to give up.
        guard: says what disturbed a pair; None: nothing is looked at.
        largest_batch: the session's search for the batch that fits; None: one of its own.
        judged: False: one pair, and no outcome.
        test: pytest's node id.

    Raises:
        WorkloadError: a name that nobody has, or what these devices can't train.
        NoData, MeasurementError: real images are to be read, and there are none.
        MeasurementError: a worker died, hung or raised; `OutOfMemory` names the largest batch that fits.
    """
    assert topology.devices is not None, "take() says which devices"
    for side in (a, b):
        catalogue.check(side.workload)
        require_possible(side.workload, topology.devices)
        catalogue.check_data(side.workload, side.data)
    cap = cap or Cap()
    started = time.monotonic()
    largest_batch = largest_batch or LargestBatch(watch)
    source = _Pairs(a, b, topology, plan, watch, guard if judged else None, largest_batch)
    pairs: list[Pair] = []
    aside: list[tuple[Pair, str]] = []
    most = cap.pairs
    while True:
        # No decision comes before this pair, and mostly it is the last.
        spoilt = _add(source, pairs, aside, examined=judged and len(pairs) == LEAST_PAIRS - 1)
        if len(pairs) == LEAST_PAIRS:
            most = cap.reached(LEAST_PAIRS, time.monotonic() - started)
        finding = _finding(pairs or [aside[-1][0]], tolerance, most)
        if spoilt:
            finding = finding.instead(Outcome.INVALID, spoilt)
        if finding.outcome is not Outcome.INCONCLUSIVE or not judged:
            break
        if (end := _end(len(pairs), len(aside), time.monotonic() - started, cap, most)) is not None:
            finding = finding.instead(finding.outcome, f"{finding.reason}{end}")
            break
    pairs = pairs or [aside[-1][0]]
    device_data = source.device_data(b, [pair.b for pair in pairs]) if finding.outcome is Outcome.REGRESSED else None
    return Comparison(
        test=test,
        a=_measured(a, [pair.a for pair in pairs]),
        b=_measured(b, [pair.b for pair in pairs], device_data),
        log_ratios=tuple(pair.log_ratio for pair in pairs),
        ratio=finding.ratio,
        low=finding.low,
        high=finding.high,
        outcome=finding.outcome if judged or finding.outcome is Outcome.INVALID else None,
        reason=finding.reason + source.remark,
        tolerance=tolerance,
        how=source.how,
        machine=topology.machine,
        devices=topology.describe(),
        topology=topology.shape,
        seconds=time.monotonic() - started,
        time=datetime.now().astimezone().isoformat(timespec="seconds"),
        set_aside=tuple(SetAside(pair.log_ratio, disturbance) for pair, disturbance in aside),
    )


def _add(source: _Pairs, pairs: list[Pair], aside: list[tuple[Pair, str]], *, examined: bool) -> str:
    """Append the next pair that nothing disturbed to `pairs`, the others to `aside`; why there was none, or ""."""
    for _ in range(TRIES):
        pair, seen = source.take(examined=examined)
        if not seen.disturbance:
            pairs.append(pair)
            return ""
        aside.append((pair, seen.disturbance))
    return f"INVALID: {seen.disturbance} (and something in each of {TRIES} fresh pairs). {remedy(seen.disturbance)}"


class _Pairs:
    """Fresh pairs, one after the other.

    Attributes:
        how: in turns; alternating runs from the start, or from the first pair on that could not be had in turns.
        remark: why turns were given up.
    """

    def __init__(
        self,
        a: Side,
        b: Side,
        topology: Topology,
        plan: Plan,
        watch: Watch,
        guard: Guard | None,
        largest_batch: LargestBatch,
    ) -> None:
        assert topology.devices is not None, "take() says which devices"
        self._a, self._b = a, b
        self._topology = topology
        self._devices = topology.devices
        self._plan = plan
        self._watch = watch
        self._guard = guard
        self._largest_batch = largest_batch
        self._taken = 0
        # Another TensorFlow may multiply matrices at another rate.
        self._examiners = {id(launcher): Examiner() for launcher in (a.launcher, b.launcher)}
        self.how = How.TURNS if may_take_turns(a.workload, b.workload) else How.RUNS
        self.remark = ""

    def take(self, *, examined: bool) -> tuple[Pair, Seen]:
        """A pair, and what makes it worth nothing: what went on beside it, or a run of it that never settled.

        `examined`: each worker is asked what its step is made of, when it has taken its last.
        """
        if self._guard is None:
            return self._take(examined), Seen()
        with self._guard.watching(self._devices.gpu_uuids) as seen:
            pair = self._take(examined)
        seen.disturbance = seen.disturbance or pair.a.unsettled or pair.b.unsettled
        return pair, seen

    def _take(self, examined: bool) -> Pair:
        b_first = self._taken % 2 == 1
        self._taken += 1
        if self.how is How.RUNS:
            return self._runs(b_first, examined)
        try:
            return self._turns(b_first, examined)
        except MeasurementError as error:
            # Two at once need twice the memory, and running out of it has many faces. One at a time shows what it was.
            if self._taken > 1:
                with naming(self._topology, self._a.workload, self._b.workload):
                    raise
            self.how = How.RUNS
            self.remark = f"; not in turns, because both at once failed: {str(error).splitlines()[0]}"
            return self._runs(b_first, examined)
        finally:
            self._watch.done()

    def _turns(self, b_first: bool, examined: bool) -> Pair:
        runs: dict[str, TrainingRun] = {}
        try:
            for name, side in self._in_order(b_first):
                runs[name] = self._start(side, self._progress(name))
            pair = take_turns(runs["a"], runs["b"], self._plan, self._progress(""), b_first=b_first)
            if not examined:
                return pair
            a = self._examined("a", self._a, runs["a"], pair.a)
            return replace(pair, a=a, b=self._examined("b", self._b, runs["b"], pair.b))
        finally:
            for run in runs.values():
                run.close()

    def _runs(self, b_first: bool, examined: bool) -> Pair:
        attempts = {name: self._alone(name, side, examined) for name, side in self._in_order(b_first)}
        return pair_of_runs(attempts["a"], attempts["b"])

    def device_data(self, side: Side, attempts: Sequence[Run]) -> float | None:
        """Images/s on data that lies on the devices, where the attempts fetched theirs; None where that fails."""
        if not any(attempt.parts is not None and attempt.parts.input is Input.FETCHED for attempt in attempts):
            return None
        resident = replace(side, workload=side.workload.with_(input_pipeline="device"))
        try:
            return run_value(self._run("parts", resident, brief(self._plan))).images_per_sec
        except (TfperfError, OSError):
            return None

    def _alone(self, name: str, side: Side, examined: bool) -> Run:
        try:
            return self._run(name, side, self._plan, examined=examined)
        except OutOfMemory as error:
            named = self._largest_batch.named(error, side.launcher, self._job(side), self._topology, self._plan)
            raise named from None

    def _run(self, name: str, side: Side, plan: Plan, *, examined: bool = False) -> Run:
        try:
            with naming(self._topology, side.workload), closing(self._start(side, self._progress(name))) as run:
                attempt = run_attempt(run, plan, self._watch)
                return self._examined(name, side, run, attempt) if examined else attempt
        finally:
            self._watch.done()

    def _examined(self, name: str, side: Side, run: TrainingRun, attempt: Run) -> Run:
        self._progress(name)("parts")
        cores, images_per_sec = self._topology.host.usable_cores, run_value(attempt).images_per_sec
        examiner = self._examiners[id(side.launcher)]
        return replace(attempt, parts=examiner.parts(run, self._job(side), cores, images_per_sec))

    def _in_order(self, b_first: bool) -> list[tuple[str, Side]]:
        sides = [("a", self._a), ("b", self._b)]
        return sides[::-1] if b_first else sides

    def _start(self, side: Side, progress: Progress) -> TrainingRun:
        return side.launcher.start(self._job(side), progress)

    def _job(self, side: Side) -> Job:
        return Job(
            workload=side.workload,
            devices=self._devices,
            slowdown=side.slowdown,
            data=side.data,
            cores=self._topology.host.usable_cores,
        )

    def _progress(self, name: str) -> Callable[[str], None]:
        place = f"pair {self._taken} {name}".rstrip()
        return lambda text: self._watch.phase(f"{place}: {text}")


def _finding(pairs: list[Pair], tolerance: Tolerance, most: int) -> Finding:
    errors = [pair.error for pair in pairs if math.isfinite(pair.error)]
    window_error = math.sqrt(statistics.fmean(error**2 for error in errors)) if errors else 0.0
    finding = decide([pair.log_ratio for pair in pairs], tolerance, most, window_error=window_error)
    for name, run in (("a", pairs[-1].a), ("b", pairs[-1].b)):
        if diverged := no_number(summarise(Trial((run,))), f"{name}'s"):
            return finding.instead(Outcome.INVALID, f"INVALID: {diverged}")
    return finding


def _end(pairs: int, aside: int, seconds: float, cap: Cap, most: int) -> str | None:
    """Why no further pair is begun."""
    if pairs >= cap.pairs:
        return f"; max_pairs={cap.pairs} is reached"
    if seconds * (1 + 1 / (pairs + aside)) > cap.seconds:
        return f"; the next pair would end after max_seconds={cap.seconds:g}"
    if pairs >= most:
        room = f"the first {LEAST_PAIRS} pairs left room for {most} in max_seconds={cap.seconds:g}"
        return f"; {room}, and the looks were planned for so many"
    return None


def _measured(side: Side, attempts: list[Run], device_data: float | None = None) -> Measured:
    trial = Trial(tuple(attempts))
    throughput = summarise(trial)
    return Measured(
        workload=side.workload,
        throughput=throughput,
        environment=attempts[-1].environment,
        breakdown=breakdown(trial, throughput.images_per_sec, side.workload, device_data),
    )
