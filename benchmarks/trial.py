"""How often the intervals that `tfperf trial` prints hold the true rates: trials of simulated machines.

    python benchmarks/trial.py [--trials 100] [--seed 1] [--processes 2] [--only WORD ...]

The machines are those of `benchmarks/verdict.py`, and so is the judgement. Each trial has baselines of its own, 20
sessions of unchanged code and 10 in which a fifth of the tests lose 5 %, in random order, as the command runs them. The
true rates are those of all trials of a machine together. Prints a table in Markdown: the rates, and the share of the
trials whose interval holds the rate.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

from verdict import Machine, Session, Situation, record_baselines, run_session

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.core.verdict import Outcome, Rule
from pytest_tfperf.features.trial.answer import answer
from pytest_tfperf.features.trial.runner import is_next_slowed, slowed_tests
from pytest_tfperf.features.trial.trial import Trial, TrialResult, TrialSession

LOSS = 0.05

MACHINES = [
    *(
        Situation(
            name=f"{tests} test{'s' if tests > 1 else ''}, runs differ by {between:.1%}",
            tests=tests,
            between_runs=between,
        )
        for tests, between in ((1, 0.01), (5, 0.005), (5, 0.01), (5, 0.02), (20, 0.01), (20, 0.02))
    ),
    Situation(name="5 tests, runs differ by 1.0%, sessions by 2.5%", tests=5, session_sd=0.025),
    Situation(name="20 tests, a fifth of the workers 8% slow", tests=20, slow_starts=0.2, slow_by=0.08),
    Situation(name="20 tests, runs differ three times as much as when recorded", tests=20, grown=3.0),
    Situation(name="12 tests, heavy tails, sessions differ by 1.5%", tests=12, session_sd=0.015, is_heavy_tailed=True),
    *(
        Situation(name=f"{tests} tests, neighbouring runs alike by 3%", tests=tests, slow_spells=0.03)
        for tests in (5, 20)
    ),
    *(Situation(name=f"{tests} tests, each drifts by itself by 0.5%", tests=tests, own_sd=0.005) for tests in (5, 20)),
]


def trial_of(situation: Situation, seed: int) -> Trial:
    """Run a whole trial of a simulated machine, by rule 2."""
    machine = Machine(situation, random.Random(seed))
    rows = record_baselines(machine)
    machine.lose()  # nothing, but workers may differ more from now on
    past: dict[Key, list[SessionChanges]] = {key: [] for key in machine.keys}
    keys = {key.workload: key for key in machine.keys}
    trial = Trial(slowdown=LOSS, seed=seed, tests=tuple(keys))
    while (is_slowed := is_next_slowed(trial)) is not None:
        slowed = slowed_tests(trial) if is_slowed else ()
        machine.lost = {keys[name]: math.log1p(-LOSS) for name in slowed}
        session = run_session(machine, rows, past, Rule.BASELINE, len(trial.sessions))
        for name in slowed:  # the history leaves out what was slowed down on purpose
            past[keys[name]].pop()
        trial = replace(trial, sessions=(*trial.sessions, kept(session, slowed)))
    return trial


def kept(session: Session, slowed: tuple[str, ...]) -> TrialSession:
    """Return what a trial keeps of a simulated session."""
    results = {
        key.workload: TrialResult(
            outcome=verdict.outcome,
            throughput_outcome=verdict.outcome,
            change=math.log1p(verdict.change or 0.0) - verdict.common_drift,
            tolerance=0.02,
        )
        for key, verdict in session.verdicts.items()
    }
    is_slower = session.machine is not None and session.machine.outcome is Outcome.REGRESSED
    return TrialSession(slowed=slowed, tests=results, failing=(VerdictOn.TOGETHER,) if is_slower else ())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[""], help="machines whose name holds one of the words")
    options = parser.parse_args()
    machines = [machine for machine in MACHINES if any(word in machine.name for word in options.only)]
    columns = "false failures, % | held by, % of trials | losses found, % | held by, % of trials | may block, %"
    print(f"| machine | {columns} |")
    print("| --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(options.processes) as pool:
        for situation in machines:
            seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.trials)
            answers = [answer(trial) for trial in pool.map(partial(trial_of, situation), seeds)]
            false = [found.false_failures for found in answers]
            found = [one.losses for one in answers]
            cells = []
            for rates in (false, found):
                truth = sum(rate.count for rate in rates) / sum(rate.of for rate in rates)
                held = statistics.fmean(rate.low <= truth <= rate.high for rate in rates)
                cells += [f"{100 * truth:.1f}", f"{100 * held:.0f}"]
            may_block = statistics.fmean(one.gate == "may block" for one in answers)
            print(f"| {situation.name} | {' | '.join(cells)} | {100 * may_block:.0f} |", flush=True)


if __name__ == "__main__":
    main()
