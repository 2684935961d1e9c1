"""How often a verdict on the loss of a training that is not deterministic is wrong, by the steps that are judged.

    python -m benchmarks.loss_over_steps train SEEDS FILE    # PyTorch: the losses of 200 steps, of each rate and seed
    python -m benchmarks.loss_over_steps judge SESSIONS FILE

`train` trains a language model (16 characters give the next) on docs/*.md, which draws its weights and its batches by
another seed in each run, as an unseeded program does: with its learning rate, with one that is 20 % higher or lower,
and with twice or half of it. `judge` draws from these runs as `benchmarks.figures` does: each row is recorded from five
runs, and a session judges twenty tests by fresh runs or by pairs. At its end it judges programs that set one seed,
whose runs all have one loss.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from benchmarks.figures import TESTS, Case, judged, record
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import Outcome

STEPS = 200
CONTEXT, BATCH, WIDTH = 16, 64, 256
RATES = {"SGD": 0.2, "Adam": 0.002}
FACTORS = (1.0, 1.2, 0.8, 2.0, 0.5)
WINDOWS = ((50, 100), (100, 200), (10, 10), (100, 100))
TOLERANCES = (0.05, 0.01)
SEEDED_TOLERANCES = (0.005, 0.003)


def train(seeds: int, file: Path) -> None:
    """Append the losses that the file lacks."""
    import torch

    torch.set_num_threads(1)
    text = "".join(path.read_text() for path in sorted(Path("docs").glob("*.md")))
    characters = sorted(set(text))
    data = torch.tensor([characters.index(character) for character in text])
    known = {(name, factor, seed) for name, factor, seed, _ in runs(file)}
    for seed, name, factor in product(range(seeds), RATES, FACTORS):
        if (name, factor, seed) in known:
            continue
        torch.manual_seed(seed)
        model = torch.nn.Sequential(
            torch.nn.Embedding(len(characters), 32),
            torch.nn.Flatten(),
            torch.nn.Linear(32 * CONTEXT, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, len(characters)),
        )
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=factor * RATES[name])
        losses = []
        for _ in range(STEPS):
            begins = torch.randint(len(data) - CONTEXT, (BATCH, 1))
            batch = data[begins + torch.arange(CONTEXT + 1)]
            loss = torch.nn.functional.cross_entropy(model(batch[:, :-1]), batch[:, -1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(f"{loss.item():.6g}"))
        with file.open("a") as lines:
            lines.write(json.dumps([name, factor, seed, losses]) + "\n")


def runs(file: Path) -> list[tuple[str, float, int, list[float]]]:
    """The runs of a file: optimizer, factor of the learning rate, seed and losses."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, factor, seed, losses) for name, factor, seed, losses in map(json.loads, lines)]


def cases(file: Path) -> Iterator[Case]:
    """Each window of steps and tolerance, by either rule."""
    values: dict[tuple[str, float, tuple[int, int]], list[float]] = {}
    for (name, factor, _, losses), (first, last) in product(runs(file), WINDOWS):
        mean = statistics.fmean(losses[first - 1 : last])
        values.setdefault((name, factor, (first, last)), []).append(mean)
    for window, name, tolerance, factor, pairs in product(WINDOWS, RATES, TOLERANCES, FACTORS, (False, True)):
        unchanged, changed = values[name, 1.0, window], values[name, factor, window]
        level = statistics.fmean(unchanged)
        yield Case(
            Figure("loss", tolerance=tolerance),
            level,
            statistics.stdev(unchanged) / level,
            statistics.fmean(changed) / level - 1,
            pairs,
            name=f"{name} x {factor} over steps {window[0]} to {window[1]}, {tolerance:.0%}",
            measured=tuple(value / level for value in unchanged),
            changed_to=() if factor == 1.0 else tuple(value / level for value in changed),
        )


def judge_all(sessions: int, file: Path) -> None:
    """Print how many of the tests failed, were in doubt, or got no row."""
    print("spread  change  by     REGRESSED  INCONCLUSIVE  refused")
    for case in cases(file):
        chance, outcomes, refused = random.Random(27), Counter[Outcome | None](), 0
        for _ in range(sessions):
            recorded = [record(case, chance, number) for number in range(TESTS)]
            rows = [row for row in recorded if row is not None]
            refused += TESTS - len(rows)
            outcomes += Counter(judged(case, row, rows, chance, changed=bool(case.changed_to)) for row in rows)
        total = max(1, sum(outcomes.values()))
        red, doubt = outcomes[Outcome.REGRESSED] / total, outcomes[Outcome.INCONCLUSIVE] / total
        way = "pairs" if case.pairs else "runs"
        shares = f"{red:>9.2%}  {doubt:>12.2%}  {refused / (TESTS * sessions):>7.1%}"
        print(f"{case.spread:>6.2%}  {case.change:>+6.1%}  {way:<5}  {shares}  {case.name}", flush=True)


def judge_seeded(file: Path) -> None:
    """Print how often a learning rate that is 20 % wrong is found where all runs have one seed, and so one loss."""
    known = {(name, factor, seed): losses for name, factor, seed, losses in runs(file)}
    seeds = sorted({seed for _, _, seed in known})
    print("window    tolerance  by     found  unchanged that failed  changes of the loss")
    for (first, last), tolerance, pairs in product(WINDOWS[:2], SEEDED_TOLERANCES, (False, True)):
        found, failed, changes = 0, 0, []
        for name, seed, factor in product(RATES, seeds, FACTORS[:3]):
            before, now = (statistics.fmean(known[name, each, seed][first - 1 : last]) for each in (1.0, factor))
            case = Case(
                Figure("loss", tolerance=tolerance),
                before,
                0.0,
                now / before - 1,
                pairs,
                measured=(1.0,),
                changed_to=(now / before,),
            )
            chance = random.Random(27)
            row = record(case, chance, 0)
            assert row is not None, "equal values are no noise"
            outcome = judged(case, row, [row], chance, changed=True)
            if factor == 1.0:
                failed += outcome is not Outcome.PASS
            else:
                found += outcome is Outcome.REGRESSED
                changes.append(abs(case.change))
        count, way = len(changes), "pairs" if pairs else "runs"
        print(
            f"{first:>3}-{last:<3}  {tolerance:>9.1%}  {way:<5}  {found} of {count}  {failed} of {count // 2}  "
            f"{min(changes):.2%} to {max(changes):.2%}"
        )


def main() -> None:
    match sys.argv[1:]:
        case ["train", seeds, file]:
            train(int(seeds), Path(file))
        case ["judge", sessions, file]:
            judge_all(int(sessions), Path(file))
            judge_seeded(Path(file))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
