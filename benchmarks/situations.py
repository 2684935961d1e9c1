"""Where the gate does worse: situations that the tables of benchmarks/verdict.py leave out, simulated in the same way.

    python benchmarks/verdict.py --situations [--seed 1]

Rows are recorded as `--update-baselines` does (`Bench`, then `new_baseline.baseline_of`). What is not said is as there:
nights differ by 1 %, windows by 3 %, and nothing is lost. A run falls, where it does, by a share e^(-window/30) that it
has above its level at first; these runs go through windows, with early stopping. The nights of one baseline resemble
each other, so that with few baselines the intervals are too narrow.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace

from verdict import (
    BASELINE_RUNS,
    PLAN,
    TESTS,
    TOPOLOGY,
    WORKLOADS,
    Machine,
    Memory,
    RunLevelBench,
    Silent,
    SimulatedLauncher,
    run_night,
    share,
    total,
)

from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.canary import Canaries
from pytest_tfperf.core.run import Window
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.judging.new_baseline import baseline_of
from pytest_tfperf.settings import Settings

SLOW_START = 0.06
FALL_WINDOWS = 30


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is odd, and how often it is simulated.

    Args:
        name: in words.
        spread: between fresh runs.
        baselines: machines, each with fresh rows.
        nights: of each.
        tests: in a session.
        own_nights: standard deviation of what a night does to each test by itself.
        slow_starts: share of workers that are slow by 6 % as long as they live.
        falls: what a run has above its level at first.
        lost: by all tests.
        canaries: None of these on GPUs.
    """

    name: str
    spread: float
    baselines: int
    nights: int = 1
    tests: int = TESTS
    own_nights: float = 0.0
    slow_starts: float = 0.0
    falls: float = 0.0
    lost: float = 0.0
    canaries: bool = True


SITUATIONS = [
    *(
        Situation(name="50 tests, nothing odd, first four nights", spread=spread, baselines=40, nights=4)
        for spread in (0.005, 0.01, 0.02)
    ),
    *(
        Situation(
            name=f"{tests} test{'s' if tests > 1 else ''}, ten nights",
            spread=spread,
            tests=tests,
            baselines=of,
            nights=10,
        )
        for (tests, of), spread in itertools.product(((1, 200), (3, 80), (7, 40)), (0.005, 0.01, 0.02))
    ),
    *(
        Situation(name=f"1 test that lost {loss:.0%}, first night", spread=0.01, tests=1, baselines=200, lost=loss)
        for loss in (0.03, 0.05, 0.08)
    ),
    *(
        Situation(
            name=f"50 tests, each with nights of its own ({own:.2%}), four nights",
            spread=spread,
            baselines=20,
            nights=4,
            own_nights=own,
        )
        for own, spread in itertools.product((0.0025, 0.005), (0.005, 0.01))
    ),
    Situation(name="20 tests, no canaries, ten nights", spread=0.01, tests=20, baselines=25, nights=10, canaries=False),
    *(
        Situation(
            name=f"50 tests, {often:.0%} of workers slow by {SLOW_START:.0%}, three nights",
            spread=0.005,
            baselines=12,
            nights=3,
            slow_starts=often,
        )
        for often in (0.2, 0.3)
    ),
    *(
        Situation(
            name=f"20 tests, runs fall by {falls:.0%}, five nights",
            spread=0.005,
            tests=20,
            baselines=8,
            nights=5,
            falls=falls,
        )
        for falls in (0.03, 0.05)
    ),
    *(
        Situation(
            name=f"20 tests that all lost {loss:.1%}, {'canaries' if canaries else 'no canaries'}, first night",
            spread=0.01,
            tests=20,
            baselines=60,
            lost=loss,
            canaries=canaries,
        )
        for loss, canaries in itertools.product((0.025, 0.03, 0.04), (True, False))
    ),
]


@dataclass
class OddMachine(Machine):
    """The truth of a situation."""

    situation: Situation = field(kw_only=True)
    own: dict[Workload, float] = field(default_factory=dict)

    def next_night(self) -> None:
        super().next_night()
        self.own = {workload: self.random.gauss(0, self.situation.own_nights) for workload in self.tests}

    def run_level(self, workload: Workload) -> float:
        slow = self.random.random() < self.situation.slow_starts
        return super().run_level(workload) + self.own[workload] + (math.log1p(-SLOW_START) if slow else 0.0)

    def canaries(self) -> Canaries | None:
        return super().canaries() if self.situation.canaries else None

    def windows(self, level: float) -> Iterator[Window]:
        for number, window in enumerate(super().windows(level)):
            above = self.situation.falls * math.exp(-number / FALL_WINDOWS)
            yield replace(window, seconds=window.seconds / math.exp(above))


def simulate(situation: Situation, seed: int) -> dict[str, tuple[int, int]]:
    """One baseline and its nights: in how many is any test REGRESSED, INCONCLUSIVE, INVALID."""
    tests = WORKLOADS[: situation.tests]
    machine = OddMachine(situation.spread, random.Random(seed), tests, situation=situation)
    bench_type = Bench if situation.falls else RunLevelBench
    memory = Memory(_record(machine, bench_type))
    machine.losses = dict.fromkeys(tests, situation.lost)
    seen = dict.fromkeys((Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.INVALID), 0)
    for _ in range(situation.nights):
        outcomes = {record.verdict.outcome for record in run_night(machine, memory, bench_type).values()}
        for outcome in seen:
            seen[outcome] += outcome in outcomes
    return {outcome: (count, situation.nights) for outcome, count in seen.items()}


def _record(machine: OddMachine, bench_type: type[Bench]) -> dict[Key, Baseline]:
    """As `--update-baselines` does, in one night: slow spells are left out, and more runs taken for them."""
    machine.next_night()
    memory = Memory({})
    bench = bench_type(
        launcher=SimulatedLauncher(machine),
        baselines=memory,
        history=memory,
        settings=Settings(machine="simulated", update_baselines=True, runs=BASELINE_RUNS),
        watch=Silent(),
        tests=len(machine.tests),
        look=machine.canaries,
    )
    bench.machine = machine
    rows = {}
    for workload in machine.tests:
        record = bench.check(workload, TOPOLOGY, PLAN, test=workload.id)
        while record.undecided:
            record = bench.check(workload, TOPOLOGY, PLAN, test=workload.id, earlier=record)
        row = baseline_of(record)
        # No time passes here between the looks of a recording, and the bench takes one in 30 s.
        looks = [seen for _ in range(row.runs) if (seen := machine.canaries())]
        rows[row.key] = replace(row, canaries=Canaries.median(looks))
    return rows


def main(seed: int) -> None:
    """The table, in Markdown."""
    started, nights = time.monotonic(), 0
    print("| situation | sb, % | nights with any REGRESSED, % | with any INCONCLUSIVE | with any INVALID |")
    print("| --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor() as pool:
        for situation in SITUATIONS:
            of = situation.baselines
            seeds = range(seed * 1_000_000, seed * 1_000_000 + of)
            found = total(list(pool.map(simulate, [situation] * of, seeds, chunksize=max(1, of // 16))))
            cells = [f"{share(*counts).replace('%', '')}: {counts[0]} of {counts[1]}" for counts in found.values()]
            print(f"| {situation.name} | {situation.spread * 100:g} | {' | '.join(cells)} |", flush=True)
            nights += of * situation.nights
    print(f"\n{len(SITUATIONS)} situations, {nights} nights, {time.monotonic() - started:.0f} s, seed {seed}")
