"""Fresh pairs of runs, one after the other: for comparisons, and to confirm against the reference environment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pytest_tfperf.bench.disturbance_guard import TRIES
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.task import Task
from pytest_tfperf.bench.windows import can_interleave_windows, pair_of_runs
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.measurement import Interleaving
from pytest_tfperf.core.profile import Profile, grown, largest
from pytest_tfperf.core.run import Pair, Plan
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.errors import MeasurementError, OneAtATime, TfperfError
from pytest_tfperf.judging.validity import are_alike, tells_nothing, unevenness
from pytest_tfperf.workers.failures import LITTLE_MEMORY, log_warnings

_PROFILERS = {"torch", "jax"}  # of programs that are measured by their steps
_PROFILED_STEPS, _PROFILED_SECONDS = 10, 20.0
_LEAST_SHARE = 0.1  # of the loss that grown operations explain, or they are noise beside it


class PairSource:
    """Takes pairs of the same two sides; the order within a pair alternates.

    The ratio is b / a; `labels` name the runs of a and b for the observer. Pairs are interleaved by windows if the
    pipelines and devices allow it, else by runs; also by runs after a first pair with two workers at once has failed,
    or left too little memory for both.
    """

    def __init__(
        self,
        engine: RunEngine,
        a: Side,
        b: Side,
        plan: Plan,
        *,
        labels: tuple[str, str] = ("a", "b"),
    ) -> None:
        self._engine = engine
        self._sides = {"a": a, "b": b}
        self._plan = plan
        self._labels = {"a": labels[0], "b": labels[1]}
        self._taken = 0
        # A worker that splits a GPU takes nearly all of its memory at once, and leaves none for a second worker.
        topology = b.topology
        is_split = topology.devices is not None and topology.devices.split
        may_share = a.topology == topology and topology.node_count == 1 and not is_split
        by_windows = may_share and can_interleave_windows(a.workload, b.workload)
        self.interleaving = Interleaving.WINDOWS if by_windows else Interleaving.RUNS
        self.fallback = ""  # why interleaving by windows was given up
        self.failed_side = ""  # "a" or "b", the side whose worker failed last, where that is known

    def take(self, tries: int = TRIES, *, profiled: bool = False) -> tuple[Pair | None, tuple[Pair, ...]]:
        """Take pairs until one is even; a disturbance of both sides alike discards no pair.

        Other work that comes and goes may leave no even pair. Then the pair with the least error counts.

        Returns:
            The pair that counts, None if no pair tells anything; and the discarded pairs.

        Raises:
            MeasurementError: a worker died, hung or raised.
        """
        uneven: list[Pair] = []
        for _ in range(tries):
            pair, limits = self._take(profiled=profiled), self._engine.limits
            difference, is_even = unevenness(pair.a, pair.b, limits), are_alike(pair.a, pair.b, limits)
            pair = replace(pair, unevenness=difference, is_even=is_even)
            if pair.is_even:
                return pair, tuple(uneven)
            uneven.append(pair)
        usable = [pair for pair in uneven if not tells_nothing(pair)]
        best = min(usable, key=lambda pair: pair.uncertainty, default=None)
        return best, tuple(pair for pair in uneven if pair is not best)

    def _take(self, *, profiled: bool) -> Pair:
        b_first = self._taken % 2 == 1
        self._taken += 1
        if self.interleaving is Interleaving.RUNS:
            return self._runs(b_first)
        try:
            pair = self._engine.pair(
                self._sides["a"],
                self._sides["b"],
                self._plan,
                labels=self._labels,
                b_first=b_first,
                profiled=profiled,
            )
        except OneAtATime as error:
            self.fallback = error.brief
        except MeasurementError as error:
            if self._taken > 1 and not isinstance(self._sides["b"].workload, Command):
                raise
            # Two workers need twice the memory, and running out of it shows in many ways. A program that is stopped
            # may hold a lock that the other one waits for. So try one at a time.
            self.fallback = f"both at once failed: {error.brief}"
        else:
            # The worker that starts second finds less memory, and may choose a slower algorithm than alone.
            if self._taken > 1 or not any(LITTLE_MEMORY in log_warnings(run.log) for run in (pair.a, pair.b)):
                return pair
            self.fallback = "both at once left TensorFlow too little memory to try its fastest algorithms"
        self.interleaving = Interleaving.RUNS
        return self._runs(b_first)

    def a_fails(self) -> bool:
        """Whether side a failed; where the failed side is not known, whether a also fails in a run of its own."""
        return self.failed_side == "a" if self.failed_side else self._fails("a")

    def only_b_fails(self) -> bool:
        """Whether side b fails once more, in a run of its own, and side a does not. A passing fault blames no side."""
        return self._fails("b") and not self._fails("a")

    def what_grew(self, pairs: Sequence[Pair]) -> Profile | None:
        """Return what grew in a step of b over a's, from one more run of each under the profiler of its framework.

        None for workloads, whose breakdown says which part slowed down, and for programs without such a profiler.
        """
        if not all(isinstance(side.workload, Command) and side.workload.is_probed for side in self._sides.values()):
            return None
        last = pairs[-1]
        if any(_PROFILERS.isdisjoint(run.environment) for run in (last.a, last.b)):
            return None
        of_both = summarise([pair.a for pair in pairs]), summarise([pair.b for pair in pairs])
        before, after = (side.examples_per_step / side.examples_per_sec for side in of_both)
        steps = max(1, min(_PROFILED_STEPS, int(_PROFILED_SECONDS / after)))
        traces = []
        for side in self._sides.values():
            traces.append(self._engine.trace(side, self._plan, steps)[0])
            if fault := traces[-1].fault:
                return Profile(fault=fault)
        ops_before, ops = (largest(trace.ops) for trace in traces)
        growths = grown(ops, ops_before)
        if math.fsum(growth.growth_seconds for growth in growths) < _LEAST_SHARE * (after - before):
            more_often = (each for each in growths if each.count >= each.before_count + 1 and not each.is_at_most)
            growths = tuple(more_often)
        if not growths:  # neither in time, which noise may hide in so few steps, nor in number
            fault = "no operation of the framework grew: look at Python code around it"
            return Profile(fault=fault, steps=steps, ops=ops)
        return Profile(steps=steps, ops=ops, grown=growths)

    def _fails(self, name: str) -> bool:
        # A whole run, because a program may fail late. A figure that both sides lack is not the fault of one.
        side = replace(self._sides[name], may_lack_figures=False)
        try:
            self._engine.run(side, self._plan, label=self._labels[name])
        except TfperfError:
            return True
        return False

    def _runs(self, b_first: bool) -> Pair:
        runs = {}
        for name in ("b", "a") if b_first else ("a", "b"):
            try:
                runs[name] = self._engine.run(self._sides[name], self._plan, label=self._labels[name])
            except TfperfError:
                self.failed_side = name
                raise
        return pair_of_runs(runs["a"], runs["b"])


def reference_pairs(engine: RunEngine, task: Task) -> PairSource:
    """Return the source of a task's pairs, in its reference environment (a) and in the current one (b)."""
    assert task.reference_environment is not None, "only a task with a reference environment is asked for pairs"
    labels = ("reference environment", "current environment")
    return PairSource(engine, task.reference_environment, task.side, task.plan, labels=labels)
