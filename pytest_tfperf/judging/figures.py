"""The judgement of a figure of a comparison: b's values against a's, by the interval and error rates of their ratios.

It wants no pairs of its own unless it is suspected.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.verdict import NOTHING, WORST_FIRST, Outcome, Reason, Rule, Verdict, Want, Wants
from pytest_tfperf.judging.pairs import MIN_PAIRS, ErrorRates, share, spread, trimmed_mean
from pytest_tfperf.judging.thresholds import quantile, suspicion
from pytest_tfperf.judging.validity import unusable


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """All that the verdict on a figure of a comparison rests on.

    Args:
        figure: what was asked for.
        pairs: its values in a and b, of each pair; None where a run could not tell it.
        rank: whose value the last of b is.
        places: where both programs printed them, each place once; none for what is measured.
        most_pairs: after how many pairs the comparison ends.
        error_rates: how often all of its tests may be wrong.
        figures: how many figures share them.
    """

    figure: Figure
    pairs: Sequence[tuple[float | None, float | None]]
    rank: str = ""
    places: tuple[str, ...] = ()
    most_pairs: int
    error_rates: ErrorRates
    figures: int = 1


def judge_compared(evidence: ComparedFigure) -> Verdict:
    """Judge a figure of b against a's; `wants` asks for a further pair. The limit holds for b."""
    figure = evidence.figure
    blank = Verdict(figure=figure, value=None, rank=evidence.rank, places=evidence.places, rule=Rule.OTHER_SIDE)
    now = [b for _, b in evidence.pairs if b is not None]
    then = [a for a, _ in evidence.pairs if a is not None]
    known = replace(blank, value=statistics.median(now) if now else nan)
    if (reason := unusable([*(b for _, b in evidence.pairs), *then])) is not None:
        value = None if reason is Reason.NOT_MEASURED else known.value
        return replace(known, outcome=Outcome.INVALID, reason=reason, value=value)
    if len(evidence.places) > 1:
        known = replace(known, outcome=Outcome.INVALID, reason=Reason.OTHER_PLACE)
    elif len(then) < len(now):
        known = replace(known, outcome=Outcome.NO_BASELINE, reason=Reason.OTHER_SIDE_LACKS)
    else:
        both = list(zip(then, now, strict=True))
        found = [_judged(evidence, known, both, sign) for sign in figure.signs]
        known = min(found, key=lambda one: WORST_FIRST.index(one.outcome or Outcome.PASS))
    if figure.exceeds_limit(statistics.median(now)):
        if len(now) >= MIN_PAIRS:
            return replace(known, outcome=Outcome.REGRESSED, reason=Reason.BEYOND_LIMIT, wants=NOTHING)
        return replace(known, outcome=Outcome.INCONCLUSIVE, reason=Reason.SUSPECTED, wants=_one_more(evidence))
    return known


def settled(verdict: Verdict) -> Verdict:
    """The verdict where no further pair is taken: a suspect within the tolerance passes, another stays in doubt."""
    if verdict.is_decided:
        return verdict
    is_within = (
        verdict.threshold is not None
        and verdict.change is not None
        and abs(verdict.change) <= verdict.figure.accepted(verdict.confirmed_from or 0.0)
    )
    outcome = Outcome.PASS if is_within else Outcome.INCONCLUSIVE
    reason = Reason.WITHIN_TOLERANCE if is_within else Reason.WITHIN_NOISE
    return replace(verdict, outcome=outcome, reason=reason, wants=NOTHING)


def _judged(evidence: ComparedFigure, known: Verdict, pairs: Sequence[tuple[float, float]], sign: int) -> Verdict:
    """Against the tolerance in one direction.

    A t interval over pairs, by Yuen, as of ratios. No scatter is assumed beside what the pairs show: a loss may be the
    same in each run, and an assumption made for rates would hide a small change of it.
    """
    reference = statistics.median(a for a, _ in pairs)
    accepted = evidence.figure.accepted(reference)
    changes = [sign * (b - a) for a, b in pairs]
    middle = trimmed_mean(changes)
    known = replace(known, change=sign * middle, confirmed_change=sign * middle, confirmed_from=reference)
    suspected = replace(known, outcome=Outcome.INCONCLUSIVE, reason=Reason.SUSPECTED, wants=_one_more(evidence))
    if len(pairs) < MIN_PAIRS:
        return suspected
    variance, freedom = spread(changes)
    error = math.sqrt(variance / len(pairs))
    false_alarms = evidence.error_rates.false_alarms / (evidence.figures * len(evidence.figure.signs))
    margin = quantile(freedom, share(false_alarms, evidence.most_pairs)) * error
    known, suspected = (replace(one, threshold=accepted + margin) for one in (known, suspected))
    if middle + margin < -accepted:
        return replace(known, outcome=Outcome.REGRESSED, reason=Reason.CONFIRMED)
    if evidence.figure.better is not Better.SAME and middle - margin > accepted:
        return replace(known, outcome=Outcome.IMPROVED, reason=Reason.BETTER)
    if middle >= -min(suspicion(accepted, error), accepted):
        return replace(known, outcome=Outcome.PASS, reason=Reason.WITHIN_TOLERANCE)
    return suspected


def _one_more(evidence: ComparedFigure) -> Wants:
    return Wants(Want.PAIRS, len(evidence.pairs) + 1)
