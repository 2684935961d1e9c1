"""The judgement of a figure beside the throughput: the same screen, stages and thresholds, in the figure's own unit.

A figure is suspected by its runs, and confirmed in pairs with the reference environment or in fresh runs, as a rate is
(`judge`). What differs: the accepted change is the larger of two tolerances, a limit needs no baseline, and of a figure
that should stay the same either direction is judged.

In a comparison (`judge_compared`) a figure has the interval and error rates of the pairs' ratios, and wants no pairs of
its own unless it is suspected.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.figure_verdict import FigureReason, FigureVerdict
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.verdict import NOTHING, WORST_FIRST, Noise, Outcome, Rule, Want, Wants
from pytest_tfperf.judging.confirmation import PAIR_STAGES, RUN_STAGES, Confirmation, variance_of_pairs
from pytest_tfperf.judging.pairs import MIN_PAIRS, ErrorRates, share, spread, trimmed_mean
from pytest_tfperf.judging.thresholds import (
    DETECTION,
    FALSE_ALARMS,
    quantile,
    reference_variance,
    suspicion,
)
from pytest_tfperf.judging.validity import invalid_figure

_LIMIT_RUNS = RUN_STAGES[1]
"""Values of the current environment that confirm one beyond the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureEvidence:
    """All that a verdict on one figure rests on.

    Args:
        figure: what was asked for.
        values: of the test's runs in this session; None where a run could not tell it.
        pairs: of good pairs with the reference environment (first) and the current one.
        rank: whose value the last one is.
        places: where the program printed them, each place once; none for what is measured.
        baseline: the figure's row; None for none.
        noise: between-run noise of the row, as fractions of its reference; None without a row.
        expected_factor: by what the drift common to all tests multiplies its reference, where it depends on speed.
        session_sd: the most that a session is likely to change it, as a fraction; 0 for what does not depend on speed.
        tests: verdicts of the session that share the false alarms of rule 2.
        suspects: verdicts that share those of rule 1.
        has_reference_environment: whether pairs can be measured.
    """

    figure: Figure
    values: Sequence[float | None]
    pairs: Sequence[tuple[float | None, float | None]] = ()
    rank: str = ""
    places: tuple[str, ...] = ()
    baseline: Baseline | None = None
    noise: Noise | None = None
    expected_factor: float = 1.0
    session_sd: float = 0.0
    tests: int = 1
    suspects: int = 1
    has_reference_environment: bool = False


def judge_figure(evidence: FigureEvidence) -> FigureVerdict:
    """Judge one figure of one test."""
    figure, row, noise = evidence.figure, evidence.baseline, evidence.noise
    values = [value for value in evidence.values if value is not None]
    now = values + [b for _, b in evidence.pairs if b is not None]
    pairs = [(a, b) for a, b in evidence.pairs if a is not None and b is not None]
    value = hodges_lehmann(values) if values else nan
    seen = [*evidence.values, *(one for pair in evidence.pairs for one in pair)]
    if (found := invalid_figure(_of(evidence, value), seen)) is not None:
        return found
    if any(map(figure.exceeds_limit, now)):
        if len(now) < _LIMIT_RUNS:
            wants = Wants(Want.RUNS, _LIMIT_RUNS - len(pairs))
            return replace(_of(evidence, value, Outcome.INCONCLUSIVE, FigureReason.SUSPECTED), wants=wants)
        if figure.exceeds_limit(statistics.median(now)):
            return _of(evidence, value, Outcome.REGRESSED, FigureReason.BEYOND_LIMIT)
    if row is None or noise is None:
        if figure.limit is not None:
            return _of(evidence, value, Outcome.PASS, FigureReason.WITHIN_LIMIT)
        return _of(evidence, value, Outcome.NO_BASELINE, FigureReason.NO_BASELINE)
    if (reason := _not_comparable(evidence, row)) is not None:
        return _of(evidence, value, Outcome.INVALID, reason)
    signs = figure.signs
    each = [_Direction.of(evidence, row, noise, values, pairs, sign, len(signs)).verdict(value) for sign in signs]
    return min(each, key=lambda one: WORST_FIRST.index(one.outcome or Outcome.PASS))


def _not_comparable(evidence: FigureEvidence, row: Baseline) -> FigureReason | None:
    """Why the values can't be held against the row; None where they can."""
    if row.unit != (evidence.figure.unit or ""):
        return FigureReason.OTHER_UNIT
    # A row that does not say its place may be of any.
    return FigureReason.OTHER_PLACE if any(place != row.place for place in evidence.places) else None


def detectable(accepted: float, error: float) -> float:
    """The change that one run against a row shows with 98 % power, in the unit of both."""
    return suspicion(accepted, error) + DETECTION * error


def _of(
    evidence: FigureEvidence,
    value: float,
    outcome: Outcome | None = None,
    reason: FigureReason = FigureReason.ONLY_MEASURED,
) -> FigureVerdict:
    row = evidence.baseline
    return FigureVerdict(
        figure=evidence.figure,
        value=value,
        rank=evidence.rank,
        places=evidence.places,
        outcome=outcome,
        reason=reason,
        baseline=row,
        change=None if row is None or reason is FigureReason.OTHER_UNIT else value - row.reference,
    )


@dataclass(frozen=True, slots=True)
class _Direction:
    """One direction of change: changes are negative if they are for the worse, as a rate's."""

    evidence: FigureEvidence
    sign: int
    reference: float
    by_runs: Confirmation
    confirmation: Confirmation

    @classmethod
    def of(
        cls,
        evidence: FigureEvidence,
        row: Baseline,
        noise: Noise,
        values: Sequence[float],
        pairs: Sequence[tuple[float, float]],
        sign: int,
        directions: int,
    ) -> _Direction:
        scale, expected = abs(row.reference), row.reference * evidence.expected_factor
        in_unit = replace(noise, between_runs=noise.between_runs * scale)
        own = in_unit.between_runs**2
        runs = Confirmation(
            rule=Rule.BASELINE,
            changes=tuple(sign * (value - expected) for value in values),
            stages=RUN_STAGES,
            accepted=evidence.figure.accepted(row.reference),
            own_variance=own,
            own_variance_today=own,
            shared_variance=own * reference_variance(row.runs),
            most_session_variance=(evidence.session_sd * scale) ** 2,
            degrees_of_freedom=noise.degrees_of_freedom,
            tests=evidence.tests * directions,
        )
        if not evidence.has_reference_environment:
            return cls(evidence, sign, row.reference, runs, runs)
        suspects = evidence.suspects * directions
        changes = tuple(sign * (b - a) for a, b in pairs)
        of_pairs, freedom = variance_of_pairs(changes, in_unit, suspects)
        reference = statistics.median(a for a, _ in pairs) if pairs else row.reference
        by_pairs = replace(
            runs,
            rule=Rule.REFERENCE_ENVIRONMENT,
            changes=changes,
            stages=PAIR_STAGES,
            accepted=evidence.figure.accepted(reference),
            own_variance=of_pairs,
            own_variance_today=of_pairs,
            shared_variance=0.0,
            most_session_variance=0.0,
            degrees_of_freedom=freedom,
            tests=suspects,
        )
        return cls(evidence, sign, reference, runs, by_pairs)

    def verdict(self, value: float) -> FigureVerdict:
        found = self.confirmation
        if self.by_runs.is_suspected:
            outcome, conclusion, wants = found.decided()
            reason = FigureReason[conclusion.name]
        else:
            outcome, reason, wants = self._good()
        is_confirmed = len(found.changes) > 1 and self.by_runs.is_suspected
        return replace(
            _of(self.evidence, value, outcome, reason),
            rule=found.rule,
            confirmed_change=self.sign * found.middle if is_confirmed else None,
            confirmed_from=self.reference if is_confirmed else None,
            threshold=found.threshold(FALSE_ALARMS),
            wants=wants,
        )

    def _good(self) -> tuple[Outcome, FigureReason, Wants]:
        runs = self.by_runs
        noise = quantile(runs.degrees_of_freedom, FALSE_ALARMS / runs.tests) * runs.error(len(runs.changes))
        is_better = self.evidence.figure.better is not Better.SAME and runs.middle > max(runs.accepted, noise)
        if is_better:
            return Outcome.IMPROVED, FigureReason.BETTER, Wants()
        return Outcome.PASS, FigureReason[runs.good_reason.name], Wants()


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


def judge_compared(evidence: ComparedFigure) -> FigureVerdict:
    """Judge a figure of b against a's; `wants` asks for a further pair. The limit holds for b."""
    figure = evidence.figure
    blank = FigureVerdict(figure=figure, value=None, rank=evidence.rank, places=evidence.places, rule=Rule.OTHER_SIDE)
    now = [b for _, b in evidence.pairs if b is not None]
    then = [a for a, _ in evidence.pairs if a is not None]
    known = replace(blank, value=statistics.median(now) if now else nan)
    if (invalid := invalid_figure(known, [b for _, b in evidence.pairs], beside=then)) is not None:
        return invalid
    if len(evidence.places) > 1:
        known = replace(known, outcome=Outcome.INVALID, reason=FigureReason.OTHER_PLACE)
    elif len(then) < len(now):
        known = replace(known, outcome=Outcome.NO_BASELINE, reason=FigureReason.OTHER_SIDE_LACKS)
    else:
        both = list(zip(then, now, strict=True))
        found = [_judged(evidence, known, both, sign) for sign in figure.signs]
        known = min(found, key=lambda one: WORST_FIRST.index(one.outcome or Outcome.PASS))
    if figure.exceeds_limit(statistics.median(now)):
        if len(now) >= MIN_PAIRS:
            return replace(known, outcome=Outcome.REGRESSED, reason=FigureReason.BEYOND_LIMIT, wants=NOTHING)
        return replace(known, outcome=Outcome.INCONCLUSIVE, reason=FigureReason.SUSPECTED, wants=_one_more(evidence))
    return known


def settled(verdict: FigureVerdict) -> FigureVerdict:
    """The verdict where no further pair is taken: a suspect within the tolerance passes, another stays in doubt."""
    if verdict.is_decided:
        return verdict
    is_within = (
        verdict.threshold is not None
        and verdict.change is not None
        and abs(verdict.change) <= verdict.figure.accepted(verdict.confirmed_from or 0.0)
    )
    outcome = Outcome.PASS if is_within else Outcome.INCONCLUSIVE
    reason = FigureReason.WITHIN_TOLERANCE if is_within else FigureReason.WITHIN_NOISE
    return replace(verdict, outcome=outcome, reason=reason, wants=NOTHING)


def _judged(
    evidence: ComparedFigure, known: FigureVerdict, pairs: Sequence[tuple[float, float]], sign: int
) -> FigureVerdict:
    """Against the tolerance in one direction.

    A t interval over pairs, by Yuen, as of ratios. No scatter is assumed beside what the pairs show: a loss may be the
    same in each run, and an assumption made for rates would hide a small change of it.
    """
    reference = statistics.median(a for a, _ in pairs)
    accepted = evidence.figure.accepted(reference)
    changes = [sign * (b - a) for a, b in pairs]
    middle = trimmed_mean(changes)
    known = replace(known, change=sign * middle, confirmed_change=sign * middle, confirmed_from=reference)
    suspected = replace(known, outcome=Outcome.INCONCLUSIVE, reason=FigureReason.SUSPECTED, wants=_one_more(evidence))
    if len(pairs) < MIN_PAIRS:
        return suspected
    variance, freedom = spread(changes)
    error = math.sqrt(variance / len(pairs))
    false_alarms = evidence.error_rates.false_alarms / (evidence.figures * len(evidence.figure.signs))
    margin = quantile(freedom, share(false_alarms, evidence.most_pairs)) * error
    known, suspected = (replace(one, threshold=accepted + margin) for one in (known, suspected))
    if middle + margin < -accepted:
        return replace(known, outcome=Outcome.REGRESSED, reason=FigureReason.CONFIRMED)
    if evidence.figure.better is not Better.SAME and middle - margin > accepted:
        return replace(known, outcome=Outcome.IMPROVED, reason=FigureReason.BETTER)
    if middle >= -min(suspicion(accepted, error), accepted):
        return replace(known, outcome=Outcome.PASS, reason=FigureReason.WITHIN_TOLERANCE)
    return suspected


def _one_more(evidence: ComparedFigure) -> Wants:
    return Wants(Want.PAIRS, len(evidence.pairs) + 1)
