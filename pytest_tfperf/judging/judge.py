"""The judgement of one figure of one test: a session's runs against the baseline. Pure, from numbers alone.

Rule 1 confirms a suspected loss in fresh pairs with the reference environment, rule 2 in fresh runs against the
baseline (docs/statistics.md). The throughput is one figure of several; each is judged on its own scale (`evidence.py`).
benchmarks/verdict.py counts how often either rule is wrong.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.throughput import RunValue, hodges_lehmann
from pytest_tfperf.core.verdict import (
    MOST_COUNTED,
    NOTHING,
    WORST_FIRST,
    Against,
    Decision,
    Noise,
    Outcome,
    Power,
    Reason,
    Rule,
    StandardDeviations,
    Tolerance,
    Verdict,
    Want,
    Wants,
)
from pytest_tfperf.judging.confirmation import RUN_STAGES, Confirmation, by_runs
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.noise import (
    DETECTION,
    FALSE_ALARMS,
    TO_BE_FOUND,
    accepted_slowdown,
    mean_square,
    quantile,
    screen_error,
    suspicion,
)
from pytest_tfperf.judging.pairs import PairsTest, Scatter
from pytest_tfperf.judging.session_effects import CommonDrift, LearntBaseline, learnt_baseline
from pytest_tfperf.judging.sides import judge_sides
from pytest_tfperf.judging.target import MOST_RUNS, Target

_AS_RECORDED = 0.8  # of the threshold: one that was this low when its row was recorded has widened since
_WIDEST = -math.log1p(-0.1)  # the threshold up to which what sessions taught may widen it and a test still pass
_UNSURE = 2.0  # standard errors of a run's own windows: a run that is good even if slower by so much stops early
_LIMIT_RUNS = RUN_STAGES[1]  # values of the current environment that confirm a value beyond a limit


def judge(evidence: Evidence) -> Verdict:
    """Judge one figure of one test.

    A first run that is not suspected passes. A suspected loss is confirmed in fresh pairs, by their sequential test, or
    in fresh runs, stage by stage. A hard limit needs no baseline. The sides of a comparison are judged by their pairs
    alone.
    """
    if evidence.is_comparison:
        return judge_sides(evidence)
    if (fault := evidence.measured.fault) is Reason.DIVERGED:
        return Verdict(outcome=Outcome.INVALID, reason=fault)  # its numbers mean nothing
    if fault is not None:
        return _plain(evidence, Outcome.INVALID, fault)
    if evidence.figure.limit is not None and (verdict := _by_limit(evidence)) is not None:
        return verdict
    target, baseline, noise = evidence.target, evidence.target.baseline, evidence.target.noise
    if baseline is None or noise is None:
        if evidence.figure.limit is not None:
            return _plain(evidence, Outcome.PASS, Reason.WITHIN_LIMIT)
        return _plain(evidence, Outcome.NO_BASELINE, Reason.NO_BASELINE)
    if (reason := _not_comparable(evidence, baseline)) is not None:
        # Earlier sessions may have counted another unit.
        if target.against is Against.EARLIER_SESSIONS:
            return _plain(replace(evidence, target=Target()), Outcome.NO_BASELINE, Reason.NO_BASELINE)
        return _plain(evidence, Outcome.INVALID, reason)
    evidence = evidence if target.is_own_row else _by_itself(evidence)
    verdicts = [_judged(evidence, sign) for sign in evidence.figure.signs]
    return min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.outcome or Outcome.PASS))


def _by_limit(evidence: Evidence) -> Verdict | None:
    """Return the verdict on values beyond the hard limit; None where the limit decides nothing."""
    exceeds, measured = evidence.figure.exceeds_limit, evidence.measured
    now = [*measured.positions, *measured.b]
    if not any(map(exceeds, now)):
        return None
    if len(now) < _LIMIT_RUNS:
        wants = Wants(Want.RUNS, _LIMIT_RUNS - len(measured.b))
        return replace(_plain(evidence, Outcome.INCONCLUSIVE, Reason.SUSPECTED), wants=wants)
    is_beyond = exceeds(statistics.median(now))
    return _plain(evidence, Outcome.REGRESSED, Reason.BEYOND_LIMIT) if is_beyond else None


def _not_comparable(evidence: Evidence, baseline: Baseline) -> Reason | None:
    """Return why the values can't be compared with the baseline; None where they can be."""
    if baseline.unit != evidence.measured.unit:
        return Reason.OTHER_UNIT
    # The values of a row that names no place may come from any place.
    return Reason.OTHER_PLACE if {*evidence.places} - {baseline.place} else None


def _plain(evidence: Evidence, outcome: Outcome, reason: Reason) -> Verdict:
    """Return a verdict that rests on no threshold."""
    verdict = replace(evidence.blank, outcome=outcome, reason=reason)
    if reason is Reason.NOT_MEASURED:
        return replace(verdict, value=None)
    if verdict.baseline is None or reason is Reason.OTHER_UNIT:
        return verdict
    return replace(verdict, change=evidence.scale.change(evidence.measured.value, verdict.baseline.value))


def _judged(evidence: Evidence, sign: int) -> Verdict:
    """Return the verdict on changes in one direction, under each drift that is possible so far."""
    goes_with_speed = evidence.figure.with_speed != 0
    drifts = evidence.possible_drifts if goes_with_speed else [CommonDrift()]
    cases = [_Case.of(evidence, drift, sign) for drift in drifts]
    suspect = next((case for case in cases if case.by_runs.is_suspected), None)
    if evidence.is_drift_to_come and goes_with_speed:
        depends = suspect is not None or len({case.good().outcome for case in cases}) > 1
        if depends or not evidence.drift.is_known:
            return cases[0].verdict(Outcome.INCONCLUSIVE, Reason.DRIFT_UNKNOWN, Wants(Want.COMMON_DRIFT))
    return cases[0].good() if suspect is None else suspect.confirmed()


def may_stop_early(run: RunValue, target: Target, tolerance: Tolerance, *, has_reference_environment: bool) -> bool:
    """Whether a first run may end before its last window: the lower end of its interval raises no suspicion.

    `judge` gives the verdict on the run. Only good news stops a run early: stopping on bad news multiplies the false
    alarms.
    """
    baseline, noise = target.baseline, target.noise
    if baseline is None or noise is None:
        return False
    error = screen_error(noise.between_runs, baseline.runs)
    change = run.log_rate - math.log(baseline.value)
    to_be_found = TO_BE_FOUND if has_reference_environment else math.inf
    return change - _UNSURE * run.error >= -suspicion(accepted_slowdown(tolerance), error, to_be_found)


def _by_itself(evidence: Evidence) -> Evidence:
    """Leave out drift, history and reference environment, which belong to the machine's own rows only."""
    alone = replace(
        evidence,
        drift=CommonDrift(),
        is_drift_to_come=False,
        others=None,
        past=(),
        has_reference_environment=False,
    )
    if evidence.target.against is not Against.EARLIER_SESSIONS:
        return alone
    return replace(alone, max_runs=min(MOST_RUNS, evidence.max_runs or MOST_RUNS))


@dataclass(frozen=True, slots=True)
class _Case:
    """A figure judged under one drift and in one direction, and the confirmation of its loss."""

    evidence: Evidence
    drift: CommonDrift  # subtracted from the runs' changes; one of `Evidence.possible_drifts`
    sign: int  # makes a change for the worse negative
    baseline: Baseline
    noise: Noise  # on the figure's scale
    learnt: LearntBaseline
    expected: float  # the value that the runs are compared with
    between_sessions: float  # the expected standard deviation between sessions, on the figure's scale
    # The runs are slower by more than the tolerance, and so are the session's other tests, which are too few for a
    # common drift. The threshold then allows for more variance between sessions.
    is_shared: bool
    by_runs: Confirmation
    confirmation: Confirmation | PairsTest

    @classmethod
    def of(cls, evidence: Evidence, drift: CommonDrift, sign: int) -> _Case:
        baseline, noise, scale = evidence.target.baseline, evidence.target.noise, evidence.scale
        assert baseline is not None, "without it there is nothing to judge against"
        assert noise is not None, "a baseline has its noise"
        target, variance, has_pairs = baseline.value, evidence.variance, evidence.has_pairs
        unit, accepted = scale.unit(target), scale.accepted(target)
        noise = replace(noise, between_runs=noise.between_runs * unit)
        past = () if has_pairs else evidence.past  # today's pairs need no history
        learnt = learnt_baseline(noise, baseline.runs, past, variance.mean)
        position, expected = scale.expected(target, drift.log, learnt.offset)
        changes = [sign * (run - position) for run in evidence.measured.positions]
        others = None if has_pairs or not scale.is_taught else evidence.others
        is_shared = others is not None and _is_shared(changes, accepted, noise, others)
        most_sd = variance.upper_of_shared if is_shared else variance.upper
        unit *= abs(evidence.figure.with_speed)
        of_sessions = variance.mean * unit, most_sd * unit
        confirmation: Confirmation | PairsTest
        confirmation = runs = by_runs(
            evidence, changes, accepted, noise=noise, learnt=learnt, drift=drift, between_sessions=of_sessions
        )
        if has_pairs:
            growth = drift.growth if scale.is_taught else 1.0
            scatter = Scatter(2 * (growth * noise.between_runs) ** 2, noise.degrees_of_freedom)
            confirmation = evidence.pairs_test(sign, scatter, target)
        return cls(
            evidence, drift, sign, baseline, noise, learnt, expected, of_sessions[0], is_shared, runs, confirmation
        )

    def good(self) -> Verdict:
        """Return the verdict where no slowdown is suspected: PASS, IMPROVED or TOO_NOISY."""
        if self.by_runs.middle <= self.rise:
            return self.unless_blind(Outcome.PASS, self.by_runs.good_reason)
        if self.evidence.target.is_floor:
            return self.verdict(Outcome.PASS, Reason.ABOVE_FLOOR)
        return self.verdict(Outcome.IMPROVED, Reason.BETTER)

    def confirmed(self) -> Verdict:
        """Return the verdict on a suspect from its pairs or runs so far."""
        outcome, reason, wants = self.confirmation.decided()
        if outcome is Outcome.REGRESSED and len(self.confirmation.changes) == 1:
            return self.verdict(outcome, Reason.SINGLE_RUN)
        if reason is Reason.WITHIN_NOISE and self.is_shared:
            reason = Reason.OTHERS_TOO
        is_open = outcome is Outcome.REGRESSED or wants != NOTHING
        return self.verdict(outcome, reason, wants) if is_open else self.unless_blind(outcome, reason)

    def unless_blind(self, outcome: Outcome, reason: Reason) -> Verdict:
        """Return a pass or a doubt that rests on the threshold; TOO_NOISY if noise would let nearly any loss pass."""
        confirmation, value = self.confirmation, self.baseline.value
        if self.evidence.scale.is_blind(confirmation.hidden_by_noise, confirmation.accepted, value):
            return self.verdict(Outcome.TOO_NOISY, Reason.TOO_NOISY)
        learnt = self.without_drift
        if learnt.threshold > _WIDEST and learnt.threshold_recorded is not None:
            return self.verdict(Outcome.TOO_NOISY, Reason.WIDENED)
        return self.verdict(outcome, reason)

    @property
    def without_drift(self) -> _Case:
        """The case of a session in which the machine is as fast as when the row was recorded."""
        drift = CommonDrift(tests=self.drift.tests)
        evidence = replace(self.evidence, drift=drift, others=None)
        return _Case.of(evidence, drift, self.sign)

    @property
    def threshold_recorded(self) -> float | None:
        """The threshold when the row was recorded, before any session taught how much sessions differ.

        None where it was no lower than now, or pairs decide, which need no history.
        """
        if self.evidence.has_pairs or not self.evidence.scale.is_taught:
            return None
        case = self.without_drift
        evidence = replace(case.evidence, past=(), variance=self.evidence.variance.assumed)
        recorded = _Case.of(evidence, case.drift, self.sign).threshold
        return recorded if recorded < _AS_RECORDED * self.threshold else None

    @property
    def rise(self) -> float:
        """The rise from which the runs are better than tolerance and noise explain."""
        error = self.by_runs.error(len(self.by_runs.changes))
        share = FALSE_ALARMS / max(self.evidence.tests, 1)
        accepted = self.evidence.scale.accepted_rise(self.baseline.value)
        return max(accepted, quantile(self.noise.degrees_of_freedom, share) * error)

    @property
    def threshold(self) -> float:
        """The confirmed loss from which the test fails at the latest count of runs or pairs."""
        return self.confirmation.threshold_in(self.confirmation.last)

    def min_detectable(self, count: int) -> float:
        """Return the loss that the first run and a decision in this many runs or pairs both detect, with 95 % power."""
        first = self.by_runs.suspicion(1) + DETECTION * self.by_runs.error(1)
        return max(first, self.confirmation.detectable(count))

    def verdict(self, outcome: Outcome, reason: Reason, wants: Wants = NOTHING) -> Verdict:
        """Return the verdict with the numbers that led to it."""
        evidence, confirmation, scale = self.evidence, self.confirmation, self.evidence.scale
        blank, expected, rise = evidence.blank, self.expected, self.rise
        target = evidence.measured.target if evidence.has_pairs else None
        # Otherwise the first run has raised no suspicion, and decides.
        is_confirmed = len(confirmation.changes) > 1 and self.by_runs.is_suspected
        ends = confirmation.interval if is_confirmed else self.by_runs.interval
        low, high = sorted(scale.shown(self.sign * end) for end in ends)
        is_open = evidence.target.is_floor or rise > scale.most_rise
        best = None if is_open else scale.value_at(expected, self.sign * rise)
        verdict = replace(
            blank,
            outcome=outcome,
            reason=reason,
            rule=Rule.REFERENCE_ENVIRONMENT if evidence.has_pairs else Rule.BASELINE,
            change=scale.change(evidence.measured.value, self.baseline.value),
            interval=(low, high),
            lower=None if self.sign > 0 else best,
            upper=best if self.sign > 0 else None,
            tolerance=scale.tolerance,
            noise=replace(self.noise, between_sessions=self.between_sessions),
            common_drift=evidence.drift.log,
            tests=confirmation.tests,
            wants=wants,
        )
        if is_confirmed:
            change = scale.shown(self.sign * confirmation.middle)
            verdict = replace(
                verdict, confirmed_change=change, confirmed_from=self.baseline.value if target is None else target
            )
        if math.isinf(confirmation.accepted):  # any loss
            return verdict
        worst = scale.value_at(expected, -self.sign * self.by_runs.suspicion(1))
        recorded = self.threshold_recorded
        return replace(
            verdict,
            lower=worst if self.sign > 0 else best,
            upper=best if self.sign > 0 else worst,
            threshold=-scale.shown(-self.threshold),
            threshold_recorded=None if recorded is None else -scale.shown(-recorded),
            min_detectable_slowdown=-scale.shown(-self.min_detectable(confirmation.last)),
            decision=self.decision(),
        )

    def decision(self) -> Decision:
        """Return the numbers that the verdict rests on, and the power of other numbers of runs or pairs."""
        runs, confirmation, shown = self.by_runs, self.confirmation, self.evidence.scale.shown
        within = mean_square(self.evidence.measured.errors)
        return Decision(
            expected=self.expected,
            first_change=shown(runs.changes[0]),
            suspected_from=-shown(-runs.suspicion(1)),
            changes=tuple(map(shown, confirmation.changes)),
            middle=shown(confirmation.middle) if confirmation.changes else None,
            accepted=-shown(-confirmation.accepted),
            threshold=-shown(-self.threshold),
            last=confirmation.most,
            enough=confirmation.enough(MOST_COUNTED),
            deviations=StandardDeviations(
                within_runs=None if within is None else math.sqrt(within),
                between_runs=self.noise.between_runs,
                of_baseline=self.noise.between_runs * math.sqrt(self.learnt.runs_variance),
                between_sessions=self.between_sessions,
            ),
            powers=tuple(
                Power(count, -shown(-confirmation.threshold_in(count)), -shown(-self.min_detectable(count)))
                for count in confirmation.counts_shown
            ),
            **confirmation.steps,
        )


def _is_shared(changes: Sequence[float], accepted: float, noise: Noise, others: float) -> bool:
    """Whether a test is slower than accepted, and by no more than accepted slower than the others, within noise."""
    middle = hodges_lehmann(changes)
    return middle < -accepted and middle - min(others, 0.0) >= -accepted - noise.between_runs
