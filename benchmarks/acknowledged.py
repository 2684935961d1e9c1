"""How often an acknowledged loss is called recovered or worse, rightly and wrongly: simulated sessions.

    python benchmarks/acknowledged.py [--acknowledgements 200] [--seed 1] [--processes 2] [--tests 8]

The machine and the judgement are those of `benchmarks/verdict.py`: runs differ by 1 %, sessions by 1 %. One of the
tests loses something after up to five good sessions, is acknowledged when it is first REGRESSED, as `tfperf ack` does,
and is measured in 25 further sessions. Beside them, after up to four of these sessions, the loss is fixed, wholly or
by half, or grows, for three sessions. Prints a table in Markdown: percent, with Wilson's 95 % intervals.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial

from verdict import RULES, Machine, Situation, record_baselines, run_session, share

from pytest_tfperf.bench.task import with_known_loss
from pytest_tfperf.core.acknowledgement import Acknowledgement, Standing
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.verdict import Outcome, Rule, Verdict
from pytest_tfperf.features.ack.command import size_of
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge

LOSSES = (0.03, 0.05, 0.08)
SESSIONS, AFTER_A_CHANGE, TRIES = 25, 3, 10
DAY = date(2026, 1, 1)


def acknowledged(verdict: Verdict) -> Acknowledgement:
    """The acknowledgement of a loss, as the command makes it."""
    size = size_of(verdict)
    assert size is not None, "a loss by the baseline has a size"
    change, worst = size
    return Acknowledgement(
        machine="box",
        test="t.py::t",
        workload="program",
        topology="1x1",
        figure="throughput",
        change=change,
        worst=worst,
        until=DAY,
        why="simulated",
    )


def simulate(situation: Situation, rule: Rule, seed: int) -> Counter[str]:
    """Count what one acknowledgement gives; `acknowledgements` is 0 where the loss was never found."""
    machine = Machine(situation, random.Random(seed))
    rows = record_baselines(machine)
    past: dict[Key, list[SessionChanges]] = {key: [] for key in machine.keys}
    test, number = machine.keys[0], 0
    known: Acknowledgement | None = None

    def judged(evidence: Evidence) -> Verdict:
        verdict = judge(evidence)
        is_known = evidence.target.baseline is not None and evidence.target.baseline.key == test
        return with_known_loss(verdict, known if is_known else None, len(evidence.throughput.runs), len(evidence.pairs))

    def session(machine: Machine, past: dict[Key, list[SessionChanges]]) -> Verdict:
        nonlocal number
        number += 1
        found: Verdict = run_session(machine, rows, past, rule, number, judged).verdicts[test]
        return found

    for _ in range(seed % 6):
        session(machine, past)
    machine.lose()
    for _ in range(TRIES):
        if (found := session(machine, past)).outcome is Outcome.REGRESSED:
            break
    else:
        return Counter()
    known = acknowledged(found)

    counts: Counter[str] = Counter(acknowledgements=1)
    now = {"fixed": 0.0, "half fixed": situation.loss / 2, "3 % more": situation.loss + 0.03}
    now["5 % more"] = situation.loss + 0.05
    as_before = []
    for index in range(SESSIONS):
        if index == seed % 5:
            for change, loss in now.items():
                other, its_past = copy.deepcopy((machine, past))
                other.lost = {test: math.log1p(-loss)}
                wanted = Standing.WORSE if loss > situation.loss else Standing.RECOVERED
                told = [session(other, its_past).standing(DAY) is wanted for _ in range(AFTER_A_CHANGE)]
                counts.update({f"{change}, at once": told[0], f"{change}, in time": any(told)})
        as_before.append(session(machine, past).standing(DAY))
    counts.update(sessions=SESSIONS, recovered=as_before.count(Standing.RECOVERED))
    counts.update(worse=Standing.WORSE in as_before, worse_sessions=as_before.count(Standing.WORSE))
    return counts


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acknowledgements", type=int, default=200, help="of each loss and rule")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tests", type=int, default=8, help="in a session")
    options = parser.parse_args()
    changes = ("fixed", "half fixed", "3 % more", "5 % more")
    print("| loss | rule | falsely recovered, % of sessions | falsely worse, % of acknowledgements |", end="")
    print("".join(f" {change}: told at once, within three sessions |" for change in changes))
    print("| --- " * (4 + len(changes)) + "|")
    with ProcessPoolExecutor(options.processes) as pool:
        for loss in LOSSES:
            situation = Situation(name=f"{loss:.0%}", tests=options.tests, losing=1, loss=loss)
            for number, rule in enumerate(RULES, start=1):
                seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.acknowledgements)
                found = pool.map(partial(simulate, situation, rule), seeds, chunksize=5)
                counts = sum(found, Counter[str]())
                known = counts["acknowledgements"]
                cells = [share(counts["recovered"], counts["sessions"]), share(counts["worse"], known)]
                for change in changes:
                    at_once, in_time = (counts[f"{change}, {when}"] for when in ("at once", "in time"))
                    cells.append(f"{100 * at_once / max(1, known):.0f}, {100 * in_time / max(1, known):.0f}")
                print(f"| {situation.name} | {number} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
