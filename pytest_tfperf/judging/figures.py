"""The judgement of a figure beside the throughput: the same screen, stages and thresholds, in the figure's own unit.

A figure is suspected by its runs, and confirmed in pairs with the reference environment or in fresh runs, as a rate is
(`judge`). What differs: the accepted change is the larger of two tolerances, a limit needs no baseline, and of a figure
that should stay the same either direction is judged.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.figure_verdict import FigureReason, FigureVerdict
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.verdict import WORST_FIRST, Noise, Outcome, Rule, Want, Wants
from pytest_tfperf.judging.confirmation import PAIR_STAGES, RUN_STAGES, Confirmation, variance_of_pairs
from pytest_tfperf.judging.thresholds import (
    DETECTION,
    DOUBTS,
    FALSE_ALARMS,
    quantile,
    reference_variance,
    suspicion,
)

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
        baseline: the figure's row; None for none.
        noise: between-run noise of the row, as fractions of its reference; None without a row.
        session_sd: the most that a session is likely to change it, as a fraction; 0 for what does not depend on speed.
        tests: verdicts of the session that share the false alarms of rule 2.
        suspects: verdicts that share those of rule 1.
        has_reference_environment: whether pairs can be measured.
    """

    figure: Figure
    values: Sequence[float | None]
    pairs: Sequence[tuple[float | None, float | None]] = ()
    rank: str = ""
    baseline: Baseline | None = None
    noise: Noise | None = None
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
    if len(now) < len(evidence.values) + len(evidence.pairs) or len(pairs) < len(evidence.pairs):
        return _of(evidence, None, Outcome.INVALID, FigureReason.NOT_MEASURED)
    value = hodges_lehmann(values)
    if not all(map(isfinite, now)):
        return _of(evidence, value, Outcome.INVALID, FigureReason.NOT_FINITE)
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
    signs = figure.signs
    found = [_Direction.of(evidence, row, noise, values, pairs, sign, len(signs)).verdict(value) for sign in signs]
    return min(found, key=lambda one: WORST_FIRST.index(one.outcome or Outcome.PASS))


def detectable(accepted: float, error: float) -> float:
    """The change that one run against a row shows with 98 % power, in the unit of both."""
    return suspicion(accepted, error) + DETECTION * error


def _of(evidence: FigureEvidence, value: float | None, outcome: Outcome, reason: FigureReason) -> FigureVerdict:
    row = evidence.baseline
    return FigureVerdict(
        figure=evidence.figure,
        value=value,
        rank=evidence.rank,
        outcome=outcome,
        reason=reason,
        baseline=row,
        change=None if row is None or value is None else value - row.reference,
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
        scale = abs(row.reference)
        in_unit = replace(noise, between_runs=noise.between_runs * scale)
        own = in_unit.between_runs**2
        runs = Confirmation(
            rule=Rule.BASELINE,
            changes=tuple(sign * (value - row.reference) for value in values),
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

    @property
    def is_suspected(self) -> bool:
        runs = self.by_runs
        if len(runs.changes) in runs.stages or not runs.next_stage:
            return runs.middle < -runs.suspicion(len(runs.changes))
        return min(runs.changes) < -runs.suspicion(1)

    def verdict(self, value: float) -> FigureVerdict:
        outcome, reason, wants = self._decided() if self.is_suspected else self._good()
        found = self.confirmation
        is_confirmed = len(found.changes) > 1 and self.is_suspected
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
        return Outcome.PASS, FigureReason.WITHIN_TOLERANCE, Wants()

    def _decided(self) -> tuple[Outcome, FigureReason, Wants]:
        """From the pairs or runs so far, as `judge` decides on a rate."""
        found = self.confirmation
        if found.is_cleared:
            return Outcome.PASS, FigureReason.WITHIN_TOLERANCE, Wants()
        if found.next_stage:
            what = Want.PAIRS if found.rule is Rule.REFERENCE_ENVIRONMENT else Want.RUNS
            return Outcome.INCONCLUSIVE, FigureReason.SUSPECTED, Wants(what, found.next_stage)
        if found.middle >= -found.accepted:
            return Outcome.PASS, FigureReason.WITHIN_TOLERANCE, Wants()
        if found.fails:
            return Outcome.REGRESSED, FigureReason.CONFIRMED, Wants()
        outcome = Outcome.INCONCLUSIVE if found.is_doubtful else Outcome.PASS
        level = FALSE_ALARMS if outcome is Outcome.INCONCLUSIVE else DOUBTS
        disagree = found.middle < -found.threshold(level)
        return outcome, FigureReason.RUNS_DISAGREE if disagree else FigureReason.WITHIN_NOISE, Wants()
