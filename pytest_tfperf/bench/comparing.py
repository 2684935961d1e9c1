"""Compares two sides in fresh pairs of workers, until the confidence interval of their ratio decides.

The two are of one test, or each check is compared with the session's `OtherSide` in place of a baseline.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from pytest_tfperf.bench.pairs import PairSource
from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.bench.task import compared_figures
from pytest_tfperf.core.measurement import Ended, MeasuredSide, Measurement
from pytest_tfperf.core.run import Pair, Plan
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Outcome, Reason, Rule, Tolerance, Verdict
from pytest_tfperf.errors import (
    FailsHereOnly,
    FailsThere,
    FunctionMissing,
    MeasurementError,
    NotCompared,
    TfperfError,
    UserCodeFailed,
)
from pytest_tfperf.judging.breakdown import breakdown, of_a_slowdown
from pytest_tfperf.judging.figures import settled
from pytest_tfperf.judging.pairs import MIN_PAIRS, PAIRS_THAT_TELL, ErrorRates, PairsDecision, decide
from pytest_tfperf.judging.unevenness import bias
from pytest_tfperf.judging.validity import invalid

MAX_PAIRS = 20
MAX_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """When a comparison ends although it is undecided.

    Args:
        max_pairs: the most pairs. More pairs find smaller slowdowns, take longer, and make each look at the interval
            stricter.
        max_seconds: no pair is begun that would probably end later.

    Raises:
        TfperfError: a decision needs more pairs or time.
    """

    max_pairs: int = MAX_PAIRS
    max_seconds: float = MAX_SECONDS

    def __post_init__(self) -> None:
        if type(self.max_pairs) is not int or self.max_pairs < MIN_PAIRS:
            raise TfperfError(f"max_pairs={self.max_pairs!r}: it takes a whole number from {MIN_PAIRS} to decide")
        if not self.max_seconds > 0:
            raise TfperfError(f"max_seconds={self.max_seconds!r} must be above 0")

    def pairs_that_fit(self, pairs: int, seconds: float) -> int:
        """How many pairs there can be at most, judging by how long the first ones took."""
        return max(pairs, int(min(self.max_pairs, self.max_seconds * pairs / seconds)))


def compare(
    engine: RunEngine,
    a: Side,
    b: Side,
    topology: Topology,
    plan: Plan,
    tolerance: Tolerance,
    *,
    effort: Effort | None = None,
    error_rates: ErrorRates | None = None,
    is_of_commits: bool = False,
    judged: bool = True,
    test: str = "",
    session: str = "",
) -> Measurement:
    """Compare b with a in fresh pairs of workers, until their ratio decides or the effort is spent.

    A pair of which one side was disturbed more than the other is discarded and measured again (`PairSource.take`). If
    three pairs in a row tell nothing, because a run never settles by itself, the comparison is INVALID.

    Args:
        engine: takes the pairs.
        a, b: the two sides; the ratio is b / a.
        topology: what both run on.
        plan: the steps of each worker, and the figures that are compared, too; see `judge_compared`.
        tolerance: the accepted change of b.
        effort: when to give up.
        error_rates: how often it may be wrong.
        is_of_commits: a is an older commit of b, so it may lack what is compared, and where only b fails b is to blame.
        judged: False for one pair and no outcome, as in a smoke run.
        test: pytest's node id.
        session: the session's id.

    Raises:
        WorkloadError: an unknown name, or a workload that these devices can't train.
        NoData, MeasurementError: a workload reads a data set, and there is none.
        MeasurementError: a worker died, hung or raised.
        NotCompared: of commits, the code of a failed in its first run, before b was tried.
        FailsHereOnly: of commits, b failed twice, and a did not.
    """
    started = time.monotonic()
    source = PairSource(engine, a, b, topology, plan)
    rates = error_rates or ErrorRates()
    found = _take_pairs(source, plan, tolerance, effort or Effort(), rates, is_of_commits=is_of_commits, judged=judged)
    counted, decision, figures = found.counted, found.decision, tuple(map(settled, found.figures))
    device_rate = (
        engine.rate_on_device_data(b, topology, plan, [pair.b for pair in counted])
        if judged and decision.outcome is Outcome.REGRESSED
        else None
    )
    a_runs, b_runs = [pair.a for pair in counted], [pair.b for pair in counted]
    a_throughput, b_throughput = summarise(a_runs), summarise(b_runs)
    verdict = Verdict(
        outcome=decision.outcome if judged else None,
        reason=_REASONS[decision.outcome],
        value=b_throughput.examples_per_sec,
        rule=Rule.OTHER_SIDE,
        change=decision.ratio - 1,
        confirmed_change=decision.ratio - 1,
        confirmed_from=a_throughput.examples_per_sec,
        interval=(decision.low - 1, decision.high - 1),
        tolerance=tolerance,
    )
    broken_down = breakdown(b_runs, b_throughput.examples_per_sec, b.workload, device_rate)
    if broken_down is not None and verdict.outcome is Outcome.REGRESSED:
        broken_down = of_a_slowdown(broken_down, b_throughput.examples_per_sec, a_throughput.examples_per_sec)
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
        discarded_pairs=tuple(found.discarded),
        verdicts=(verdict, *figures),
        other=MeasuredSide(
            workload=a.workload,
            throughput=a_throughput,
            environment=a_runs[-1].environment,
            breakdown=breakdown(a_runs, a_throughput.examples_per_sec, a.workload, None),
            interleaving=source.interleaving,
            fallback=source.fallback,
            ended=found.ended,
        ),
        breakdown=broken_down,
        environment=b_runs[-1].environment,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=time.monotonic() - started,
    )


_REASONS: Final = {
    Outcome.REGRESSED: Reason.CONFIRMED,
    Outcome.IMPROVED: Reason.BETTER,
    Outcome.PASS: Reason.WITHIN_TOLERANCE,
    Outcome.INCONCLUSIVE: Reason.TOO_CLOSE,
    Outcome.INVALID: Reason.DISTURBED,
}


@dataclass(frozen=True)
class _DecidedPairs:
    """The pairs of a comparison, and what they decide.

    Args:
        counted: those that count; the last discarded one where none does.
        discarded: those of which one side was disturbed more than the other.
        decision: on the ratio.
        figures: the verdicts on the plan's figures.
        ended: why there are no more pairs although they decide nothing; None where they decide.
    """

    counted: Sequence[Pair]
    discarded: Sequence[Pair]
    decision: PairsDecision
    figures: Sequence[Verdict]
    ended: Ended | None = None


def _take_pairs(
    source: PairSource,
    plan: Plan,
    tolerance: Tolerance,
    effort: Effort,
    rates: ErrorRates,
    *,
    is_of_commits: bool,
    judged: bool,
) -> _DecidedPairs:
    """Take pairs until they decide, or the effort is spent; the arguments are those of `compare`."""
    started = time.monotonic()
    pairs: list[Pair] = []
    discarded: list[Pair] = []
    most = effort.max_pairs
    while True:
        # The third pair is the first that can decide, and usually the last, so its workers profile their steps.
        profiled = len(pairs) == MIN_PAIRS - 1
        try:
            pair, bad = source.take(profiled=profiled)
        except MeasurementError as error:
            is_first = not (pairs or discarded)
            if is_of_commits and is_first and source.failed_side == "a" and isinstance(error, UserCodeFailed):
                raise _lacking(error) from error
            if is_of_commits and source.failed_side == "b" and source.only_b_fails():
                raise FailsHereOnly(f"fails here only, and not at the base: {error.headline}", *error.below) from error
            raise
        discarded += bad
        pairs += [pair] if pair is not None else []
        if len(pairs) == MIN_PAIRS:
            most = effort.pairs_that_fit(MIN_PAIRS, time.monotonic() - started)
        counted = pairs or [discarded[-1]]
        decision = _decision(counted, tolerance, most, rates)
        if pair is None:
            decision = replace(decision, outcome=Outcome.INVALID)
            return _DecidedPairs(counted, discarded, decision, ())
        figures = compared_figures(plan, pairs, most, rates) if judged else ()
        if not judged or _is_over(decision, figures):
            return _DecidedPairs(counted, discarded, decision, figures)
        if end := _end(len(pairs), len(discarded), time.monotonic() - started, effort, most):
            return _DecidedPairs(counted, discarded, decision, figures, end)


def _lacking(error: UserCodeFailed) -> NotCompared:
    """Why a has nothing to compare with: it has no such function yet, or what it has can't run."""
    return NotCompared(f"NEW: {error.brief}") if isinstance(error, FunctionMissing) else FailsThere(error.brief)


def _decision(pairs: Sequence[Pair], tolerance: Tolerance, most: int, rates: ErrorRates) -> PairsDecision:
    errors = [pair.uncertainty for pair in pairs if math.isfinite(pair.error)]
    decision = decide(
        [pair.log_ratio for pair in pairs],
        tolerance,
        most,
        # The median, because one uneven pair among many says nothing about the others.
        window_error=statistics.median(errors) if errors else 0.0,
        bias=bias(pairs) if len(pairs) >= PAIRS_THAT_TELL else 0.0,
        error_rates=rates,
    )
    verdicts = (invalid(summarise([run])) for run in (pairs[-1].a, pairs[-1].b))
    found = next(filter(None, verdicts), None)
    return decision if found is None else replace(decision, outcome=Outcome.INVALID)


def _is_over(decision: PairsDecision, figures: Sequence[Verdict]) -> bool:
    """Whether nothing is in doubt, or the worst is known already; a figure that is INVALID hides no slowdown."""
    outcomes = {decision.outcome, *(one.outcome for one in figures)}
    if Outcome.REGRESSED in outcomes or decision.outcome is Outcome.INVALID:
        return True
    return decision.outcome is not Outcome.INCONCLUSIVE and all(one.is_decided for one in figures)


def _end(pairs: int, discarded: int, seconds: float, effort: Effort, most: int) -> Ended | None:
    """Why no further pair is begun; None if one is."""
    if pairs >= effort.max_pairs:
        return Ended.MAX_PAIRS
    if seconds * (1 + 1 / (pairs + discarded)) > effort.max_seconds or pairs >= most:
        return Ended.MAX_SECONDS
    return None
