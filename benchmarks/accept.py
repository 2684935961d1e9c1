"""What it costs and brings to accept gains each week: simulated years of unchanged code, and gains in forty nights.

    nice python benchmarks/accept.py [--years 5] [--fleets 24] [--seed 1] [--processes 2] [--gain 0.05]

The machine and the judgement are those of `benchmarks/verdict.py`; the gains are found, and the rows made, as
`tfperf baselines accept --gains` does it. Each year has baselines of its own and 365 sessions by rule 2. In the first
table the code never changes, so each REGRESSED session is false; the same years are played with gains accepted each
week, and without. In the second, one test of each fleet is faster from the first night on. Prints tables in Markdown:
percent, with Wilson's 95 % intervals.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from verdict import Machine, Session, Situation, _run, _throughput, record_baselines, run_session, share

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.verdict import Outcome, Rule
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineRefused
from pytest_tfperf.features.baselines.accept import GAIN_SESSIONS, Change, accepted_row, gain_of

NIGHTS, FORTY, WEEK = 365, 40, 7
MOST_PAST_SESSIONS = 40  # of a row, from which a session learns

SITUATIONS = (
    Situation(name="12 tests, sb 1.0 %", tests=12, own_sd=0.0025),
    Situation(
        name="12 tests of mixed noise, sb 1.2 % in the median", tests=12, mixed=True, between_runs=0.012, own_sd=0.0025
    ),
    Situation(name="12 tests, heavy tails, sessions differ by 1.5 %", tests=12, session_sd=0.015, is_heavy_tailed=True),
    Situation(name="4 tests, sessions differ by 1.0 %", tests=4, own_sd=0.0025),
)


class Fleet:
    """A machine with its rows and its sessions so far."""

    def __init__(self, situation: Situation, seed: int) -> None:
        self.machine = Machine(situation, random.Random(seed))
        self.rows = record_baselines(self.machine)
        self._past: dict[Key, list[SessionChanges]] = {key: [] for key in self.machine.keys}
        self._measured: dict[Key, list[Measurement]] = {key: [] for key in self.machine.keys}

    def night(self, number: int) -> Session:
        """Play a session."""
        half = MOST_PAST_SESSIONS // 2
        for key, past in self._past.items():  # as the history gives them
            self._past[key] = past if len(past) <= 2 * half else past[:half] + past[-half:]
        session = run_session(self.machine, self.rows, self._past, Rule.BASELINE, number)
        for key, verdict in session.verdicts.items():
            past = self._past[key]
            if past and past[-1].session == str(number):  # else the machine as a whole was slower
                expected = math.log(self.rows[key].value) + verdict.common_drift
                runs = [expected + change for change in past[-1].changes]
                m = Measurement(
                    test="",
                    workload=Workload.parse(key.workload),
                    topology=key.topology,
                    machine="simulated",
                    devices="simulated",
                    session=str(number),
                    runs=tuple(map(_run, runs)),
                    throughput=_throughput(runs),
                    verdicts=(verdict,),
                )
                self._measured[key] = [m, *self._measured[key]][:GAIN_SESSIONS]
        return session

    def gains(self) -> list[Change]:
        """The gains that the latest sessions show."""
        found = []
        for key, measured in self._measured.items():
            outcomes = {m.outcome for m in measured}
            if len(measured) == GAIN_SESSIONS and outcomes <= {Outcome.PASS, Outcome.IMPROVED}:
                gain = gain_of(self.rows[key], measured)
                found += [] if gain is None else [gain]
        return found

    def accept(self, change: Change) -> Baseline | None:
        """Replace a row; the sessions that were judged against the old one no longer count."""
        try:
            row = accepted_row(change, self.rows).update.new
        except BaselineRefused:
            return None
        self.rows[row.key], self._past[row.key], self._measured[row.key] = row, [], []
        return row


def year(situation: Situation, accepts: bool, seed: int) -> Counter[str]:
    """Count a year of unchanged code."""
    fleet, counts = Fleet(situation, seed), Counter[str]()
    for number in range(1, NIGHTS + 1):
        session = fleet.night(number)
        counts["sessions"] += 1
        counts["red"] += any(verdict.outcome is Outcome.REGRESSED for verdict in session.verdicts.values())
        if accepts and number % WEEK == 0:
            counts["accepted"] += sum(fleet.accept(change) is not None for change in fleet.gains())
    return counts


def nights_until_accepted(situation: Situation, gain: float, seed: int) -> int:
    """Return the number of nights until a test's gain could be accepted; more than forty where it could not."""
    fleet = Fleet(situation, seed)
    test = fleet.machine.keys[0]
    fleet.machine.lost = {test: math.log1p(gain)}
    for number in range(1, FORTY + 1):
        fleet.night(number)
        if any(change.key == test for change in fleet.gains()):
            return number
    return FORTY + 1


def main() -> None:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--years", type=int, default=5, help="of each situation")
    parser.add_argument("--fleets", type=int, default=24, help="with a gain, of each situation")
    parser.add_argument("--gain", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    started, first = time.monotonic(), options.seed * 1_000_000
    with ProcessPoolExecutor(options.processes) as pool:
        print(f"| gain of {options.gain:.0%} | could be accepted in {FORTY} nights | after so many, in the median |")
        print("| --- | --- | --- |")
        for situation in SITUATIONS:
            seeds = range(first, first + options.fleets)
            nights = sorted(pool.map(partial(nights_until_accepted, situation, options.gain), seeds))
            in_time = sum(number <= FORTY for number in nights)
            print(f"| {situation.name} | {in_time} of {len(nights)} | {nights[len(nights) // 2]} |", flush=True)
        print("\n| unchanged code | red sessions without accepting, % | with, % | rows accepted |")
        print("| --- | --- | --- | --- |")
        for situation in SITUATIONS:
            cells, accepted = [], 0
            for accepts in (False, True):
                seeds = range(first, first + options.years)
                counts = sum(pool.map(partial(year, situation, accepts), seeds), Counter[str]())
                cells.append(share(counts["red"], counts["sessions"]))
                accepted = counts["accepted"]
            of = f"{accepted} of {options.years * situation.tests}"
            print(f"| {situation.name} | {' | '.join(cells)} | {of} |", flush=True)
    print(f"\nseed {options.seed}, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
