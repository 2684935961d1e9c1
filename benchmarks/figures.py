"""How much runs differ in figures beside the throughput, and how often a verdict on one is wrong.

    python -m benchmarks.figures measure RUNS FILE     # real runs of five workloads and the examples' two programs
    python -m benchmarks.figures simulate SESSIONS [FILE]

`measure` appends the runs to FILE and prints the spreads; called again, it takes only the runs that are missing. Peak
memory and the loss do not depend on the machine's load. The first step does, so run it on a machine that does nothing
else, or say what else ran.

`simulate` draws runs that differ by a normal deviation; with FILE, runs that were measured. Each simulated row is
recorded from five runs, and refused as in production. A session takes a first run of each test, and further runs or
pairs as the verdict wants them. A row's noise is learnt from all rows of the figure. A table gives the share of tests
that failed or were left in doubt: without a change (false alarms), and with one.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import cast

from pytest_tfperf.bench.disturbance_guard import DisturbanceGuard
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.figure import COLD_CACHES, Figure, Source, built_in_of, figures_of
from pytest_tfperf.core.run import Observer, Plan
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.verdict import Outcome, Want
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.hardware.discovery import discover
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.noise import TOO_NOISY_TO_GATE, detectable, noise_of, screen_error
from pytest_tfperf.workers.local import LocalLauncher
from tests.helpers.measurements import figure_evidence

TESTS = 20
RECORDED_RUNS = 5
MIB = 2.0**20

WORKLOADS = (
    Workload(model="trivial", batch_size=32),
    Workload(model="resnet20", batch_size=32),
    Workload(model="resnet50", batch_size=2),
    Workload(model="bert-tiny", batch_size=8),
    Workload(model="trivial", batch_size=32, trainer="keras"),
)
PROGRAMS = ("train_pytorch.py", "train_jax.py")


@dataclass(frozen=True)
class Case:
    """A figure whose runs differ by `spread`, a fraction of `level`, or as `measured`, and change by `change`."""

    figure: Figure
    level: float
    spread: float
    change: float
    pairs: bool
    name: str = ""
    measured: tuple[float, ...] = ()
    changed_to: tuple[float, ...] = ()  # what was measured with the change, in place of `change`

    @property
    def shown(self) -> str:
        way = "pairs" if self.pairs else "runs"
        return f"{self.figure.name:<12} {self.spread:>6.1%} {self.change:>+7.0%}  {way:<5}"

    def run(self, chance: random.Random, *, changed: bool) -> float:
        if changed and self.changed_to:
            return self.level * chance.choice(self.changed_to)
        level = self.level * (1 + self.change * changed)
        if self.measured:
            return level * chance.choice(self.measured)
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


class Silent:
    """An `Observer` that shows no progress."""

    def __getattr__(self, method: str) -> Callable[..., None]:
        return lambda *_: None


def subjects() -> Iterator[tuple[Workload | Command, Plan]]:
    """What is measured: few timed steps, because the figures are known before them."""
    plan = Plan(steps=5, also=figures_of(built_in_of(Source.WORKER), Source.WORKER))
    yield from ((workload, plan) for workload in WORKLOADS)
    folder = Path(__file__).resolve().parent.parent / "examples" / "own_script"
    of_programs = replace(plan, also=figures_of(("peak_memory", "first_step"), Source.PROBE))
    for name in PROGRAMS:
        command = [sys.executable, name]
        program = Command(command, name=name, unit="images/s", examples_per_step=64, cwd=str(folder), env=COLD_CACHES)
        yield program, of_programs


def measure(runs: int, file: Path) -> None:
    """Take the runs that the file lacks, one of each subject in turn, and print the spreads."""
    engine = RunEngine(cast("Observer", Silent()), DisturbanceGuard(DisturbanceLimits()), sampled=False)
    launcher = LocalLauncher(logs=Path(mkdtemp(prefix="figures-")), silence_seconds=300)
    one_core = discover().on_cpu().take(1)
    have = Counter(name for name, _ in measured(file))
    try:
        for number in range(runs):
            for subject, plan in subjects():
                if have[subject.id] <= number:
                    run = engine.run(Side(workload=subject, topology=one_core, launcher=launcher), plan)
                    with file.open("a") as lines:
                        lines.write(json.dumps([subject.id, run.figures]) + "\n")
    finally:
        launcher.close()
    print(f"{'subject':<42} {'figure':<12} {'runs':>4} {'median':>11} {'SD':>8} {'least':>8} {'most':>8}")
    for (subject_id, figure), values in series(file).items():
        middle = statistics.median(values)
        sd, least, most = (x / middle for x in (statistics.stdev(values), min(values) - middle, max(values) - middle))
        shown = f"{middle / MIB:.1f} MiB" if figure == "peak_memory" else f"{middle:.4g}"
        print(f"{subject_id:<42} {figure:<12} {len(values):>4} {shown:>11} {sd:>8.2%} {least:>+8.2%} {most:>+8.2%}")


def measured(file: Path) -> list[tuple[str, dict[str, float]]]:
    """The runs of a file: what ran, and its figures."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, figures) for name, figures in map(json.loads, lines)]


def series(file: Path) -> dict[tuple[str, str], list[float]]:
    """The values of each subject and figure."""
    found: dict[tuple[str, str], list[float]] = {}
    for name, figures in measured(file):
        for figure, value in figures.items():
            found.setdefault((name, figure), []).append(value)
    return found


def record(case: Case, chance: random.Random, number: int) -> Baseline | None:
    """The row of a test; None where the runs are refused."""
    values = [case.run(chance, changed=False) for _ in range(RECORDED_RUNS)]
    value, spread = hodges_lehmann(values), statistics.stdev(values)
    accepted = case.figure.accepted(value)
    if detectable(accepted, screen_error(spread, len(values))) > max(2 * accepted, TOO_NOISY_TO_GATE * value):
        return None
    key = Key(f"trivial-b{number + 1}-replicated-device", "1x1", case.figure.name)
    return Baseline(machine="box", key=key, value=value, unit="", runs=len(values), between_runs=spread / value)


def judged(case: Case, row: Baseline, rows: list[Baseline], chance: random.Random, *, changed: bool) -> Outcome | None:
    """The verdict of a session on one test."""
    values, pairs = [case.run(chance, changed=changed)], list[tuple[float, float]]()
    noise = noise_of(row, rows)
    while True:
        evidence = figure_evidence(
            case.figure, values, row, noise, pairs=pairs, tests=len(rows), has_reference_environment=case.pairs
        )
        verdict = judge(evidence)
        if verdict.is_decided:
            return verdict.outcome
        if verdict.wants.what is Want.PAIRS:
            pairs.append((case.run(chance, changed=False), case.run(chance, changed=changed)))
        else:
            values.append(case.run(chance, changed=changed))


def drawn(values: Sequence[float]) -> tuple[float, ...]:
    """Measured values as fractions of their median."""
    middle = statistics.median(values)
    return tuple(value / middle for value in values)


def cases_of(file: Path) -> Iterator[Case]:
    """What was measured, unchanged and changed, by either rule."""
    changes = {"peak_memory": (0.0, 0.05, 0.1), "first_step": (0.0, 0.5, 1.0), "loss": (0.0, 0.1, -0.1)}
    for (name, figure), values in series(file).items():
        spread = statistics.stdev(drawn(values))
        for change, pairs in product(changes[figure], (False, True)):
            level = statistics.median(values)
            yield Case(Figure(figure), level, spread, change, pairs, name=name, measured=drawn(values))


def simulate(sessions: int, file: Path | None) -> None:
    """Print how often verdicts are wrong."""
    print(f"{TESTS} tests in each of {sessions} sessions; shares of tests")
    print("figure       spread  change  by     REGRESSED  INCONCLUSIVE  passed   refused   sessions with a failure")
    for case in cases() if file is None else cases_of(file):
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
        print(f"{case.shown}  {shares}  {failed / sessions:>8.2%}  {case.name}", flush=True)


def main() -> None:
    match sys.argv[1:]:
        case ["measure", runs, file]:
            measure(int(runs), Path(file))
        case ["simulate", sessions, *files]:
            simulate(int(sessions), Path(files[0]) if files else None)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
