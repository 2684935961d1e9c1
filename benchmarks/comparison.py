"""How often an interleaved comparison is wrong, and how small a loss it detects.

    python benchmarks/comparison.py                                  # simulated, seeded: a minute
    python benchmarks/comparison.py --live 20 --losses 0 0.1 0.05    # real workers: about a minute each

The simulation draws pairs' log ratios and calls the production rule (`pairs.decide`) after each pair, as `compare`
does. "sb" is the standard deviation between fresh workers; a pair holds two of them. `--live` compares a workload with
itself, one side slowed on purpose by the loss; run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.plan import Plan
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.judging.pairs import decide

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
        found = decide(ratios, TOLERANCE, most, window_error=window_error)
        if found.outcome is not Outcome.INCONCLUSIVE:
            break
    return found.outcome.value, len(ratios)


def interval(count: int, of: int) -> str:
    """A rate with its 95 % Wilson interval, in percent."""
    z, p = 1.96, count / of
    middle = (p + z * z / (2 * of)) / (1 + z * z / of)
    half = z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return f"{100 * p:.1f} ({100 * max(0.0, middle - half):.1f}..{100 * min(1.0, middle + half):.1f})"


def simulate(trials: int, most: int, window_error: float, seed: int) -> None:
    print(f"simulated: {trials} comparisons each, at most {most} pairs, tolerance 2 %, seed {seed},")
    print(f"windows' error of a pair {window_error:.1%}; percent with 95 % interval")
    print(f"{'sb':>6} {'truth':>6}  {'REGRESSED':<20} {'PASS, IMPROVED':<20} {'INCONCLUSIVE':<20} pairs: median, 95 %")
    draw = random.Random(seed)
    for between_runs in BETWEEN_RUNS:
        for change in CHANGES:
            ends = [one_comparison(draw, change, between_runs, window_error, most) for _ in range(trials)]
            print(
                f"{between_runs:6.1%} {change:6.0%}  {_rates(Counter(word for word, _ in ends), trials)} {_pairs(ends)}"
            )


def live(arguments: argparse.Namespace) -> None:
    # A simulation needs no worker.
    from pytest_tfperf.bench.comparing import Effort, compare
    from pytest_tfperf.bench.disturbance import DisturbanceGuard
    from pytest_tfperf.bench.one_run import RunEngine, Side
    from pytest_tfperf.core.disturbance import DisturbanceLimits
    from pytest_tfperf.hardware.discovery import discover
    from pytest_tfperf.reports.progress_line import ProgressLine
    from pytest_tfperf.workers.local import LocalLauncher

    launcher = LocalLauncher(logs=Path(arguments.logs), silence_seconds=600)
    engine = RunEngine(ProgressLine(), DisturbanceGuard(DisturbanceLimits()))
    workload = Workload(model=arguments.model, batch_size=arguments.batch_size)
    topology = discover().on_cpu().take(1)
    plan = Plan(steps=arguments.steps, warmup_steps=10)
    effort = Effort(max_pairs=arguments.pairs, max_seconds=arguments.seconds)
    print(f"live: {workload.id} on {topology.describe()}, {arguments.live} comparisons each, at most {arguments.pairs}")
    print(f"pairs or {arguments.seconds:g} s, {plan.steps} steps a worker, tolerance 2 %")
    try:
        for loss in arguments.losses:
            found: list[Comparison] = []
            for _ in range(arguments.live):
                a = Side(workload=workload, launcher=launcher)
                b = Side(workload=workload, launcher=launcher, slowdown=loss)
                found.append(compare(engine, a, b, topology, plan, TOLERANCE, effort=effort))
                print(f"  {_line(found[-1])}", flush=True)
            ends = [(str(c.outcome), len(c.log_ratios)) for c in found]
            seconds = sorted(c.seconds for c in found)
            within = statistics.fmean([statistics.variance(c.log_ratios) for c in found if len(c.log_ratios) > 1])
            print(f"loss {loss:.0%}: {_rates(Counter(word for word, _ in ends), len(found))} {_pairs(ends)}")
            spent = f"median {statistics.median(seconds):.0f}, most {seconds[-1]:.0f}"
            print(f"  seconds: {spent}; pairs' sd {math.sqrt(within):.2%}")
    finally:
        launcher.close()


def _line(found: Comparison) -> str:
    end = f"{found.low:.3f} .. {found.high:.3f}"
    return f"{found.outcome} ratio {found.ratio:.3f} ({end}), {len(found.log_ratios)} pairs, {found.seconds:.0f} s"


def _rates(words: Counter[str], trials: int) -> str:
    good = words["PASS"] + words["IMPROVED"]
    return " ".join(f"{interval(n, trials):<20}" for n in (words["REGRESSED"], good, words["INCONCLUSIVE"]))


def _pairs(ends: list[tuple[str, int]]) -> str:
    counts = sorted(pairs for _, pairs in ends)
    return f"{statistics.median(counts):.0f}, {counts[math.ceil(0.95 * len(counts)) - 1]}"


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="simulated comparisons for each line")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=20, help="the most pairs of a comparison")
    parser.add_argument("--window-error", type=float, default=0.007, help="of a simulated pair, from its windows")
    parser.add_argument(
        "--live", type=int, default=0, metavar="N", help="real comparisons for each loss, no simulation"
    )
    parser.add_argument("--losses", type=float, nargs="+", default=[0.0, 0.1, 0.05])
    parser.add_argument("--seconds", type=float, default=120.0, help="the most seconds of a live comparison")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--logs", default=".tfperf/logs")
    arguments = parser.parse_args(given)
    if arguments.live:
        live(arguments)
    else:
        simulate(arguments.trials, arguments.pairs, arguments.window_error, arguments.seed)


if __name__ == "__main__":
    main()
