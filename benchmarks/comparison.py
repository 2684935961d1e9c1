"""How often an interleaved comparison is wrong, and how small a loss it detects.

    python benchmarks/comparison.py        # seeded; takes a minute

It draws pairs' log ratios and calls the production rule (`pairs.decide`) after each pair, as `compare` does. "sb" is
the standard deviation between fresh workers; a pair holds two of them.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence

from scipy.stats import binomtest

from pytest_tfperf.core.verdict import Outcome, Tolerance
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="simulated comparisons for each line")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=20, help="the most pairs of a comparison")
    parser.add_argument("--window-error", type=float, default=0.007, help="of a simulated pair, from its windows")
    parser.add_argument("--between-runs", type=float, nargs="+", default=BETWEEN_RUNS, help="as fractions")
    options = parser.parse_args()
    simulate(options.trials, options.pairs, options.window_error, options.seed, options.between_runs)


if __name__ == "__main__":
    main()
