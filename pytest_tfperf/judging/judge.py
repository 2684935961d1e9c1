"""The judgement of one test: a session's runs against the baseline. Pure, from numbers alone.

Rule 1 confirms a suspected slowdown in fresh pairs with the reference environment, rule 2 in fresh runs against the
baseline (docs/statistics.md). benchmarks/verdict.py counts how often either is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.throughput import RunValue, Throughput, hodges_lehmann
from pytest_tfperf.core.verdict import (
    MOST_COUNTED,
    NOTHING,
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
)
from pytest_tfperf.judging.common_drift import CommonDrift
from pytest_tfperf.judging.confirmation import PAIR_STAGES, Confirmation, by_pairs, by_runs
from pytest_tfperf.judging.noise import mean_square
from pytest_tfperf.judging.reference import MOST_RUNS, Reference
from pytest_tfperf.judging.session_variance import LearntReference, SessionVariance, learnt_reference, session_variance
from pytest_tfperf.judging.thresholds import (
    DETECTION,
    FALSE_ALARMS,
    TO_BE_FOUND,
    accepted_rise,
    accepted_slowdown,
    is_blind,
    quantile,
    screen_error,
    suspicion,
)
from pytest_tfperf.judging.validity import invalid

_SESSIONS_HELD = 2
_COUNTS_SHOWN = (1, 3, 5, 8)  # of runs, where there are no pairs
_NO_RISE = 100.0  # log throughput: nothing is so much faster, and floats end soon after
_UNSURE = 2.0  # standard errors of a run's own windows: it stops early only if it is good even so


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that a verdict on one test rests on.

    Args:
        throughput: the test's runs of this session; runs that are part of `pairs` are not in it.
        reference: what it is judged against.
        tolerance: the accepted change.
        pairs: good pairs with the reference environment, in order; a is the reference environment's run.
        drift: what all tests of the session have in common.
        variance: what a session does to one test by itself, learnt from history.
        past: earlier sessions judged against the same row, oldest first.
        tests: tests of the session that have a baseline; rule 2 shares the false alarms among them.
        suspects: tests that their first run left undecided; rule 1 shares the false alarms among them.
        has_reference_environment: whether pairs can be measured, so that rule 1 applies.
        max_runs: the most runs that can be measured, 1 for a log; no further pairs then either. None: no limit.
        hold: fail only what one of the two sessions before did not pass either.
        others: what the other tests did, in log throughput, where they are too few for a common drift; else None.
        is_drift_to_come: tests that show the common drift, or what the others did, are still to run.
    """

    throughput: Throughput
    reference: Reference
    tolerance: Tolerance
    pairs: Sequence[Pair] = ()
    drift: CommonDrift = CommonDrift()
    others: float | None = None
    variance: SessionVariance = field(default_factory=session_variance)
    past: Sequence[SessionChanges] = ()
    tests: int = 1
    suspects: int = 1
    has_reference_environment: bool = False
    max_runs: int | None = None
    hold: bool = False
    is_drift_to_come: bool = False

    @property
    def sessions_before(self) -> Sequence[SessionChanges]:
        """Those of which `hold` asks that one did not pass either."""
        return self.past[-_SESSIONS_HELD:]

    @property
    def has_pairs(self) -> bool:
        """Whether pairs decide: there are some, or they can be measured."""
        return self.has_reference_environment and (self.max_runs is None or bool(self.pairs))

    @property
    def possible_drifts(self) -> Sequence[CommonDrift]:
        """The drifts under which a test must raise no suspicion; the measured one comes first.

        The tests that ran first may have lost something by themselves, so a drift for the worse clears no other test
        before all have run. And where too few tests show a common drift, they may still have become faster together,
        which would hide the loss of one; pairs then tell.
        """
        drifts = [self.drift]
        if self.is_drift_to_come and self.drift.log < 0:
            drifts.append(replace(self.drift, log=0.0))
        if self.has_pairs and self.others is not None and self.others > 0:
            drifts.append(replace(self.drift, log=self.others))
        return drifts


def judge(evidence: Evidence) -> Verdict:
    """Judge one test.

    A first run that is not suspected passes. A suspected slowdown is confirmed in fresh pairs or runs, stage by stage,
    and cleared at the first stage that doesn't show it. The last stage is REGRESSED where the middle is beyond the
    threshold and nearly all pairs or runs show at least half of it. So one slow run fails no test.
    """
    if (found := invalid(evidence.throughput)) is not None:
        return found
    reference, baseline, noise = evidence.reference, evidence.reference.baseline, evidence.reference.noise
    if baseline is None or noise is None:
        return Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE)
    # Earlier sessions may have counted another unit. A row that did was refused before.
    if reference.against is Against.EARLIER_SESSIONS and baseline.unit != evidence.throughput.unit:
        return Verdict(outcome=Outcome.NO_BASELINE, reason=Reason.NO_BASELINE)
    evidence = evidence if reference.is_own_row else _by_itself(evidence)
    cases = [_Case.of(evidence, drift, baseline, noise) for drift in evidence.possible_drifts]
    suspect = next((case for case in cases if case.by_runs.is_suspected), None)
    if evidence.is_drift_to_come:
        depends = suspect is not None or len({case.good().outcome for case in cases}) > 1
        if depends or not evidence.drift.is_known:
            return cases[0].verdict(Outcome.INCONCLUSIVE, Reason.DRIFT_UNKNOWN, Wants(Want.COMMON_DRIFT))
    return cases[0].good() if suspect is None else suspect.confirmed()


def may_stop_early(
    run: RunValue, reference: Reference, tolerance: Tolerance, *, has_reference_environment: bool
) -> bool:
    """Whether a first run may end before its last window: the lower end of its interval raises no suspicion.

    The verdict on it is `judge`'s. Only good news stops a run early: stopping on bad news multiplies the false alarms.
    """
    baseline, noise = reference.baseline, reference.noise
    if baseline is None or noise is None:
        return False
    error = screen_error(noise.between_runs, baseline.runs)
    change = run.log_rate - math.log(baseline.reference)
    to_be_found = TO_BE_FOUND if has_reference_environment else math.inf
    return change - _UNSURE * run.error >= -suspicion(accepted_slowdown(tolerance), error, to_be_found)


def _by_itself(evidence: Evidence) -> Evidence:
    """Without drift, history and reference environment, which belong to the machine's own rows only."""
    alone = replace(
        evidence,
        drift=CommonDrift(),
        is_drift_to_come=False,
        others=None,
        past=(),
        hold=False,
        has_reference_environment=False,
    )
    if evidence.reference.against is not Against.EARLIER_SESSIONS:
        return alone
    return replace(alone, max_runs=min(MOST_RUNS, evidence.max_runs or MOST_RUNS))


@dataclass(frozen=True, slots=True)
class _Case:
    """One test, its runs' changes against the baseline, and how a slowdown of it is confirmed.

    Args:
        drift: what is taken out of its runs' changes, one of `Evidence.possible_drifts`.
        is_shared: its runs are slower by more than the tolerance, and so are the session's other tests, which are too
            few to take that out. The threshold then allows for more of what sessions may do.
    """

    evidence: Evidence
    drift: CommonDrift
    baseline: Baseline
    noise: Noise
    learnt: LearntReference
    by_runs: Confirmation
    confirmation: Confirmation
    is_shared: bool

    @classmethod
    def of(cls, evidence: Evidence, drift: CommonDrift, baseline: Baseline, noise: Noise) -> _Case:
        accepted = accepted_slowdown(evidence.tolerance)
        has_pairs = evidence.has_pairs
        past = () if has_pairs else evidence.past  # today's pairs need no history
        learnt = learnt_reference(noise, baseline.runs, past, evidence.variance.mean)
        expected = math.log(baseline.reference) + drift.log + learnt.offset
        changes = [run.log_rate - expected for run in evidence.throughput.runs]
        is_shared = not has_pairs and _is_shared(changes, accepted, noise, evidence.others)
        runs = by_runs(
            evidence.throughput.runs,
            changes,
            noise,
            accepted,
            learnt=learnt,
            drift=drift,
            session_sd=evidence.variance.mean,
            most_session_sd=evidence.variance.upper_of_shared if is_shared else evidence.variance.upper,
            tests=evidence.tests,
            max_runs=evidence.max_runs,
            to_be_found=TO_BE_FOUND if has_pairs else math.inf,
            warns_only=evidence.reference.if_slower is Consequence.WARNS,
        )
        pairs = by_pairs(
            evidence.pairs, noise, accepted, suspects=evidence.suspects, can_have_more=evidence.max_runs is None
        )
        return cls(evidence, drift, baseline, noise, learnt, runs, pairs if has_pairs else runs, is_shared)

    def good(self) -> Verdict:
        """Not slower; maybe faster."""
        if self.by_runs.middle <= self.rise:
            return self.unless_blind(Outcome.PASS, Reason[self.by_runs.good_reason.name])
        if self.evidence.reference.is_floor:
            return self.verdict(Outcome.PASS, Reason.ABOVE_FLOOR)
        return self.verdict(Outcome.IMPROVED, Reason.FASTER)

    def confirmed(self) -> Verdict:
        """The verdict on a suspect from its pairs or runs so far."""
        outcome, conclusion, wants = self.confirmation.decided()
        reason = Reason[conclusion.name]
        if outcome is Outcome.REGRESSED and self.evidence.hold and not self.was_slow_before:
            return self.verdict(Outcome.INCONCLUSIVE, Reason.HELD)
        if outcome is Outcome.REGRESSED and len(self.confirmation.changes) == 1:
            return self.verdict(outcome, Reason.SINGLE_RUN)
        if reason is Reason.WITHIN_NOISE and self.is_shared:
            reason = Reason.OTHERS_TOO
        is_open = outcome is Outcome.REGRESSED or wants != NOTHING
        return self.verdict(outcome, reason, wants) if is_open else self.unless_blind(outcome, reason)

    def unless_blind(self, outcome: Outcome, reason: Reason) -> Verdict:
        """A pass or a doubt that rests on the threshold, unless noise lets nearly anything pass."""
        if is_blind(self.confirmation.threshold(FALSE_ALARMS), self.confirmation.accepted):
            return self.verdict(Outcome.TOO_NOISY, Reason.TOO_NOISY)
        return self.verdict(outcome, reason)

    @property
    def was_slow_before(self) -> bool:
        """Whether one of the two sessions before did not pass."""
        doubted = (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
        return any(session.outcome in doubted for session in self.evidence.sessions_before)

    @property
    def rise(self) -> float:
        """The rise of the runs from which they are faster than the tolerance and noise explain."""
        error = self.by_runs.error(len(self.by_runs.changes))
        share = FALSE_ALARMS / max(self.evidence.tests, 1)
        return max(accepted_rise(self.evidence.tolerance), quantile(self.noise.degrees_of_freedom, share) * error)

    def min_detectable(self, confirmation: Confirmation) -> float:
        """The slowdown that the first run and the decision both detect, with 95 % power."""
        first = self.by_runs.suspicion(1) + DETECTION * self.by_runs.error(1)
        return max(first, confirmation.threshold(FALSE_ALARMS) + DETECTION * confirmation.decision_error)

    def verdict(self, outcome: Outcome, reason: Reason, wants: Wants = NOTHING) -> Verdict:
        """The verdict with the figures that led to it."""
        evidence, found = self.evidence, self.confirmation
        reference = self.baseline.reference * math.exp(self.drift.log + self.learnt.offset)
        is_bounded = evidence.tolerance.lower is not None
        threshold = found.threshold(FALSE_ALARMS)
        is_confirmed = len(found.changes) > 1 and self.by_runs.is_suspected
        return Verdict(
            outcome=outcome,
            reason=reason,
            rule=found.rule,
            baseline=self.baseline,
            is_floor=evidence.reference.is_floor,
            change=evidence.throughput.examples_per_sec / self.baseline.reference - 1,
            confirmed_change=math.expm1(found.middle) if is_confirmed else None,
            lower=reference * math.exp(-self.by_runs.suspicion(1)) if is_bounded else None,
            upper=None if self.rise > _NO_RISE or evidence.reference.is_floor else reference * math.exp(self.rise),
            tolerance=evidence.tolerance,
            threshold=-math.expm1(-threshold) if is_bounded else None,
            min_detectable_slowdown=-math.expm1(-self.min_detectable(found)) if is_bounded else None,
            noise=replace(self.noise, between_sessions=evidence.variance.mean),
            common_drift=evidence.drift.log,
            tests=found.tests,
            wants=wants,
            decision=self.decision(threshold) if is_bounded else None,
        )

    def decision(self, threshold: float) -> Decision:
        """What the verdict rests on, and what other numbers of runs or pairs would tell."""
        runs, found = self.by_runs, self.confirmation
        counts = PAIR_STAGES if found.rule is Rule.REFERENCE_ENVIRONMENT else _COUNTS_SHOWN
        within = mean_square(run.error for run in self.evidence.throughput.runs)
        return Decision(
            expected=self.baseline.reference * math.exp(self.drift.log + self.learnt.offset),
            first_change=_fraction(runs.changes[0]),
            suspected_from=-_fraction(-runs.suspicion(1)),
            changes=tuple(map(_fraction, found.changes)),
            middle=_fraction(found.middle) if found.changes else None,
            accepted=-_fraction(-found.accepted),
            threshold=-_fraction(-threshold),
            showing=found.showing(threshold),
            showing_needed=found.needed(found.agreement),
            last=found.stages[-1],
            enough=found.enough(MOST_COUNTED),
            deviations=StandardDeviations(
                within_runs=None if within is None else math.sqrt(within),
                between_runs=self.noise.between_runs,
                of_baseline=self.noise.between_runs * math.sqrt(self.learnt.runs_variance),
                between_sessions=self.evidence.variance.mean,
            ),
            powers=tuple(self.power(count) for count in counts),
        )

    def power(self, count: int) -> Power:
        """What a confirmation in so many runs or pairs tells."""
        found = self.confirmation.in_all(count)
        threshold = found.threshold(FALSE_ALARMS)
        return Power(count, -_fraction(-threshold), -_fraction(-self.min_detectable(found)))


def _is_shared(changes: Sequence[float], accepted: float, noise: Noise, others: float | None) -> bool:
    """Whether a test is slower by more than is accepted, and no more than that slower than the others, within noise."""
    if others is None:
        return False
    middle = hodges_lehmann(changes)
    return middle < -accepted and middle - min(others, 0.0) >= -accepted - noise.between_runs


def _fraction(log: float) -> float:
    """A change in log throughput as a fraction."""
    return math.expm1(min(log, _NO_RISE))
