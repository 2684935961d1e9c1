"""Whether a loss that nobody fixes is red, and stays red in the sessions that follow; simulated through the judgement.

    python benchmarks/lasting_losses.py [--worlds 100] [--seed 1] [--processes 2] [--rule 2] [--tests 5 ...]

Each world records its baselines, has some sessions without a loss, then eleven with the same loss. Prints a table in
Markdown, which is in benchmarks/README.md:

- the slowdown from which a test that lost something fails in the first of these sessions (median), and whether the
  loss is at least 1.5 times as large;
- the share of worlds in which the loss is red in the first session with it, and by the second;
- the share of the sessions after the first red one that are red for it, too;
- the share of sessions that are red for a test that lost nothing.

Machines and sessions are those of verdict.py.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from verdict import RULES, Machine, Session, Situation, record_baselines, run_session, share

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.verdict import Outcome, Rule

SESSIONS = 11
TESTS, BEFORE, LOSSES = (1, 2, 3, 5, 7, 8, 20), (0, 1, 2, 5), (0.05, 0.10, 0.20)


@dataclass(frozen=True, slots=True)
class World:
    """One world's sessions from the loss on.

    Args:
        red: whether each session was red for the loss: a test that lost something, or software or machine as a whole.
        false: whether each session was red for a test that lost nothing.
        threshold: the slowdown from which a test that lost something fails in the first session, in the median.
    """

    red: tuple[bool, ...]
    false: tuple[bool, ...]
    threshold: float


def sessions_of(situation: Situation, rule: Rule, seed: int) -> World:
    """Simulate one world."""
    machine = Machine(situation, random.Random(seed))
    rows = record_baselines(machine)
    past: dict[Key, list[SessionChanges]] = {key: [] for key in machine.keys}
    for number in range(situation.before):
        run_session(machine, rows, past, rule, number)
    machine.lose()
    sessions = [run_session(machine, rows, past, rule, situation.before + number) for number in range(SESSIONS)]
    lost = machine.lost.keys() or set(machine.keys)
    thresholds = [sessions[0].verdicts[key].threshold for key in lost]
    return World(
        red=tuple(_is_red(session, machine.lost.keys()) for session in sessions),
        false=tuple(_is_red(session, set(machine.keys) - machine.lost.keys()) for session in sessions),
        threshold=statistics.median(value for value in thresholds if value is not None),
    )


def _is_red(session: Session, keys: set[Key]) -> bool:
    whole = [verdict.outcome for verdict in (session.software, session.machine) if verdict is not None]
    if Outcome.REGRESSED in whole:
        return bool(keys)
    return any(session.verdicts[key].outcome is Outcome.REGRESSED for key in keys)


def situations(tests: int, before: int) -> Iterator[Situation]:
    """All losses of a suite of so many tests, none first."""
    of = f"{tests} test{'s' if tests > 1 else ''}, {before} good sessions"
    yield Situation(name=f"{of}: nothing lost", tests=tests, before=before)
    for losing, loss in itertools.product(sorted({1, (tests + 1) // 2, tests}), LOSSES):
        yield Situation(name=f"{of}: {losing} lose {loss:.0%}", tests=tests, before=before, losing=losing, loss=loss)


def row(situation: Situation, worlds: Sequence[World]) -> str:
    """The table's row of one situation."""
    threshold = statistics.median(world.threshold for world in worlds)
    if not situation.losing:
        false = [red for world in worlds for red in world.false]
        return f"{situation.name} | {threshold:.1%} | - | - | - | {share(sum(false), len(false))}"
    first = [next((n for n, red in enumerate(world.red) if red), SESSIONS) for world in worlds]
    later = [red for world, n in zip(worlds, first, strict=True) for red in world.red[n + 1 :]]
    false = [red for world in worlds for red in world.false]
    is_large = "yes" if situation.loss >= 1.5 * threshold else "no"
    return " | ".join(
        (
            situation.name,
            f"{threshold:.1%}, {is_large}",
            *(share(sum(n < by for n in first), len(worlds)) for by in (1, 2)),
            share(sum(later), len(later)),
            share(sum(false), len(false)),
        )
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=100, help="worlds of each situation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rule", type=int, nargs="+", choices=(1, 2), default=(1, 2))
    parser.add_argument("--tests", type=int, nargs="+", default=TESTS)
    parser.add_argument("--before", type=int, nargs="+", default=BEFORE, help="sessions without a loss")
    options = parser.parse_args()
    started = time.monotonic()
    with ProcessPoolExecutor(options.processes) as pool:
        for number in options.rule:
            print(f"\n| rule {number} | threshold, 1.5 times | red in the first | by the second | stays | false |")
            print("| --- | --- | --- | --- | --- | --- |")
            for tests, before in itertools.product(options.tests, options.before):
                for situation in situations(tests, before):
                    seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.worlds)
                    many = [[value] * options.worlds for value in (situation, RULES[number - 1])]
                    worlds = list(pool.map(sessions_of, *many, seeds, chunksize=max(1, options.worlds // 8)))
                    print(f"| {row(situation, worlds)} |", flush=True)
    print(f"\nseed {options.seed}, {options.worlds} worlds a row, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
