"""How often the gate is wrong: false alarms and losses that it misses, simulated through the production judgement.

    python benchmarks/verdict.py [--sessions 400] [--seed 1] [--processes 2] [--only WORD ...]

Prints tables in Markdown, which are in benchmarks/README.md: percent, with Wilson's 95 % intervals.
`--only` takes the situations whose name holds one of the words.

A simulated run is one value: the test's own level, what the session does to all tests (standard deviation 1 %) and to
this one, what the worker does (`sb`), and what 100 windows leave uncertain (0.4 %). Baselines are recorded in a session
of their own, by `new_baseline`, round by round as `--update-baselines` does. Everything else is `judge`, `machine`,
`noise`, `common_drift` and `session_variance` as the plugin calls them. The sessions of one baseline resemble each
other, so where a cell has few baselines its interval is too narrow.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace

from scipy.stats import binomtest

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Pair, Run, Window
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.throughput import RunValue, Throughput, hodges_lehmann
from pytest_tfperf.core.verdict import LOSSES, NOTHING, Outcome, Rule, Tolerance, Verdict, Want
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.new_baselines import CONTROLS, baseline_of, controls, corrected, correction, wants
from pytest_tfperf.judging.noise import noise_of
from pytest_tfperf.judging.session_effects import (
    MIN_OTHERS,
    MIN_TESTS,
    change_of_others,
    common_drift,
    noise_of_changes,
    session_variance,
)
from pytest_tfperf.judging.software_and_machine import (
    ReferencePairs,
    judge_machine,
    judge_sentinels,
    sentinels,
    wants_sentinels,
)
from pytest_tfperf.judging.target import Target

TOLERANCE = Tolerance.of(0.02)
BASELINE_RUNS = 5
WINDOW_SD, WINDOW_AUTOCORRELATION = 0.03, 0.3
SESSION_SD = 0.01
HEAVY_TAIL_FREEDOM = 3
NEIGHBOUR_COMES, NEIGHBOUR_LEAVES = 0.01, 0.03  # after a run
ALIKE = 0.9  # the autocorrelation of slow spells, from one run to the next


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What is simulated, and how much of it.

    Args:
        name: in words.
        between_runs: standard deviation between fresh workers; `mixed`: of each test, drawn around it.
        tests: in a session.
        session_sd: what a session does to all tests alike.
        own_sd: what a session does to each test by itself.
        spell_sd: what a spell of the machine does to whatever runs in it: a run, or both runs of a pair.
        slow_starts: share of workers that are slow, by `slow_by`, as long as they live.
        slow_by: by how much.
        grown: how many times as much workers differ after the recording.
        is_heavy_tailed: workers differ by Student's t with 3 degrees of freedom, scaled to the same deviation.
        losing: tests that lose something: the first ones, or the last ones if those were recorded again.
        loss: how much.
        by_machine: the machine makes them lose it, so that the reference environment loses as much.
        slow_first_run: what the first run of five tests loses, and no other run.
        warming: what the machine loses, evenly, while each test runs once (or, when recording, five times); then it
            stays as it is.
        slow_spells: what a run shares with the run before it, as a standard deviation (AR(1), 0.9).
        change: what the machine's speed changes by after the recording, for good.
        cycle: the amplitude of a cycle through which the machine's speed goes; each session is somewhere in it.
        felt: the least and the most of a change, of a cycle and of sessions' common part that a test feels.
        neighbour: what other work takes from whatever runs while it is there; it is there a quarter of the time.
        gained: what the losing tests gain for the sessions before, and lose again; it is no loss.
        recorded_apart: each test was recorded by itself, as by `--update-baselines -k one_test`, beside those before.
        recorded_again: how many tests, the last ones, were recorded again by themselves, on a cold machine.
        controls: how many other rows run beside a recording of few, as controls.
        before: sessions without a loss before it.
        lasting: sessions with the loss, which nobody fixes, before those that are counted.
        sessions: sessions that are counted, of each baseline.
    """

    name: str
    between_runs: float = 0.01
    tests: int = 50
    mixed: bool = False
    session_sd: float = SESSION_SD
    own_sd: float = 0.0
    spell_sd: float = 0.0
    slow_starts: float = 0.0
    slow_by: float = 0.06
    grown: float = 1.0
    is_heavy_tailed: bool = False
    losing: int = 0
    loss: float = 0.0
    by_machine: bool = False
    slow_first_run: float = 0.0
    warming: float = 0.0
    slow_spells: float = 0.0
    change: float = 0.0
    cycle: float = 0.0
    felt: tuple[float, float] = (1.0, 1.0)
    neighbour: float = 0.0
    gained: float = 0.0
    recorded_apart: bool = False
    recorded_again: int = 0
    controls: int = CONTROLS
    before: int = 0
    lasting: int = 0
    sessions: int = 1


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


QUIET = [
    *(
        Situation(name=f"nothing is slower, sb {_percent(sb)}", between_runs=sb, sessions=4)
        for sb in (0.005, 0.01, 0.02)
    ),
    *(
        Situation(
            name=f"each test drifts by itself by {_percent(own, 2)} a session, sb {_percent(sb)}",
            between_runs=sb,
            own_sd=own,
            sessions=4,
        )
        for own, sb in itertools.product((0.0025, 0.005), (0.005, 0.01))
    ),
    Situation(name="20 % of workers slow by 6 %, sb 0.5 %", between_runs=0.005, slow_starts=0.2, sessions=4),
    Situation(name="20 % of workers slow by 6 %, sb 1.0 %", slow_starts=0.2, sessions=4),
    Situation(
        name="12 tests, heavy tails, sessions differ by 1.5 %",
        tests=12,
        session_sd=0.015,
        is_heavy_tailed=True,
        sessions=4,
    ),
    Situation(
        name="36 tests of mixed noise, sb 1.2 % in the median", tests=36, mixed=True, between_runs=0.012, sessions=4
    ),
    Situation(name="sb 1.0 %, and spells of the machine of 4 %", spell_sd=0.04, sessions=4),
    *(
        Situation(
            name=f"{tests} test{'s' if tests > 1 else ''}, sb {_percent(sb)}", tests=tests, between_runs=sb, sessions=4
        )
        for tests, sb in itertools.product((1, 3, 7), (0.005, 0.01, 0.02))
    ),
]

QUIET += [
    Situation(
        name=f"24 tests, sb 0.7 %, {what}, {how}",
        tests=24,
        between_runs=0.007,
        warming=warming,
        slow_spells=spells,
        recorded_apart=apart,
        sessions=4,
    )
    for what, warming, spells in (
        ("the machine warms up and loses 5 %", 0.05, 0.0),
        ("neighbouring runs alike by 2 %", 0.0, 0.02),
    )
    for how, apart in (("recorded round by round", False), ("recorded one by one", True))
]
QUIET += [
    Situation(
        name=f"5 tests, sb 1.0 %, sessions differ by 2.5 %{when}", tests=5, session_sd=0.025, before=before, sessions=4
    )
    for when, before in ((", fresh baseline", 0), (", after ten sessions", 10))
]

QUIET += [
    Situation(
        name=f"24 tests, sb 0.7 %, {what}, 4 recorded again alone, {number or 'no'} controls",
        tests=24,
        between_runs=0.007,
        warming=warming,
        recorded_again=4,
        controls=number,
        sessions=4,
    )
    for what, warming in (("the machine warms up and loses 5 %", 0.05), ("the machine stays as it is", 0.0))
    for number in (0, CONTROLS)
]

QUIET += [
    Situation(name="20 % of workers slow by 8 %, sb 1.0 %", slow_starts=0.2, slow_by=0.08, sessions=4),
    Situation(
        name="half of the workers slow by 4 %, sb 0.5 %", between_runs=0.005, slow_starts=0.5, slow_by=0.04, sessions=4
    ),
    Situation(name="neighbouring runs alike by 3 %, sb 1.0 %", slow_spells=0.03, sessions=4),
    *(
        Situation(
            name=f"workers differ {grown} times as much as when recorded, sb {_percent(sb)}",
            between_runs=sb,
            grown=grown,
            sessions=4,
        )
        for grown, sb in ((3, 0.005), (3, 0.01), (5, 0.01))
    ),
    Situation(name="200 tests, sb 1.0 %", tests=200, sessions=4),
]

# Worlds in which something that is no loss of a test looks like one.
HARD = [
    *(
        Situation(
            name=f"the machine changes by {change:+.0%}, tests feel it {low} to {high} times",
            tests=24,
            change=change,
            felt=(low, high),
            sessions=4,
        )
        for change, low, high in ((-0.08, 0.3, 1.2), (-0.08, 0.8, 1.2), (0.08, 0.3, 1.2))
    ),
    Situation(
        name="a daily cycle of 3 %, tests feel it 0.7 to 1.3 times",
        tests=24,
        cycle=0.03,
        felt=(0.7, 1.3),
        before=5,
        sessions=4,
    ),
    Situation(
        name="5 of 50 tests gained 3 % for twelve sessions and lose it again",
        losing=5,
        gained=0.03,
        before=12,
        sessions=4,
    ),
    Situation(
        name="5 of 12 tests gained 3 % for twelve sessions and lose it again",
        tests=12,
        losing=5,
        gained=0.03,
        before=12,
        sessions=4,
    ),
    Situation(name="a neighbour of 20 % that comes and goes, 24 tests", tests=24, neighbour=0.2, sessions=4),
    Situation(name="each boot shifts each test by 1 %", tests=24, own_sd=0.01, sessions=4),
    Situation(
        name="each boot shifts each test by 1 %, after 14 sessions", tests=24, own_sd=0.01, before=14, sessions=4
    ),
    *(
        Situation(
            name=f"{losing} of {tests} tests lose 8 % by the machine",
            tests=tests,
            losing=losing,
            loss=0.08,
            by_machine=True,
        )
        for losing, tests in ((2, 24), (2, 8), (6, 24), (1, 5))
    ),
]

LOSING = [
    *(
        Situation(
            name=f"5 of 50 tests of mixed noise, sb {_percent(sb)} in the median, lose 5 %{when}",
            between_runs=sb,
            mixed=True,
            losing=5,
            loss=0.05,
            before=before,
        )
        for sb, when, before in (
            (0.006, ", first session", 0),
            (0.012, ", first session", 0),
            (0.012, ", after ten", 10),
        )
    ),
    Situation(name="5 of 50 tests lose 5 %, first session, heavy tails", is_heavy_tailed=True, losing=5, loss=0.05),
    Situation(
        name="5 of 50 tests lose 5 %, workers slow by 10 % in a tenth",
        slow_starts=0.1,
        slow_by=0.1,
        losing=5,
        loss=0.05,
    ),
    *(
        Situation(
            name=f"5 of 50 tests lose 5 %, first session, sb {_percent(sb)}", between_runs=sb, losing=5, loss=0.05
        )
        for sb in (0.005, 0.01, 0.02)
    ),
    Situation(name="5 of 50 tests lose 3 %, within three sessions, fresh baseline", losing=5, loss=0.03, sessions=3),
    Situation(
        name="5 of 50 tests lose 3 %, within three sessions, after ten", losing=5, loss=0.03, sessions=3, before=10
    ),
    *(
        replace(world, name=f"5 of 50 tests lose 5 %, {world.name}", losing=5, loss=0.05)
        for world in (
            Situation(name="20 % of workers slow by 8 %", slow_starts=0.2, slow_by=0.08),
            Situation(name="10 % of workers slow by 10 %", slow_starts=0.1, slow_by=0.1),
            Situation(name="half of the workers slow by 4 %", between_runs=0.005, slow_starts=0.5, slow_by=0.04),
            Situation(name="neighbouring runs alike by 3 %", slow_spells=0.03),
            Situation(name="workers differ 3 times as much as when recorded", between_runs=0.005, grown=3),
        )
    ),
    Situation(name="5 of 50 tests lose 2 %, just the tolerance, first session", losing=5, loss=0.02),
    Situation(name="5 of 50 tests lose 5 %, spells of the machine of 4 %", spell_sd=0.04, losing=5, loss=0.05),
    Situation(name="each test drifts by itself by 0.50 %: 5 % loss, first session", own_sd=0.005, losing=5, loss=0.05),
    Situation(
        name="each test drifts by itself by 0.50 %: 3 % loss, within three sessions",
        own_sd=0.005,
        losing=5,
        loss=0.03,
        sessions=3,
    ),
    Situation(
        name="2 of 12 tests lose 5 %, heavy tails, sessions differ by 1.5 %",
        tests=12,
        session_sd=0.015,
        is_heavy_tailed=True,
        losing=2,
        loss=0.05,
    ),
    *(
        Situation(name=f"1 test that loses {_percent(loss, 0)}, first session", tests=1, losing=1, loss=loss)
        for loss in (0.03, 0.05, 0.08)
    ),
    *(
        Situation(
            name=f"1 test that loses {_percent(loss, 0)}, in the tenth session with the loss",
            tests=1,
            losing=1,
            loss=loss,
            before=3,
            lasting=9,
        )
        for loss in (0.08, 0.15)
    ),
    *(
        Situation(
            name=f"1 of {tests} tests loses 5 %, sessions differ by 2.5 %",
            tests=tests,
            session_sd=0.025,
            losing=1,
            loss=0.05,
        )
        for tests in (3, 5, 7)
    ),
    *(
        Situation(name=f"the first {losing} of {tests} tests lose 5 %", tests=tests, losing=losing, loss=0.05)
        for tests, losing in ((200, 10), (300, 15))
    ),
    *(
        Situation(
            name=f"2 of 4 that were recorded again alone lose 6 %, the machine warms up, {number or 'no'} controls",
            tests=24,
            between_runs=0.007,
            warming=0.05,
            recorded_again=4,
            controls=number,
            losing=2,
            loss=0.06,
        )
        for number in (0, CONTROLS)
    ),
    Situation(name="one run 12 % slow: its test fails", slow_first_run=0.12),
]

SHARED = [
    *(
        Situation(name=f"{tests} tests all lose {_percent(loss, 0)} by software", tests=tests, losing=tests, loss=loss)
        for tests, loss in ((20, 0.03), (12, 0.04), (50, 0.05))
    ),
    *(
        Situation(
            name=f"12 tests all lose {_percent(loss, 0)} by the machine",
            tests=12,
            losing=12,
            loss=loss,
            by_machine=True,
        )
        for loss in (0.04, 0.08)
    ),
    Situation(name="5 of 50 tests lose 3 %, session verdict on the software", losing=5, loss=0.03),
]


@dataclass
class Machine:
    """The truth: what each session, worker and test does."""

    situation: Situation
    random: random.Random
    keys: list[Key] = field(init=False)
    between_runs: dict[Key, float] = field(init=False)
    common: float = 0.0
    own: dict[Key, float] = field(default_factory=dict)
    lost: dict[Key, float] = field(default_factory=dict)
    cold: float = 0.0  # 1 at the start of a session, 0 where it stays as it is
    slow_spell: float = 0.0
    is_disturbed: bool = False
    changed: float = 0.0
    felt: dict[Key, float] = field(init=False)

    def __post_init__(self) -> None:
        sb, draw = self.situation.between_runs, self.random
        self.keys = [
            Key(f"trivial-b{number}-replicated-device", "1x1") for number in range(1, self.situation.tests + 1)
        ]
        self.between_runs = {
            key: sb * math.exp(draw.gauss(0, 0.5)) if self.situation.mixed else sb for key in self.keys
        }
        self.felt = {key: draw.uniform(*self.situation.felt) for key in self.keys}

    def next_session(self) -> None:
        """Another day, on which the machine is cold."""
        self.cold = 1.0
        self.slow_spell = self.random.gauss(0, self.situation.slow_spells)
        self.common = self.random.gauss(0, self.situation.session_sd) + self.changed
        self.common += self.situation.cycle * math.sin(self.random.uniform(0, 2 * math.pi))
        self.own = {key: self.random.gauss(0, self.situation.own_sd) for key in self.keys}

    def lose(self) -> None:
        """From now on some tests are slower, and workers may differ more."""
        self.between_runs = {key: self.situation.grown * sd for key, sd in self.between_runs.items()}
        self.changed = math.log1p(self.situation.change)
        first = len(self.keys) - self.situation.losing if self.situation.recorded_again else 0
        self.lost = dict.fromkeys(self.keys[first:][: self.situation.losing], math.log1p(-self.situation.loss))

    def spell(self, *, runs_a_test: int = 1) -> float:
        """What the machine does to all that runs now; `runs_a_test` of each take it from cold to warm."""
        situation, draw = self.situation, self.random
        self.cold = max(0.0, self.cold - 1 / (runs_a_test * situation.tests))
        self.slow_spell = ALIKE * self.slow_spell + draw.gauss(0, situation.slow_spells * math.sqrt(1 - ALIKE**2))
        if draw.random() < (NEIGHBOUR_LEAVES if self.is_disturbed else NEIGHBOUR_COMES):
            self.is_disturbed = not self.is_disturbed
        beside = math.log1p(-situation.neighbour) if self.is_disturbed else 0.0
        return beside + draw.gauss(0, situation.spell_sd) - math.log1p(-situation.warming) * self.cold + self.slow_spell

    def run(self, key: Key, *, is_reference: bool = False) -> float:
        """A fresh worker's level, in log throughput, but for the spell that it runs in."""
        lost = 0.0 if is_reference and not self.situation.by_machine else self.lost.get(key, 0.0)
        slow = math.log1p(-self.situation.slow_by) if self.random.random() < self.situation.slow_starts else 0.0
        return self.felt[key] * self.common + self.own[key] + lost + slow + self.between_runs[key] * self._deviate()

    def windows(self, count: int) -> float:
        """What so many windows leave uncertain of a run."""
        return self.random.gauss(0, window_error(count))

    def _deviate(self) -> float:
        if not self.situation.is_heavy_tailed:
            return self.random.gauss(0, 1)
        freedom = HEAVY_TAIL_FREEDOM
        scale = math.sqrt(freedom / self.random.gammavariate(freedom / 2, 2))
        return self.random.gauss(0, 1) * scale * math.sqrt((freedom - 2) / freedom)


def window_error(count: int) -> float:
    """The standard error of a run's value from so many windows."""
    return WINDOW_SD * math.sqrt((1 + WINDOW_AUTOCORRELATION) / (1 - WINDOW_AUTOCORRELATION) / count)


@dataclass
class SimulatedTest:
    """One test of a session: what it measured so far."""

    key: Key
    target: Target
    past: list[SessionChanges]
    runs: list[float] = field(default_factory=list)
    first_windows: float = 0.0
    pairs: list[Pair] = field(default_factory=list)

    def measure(self, machine: Machine, slow: float = 0.0) -> None:
        """One more run."""
        level = machine.run(self.key) + machine.spell() + math.log1p(-slow)
        if not self.runs:
            self.first_windows = level + machine.windows(20)
        self.runs.append(level + machine.windows(100))

    def measure_pair(self, machine: Machine) -> None:
        """One more pair with the reference environment."""
        spell = machine.spell()
        a = machine.run(self.key, is_reference=True) + spell + machine.windows(100)
        b = machine.run(self.key) + spell + machine.windows(100)
        self.pairs.append(Pair(_run(a), _run(b), b - a, math.sqrt(2) * window_error(100)))


@dataclass
class Session:
    """What one session ended with."""

    verdicts: dict[Key, Verdict]
    software: SessionVerdict | None
    machine: SessionVerdict | None
    fresh_runs: int


def run_session(
    machine: Machine,
    rows: Mapping[Key, Baseline],
    past: Mapping[Key, list[SessionChanges]],
    rule: Rule,
    number: int,
    judge: Callable[[Evidence], Verdict] = judge,
) -> Session:
    """One session as the plugin runs it: all tests once, then the rerun queue, then the session's own verdicts."""
    machine.next_session()
    tests = [
        SimulatedTest(key, Target(row, noise=noise_of(row, rows.values())), past[key]) for key, row in rows.items()
    ]
    variance = session_variance(
        ((test.target.noise, rows[test.key].runs, test.past) for test in tests if test.target.noise),
        tests=len(tests),
    )
    whole = Evidence(
        throughput=_throughput([0.0]),
        target=Target(),
        tolerance=TOLERANCE,
        variance=variance,
        tests=len(tests),
        has_reference_environment=rule is Rule.REFERENCE_ENVIRONMENT,
    )
    first: dict[Key, float] = {}
    noise = noise_of_changes(
        [(noise_of(row, rows.values()), row.runs) for row in rows.values()],
        within_runs=window_error(20),
        between_sessions=variance.mean,
    )

    def evidence(test: SimulatedTest, *, is_drift_to_come: bool = False) -> Evidence:
        return replace(
            whole,
            drift=common_drift(first.values(), noise),
            is_drift_to_come=is_drift_to_come,
            others=change_of_others([change for key, change in first.items() if key != test.key]),
            throughput=_throughput(test.runs),
            target=test.target,
            pairs=test.pairs,
            past=test.past,
        )

    verdicts: dict[Key, Verdict] = {}
    enough = MIN_OTHERS + 1 if whole.has_reference_environment else MIN_TESTS
    for index, test in enumerate(tests):
        test.measure(machine, machine.situation.slow_first_run if index < 5 else 0.0)
        first[test.key] = test.first_windows - math.log(rows[test.key].value)
        verdicts[test.key] = judge(evidence(test, is_drift_to_come=len(tests) >= enough))
    drift = common_drift(first.values(), noise)
    verdicts |= {test.key: judge(evidence(test)) for test in tests if not verdicts[test.key].is_decided}
    suspects = [key.workload for key, verdict in verdicts.items() if not verdict.is_decided]
    whole = replace(whole, suspects=max(1, len(suspects)))
    for test in tests:
        while not (verdict := verdicts[test.key]).is_decided:
            while verdict.wants.what is Want.PAIRS and len(test.pairs) < verdict.wants.count:
                test.measure_pair(machine)
            while verdict.wants.what is Want.RUNS and len(test.runs) < verdict.wants.count:
                test.measure(machine)
            verdicts[test.key] = judge(evidence(test))
    software = None
    if whole.has_reference_environment and wants_sentinels(drift):
        software = _software(machine, tests, suspects, number)
    measured = [_reference_pairs(test) for test in tests]
    judged = judge_machine(drift, measured, between_sessions=variance.mean)
    whole_outcomes = {found.outcome for found in (software, judged) if found is not None}
    # As `EarlierRows.past_sessions_of_machine` leaves them out.
    for test in tests if not whole_outcomes & set(LOSSES) else ():
        changes = tuple(run - math.log(rows[test.key].value) - drift.log for run in test.runs)
        outcome = verdicts[test.key].outcome
        assert outcome is not None
        past[test.key].append(SessionChanges(str(number), changes, outcome, code=str(number)))
    fresh = sum(len(test.runs) + 2 * len(test.pairs) for test in tests)
    return Session(verdicts, software, judged, fresh)


def _software(
    machine: Machine, tests: Sequence[SimulatedTest], suspects: Sequence[str], number: int
) -> SessionVerdict | None:
    names = sentinels([test.key.workload for test in tests], suspects, number)
    chosen = [test for test in tests if test.key.workload in names]
    found, wanted = None, 1
    while wanted:
        for test in chosen:
            while len(test.pairs) < wanted:
                test.measure_pair(machine)
        found = judge_sentinels([_reference_pairs(test) for test in chosen], TOLERANCE)
        wanted = found.wants.count if found else 0
    return found


def _reference_pairs(test: SimulatedTest) -> ReferencePairs:
    assert test.target.baseline is not None
    assert test.target.noise is not None
    first = test.first_windows - math.log(test.target.baseline.value)
    return ReferencePairs(test.target.baseline, test.target.noise, test.pairs, test.key.workload, first)


def record_baselines(machine: Machine) -> dict[Key, Baseline]:
    """As `--update-baselines` does, in one session: one more run of each test that wants one, round by round."""
    machine.next_session()
    groups = [[key] for key in machine.keys] if machine.situation.recorded_apart else [machine.keys]
    rows: dict[Key, Baseline] = {}
    for group in groups:
        beside = _beside(machine, rows, group) if machine.situation.recorded_apart else ()
        while unknown := [key for key in group if key not in rows]:  # a row that is too noisy is recorded again
            rows |= _recorded(machine, rows, unknown, beside)
    if machine.situation.recorded_again:
        machine.next_session()
        again = machine.keys[-machine.situation.recorded_again :]
        rows |= _recorded(machine, rows, again, _beside(machine, rows, again))
    return {key: rows[key] for key in machine.keys}


def _beside(machine: Machine, rows: Mapping[Key, Baseline], recorded: Sequence[Key]) -> Sequence[Baseline]:
    """The controls beside a recording of these tests."""
    return controls(rows.values(), recorded[0].topology, recorded)[: machine.situation.controls]


def _recorded(
    machine: Machine, known: Mapping[Key, Baseline], keys: Sequence[Key], beside: Sequence[Baseline]
) -> dict[Key, Baseline]:
    """The rows of these tests; `beside` are the controls that run before each round and after the last."""
    values: dict[Key, list[float]] = {key: [] for key in keys}
    changes: list[float] = []

    def run(key: Key) -> float:
        return machine.run(key) + machine.spell(runs_a_test=BASELINE_RUNS) + machine.windows(100)

    wanting = list(keys)
    while True:
        changes += [run(row.key) - math.log(row.value) for row in beside]
        if not wanting:
            break
        for key in wanting:
            values[key].append(run(key))
        wanting = [key for key in wanting if _wants_more(values[key])]
    by = correction(statistics.median(changes), len({*known, *keys})) if changes else 0.0
    rows = {}
    for key in keys:
        with suppress(MeasurementError):
            rows[key] = corrected(_row(key, values[key]), by)
    return rows


def _wants_more(values: Sequence[float]) -> bool:
    return len(values) < BASELINE_RUNS or wants(_values(values)) != NOTHING


def _row(key: Key, values: Sequence[float]) -> Baseline:
    return baseline_of(
        Measurement(
            test="",
            workload=Workload.parse(key.workload),
            topology=key.topology,
            machine="simulated",
            devices="simulated",
            runs=(),
            throughput=_throughput(values),
        )
    )


def _run(log_rate: float) -> Run:
    return Run(windows=(Window(1, 1.0),), examples_per_step=1, stated_examples_per_sec=math.exp(log_rate))


def _values(log_rates: Sequence[float]) -> tuple[RunValue, ...]:
    return tuple(RunValue(value, window_error(100), 100) for value in log_rates)


def _throughput(log_rates: Sequence[float]) -> Throughput:
    middle = math.exp(hodges_lehmann(log_rates))
    return Throughput(
        examples_per_sec=middle,
        low=middle,
        high=middle,
        runs=_values(log_rates),
        mean_examples_per_sec=middle,
        uncertainty=0.0,
        jitter=0.0,
        steps=100 * len(log_rates),
        examples_per_step=1,
    )


# --- counting ---


def simulate(situation: Situation, rule: Rule, seed: int) -> Counter[str]:
    """One baseline and its sessions, counted: `red`, `doubt` and so on, each of `sessions` or of `losing` tests."""
    machine = Machine(situation, random.Random(seed))
    rows = record_baselines(machine)
    past: dict[Key, list[SessionChanges]] = {key: [] for key in machine.keys}
    counts: Counter[str] = Counter(losing=situation.losing)
    machine.lost = dict.fromkeys(machine.keys[: situation.losing], math.log1p(situation.gained))
    for number in range(situation.before):
        run_session(machine, rows, past, rule, number)
    machine.lose()
    first = situation.before + situation.lasting
    for number in range(situation.before, first):
        run_session(machine, rows, past, rule, number)
    caught: set[Key] = set()
    for number in range(first, first + situation.sessions):
        session = run_session(machine, rows, past, rule, number)
        red = {key for key, verdict in session.verdicts.items() if verdict.outcome is Outcome.REGRESSED}
        caught |= red & machine.lost.keys()
        outcomes = [verdict.outcome for verdict in session.verdicts.values()]
        software = session.software.outcome if session.software else None
        judged = session.machine.outcome if session.machine else None
        counts.update(
            sessions=1,
            tests=len(outcomes),
            fresh_runs=session.fresh_runs,
            spiked=len(red & set(machine.keys[:5])) if situation.slow_first_run else 0,
            red_tests=bool(red),
            false_tests=bool(red - machine.lost.keys()),
            red_software=software is Outcome.REGRESSED,
            red_machine=judged is Outcome.REGRESSED,
            red=bool(red) or Outcome.REGRESSED in (software, judged),
            doubt=Outcome.INCONCLUSIVE in (*outcomes, software, judged),
            silent=not {Outcome.REGRESSED, Outcome.INCONCLUSIVE} & {*outcomes, software, judged},
        )
    counts["caught"] = len(caught)
    return counts


def share(count: int, of: int) -> str:
    """ "99.2 (98.7 to 99.5)", in percent, with Wilson's interval."""
    if not of:
        return "-"
    low, high = binomtest(count, of).proportion_ci(method="wilson")
    return f"{count / of:.1%} ({low:.1%} to {high:.1%})".replace("%", "")


RULES = (Rule.REFERENCE_ENVIRONMENT, Rule.BASELINE)


class Simulation:
    """Runs cells, in so many processes."""

    def __init__(self, sessions: int, seed: int, processes: int, rules: Sequence[Rule] = RULES) -> None:
        self._sessions, self._seed = sessions, seed
        self.rules = rules
        self._pool = ProcessPoolExecutor(processes)

    def cell(self, situation: Situation, rule: Rule) -> Counter[str]:
        """The counts of one situation under one rule: about as many sessions as asked for, four a baseline at most."""
        baselines = math.ceil(self._sessions / situation.sessions) if not situation.losing else self._sessions
        baselines = max(1, math.ceil(baselines / (1 + (situation.before + situation.lasting) / 3)))
        seeds = range(self._seed * 1_000_000, self._seed * 1_000_000 + baselines)
        chunk = max(1, baselines // 40)
        found = self._pool.map(simulate, [situation] * baselines, [rule] * baselines, seeds, chunksize=chunk)
        return sum(found, Counter())


def quiet_table(simulation: Simulation, situations: Sequence[Situation]) -> None:
    """False alarms and their price."""
    print("\n| situation | rule | red sessions, % | INCONCLUSIVE sessions, % | fresh runs a test |")
    print("| --- | --- | --- | --- | --- |")
    for situation, number, counts in _cells(simulation, situations):
        figures = [share(counts[what], counts["sessions"]) for what in ("red", "doubt")]
        runs = counts["fresh_runs"] / counts["tests"]
        print(f"| {situation.name} | {number} | {' | '.join(figures)} | {runs:.2f} |", flush=True)


def hard_table(simulation: Simulation, situations: Sequence[Situation]) -> None:
    """Sessions of unchanged code."""
    print(
        "\n| situation | rule | a test red, % | the machine, % | the software, % | INCONCLUSIVE, % | nothing tells, % |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for situation, number, counts in _cells(simulation, situations):
        what = ("red_tests", "red_machine", "red_software", "doubt", "silent")
        figures = " | ".join(share(counts[name], counts["sessions"]) for name in what)
        print(f"| {situation.name} | {number} | {figures} |", flush=True)


def losing_table(simulation: Simulation, situations: Sequence[Situation]) -> None:
    """Losses of some tests."""
    print("\n| situation | rule | detected, % | sessions with a false REGRESSED, % | fresh runs a test |")
    print("| --- | --- | --- | --- | --- |")
    for situation, number, counts in _cells(simulation, situations):
        detected = share(counts["caught"], counts["losing"])
        if situation.slow_first_run:
            detected = share(counts["spiked"], 5 * counts["sessions"])
        false = share(counts["false_tests"], counts["sessions"])
        runs = counts["fresh_runs"] / counts["tests"]
        print(f"| {situation.name} | {number} | {detected} | {false} | {runs:.2f} |", flush=True)


def shared_table(simulation: Simulation, situations: Sequence[Situation]) -> None:
    """Losses of all tests: whose are they."""
    print("\n| situation | rule | red: software, % | red: machine, % | red: any test, % | red at all, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for situation, number, counts in _cells(simulation, situations):
        what = ("red_software", "red_machine", "red_tests", "red")
        figures = " | ".join(share(counts[name], counts["sessions"]) for name in what)
        print(f"| {situation.name} | {number} | {figures} |", flush=True)


def _cells(simulation: Simulation, situations: Sequence[Situation]) -> Iterator[tuple[Situation, int, Counter[str]]]:
    for situation in situations:
        for rule in simulation.rules:
            yield situation, 1 + RULES.index(rule), simulation.cell(situation, rule)


def main() -> None:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=400, help="simulated sessions of each cell, at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD", help="situations whose name holds a word")
    parser.add_argument("--rule", type=int, nargs="+", choices=(1, 2), default=(1, 2))
    options = parser.parse_args()
    rules = [RULES[number - 1] for number in options.rule]
    started, simulation = time.monotonic(), Simulation(options.sessions, options.seed, options.processes, rules)
    for table, situations in ((quiet_table, QUIET), (hard_table, HARD), (losing_table, LOSING), (shared_table, SHARED)):
        if chosen := [one for one in situations if any(word in one.name for word in options.only)]:
            table(simulation, chosen)
    print(f"\nseed {options.seed}, {options.sessions} sessions a cell, {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
