"""How often an interleaved comparison is wrong, and how small a loss it detects.

    python benchmarks/comparison.py                      # seeded; takes a minute
    python benchmarks/comparison.py --neighbour          # beside other work that comes and goes; takes minutes

It draws pairs' log ratios and calls the production rule (`judging/pairs.py`) after each pair, as `compare` does. "sb"
is the standard deviation between fresh workers; a pair holds two of them.

With --neighbour it plays whole runs, window by window, to `compare` itself. The neighbour's spells are drawn. While
one lasts, it takes a part of the time, all of which or half of which the telemetry shows.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast
from unittest.mock import patch

from scipy.stats import binomtest

from pytest_tfperf.bench.comparing import compare
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.run import Pair, Plan, Run, Window
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.core.throughput import robust_mean
from pytest_tfperf.core.topology import DeviceKind, Devices, Host, Topology
from pytest_tfperf.core.verdict import NOTHING, Outcome, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.judging.evidence import OF_RATES
from pytest_tfperf.judging.noise import accepted_rise, accepted_slowdown
from pytest_tfperf.judging.pairs import PairsTest, Terms
from pytest_tfperf.judging.validity import disturbance_in, in_steady_state
from pytest_tfperf.workers.launcher import Launcher

BETWEEN_RUNS = (0.005, 0.01, 0.02, 0.04)
CHANGES = (0.0, -0.02, -0.03, -0.05, -0.1)
TOLERANCE = Tolerance.of(0.02)


def one_comparison(
    draw: random.Random, change: float, between_runs: float, window_error: float, most: int
) -> tuple[str, int]:
    """Outcome and pairs of a comparison whose truth is `change`."""
    sd = math.sqrt(2 * between_runs**2 + window_error**2)  # the windows' share of it is known, the workers' is not
    ratios: list[float] = []
    while len(ratios) < most:
        ratios.append(draw.gauss(math.log1p(change), sd))
        found, _, wants = pairs_test(ratios, window_error, most).decided()
        if wants == NOTHING:
            break
    return found.value, len(ratios)


def pairs_test(ratios: Sequence[float], window_error: float, most: int) -> PairsTest:
    """The test that the throughput of a comparison is put to."""
    return PairsTest(
        changes=ratios,
        accepted=accepted_slowdown(TOLERANCE),
        accepted_rise=accepted_rise(TOLERANCE),
        known=OF_RATES,
        is_assumed=True,
        errors=[window_error] * len(ratios),
        terms=Terms(max_pairs=most),
    )


def interval(count: int, of: int) -> str:
    """A rate with its 95 % Wilson interval, in percent."""
    low, high = binomtest(count, of).proportion_ci(method="wilson")
    return f"{100 * count / of:.1f} ({100 * low:.1f}..{100 * high:.1f})"


def simulate(trials: int, most: int, window_error: float, seed: int, between: Sequence[float]) -> None:
    print(f"simulated: {trials} comparisons each, at most {most} pairs, tolerance 2 %, seed {seed},")
    print(f"windows' error of a pair {window_error:.1%}; percent with 95 % interval")
    print(f"{'sb':>6} {'truth':>6}  {'REGRESSED':<20} {'PASS, IMPROVED':<20} {'INCONCLUSIVE':<20} pairs: median, 95 %")
    draw = random.Random(seed)
    for between_runs in between:
        for change in CHANGES:
            ends = [one_comparison(draw, change, between_runs, window_error, most) for _ in range(trials)]
            print(
                f"{between_runs:6.1%} {change:6.0%}  {_rates(Counter(word for word, _ in ends), trials)} {_pairs(ends)}"
            )


def _rates(words: Counter[str], trials: int) -> str:
    good = words["PASS"] + words["IMPROVED"]
    return " ".join(f"{interval(n, trials):<20}" for n in (words["REGRESSED"], good, words["INCONCLUSIVE"]))


def _pairs(ends: list[tuple[str, int]]) -> str:
    counts = sorted(pairs for _, pairs in ends)
    return f"{statistics.median(counts):.0f}, {counts[math.ceil(0.95 * len(counts)) - 1]}"


WINDOWS, WINDOW_SECONDS, WINDOW_NOISE = 20, 0.15, 0.03
START_SECONDS = 0.5  # of a worker
LIMITS = DisturbanceLimits()
BOX = Topology(
    host=Host(cpu_model="a CPU", usable_cores=2, total_cores=2),
    devices=Devices(kind=DeviceKind.CPU, count=1),
    machine_name="box",
)


@dataclass(frozen=True)
class Neighbour:
    """Other work: the mean seconds of a spell and between two, the part of the time that it takes, and that shows."""

    busy: float
    quiet: float
    takes: float
    shows: float = 1.0

    def __str__(self) -> str:
        seen = "" if self.shows == 1 else f", {self.shows:.0%} of it seen"
        return f"{self.takes:.0%} for {self.busy:g} s, every {self.busy + self.quiet:g} s{seen}"


NEIGHBOURS = (
    *(Neighbour(busy, busy, takes) for busy in (0.5, 2.0, 8.0, 30.0) for takes in (0.2, 0.5, 0.8)),
    Neighbour(4.0, 12.0, 0.5),
    Neighbour(12.0, 4.0, 0.5),
    Neighbour(8.0, 8.0, 0.4, shows=0.5),
)


class BesideNeighbour:
    """An engine whose runs are played beside a neighbour; side b is slower by `change`."""

    limits = LIMITS

    def __init__(self, draw: random.Random, neighbour: Neighbour, change: float, between_runs: float) -> None:
        self._draw, self._neighbour = draw, neighbour
        self._speeds = {"a": 1.0, "b": 1 + change}
        self._between_runs = between_runs
        self._now = 0.0
        self._is_busy = draw.random() < neighbour.busy / (neighbour.busy + neighbour.quiet)
        self._until = self._spell()

    def run(self, side: Side, plan: Plan, *, label: str) -> Run:
        """A run of its own, as a program has."""
        del side, plan
        self._pass(START_SECONDS)
        timed = [self._window(speed) for speed in self._worker(label)]
        return self._watched(in_steady_state(_run([window for window, _ in timed])), timed)

    def pair(self, *sides: object, labels: Mapping[str, str], b_first: bool, **more: object) -> Pair:
        """Two runs whose windows are interleaved."""
        del sides, more
        self._pass(2 * START_SECONDS)
        timed: dict[str, list[tuple[Window, float]]] = {"a": [], "b": []}
        workers = {name: self._worker(labels[name]) for name in "ab"}
        for number in range(WINDOWS):
            for name in "ba" if b_first == (number % 2 == 0) else "ab":
                timed[name].append(self._window(next(workers[name])))
        a, b = (self._watched(_run([w for w, _ in timed[name]]), [*timed["a"], *timed["b"]]) for name in "ab")
        logs = [math.log(x.seconds / y.seconds) for x, y in zip(a.windows, b.windows, strict=True)]
        log_ratio, error = robust_mean(logs)
        return Pair(a, b, log_ratio, error)

    def rate_on_device_data(self, *arguments: object) -> None:
        """Nothing is fetched."""

    def _worker(self, label: str) -> Iterator[float]:
        """The speeds of a fresh worker in its windows."""
        speed = self._speeds[label] * math.exp(self._draw.gauss(0, self._between_runs))
        for _ in range(WINDOWS):
            yield speed * math.exp(self._draw.gauss(0, WINDOW_NOISE))

    def _window(self, speed: float) -> tuple[Window, float]:
        """A window that takes longer while the neighbour computes, and how long that was."""
        left, began, busy = WINDOW_SECONDS / speed, self._now, 0.0
        while left > 0:
            rate = 1 - self._neighbour.takes if self._is_busy else 1.0
            part = min(left / rate, self._until - self._now)
            busy += part if self._is_busy else 0.0
            left -= part * rate if part < left / rate else left
            self._pass(part)
        return Window(1, self._now - began), busy

    def _watched(self, run: Run, timed: Sequence[tuple[Window, float]]) -> Run:
        """The run with what was seen of the neighbour in these windows."""
        telemetry = self._sampled(timed)
        polls = tuple(self._sampled(timed[i : i + 5]) for i in range(0, len(timed), 5))
        disturbance = run.disturbance or disturbance_in(telemetry, LIMITS)
        return replace(run, telemetry=telemetry, polls=polls, disturbance=disturbance)

    def _sampled(self, timed: Sequence[tuple[Window, float]]) -> Telemetry:
        seconds = sum(window.seconds for window, _ in timed)
        others = self._neighbour.shows * self._neighbour.takes * sum(busy for _, busy in timed) / seconds
        return Telemetry(seconds=seconds, usable_cores=2, other_cpu_fraction_mean=others, idle_fraction_mean=0.0)

    def _pass(self, seconds: float) -> None:
        self._now += seconds
        while self._now >= self._until:
            self._is_busy = not self._is_busy
            self._until += self._spell()

    def _spell(self) -> float:
        mean = self._neighbour.busy if self._is_busy else self._neighbour.quiet
        return self._draw.expovariate(1 / mean)


def _run(windows: Sequence[Window]) -> Run:
    return Run(windows=tuple(windows), examples_per_step=1, fetches=True)


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


# Exact fractions would take two thirds of the time.
@patch.multiple(statistics, variance=_variance, stdev=lambda values: math.sqrt(_variance(values)))
def beside_neighbours(
    trials: int, most: int, seed: int, between_runs: float, changes: Sequence[float], interleaved: Sequence[str]
) -> None:
    print(f"played: {trials} comparisons each, at most {most} pairs, tolerance 2 %, sb {between_runs:.1%}, seed {seed}")
    print(f"{'neighbour takes':<40} {'by':<8} {'truth':>6} {' '.join(f'{word:>12}' for word in ENDS)}  pairs")
    for by in interleaved:
        workload = Workload(model="trivial", batch_size=1, input_pipeline=PIPELINES[by])
        side = Side(workload=workload, topology=BOX, launcher=cast("Launcher", None))
        for change in changes:
            in_all = Counter[str]()
            for neighbour in NEIGHBOURS:
                draw = random.Random(f"{seed} {by} {change} {neighbour}")
                found = []
                for _ in range(trials):
                    engine = cast("RunEngine", BesideNeighbour(draw, neighbour, change, between_runs))
                    found.append(compare(engine, side, side, Plan(), Terms(tolerance=TOLERANCE)))
                ends = Counter(str(one.outcome) for one in found)
                pairs = statistics.fmean(len(one.pairs) + len(one.discarded_pairs) for one in found)
                print(f"{neighbour!s:<40} {by:<8} {change:6.0%} {_shares(ends)}  {pairs:.1f}", flush=True)
                in_all += ends
            print(f"{'all of these':<40} {by:<8} {change:6.0%} {_shares(in_all)}", flush=True)


PIPELINES = {"windows": "device", "runs": "host"}
ENDS = (Outcome.REGRESSED, Outcome.PASS, Outcome.IMPROVED, Outcome.INCONCLUSIVE, Outcome.INVALID)


def _shares(ends: Counter[str]) -> str:
    return " ".join(f"{100 * ends[word] / ends.total():12.2f}" for word in ENDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="simulated comparisons for each line")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=20, help="the most pairs of a comparison")
    parser.add_argument("--window-error", type=float, default=0.007, help="of a simulated pair, from its windows")
    parser.add_argument("--between-runs", type=float, nargs="+", default=BETWEEN_RUNS, help="as fractions")
    parser.add_argument("--changes", type=float, nargs="+", default=(0.0, -0.05, -0.3), help="with --neighbour")
    parser.add_argument("--by", nargs="+", choices=PIPELINES, default=list(PIPELINES), help="with --neighbour")
    parser.add_argument("--neighbour", action="store_true", help="beside other work that comes and goes")
    options = parser.parse_args()
    if options.neighbour:
        sb = options.between_runs[0] if options.between_runs != BETWEEN_RUNS else 0.01
        beside_neighbours(options.trials, options.pairs, options.seed, sb, options.changes, options.by)
        return
    simulate(options.trials, options.pairs, options.window_error, options.seed, options.between_runs)


if __name__ == "__main__":
    main()
