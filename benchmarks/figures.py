"""How often a verdict on a figure beside the throughput is wrong, in simulated sessions.

    python -m benchmarks.figures [SESSIONS]

Each simulated row is recorded from five runs, and refused as in production. A session takes a first run of each test,
and further runs or pairs as the verdict wants them. Runs differ by a normal deviation of the row's spread; its noise
is learnt from all rows of the figure. A table gives the share of tests that failed or were left in doubt: without a
change (false alarms), and with one.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.verdict import Outcome, Want
from pytest_tfperf.judging.figures import FigureEvidence, detectable, judge_figure
from pytest_tfperf.judging.new_baselines import TOO_NOISY_TO_GATE
from pytest_tfperf.judging.noise import noise_of
from pytest_tfperf.judging.thresholds import screen_error

TESTS = 20
RECORDED_RUNS = 5
MIB = 2.0**20


@dataclass(frozen=True)
class Case:
    """A figure whose runs differ by `spread`, a fraction of `level`, and change by `change`, another fraction."""

    figure: Figure
    level: float
    spread: float
    change: float
    pairs: bool

    @property
    def shown(self) -> str:
        way = "pairs" if self.pairs else "runs"
        return f"{self.figure.name:<12} {self.spread:>6.1%} {self.change:>+7.0%}  {way:<5}"

    def run(self, chance: random.Random, *, changed: bool) -> float:
        level = self.level * (1 + self.change * changed)
        return level * (1 + self.spread * chance.gauss(0, 1))


def cases() -> Iterator[Case]:
    memory, first, loss = Figure("peak_memory"), Figure("first_step"), Figure("loss")
    for pairs in (False, True):
        for change in (0.0, 0.05, 0.1):
            for spread in (0.001, 0.005, 0.01):
                yield Case(memory, 8000 * MIB, spread, change, pairs)
        for change in (0.0, 0.5, 1.0):
            for spread in (0.03, 0.1):
                yield Case(first, 20.0, spread, change, pairs)
        for change in (0.0, 0.1, -0.1):
            for spread in (0.0, 0.01):
                yield Case(loss, 2.3, spread, change, pairs)


def record(case: Case, chance: random.Random, number: int) -> Baseline | None:
    """The row of a test; None where the runs are refused."""
    values = [case.run(chance, changed=False) for _ in range(RECORDED_RUNS)]
    reference, spread = hodges_lehmann(values), statistics.stdev(values)
    accepted = case.figure.accepted(reference)
    if detectable(accepted, screen_error(spread, len(values))) > max(2 * accepted, TOO_NOISY_TO_GATE * reference):
        return None
    key = Key(f"trivial-b{number + 1}-replicated-device", "1x1", case.figure.name)
    return Baseline(
        machine="box", key=key, reference=reference, unit="", runs=len(values), between_runs=spread / reference
    )


def judged(case: Case, row: Baseline, rows: list[Baseline], chance: random.Random, *, changed: bool) -> Outcome | None:
    """The verdict of a session on one test."""
    evidence = FigureEvidence(
        figure=case.figure,
        values=[case.run(chance, changed=changed)],
        baseline=row,
        noise=noise_of(row, rows),
        tests=len(rows),
        has_reference_environment=case.pairs,
    )
    while True:
        verdict = judge_figure(evidence)
        if verdict.is_decided:
            return verdict.outcome
        if verdict.wants.what is Want.PAIRS:
            pair = case.run(chance, changed=False), case.run(chance, changed=changed)
            evidence = replace(evidence, pairs=[*evidence.pairs, pair])
        else:
            evidence = replace(evidence, values=[*evidence.values, case.run(chance, changed=changed)])


def main() -> None:
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    print(f"{TESTS} tests in each of {sessions} sessions; shares of tests")
    print("figure       spread  change  by     REGRESSED  INCONCLUSIVE  passed   refused   sessions with a failure")
    for case in cases():
        chance, outcomes, refused, failed = random.Random(27), Counter[Outcome | None](), 0, 0
        for _ in range(sessions):
            recorded = [record(case, chance, number) for number in range(TESTS)]
            rows = [row for row in recorded if row is not None]
            refused += len(recorded) - len(rows)
            found = Counter(judged(case, row, rows, chance, changed=case.change != 0) for row in rows)
            outcomes += found
            failed += found[Outcome.REGRESSED] > 0
        total = max(1, sum(outcomes.values()))
        red, doubt = outcomes[Outcome.REGRESSED] / total, outcomes[Outcome.INCONCLUSIVE] / total
        not_recorded = refused / (TESTS * sessions)
        shares = f"{red:>9.2%}  {doubt:>12.2%}  {1 - red - doubt:>6.2%}  {not_recorded:>8.2%}"
        print(f"{case.shown}  {shares}  {failed / sessions:>8.2%}")


if __name__ == "__main__":
    main()
