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
    Consequence,
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
    effect_of_slowdown,
)
from pytest_tfperf.judging.confirmation import RUN_STAGES, Confirmation, Decider, by_runs
from pytest_tfperf.judging.evidence import NO_RISE, Evidence
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
from pytest_tfperf.judging.pairs import Scatter
from pytest_tfperf.judging.session_effects import CommonDrift, LearntBaseline, learnt_baseline
from pytest_tfperf.judging.sides import judge_sides
from pytest_tfperf.judging.target import MOST_RUNS, Target
from pytest_tfperf.judging.validity import invalid, unusable

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
    if (verdict := _unusable(evidence) or _by_limit(evidence)) is not None:
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
    verdicts = [_judged(evidence, baseline, noise, sign) for sign in evidence.figure.signs]
    return min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.outcome or Outcome.PASS))


def _unusable(evidence: Evidence) -> Verdict | None:
    """Return INVALID for values that mean nothing; None where the values can be judged."""
    if evidence.values is None:
        return invalid(evidence.throughput)
    reason = unusable(evidence.seen)
    return None if reason is None else _plain(evidence, Outcome.INVALID, reason)


def _by_limit(evidence: Evidence) -> Verdict | None:
    """Return the verdict on values beyond the hard limit; None where the limit decides nothing."""
    exceeds = evidence.figure.exceeds_limit
    now = [*evidence.positions, *evidence.values_of_b] if evidence.values is not None else []
    if not any(map(exceeds, now)):
        return None
    if len(now) < _LIMIT_RUNS:
        wants = Wants(Want.RUNS, _LIMIT_RUNS - (len(now) - len(evidence.positions)))
        return replace(_plain(evidence, Outcome.INCONCLUSIVE, Reason.SUSPECTED), wants=wants)
    is_beyond = exceeds(statistics.median(now))
    return _plain(evidence, Outcome.REGRESSED, Reason.BEYOND_LIMIT) if is_beyond else None


def _not_comparable(evidence: Evidence, baseline: Baseline) -> Reason | None:
    """Return why the values can't be compared with the baseline; None where they can be."""
    unit = evidence.throughput.unit if evidence.values is None else evidence.figure.unit or ""
    if baseline.unit != unit:
        return Reason.OTHER_UNIT
    # The values of a row that names no place may come from any place.
    return Reason.OTHER_PLACE if any(place != baseline.place for place in evidence.places) else None


def _plain(evidence: Evidence, outcome: Outcome, reason: Reason) -> Verdict:
    """Return a verdict that rests on no threshold."""
    baseline, value = evidence.target.baseline, evidence.value
    is_comparable = baseline is not None and reason not in (Reason.OTHER_UNIT, Reason.NOT_MEASURED)
    return Verdict(
        outcome=outcome,
        reason=reason,
        figure=evidence.figure,
        value=None if reason is Reason.NOT_MEASURED else value,
        rank=evidence.rank,
        places=evidence.places,
        baseline=baseline,
        is_floor=evidence.target.is_floor,
        change=evidence.scale.change(value, baseline.value) if baseline and is_comparable else None,
    )


def _judged(evidence: Evidence, baseline: Baseline, noise: Noise, sign: int) -> Verdict:
    """Return the verdict on changes in one direction, under each drift that is possible so far."""
    goes_with_speed = evidence.figure.with_speed != 0
    drifts = evidence.possible_drifts if goes_with_speed else [CommonDrift()]
    cases = [_Case.of(evidence, drift, baseline, noise, sign) for drift in drifts]
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
    """A figure judged under one drift and in one direction, and the confirmation of its loss.

    Args:
        drift: subtracted from the runs' changes; one of `Evidence.possible_drifts`.
        sign: makes a change for the worse negative.
        is_shared: the runs are slower by more than the tolerance, and so are the session's other tests, which are too
            few for a common drift. The threshold then allows for more variance between sessions.
    """

    evidence: Evidence
    drift: CommonDrift
    baseline: Baseline
    noise: Noise
    sign: int
    learnt: LearntBaseline
    by_runs: Confirmation
    confirmation: Decider
    is_shared: bool

    @classmethod
    def of(cls, evidence: Evidence, drift: CommonDrift, baseline: Baseline, noise: Noise, sign: int) -> _Case:
        scale, target = evidence.scale, baseline.value
        has_pairs, directions = evidence.has_pairs, len(evidence.figure.signs)
        noise = scale.noise(noise, target)
        past = () if has_pairs else evidence.past  # today's pairs need no history
        learnt = learnt_baseline(noise, baseline.runs, past, evidence.variance.mean)
        expected = scale.expected(target, drift.log, learnt.offset)
        changes = [sign * (position - expected) for position in evidence.positions]
        accepted = scale.accepted(target)
        others = evidence.others if scale.is_logarithm else None
        is_shared = not has_pairs and _is_shared(changes, accepted, noise, others)
        most_sd = evidence.variance.upper_of_shared if is_shared else evidence.variance.upper
        runs = by_runs(
            changes,
            noise,
            accepted,
            errors=evidence.errors,
            learnt=learnt,
            drift=drift,
            session_sd=scale.of_sessions(evidence.variance.mean, target),
            most_session_sd=scale.of_sessions(most_sd, target),
            tests=evidence.tests * directions,
            max_runs=evidence.max_runs,
            to_be_found=scale.to_be_found if has_pairs else math.inf,
            warns_only=effect_of_slowdown(evidence.target.against) is Consequence.WARNS,
        )
        if not has_pairs:
            return cls(evidence, drift, baseline, noise, sign, learnt, runs, runs, is_shared)
        growth = drift.growth if evidence.values is None else 1.0
        scatter = Scatter(2 * (growth * noise.between_runs) ** 2, noise.degrees_of_freedom)
        of_pairs = evidence.pairs_test(sign, scatter, target)
        return cls(evidence, drift, baseline, noise, sign, learnt, runs, of_pairs, is_shared)

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
        return _Case.of(evidence, drift, self.baseline, self.noise, self.sign)

    @property
    def threshold_recorded(self) -> float | None:
        """The threshold when the row was recorded, before any session taught how much sessions differ.

        None where it was no lower than now, or pairs decide, which need no history.
        """
        if self.evidence.has_pairs or not self.evidence.scale.is_logarithm:
            return None
        case = self.without_drift
        evidence = replace(case.evidence, past=(), variance=self.evidence.variance.assumed)
        recorded = _Case.of(evidence, case.drift, self.baseline, self.noise, self.sign).threshold
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
        has_pairs = evidence.has_pairs and evidence.target_of_pairs is not None
        target = evidence.target_of_pairs if has_pairs else self.baseline.value
        if scale.is_logarithm:
            expected = self.baseline.value * math.exp(self.drift.log + self.learnt.offset)
        else:
            expected = scale.expected(self.baseline.value, self.drift.log, self.learnt.offset)
        # Otherwise the first run has raised no suspicion, and decides.
        is_confirmed = len(confirmation.changes) > 1 and self.by_runs.is_suspected
        ends = confirmation.interval if is_confirmed else self.by_runs.interval
        low, high = sorted(scale.shown(self.sign * end) for end in ends)
        between_sessions = scale.of_sessions(evidence.variance.mean, self.baseline.value)
        worst = scale.value_at(expected, -self.sign * self.by_runs.suspicion(1)) if scale.is_bounded else None
        has_best = self.rise <= NO_RISE if scale.is_logarithm else math.isfinite(self.rise)
        is_open = evidence.target.is_floor or not has_best
        best = None if is_open else scale.value_at(expected, self.sign * self.rise)
        recorded = self.threshold_recorded if scale.is_bounded else None
        smallest = scale.shown_loss(self.min_detectable(confirmation.last)) if scale.is_bounded else None
        return Verdict(
            outcome=outcome,
            reason=reason,
            figure=evidence.figure,
            value=evidence.value,
            rank=evidence.rank,
            places=evidence.places,
            rule=Rule.REFERENCE_ENVIRONMENT if evidence.has_pairs else Rule.BASELINE,
            baseline=self.baseline,
            is_floor=evidence.target.is_floor,
            change=scale.change(evidence.value, self.baseline.value),
            confirmed_change=scale.shown(self.sign * confirmation.middle) if is_confirmed else None,
            confirmed_from=target if is_confirmed else None,
            interval=(low, high),
            lower=worst if self.sign > 0 else best,
            upper=best if self.sign > 0 else worst,
            tolerance=evidence.tolerance if evidence.values is None else None,
            threshold=scale.shown_loss(self.threshold) if scale.is_bounded else None,
            threshold_recorded=None if recorded is None else scale.shown_loss(recorded),
            min_detectable_slowdown=smallest,
            noise=replace(self.noise, between_sessions=between_sessions),
            common_drift=evidence.drift.log,
            tests=confirmation.tests,
            wants=wants,
            decision=self.decision(expected, between_sessions) if scale.is_bounded else None,
        )

    def decision(self, expected: float, between_sessions: float) -> Decision:
        """Return the numbers that the verdict rests on, and the power of other numbers of runs or pairs."""
        runs, confirmation, scale = self.by_runs, self.confirmation, self.evidence.scale
        within = mean_square(self.evidence.errors)
        return Decision(
            expected=expected,
            first_change=scale.shown(runs.changes[0]),
            suspected_from=scale.shown_loss(runs.suspicion(1)),
            changes=tuple(map(scale.shown, confirmation.changes)),
            middle=scale.shown(confirmation.middle) if confirmation.changes else None,
            accepted=scale.shown_loss(confirmation.accepted),
            threshold=scale.shown_loss(self.threshold),
            last=confirmation.most,
            enough=confirmation.enough(MOST_COUNTED),
            deviations=StandardDeviations(
                within_runs=None if within is None else math.sqrt(within),
                between_runs=self.noise.between_runs,
                of_baseline=self.noise.between_runs * math.sqrt(self.learnt.runs_variance),
                between_sessions=between_sessions,
            ),
            powers=tuple(
                Power(
                    count,
                    scale.shown_loss(confirmation.threshold_in(count)),
                    scale.shown_loss(self.min_detectable(count)),
                )
                for count in confirmation.counts_shown
            ),
            **confirmation.steps(self.threshold),
        )


def _is_shared(changes: Sequence[float], accepted: float, noise: Noise, others: float | None) -> bool:
    """Whether a test is slower than accepted, and by no more than accepted slower than the others, within noise."""
    if others is None:
        return False
    middle = hodges_lehmann(changes)
    return middle < -accepted and middle - min(others, 0.0) >= -accepted - noise.between_runs
