"""The judgement of one figure of a comparison: side b's values against side a's, by the test of their pairs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from pytest_tfperf.core.verdict import NOTHING, WORST_FIRST, Outcome, Reason, Rule, Verdict, Want, Wants
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.pairs import MIN_PAIRS

_FAULTS_THAT_TELL = 2  # pairs in which b alone has no usable value, after which b is to blame, as where it crashes


def judge_sides(evidence: Evidence) -> Verdict:
    """Judge a figure of side b against side a; a figure's limit holds for b.

    A value that only b lacks, or that is no finite number in b only, fails as a loss does. Where a gave the value in
    some runs only, the pairs that have both values can show a loss, but can't clear b.
    """
    blank = replace(evidence.blank, rule=Rule.OTHER_SIDE, tolerance=evidence.scale.tolerance)
    a = [evidence.scale.fault(pair.a) for pair in evidence.pairs]
    b = [evidence.scale.fault(pair.b) for pair in evidence.pairs]
    if Reason.DIVERGED in (*a, *b):  # the throughputs can be compared all the same
        return _without_value(evidence, _compared(evidence, blank), a, b)
    if any(b) or Reason.NOT_FINITE in a:
        return _without_value(evidence, blank, a, b)
    if len(evidence.places) > 1:
        verdict = replace(blank, outcome=Outcome.INVALID, reason=Reason.OTHER_PLACE)
    elif all(a):
        verdict = replace(blank, outcome=Outcome.NO_BASELINE, reason=Reason.OTHER_SIDE_LACKS)
    else:
        verdict = _compared(evidence, blank)
        if any(a) and verdict.is_decided and verdict.outcome is not Outcome.REGRESSED:
            verdict = replace(verdict, outcome=Outcome.INVALID, reason=Reason.OTHER_SIDE_LACKS)
    return _within_limit(evidence, verdict)


def _without_value(
    evidence: Evidence, verdict: Verdict, a: Sequence[Reason | None], b: Sequence[Reason | None]
) -> Verdict:
    """Return the verdict where runs have no value that can be compared: REGRESSED if only b lacks it, in two pairs.

    The system may fail to give a figure that is measured, which is no fault of b's.
    """
    reasons = [reason for reason in (*b, *a) if reason is not None]
    reason = reasons[0]
    if reason is not Reason.DIVERGED:
        values = (value for value in evidence.measured.seen if value is not None and not math.isfinite(value))
        known = [value for value in evidence.measured.a if math.isfinite(value)]
        target = statistics.median(known) if known else None
        value = None if reason is Reason.NOT_MEASURED else next(values)
        verdict = replace(verdict, value=value, confirmed_from=target)
    is_of_b = not any(a) and not (reason is Reason.NOT_MEASURED and evidence.figure.is_measured)
    if is_of_b and len(reasons) >= _FAULTS_THAT_TELL:
        return replace(verdict, outcome=Outcome.REGRESSED, reason=reason, wants=NOTHING)
    if is_of_b and len(b) < min(MIN_PAIRS, evidence.terms.max_pairs):
        wants = Wants(Want.PAIRS, len(b) + 1)
        return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=Reason.SUSPECTED, wants=wants)
    return replace(verdict, outcome=Outcome.INVALID, reason=reason, wants=NOTHING)


def _within_limit(evidence: Evidence, verdict: Verdict) -> Verdict:
    now = evidence.measured.b
    if not now or not evidence.figure.exceeds_limit(statistics.median(now)):
        return verdict
    if len(now) >= MIN_PAIRS:
        return replace(verdict, outcome=Outcome.REGRESSED, reason=Reason.BEYOND_LIMIT, wants=NOTHING)
    wants = Wants(Want.PAIRS, MIN_PAIRS) if len(now) < evidence.terms.max_pairs else NOTHING
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=Reason.SUSPECTED, wants=wants)


def _compared(evidence: Evidence, blank: Verdict) -> Verdict:
    """Return the worse of the verdicts on changes in either direction."""
    verdicts = [_in_direction(evidence, blank, sign) for sign in evidence.figure.signs]
    return min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.outcome or Outcome.PASS))


def _in_direction(evidence: Evidence, blank: Verdict, sign: int) -> Verdict:
    scale = evidence.scale
    test = evidence.pairs_test(sign, scale.assumed, is_assumed=True)
    outcome, reason, wants = test.decided()
    threshold = test.threshold_in(test.last)
    # Beyond a required ratio even by its interval, a noisy ratio is good enough.
    is_enough = evidence.terms.at_least is not None and test.interval[0] > -test.accepted
    if outcome is Outcome.PASS and not is_enough and scale.is_blind(test.hidden_by_noise, test.accepted):
        outcome, reason = Outcome.INCONCLUSIVE, Reason.TOO_NOISY
    low, high = sorted(scale.shown(sign * end - evidence.offset_of_pairs) for end in test.interval)
    change = scale.shown(sign * test.middle - evidence.offset_of_pairs)
    return replace(
        blank,
        outcome=outcome,
        reason=reason,
        change=change,
        confirmed_change=change,
        confirmed_from=evidence.measured.target,
        interval=(low, high),
        threshold=-scale.shown(-threshold) if math.isfinite(threshold) else None,
        tests=test.tests,
        wants=wants,
    )
