"""How often `tfperf bisect` names the commit that lost the throughput, and how many runs it takes.

    python benchmarks/search.py        # seeded; takes a minute

It plays whole searches: pairs' log ratios are drawn, and the production search (`features/bisect/search.py`) and rule
(`judging/pairs.py`) take them. "sb" is the standard deviation between fresh workers; a pair holds two of them.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics

from scipy.stats import binomtest

from pytest_tfperf.core.verdict import NOTHING, Outcome, Tolerance
from pytest_tfperf.features.bisect.search import candidates, error_rates, is_slow, next_state, threshold_of
from pytest_tfperf.judging.evidence import OF_RATES
from pytest_tfperf.judging.noise import accepted_slowdown
from pytest_tfperf.judging.pairs import PairsTest, Terms

TRUTHS = ((0.01, -0.05), (0.01, -0.1), (0.02, -0.05), (0.04, -0.1), (0.08, -0.2))  # (sb, loss)
TOLERANCE = Tolerance.of(0.02)


class Played:
    """Comparisons on a machine whose fresh workers differ by `between_runs`; counts the pairs."""

    def __init__(self, draw: random.Random, between_runs: float, window_error: float) -> None:
        self._draw = draw
        self._sd = math.sqrt(2 * between_runs**2 + window_error**2)
        self._window_error = window_error
        self.pairs = 0

    def compare(self, change: float, tolerance: Tolerance, terms: Terms) -> tuple[Outcome, float]:
        """The outcome and the ratio of two states that truly differ by `change`."""
        ratios: list[float] = []
        while True:
            ratios.append(self._draw.gauss(math.log1p(change), self._sd))
            test = PairsTest(
                changes=ratios,
                accepted=accepted_slowdown(tolerance),
                known=OF_RATES,
                is_assumed=True,
                errors=[self._window_error] * len(ratios),
                terms=terms,
            )
            outcome, _, wants = test.decided()
            if wants == NOTHING:
                self.pairs += len(ratios)
                return outcome, math.exp(test.middle)


def search(played: Played, states: int, first_bad: int, loss: float, unmeasurable: frozenset[int]) -> range | None:
    """What a search ends with; None if even the bad end is not confirmed."""
    terms = error_rates(states)
    outcome, ratio = played.compare(loss, TOLERANCE, terms)
    if outcome is not Outcome.REGRESSED:
        return None
    threshold = threshold_of(ratio)
    known: dict[int, bool | None] = {}
    while (state := next_state(states, known)) is not None:
        if state in unmeasurable:
            known[state] = None
            continue
        outcome, ratio = played.compare(loss if state >= first_bad else 0.0, threshold, terms)
        known[state] = is_slow(outcome, ratio, threshold)
    found = candidates(states, known)
    played.compare(loss if first_bad in found else 0.0, threshold, terms)  # with the state before it
    return found


def simulate(trials: int, states: int, window_error: float, seed: int, skipped: float) -> None:
    print(f"{trials} searches each among {states} commits, {skipped:.0%} of which can't be measured, seed {seed}")
    print(f"{'sb':>6} {'loss':>6}  {'found, % (95 % interval)':<26} runs: median, 95 %")
    draw = random.Random(seed)
    for between_runs, loss in TRUTHS:
        good, runs = 0, []
        for _ in range(trials):
            played = Played(draw, between_runs, window_error)
            first_bad = draw.randint(1, states)
            no = frozenset(i for i in range(1, states) if draw.random() < skipped)
            found = search(played, states, first_bad, loss, no)
            # Among skipped neighbours a search can only say that it is one of them.
            good += found is not None and first_bad in found and set(found[:-1]) <= no
            runs.append(2 * played.pairs)
        low, high = binomtest(good, trials).proportion_ci(method="wilson")
        rate = f"{100 * good / trials:.1f} ({100 * low:.1f}..{100 * high:.1f})"
        print(f"{between_runs:6.1%} {loss:6.0%}  {rate:<26} {statistics.median(runs):.0f}, {_95(runs)}", flush=True)


def _95(counts: list[int]) -> int:
    return sorted(counts)[math.ceil(0.95 * len(counts)) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000, help="simulated searches for each line")
    parser.add_argument("--states", type=int, default=32, help="commits that may be the one")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--window-error", type=float, default=0.007, help="of a simulated pair, from its windows")
    options = parser.parse_args()
    for skipped in (0.0, 0.2):
        simulate(options.trials, options.states, options.window_error, options.seed, skipped)


if __name__ == "__main__":
    main()
