"""Compares two sides in fresh pairs of workers, until the test of their pairs decides.

Both sides are of one test, or each check is compared with the session's `OtherSide` in place of a baseline.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from pytest_tfperf.bench.pairs import PairSource
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.task import compared
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.measurement import Ended, MeasuredSide, Measurement
from pytest_tfperf.core.run import Pair, Plan
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import NOTHING, Outcome, Reason, Verdict
from pytest_tfperf.errors import (
    DeviceFailed,
    FailsHereOnly,
    FunctionMissing,
    Lack,
    MeasurementError,
    NotCompared,
    TfperfError,
    UserCodeFailed,
)
from pytest_tfperf.judging.breakdown import breakdown, of_a_slowdown
from pytest_tfperf.judging.pairs import MIN_PAIRS, Terms
from pytest_tfperf.lines import Line
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.workers.launcher import Launcher
from pytest_tfperf.workers.processes import Interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Code and packages that workers run."""

    title: str  # in messages: "origin/main (1a2b3c4d5e6f)"
    facts: Mapping[str, str] = field(default_factory=dict)  # for its measurements' environment: "commit" -> "1a2b3c4d"
    python: str = sys.executable  # with its packages
    checkout: Checkout | None = None  # None for the current code, of which nothing is proved

    def launcher(
        self,
        here: Launcher,
        launch: Callable[[Interpreter], Launcher],
        *,
        may_be_same: bool,
        lacking: CheckoutLauncher | None = None,
    ) -> Launcher:
        """Return the launcher of its workers; see `OtherSide.launchers` and `CheckoutLauncher`."""
        is_here = self.python == sys.executable and (self.checkout is None or not self.checkout.moved)
        if self.checkout is None:
            return here if is_here else launch(Interpreter(self.python))
        local = here if is_here else launch(self.checkout.interpreter(self.python))
        return CheckoutLauncher(local, self.checkout, may_be_same=may_be_same, lacking=lacking, keeps_doubts=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSide:
    """The sides that each check of a session compares, in place of a check against a baseline.

    The side a is the other one, and b usually the current code under this Python.
    """

    a: State
    b: State
    announcement: tuple[str, ...]  # before the first test, naming both sides
    terms: Terms = field(default_factory=Terms)
    compares_figures: bool = True
    may_lack_code: bool = False  # a test that a's code can't run is measured on b alone; otherwise it is an error
    lacking: Mapping[str, str] = field(default_factory=dict)  # the folder that a lacks, for each test in such a folder

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """Return the launchers of the workers of a and b: `here` is of this code and Python, `launch` makes others."""
        has_own_packages = self.a.python != self.b.python
        a = self.a.launcher(here, launch, may_be_same=has_own_packages)
        lacking = a if self.may_lack_code and isinstance(a, CheckoutLauncher) else None
        return a, self.b.launcher(here, launch, may_be_same=has_own_packages, lacking=lacking)

    def refuse(self, subject: Subject, test: str) -> None:
        """Refuse the subject of a test (pytest's node id) that can't be compared.

        Raises:
            NotCompared: the other side has no such test.
            TfperfError: both sides would be the same.
        """
        if test in self.lacking:
            raise NotCompared(Lack.FOLDER, what=f"{self.lacking[test]}/", side=self.a.title)
        if self.a.checkout == self.b.checkout and isinstance(subject, Command) and not subject.runs_this_python:
            raise TfperfError(
                f"{subject.id}: {subject.words[0]} runs with the same packages on both sides: {self.a.title} (a) and "
                f"{self.b.title} (b)",
                next_step='Begin the command with sys.executable, as in [sys.executable, "train.py"]',
            )


def compare(
    engine: RunEngine,
    a: Side,
    b: Side,
    plan: Plan,
    terms: Terms,
    *,
    other: OtherSide | None = None,
    judged: bool = True,
    test: str = "",
    session: str = "",
) -> Measurement:
    """Compare b with a in fresh pairs of workers, until the pairs decide or the terms allow no more.

    A pair of which one side was disturbed more than the other is discarded and measured again (`PairSource.take`). If
    three pairs in a row tell nothing, because a run never settles by itself, the comparison is INVALID.

    Args:
        engine: takes the pairs.
        a, b: the two sides; the ratio is b / a.
        plan: the steps of each worker, and the figures that are compared, too.
        terms: the accepted change of b or the required ratio, how often the decision may be wrong, when to give up.
        other: the session's other side, where a belongs to it; as an older commit it may lack the compared code.
        judged: False for one pair and no outcome, as in a smoke run.
        test, session: pytest's node id, and the session's.

    Raises:
        WorkloadError: an unknown name, or a workload that these devices can't train.
        NoData, MeasurementError: a workload reads a data set, and there is none.
        MeasurementError: a worker died, hung or raised.
        NotCompared: of commits, the code of a failed in its first run, before b was tried.
        FailsHereOnly: b failed twice, and a did not; or one workload counts another unit on b.
    """
    started = time.monotonic()
    topology = b.topology
    source = PairSource(engine, a, b, plan)
    counted, discarded, verdicts, ended = _take_pairs(
        source, plan, terms, is_of_commits=other is not None and other.may_lack_code, judged=judged
    )
    a_runs, b_runs = [pair.a for pair in counted], [pair.b for pair in counted]
    a_throughput, b_throughput = summarise(a_runs), summarise(b_runs)
    doubt = _doubt(a, b)
    if judged:
        verdicts = [_in_doubt(verdict, doubt) for verdict in verdicts]
    else:
        verdicts = [replace(verdict, outcome=None, reason=Reason.ONLY_MEASURED, wants=NOTHING) for verdict in verdicts]
    if a.workload == b.workload and a_throughput.unit != b_throughput.unit:
        raise FailsHereOnly(
            f"side b counts {b_throughput.unit}, and a {a_throughput.unit}, so their rates can't be compared",
            next_step="Let both count the same, or measure without the other side",
            where=f"{b.shown} on {topology.describe()}",
        )
    # A ratio that is missed is no slowdown: b may be faster than a.
    is_slower = judged and verdicts[0].reason is Reason.CONFIRMED and terms.at_least is None
    device_rate = engine.rate_on_device_data(b, plan, b_runs) if is_slower else None
    b_breakdown = breakdown(b_runs, b_throughput.examples_per_sec, b.workload, device_rate)
    if b_breakdown is not None and is_slower:
        b_breakdown = of_a_slowdown(b_breakdown, b_throughput.examples_per_sec, a_throughput.examples_per_sec)
    return Measurement(
        test=test,
        session=session,
        workload=b.workload,
        topology=topology.shape,
        machine=topology.machine,
        devices=topology.describe(),
        runs=(),
        throughput=b_throughput,
        pairs=tuple(counted),
        discarded_pairs=tuple(discarded),
        verdicts=tuple(verdicts),
        other=MeasuredSide(
            workload=a.workload,
            topology="" if a.topology == topology else a.topology.shape,
            throughput=a_throughput,
            environment={**a_runs[-1].environment, **a.facts},
            name=a.name,
            breakdown=breakdown(a_runs, a_throughput.examples_per_sec, a.workload),
            interleaving=source.interleaving,
            fallback=source.fallback,
            ended=ended,
            at_least=terms.at_least,
            document=a.document,
            doubt=doubt,
            is_of_session=other is not None,
        ),
        breakdown=b_breakdown,
        profile=source.what_grew(counted) if is_slower else None,
        environment={**b_runs[-1].environment, **b.facts},
        name=b.name,
        document=b.document,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=time.monotonic() - started,
    )


def _doubt(a: Side, b: Side) -> str:
    """Return why it is not proved that each side ran its own code; "" where it is, or where nothing has to be."""
    sides = ((side.launcher, side.workload) for side in (a, b))
    doubts = [by.doubt(of) for by, of in sides if isinstance(by, CheckoutLauncher) and isinstance(of, Command)]
    return next((doubt.text for doubt in doubts if doubt is not None), "")


def _in_doubt(verdict: Verdict, doubt: str) -> Verdict:
    """Return the verdict, without good news that may come from two sides that are one, or that do different work."""
    if not doubt or verdict.outcome not in (Outcome.PASS, Outcome.IMPROVED):
        return verdict
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=Reason.NOT_PROVED)


def _take_pairs(
    source: PairSource, plan: Plan, terms: Terms, *, is_of_commits: bool, judged: bool
) -> tuple[list[Pair], list[Pair], Sequence[Verdict], Ended | None]:
    """Take pairs until they decide, or the terms allow no more; the arguments are those of `compare`.

    Returns the pairs that count (the last discarded one where none does), the discarded pairs, the verdicts, and why no
    more pairs are taken although these decide nothing.
    """
    started = time.monotonic()
    pairs: list[Pair] = []
    discarded: list[Pair] = []
    while True:
        try:
            # The third pair is the first that can decide, and often the last, so its workers profile their steps.
            pair, bad = source.take(profiled=len(pairs) == MIN_PAIRS - 1)
        except MeasurementError as error:
            is_first = not (pairs or discarded)
            if is_of_commits and is_first and source.failed_side == "a" and isinstance(error, UserCodeFailed):
                raise _lacking(error) from error
            is_of_code = not isinstance(error, DeviceFailed)
            if is_of_code and source.failed_side == "b" and source.only_b_fails():
                only = "fails here only, and not at the base" if is_of_commits else "only side b fails, and not a"
                raise FailsHereOnly(f"{only}: {error.headline}", *error.below) from error
            raise
        discarded += bad
        pairs += [pair] if pair is not None else []
        counted = pairs or [discarded[-1]]
        asked = replace(plan, also=plan.also if judged and pair is not None else ())
        verdicts = compared(asked, counted, terms)
        if pair is None:
            verdicts = (replace(verdicts[0], outcome=Outcome.INVALID, reason=Reason.DISTURBED, wants=NOTHING),)
        ended = None
        if any(verdict.outcome is Outcome.INCONCLUSIVE for verdict in verdicts):
            ended = _ended(len(pairs), len(discarded), time.monotonic() - started, terms)
        if not judged or _is_over(verdicts) or ended:
            last = compared(asked, counted, replace(terms, max_pairs=len(counted)))
            verdicts = tuple(now if now.is_decided else end for now, end in zip(verdicts, last, strict=True))
            return counted, discarded, verdicts, ended


def _lacking(error: UserCodeFailed) -> NotCompared:
    """Return why side a can't be compared: it has no such function yet, or its function can't run."""
    if isinstance(error, FunctionMissing):
        return NotCompared(Lack.FUNCTION, what=error.brief)
    output = (line for line in error.below if isinstance(line, Line) and not line.label)
    return NotCompared(Lack.RUNNING_CODE, *output, what=error.fact, brief=error.brief)


def _is_over(verdicts: Sequence[Verdict]) -> bool:
    """Whether nothing is in doubt, or the worst outcome is known; a figure that is INVALID hides no slowdown."""
    if verdicts[0].outcome is Outcome.INVALID or any(verdict.outcome is Outcome.REGRESSED for verdict in verdicts):
        return True
    return all(verdict.is_decided for verdict in verdicts)


def _ended(pairs: int, discarded: int, seconds: float, terms: Terms) -> Ended | None:
    """Return why no further pair is begun; None if another pair is."""
    if pairs >= terms.max_pairs:
        return Ended.MAX_PAIRS
    if seconds * (1 + 1 / (pairs + discarded)) > terms.max_seconds:
        return Ended.MAX_SECONDS
    return None
