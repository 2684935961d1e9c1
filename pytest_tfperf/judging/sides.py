"""The judgement of one figure of a comparison: side b's values against side a's, by the test of their pairs."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import NOTHING, WORST_FIRST, Outcome, Reason, Rule, Verdict, Want, Wants
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.noise import ASSUMED_BETWEEN_RUNS
from pytest_tfperf.judging.pairs import EXPECTED_PAIRS, MIN_PAIRS, Scatter
from pytest_tfperf.judging.validity import invalid, unusable

OF_RATES = Scatter(2 * ASSUMED_BETWEEN_RUNS**2, EXPECTED_PAIRS)
"""The scatter that is assumed for pairs of throughputs."""

_OF_FIGURES = Scatter(0.0, 0.0)
"""Nothing is assumed for another figure: it may be the same in each run, and then a small change counts."""


def judge_sides(evidence: Evidence) -> Verdict:
    """Judge a figure of side b against side a; a figure's limit holds for b."""
    blank = Verdict(
        figure=evidence.figure,
        value=evidence.value,
        rank=evidence.rank,
        places=evidence.places,
        rule=Rule.OTHER_SIDE,
        tolerance=evidence.tolerance if evidence.values is None else None,
    )
    if evidence.values is None:
        last = evidence.pairs[-1]
        verdict = _compared(evidence, blank)
        faults = (invalid(summarise([run])) for run in (last.a, last.b))
        fault = next(filter(None, faults), None)
        return verdict if fault is None else replace(verdict, outcome=fault.outcome, reason=fault.reason, wants=NOTHING)
    if (reason := unusable(evidence.seen)) is not None:
        value = None if reason is Reason.NOT_MEASURED else evidence.value
        return replace(blank, outcome=Outcome.INVALID, reason=reason, value=value)
    if len(evidence.places) > 1:
        verdict = replace(blank, outcome=Outcome.INVALID, reason=Reason.OTHER_PLACE)
    elif len(evidence.values_of_pairs) < len(evidence.pairs):
        verdict = replace(blank, outcome=Outcome.NO_BASELINE, reason=Reason.OTHER_SIDE_LACKS)
    else:
        verdict = _compared(evidence, blank)
    return _within_limit(evidence, verdict)


def _within_limit(evidence: Evidence, verdict: Verdict) -> Verdict:
    now = evidence.values_of_b
    if not evidence.figure.exceeds_limit(statistics.median(now)):
        return verdict
    if len(now) >= MIN_PAIRS:
        return replace(verdict, outcome=Outcome.REGRESSED, reason=Reason.BEYOND_LIMIT, wants=NOTHING)
    wants = Wants(Want.PAIRS, MIN_PAIRS) if len(now) < evidence.most_pairs else NOTHING
    return replace(verdict, outcome=Outcome.INCONCLUSIVE, reason=Reason.SUSPECTED, wants=wants)


def _compared(evidence: Evidence, blank: Verdict) -> Verdict:
    """Return the worse of the verdicts on changes in either direction."""
    verdicts = [_in_direction(evidence, blank, sign) for sign in evidence.figure.signs]
    return min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.outcome or Outcome.PASS))


def _in_direction(evidence: Evidence, blank: Verdict, sign: int) -> Verdict:
    scale = evidence.scale
    test = evidence.pairs_test(sign, OF_RATES if scale.is_logarithm else _OF_FIGURES, is_assumed=True)
    outcome, reason, wants = test.decided()
    threshold = test.threshold_in(test.last)
    if outcome is Outcome.PASS and scale.is_blind(test.hidden_by_noise, test.accepted):
        outcome, reason = Outcome.INCONCLUSIVE, Reason.TOO_NOISY
    low, high = sorted(scale.shown(sign * end) for end in test.interval)
    change = scale.shown(sign * test.middle)
    return replace(
        blank,
        outcome=outcome,
        reason=reason,
        change=change,
        confirmed_change=change,
        confirmed_from=evidence.target_of_pairs,
        interval=(low, high),
        threshold=scale.shown_loss(threshold) if math.isfinite(threshold) else None,
        tests=test.tests,
        wants=wants,
    )
