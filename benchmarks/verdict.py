"""The gate's two error rates, simulated through its own code: false alarms, and losses that it misses.

    python benchmarks/verdict.py [--nights 400] [--windows 40] [--seed 1] [--live N]
    python benchmarks/verdict.py --situations [--seed 1]

First simulations, then the recorded trials of tests/data/trials through `tfperf replay`, and with --live N real
comparisons on this machine, N for each loss (benchmarks/turns.py; about a minute each). With --situations only where
the gate does worse (benchmarks/situations.py).

A night is 50 tests on one machine. Each run of a test (a fresh worker) has its own level, normal with standard
deviation sb around the test's; each night shifts all tests by a common amount (1 %); windows scatter by 3 % around
their run's level, each resembling the one before (AR(1), 0.3). Baselines are five runs of another night.
`measure.Bench`, `verdict.judge`, `noise.noise_of`, `night` and `throughput` are the ones that users run; only the
worker is simulated.

Two levels: "runs" gives each run's value at once, for the large tables; "windows" goes through
`windows.run_attempt` with early stopping. Beside ours stand a plain rule (mean of 100 windows 5 % below the
baseline's) and pytest-benchmark's `--benchmark-compare-fail=mean:5%` (one run against one run). Intervals are 95 %,
Wilson's.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import turns

from pytest_tfperf import cli
from pytest_tfperf.bench.bench import Bench
from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.canary import Canaries
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.step_profile import StepProfile
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.topology import Host, Topology
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.common_drift import Night
from pytest_tfperf.settings import Settings

TRIALS = Path(__file__).parents[1] / "tests" / "data" / "trials"
TESTS = 50
LOSING = 5  # tests of a night that lost throughput; few enough to leave the night's median alone
IMAGES = 100
STEP_SECONDS = 0.15
WINDOW_SD, WINDOW_R = 0.03, 0.3
NIGHT_SD = 0.01
CANARY_SD = 0.03
BASELINE_RUNS = 5
PLAN = Plan()
WORKLOADS = [Workload(model="trivial", batch_size=number + 1) for number in range(TESTS)]
TOPOLOGY = Topology(host=Host(cpu_model="simulated", usable_cores=1, total_cores=1)).on_cpu().take(1)


@dataclass
class Machine:
    """The truth: how runs and nights differ, and who lost how much."""

    spread: float
    random: random.Random
    tests: Sequence[Workload] = field(default_factory=lambda: WORKLOADS)
    night: float = 0.0
    losses: dict[Workload, float] = field(default_factory=dict)
    slow_runs: dict[Workload, float] = field(default_factory=dict)  # taken by the test's next run only

    def next_night(self) -> None:
        self.night = self.random.gauss(0, NIGHT_SD)

    def run_level(self, workload: Workload) -> float:
        """A fresh run's log throughput, relative to the test's own."""
        lost = math.log1p(-self.losses.get(workload, 0.0)) + math.log1p(-self.slow_runs.pop(workload, 0.0))
        return self.night + lost + self.random.gauss(0, self.spread)

    def canaries(self) -> Canaries | None:
        """They move with the night, as far as a look of half a second can tell, and know nothing of losses."""
        product, copy = (math.exp(self.night + self.random.gauss(0, CANARY_SD)) for _ in range(2))
        return Canaries(matrix_product_gflops=100 * product, memory_copy_gigabytes=10 * copy)

    def windows(self, level: float) -> Iterator[Window]:
        noise = self.random.gauss(0, WINDOW_SD)
        while True:
            yield Window(steps=1, seconds=STEP_SECONDS / math.exp(level + noise), loss=1.0)
            noise = WINDOW_R * noise + self.random.gauss(0, WINDOW_SD * math.sqrt(1 - WINDOW_R**2))


@dataclass
class SimulatedRun:
    """A `TrainingRun` whose windows come from the machine's truth."""

    source: Iterator[Window]
    images_per_step: int = IMAGES
    compile_seconds: float = 0.0
    fetches: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    log: str = ""

    def request(self, steps: int) -> None:
        pass

    def receive(self) -> Window:
        return next(self.source)

    def examine(self, **_: bool) -> StepProfile:
        raise MeasurementError("a simulated worker is made of no parts")

    def close(self) -> None:
        pass


@dataclass
class SimulatedLauncher:
    machine: Machine

    def start(self, job: Any, progress: Any) -> SimulatedRun:
        del progress
        return SimulatedRun(self.machine.windows(self.machine.run_level(job.workload)))

    def close(self) -> None:
        pass


class RunLevelBench(Bench):
    """Takes each run's value at once, with the error that 100 windows would leave."""

    machine: Machine

    def _attempt(self, workload: Workload, *_: object, **__: object) -> Run:
        level = self.machine.run_level(workload)
        return _stated(level, level + self.machine.random.gauss(0, _error_of(100)), self.machine.random)


def _error_of(windows: int) -> float:
    return WINDOW_SD * math.sqrt((1 + WINDOW_R) / (1 - WINDOW_R) / windows)


def _stated(level: float, value: float, rng: random.Random) -> Run:
    first = level + rng.gauss(0, _error_of(20))  # what the first 20 windows say, for the night's common shift
    return Run(
        windows=(Window(1, STEP_SECONDS / math.exp(first), 1.0),),
        images_per_step=IMAGES,
        stated_images_per_sec=IMAGES / STEP_SECONDS * math.exp(value),
    )


class Silent:
    def phase(self, name: str) -> None: ...
    def window(self, attempt: Any, plan: Any) -> None: ...
    def ended(self, attempt: Any) -> None: ...
    def done(self) -> None: ...


@dataclass
class Memory:
    """Baselines and history without a disk: what `Bench` asks of the two stores."""

    rows: dict[Key, Baseline]
    past: dict[Key, list[Night]] = field(default_factory=lambda: defaultdict(list))
    tonight: dict[Key, Night] = field(default_factory=dict)

    def load(self, _machine: str) -> dict[Key, Baseline]:
        return self.rows

    def published_like(self, _key: Key, **_: bool) -> list[Baseline]:
        return []

    def nights(self, baseline: Baseline) -> tuple[Night, ...]:
        return tuple(self.past[baseline.key])

    def append(self, record: Measurement, *, replaces: int | None = None) -> int:
        del replaces  # a test has one night
        verdict = record.verdict
        if verdict is None or verdict.baseline is None or verdict.waits:  # a baseline's run, or INVALID
            return 0
        drops = [r.log_rate - math.log(verdict.baseline.reference) - verdict.credited for r in record.throughput.runs]
        self.tonight[record.key] = Night(
            tuple(drops),
            doubtful=verdict.outcome is Outcome.INCONCLUSIVE,
            good=verdict.outcome is Outcome.PASS,
        )
        return 0

    def end_night(self) -> None:
        for key, night in self.tonight.items():
            self.past[key].append(night)
        self.tonight = {}


def record_baselines(machine: Machine) -> dict[Key, Baseline]:
    """Five runs of 100 windows each, in one night; their window noise is in the spread, as it is in real life."""
    machine.next_night()
    rows = {}
    for workload in WORKLOADS:
        values = [machine.run_level(workload) + machine.random.gauss(0, _error_of(100)) for _ in range(BASELINE_RUNS)]
        rate = IMAGES / STEP_SECONDS * math.exp(hodges_lehmann(values))
        key = Key(workload.id, TOPOLOGY.shape)
        rows[key] = Baseline(
            machine="simulated",
            key=key,
            reference=rate,
            runs=BASELINE_RUNS,
            spread=statistics.stdev(values),
            canaries=Canaries.median([machine.canaries() for _ in range(BASELINE_RUNS)]),
        )
    return rows


def run_night(machine: Machine, memory: Memory, bench_type: type[Bench]) -> dict[Workload, Measurement]:
    """One night of the whole suite, as pytest runs it: all tests once, then the undecided ones again."""
    machine.next_night()
    bench: Any = bench_type(
        launcher=SimulatedLauncher(machine),
        baselines=memory,
        history=memory,
        settings=Settings(machine="simulated"),
        watch=Silent(),
        tests=len(machine.tests),
        look=machine.canaries,
    )
    bench.machine = machine
    records = {w: bench.check(w, TOPOLOGY, PLAN, test=w.id) for w in machine.tests}
    while undecided := {w: r for w, r in records.items() if r.undecided}:
        for workload, record in undecided.items():
            try:
                records[workload] = bench.check(workload, TOPOLOGY, PLAN, test=workload.id, earlier=record)
            except MeasurementError as error:  # the canaries spoke against every run: an error of the test, not red
                records[workload] = replace(record, verdict=Verdict(outcome=Outcome.INVALID, reason=str(error)))
    memory.end_night()
    return records


# --- scenarios: each returns counts for one baseline, and is run with many seeds ---


def first_night(seed: int, spread: float, loss: float, bench_type: type[Bench]) -> dict[str, tuple[int, int]]:
    """A fresh baseline, one night: false nights, and of the losing tests how many are caught."""
    machine = Machine(spread, random.Random(seed))
    memory = Memory(record_baselines(machine))
    machine.losses = dict.fromkeys(WORKLOADS[:LOSING], loss) if loss else {}
    records = run_night(machine, memory, bench_type)
    red = [w for w, r in records.items() if r.verdict.outcome is Outcome.REGRESSED]
    caught = sum(w in machine.losses for w in red)
    windows = [r.throughput.runs[0].windows for w, r in records.items() if w not in machine.losses]
    return {
        "false nights": (int(len(red) > caught), 1),
        "caught": (caught, len(machine.losses)),
        "in doubt": (sum(r.verdict.outcome is Outcome.INCONCLUSIVE for r in records.values()), TESTS),
        "median windows": (int(statistics.median(windows)), 1),
        "runs": (sum(len(r.trial.attempts) for r in records.values()), TESTS),
    }


def three_nights(seed: int, spread: float, loss: float, before: int) -> dict[str, tuple[int, int]]:
    """`before` good nights, then a loss that stays: how many tests are caught within three nights."""
    machine = Machine(spread, random.Random(seed))
    memory = Memory(record_baselines(machine))
    false = 0
    for _ in range(before):
        false += any(r.verdict.outcome is Outcome.REGRESSED for r in run_night(machine, memory, RunLevelBench).values())
    machine.losses = dict.fromkeys(WORKLOADS[:LOSING], loss)
    found: set[Workload] = set()
    for _ in range(3):
        records = run_night(machine, memory, RunLevelBench)
        found |= {w for w in machine.losses if records[w].verdict.outcome is Outcome.REGRESSED}
    return {"caught": (len(found), LOSING), "false nights": (false, before)}


def shared_loss(seed: int, spread: float, loss: float) -> dict[str, tuple[int, int]]:
    """All tests lose the same, as with a slower TensorFlow: is the first night red?"""
    machine = Machine(spread, random.Random(seed))
    memory = Memory(record_baselines(machine))
    machine.losses = dict.fromkeys(WORKLOADS, loss)
    records = run_night(machine, memory, RunLevelBench)
    return {"red": (int(any(r.verdict.outcome is Outcome.REGRESSED for r in records.values())), 1)}


def one_slow_run(seed: int, spread: float) -> dict[str, tuple[int, int]]:
    """A neighbour takes 8 % of one run of some tests: how many of them fail."""
    machine = Machine(spread, random.Random(seed))
    memory = Memory(record_baselines(machine))
    machine.slow_runs = dict.fromkeys(WORKLOADS[:LOSING], 0.08)
    records = run_night(machine, memory, RunLevelBench)
    return {"failed": (sum(records[w].verdict.outcome is Outcome.REGRESSED for w in WORKLOADS[:LOSING]), LOSING)}


def plain_rules(seed: int, spread: float, loss: float) -> dict[str, tuple[int, int]]:
    """The two rules that people use today, on the same truth."""
    machine = Machine(spread, random.Random(seed))
    memory = Memory(record_baselines(machine))
    rng, base_night = machine.random, machine.night
    machine.next_night()
    plain, single = [], []
    for number, (workload, row) in enumerate(zip(WORKLOADS, memory.rows.values(), strict=True)):
        lost = math.log1p(-loss) if number < LOSING else 0.0
        value = machine.run_level(workload) + lost + rng.gauss(0, _error_of(100))
        one_run = base_night + rng.gauss(0, spread) + rng.gauss(0, _error_of(100))
        plain.append(value - math.log(row.reference * STEP_SECONDS / IMAGES) < math.log(0.95))
        single.append(value - one_run < -math.log(1.05))
    return {
        "plain false": (int(any(plain[LOSING:])), 1),
        "plain caught": (sum(plain[:LOSING]), LOSING if loss else 0),
        "pytest-benchmark false": (int(any(single[LOSING:])), 1),
        "pytest-benchmark caught": (sum(single[:LOSING]), LOSING if loss else 0),
    }


# --- counting and printing ---


def total(results: Sequence[Mapping[str, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for name, (count, of) in itertools.chain.from_iterable(r.items() for r in results):
        before = sums.get(name, (0, 0))
        sums[name] = before[0] + count, before[1] + of
    return sums


def share(count: int, of: int) -> str:
    """ "99.2 % (98.7 to 99.5)", Wilson's interval."""
    if not of:
        return "-"
    p, z = count / of, 1.96
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    low, high = (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)
    return f"{p:.1%} ({max(low, 0):.1%} to {min(high, 1):.1%})"


def smallest_caught(pool: ProcessPoolExecutor, spread: float, seeds: range) -> float:
    """The least loss, in steps of 0.2 %, that is caught 95 times in 100 on the first night."""
    low, high = 0.02, 0.60
    while high - low > 0.002:
        middle = (low + high) / 2
        n = len(seeds)
        found = total(list(pool.map(first_night, seeds, [spread] * n, [middle] * n, [RunLevelBench] * n, chunksize=8)))
        count, of = found["caught"]
        low, high = (low, middle) if count >= 0.95 * of else (middle, high)
    return high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nights", type=int, default=400, help="nights for each cell of the run-level tables")
    parser.add_argument("--windows", type=int, default=40, help="nights through windows and early stopping")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--live", type=int, default=0, metavar="N", help="real comparisons for each loss")
    parser.add_argument("--situations", action="store_true", help="only where it does worse; about six minutes")
    parser.add_argument("--spreads", type=float, nargs="+", default=[0.005, 0.01, 0.02, 0.05, 0.10])
    options = parser.parse_args()
    if options.situations:
        import situations  # it builds upon this file

        situations.main(options.seed)
        return
    seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.nights)
    n = options.nights
    print(f"{TESTS} tests a night, {n} nights a cell, seed {options.seed}")
    with ProcessPoolExecutor() as pool:
        for spread in options.spreads:
            s = [spread] * n
            five = total(list(pool.map(first_night, seeds, s, [0.05] * n, [RunLevelBench] * n, chunksize=8)))
            fresh = total(list(pool.map(three_nights, seeds, s, [0.03] * n, [0] * n, chunksize=8)))
            later = total(list(pool.map(three_nights, seeds[: n // 4], s, [0.03] * n, [10] * n, chunksize=4)))
            spike = total(list(pool.map(one_slow_run, seeds, s, chunksize=8)))
            shared = total(list(pool.map(shared_loss, seeds[: n // 4], s, [0.05] * n, chunksize=4)))
            plain = total(list(pool.map(plain_rules, seeds, s, [0.05] * n, chunksize=8)))
            least = smallest_caught(pool, spread, seeds[: max(40, n // 10)])
            print(f"\nsb {spread:.1%}")
            print(f"  nights with a false REGRESSED    {share(*five['false nights'])}")
            print(f"  the same over ten nights         {share(*later['false nights'])}")
            print(f"  5 % loss, first night            {share(*five['caught'])}")
            print(f"  3 % loss within three nights     {share(*fresh['caught'])}")
            print(f"  the same after ten nights        {share(*later['caught'])}")
            print(f"  one slow run (8 %) fails         {share(*spike['failed'])}")
            print(f"  5 % loss of all tests: red       {share(*shared['red'])}")
            print(f"  tests in doubt                   {share(*five['in doubt'])}")
            print(f"  runs a test                      {five['runs'][0] / five['runs'][1]:.2f}")
            print(f"  smallest loss caught 95 in 100   {least:.1%}")
            for rule in ("plain", "pytest-benchmark"):
                false, caught = plain[f"{rule} false"], plain[f"{rule} caught"]
                print(f"  {rule:<17} false nights {share(*false)}, 5 % caught {share(*caught)}")
        m = options.windows
        print(f"\nthrough windows, with early stopping, {m} nights a cell")
        for spread in options.spreads[:3]:
            found = total(list(pool.map(first_night, seeds[:m], [spread] * m, [0.05] * m, [Bench] * m, chunksize=2)))
            windows = found["median windows"][0] / found["median windows"][1]
            print(
                f"  sb {spread:.1%}: median windows of a good first run {windows:.0f} of 100, "
                f"false nights {share(*found['false nights'])}, 5 % caught {share(*found['caught'])}"
            )
    recorded(TRIALS)
    if options.live:
        print("\nlive")
        turns.main(["--live", str(options.live)])


def recorded(trials: Path) -> None:
    """Real measurements, quiet and busy, whole and slowed on purpose, on their way to the exit status.

    They are held against their machine's rows, because most were recorded before there were any.
    """
    rows = f"--baselines={trials / 'baselines'}"
    for folder in sorted(folder for folder in trials.iterdir() if folder.name in ("quiet", "busy", "slowed")):
        print(f"\nrecorded trials, {folder.name}", flush=True)
        print(f"exit status {cli.main(['replay', str(folder), rows])}")


if __name__ == "__main__":
    main()
