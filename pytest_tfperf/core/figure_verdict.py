"""The verdict on one figure of a measurement, beside that on its throughput."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.verdict import NOTHING, Outcome, Rule, Wants


class FigureReason(StrEnum):
    """Why a figure's verdict has its outcome; the values are what a message says."""

    ONLY_MEASURED = "it was only measured"
    WITHIN_TOLERANCE = "within the tolerance"
    WITHIN_LIMIT = "within the limit"
    BETTER = "better by more than the tolerance"
    NO_BASELINE = "there is no baseline for this figure on this machine"
    SUSPECTED = "a change for the worse is suspected, not confirmed"
    CONFIRMED = "the change for the worse is confirmed"
    HELD = "it became worse, but in neither of the two sessions before (--tfperf-hold)"
    BEYOND_LIMIT = "beyond the limit"
    WITHIN_NOISE = "worse by more than the tolerance, but not by more than noise explains"
    RUNS_DISAGREE = "too few runs show the change for the worse"
    NOT_MEASURED = "not measured"
    OTHER_SIDE_LACKS = "the other side does not give it"
    NOT_FINITE = "it is not a finite number"
    OTHER_UNIT = "its baseline is in another unit"
    OTHER_PLACE = "the values are not of the same place in the output"


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureVerdict:
    """What became of one figure; changes and values are in its unit.

    In a comparison the value is the median of side b, and its change is from side a.

    Args:
        figure: what was asked for.
        value: the Hodges-Lehmann median of the runs; None if a run could not tell it.
        rank: of several ranks, the one whose value the last run has; "" for one worker.
        places: where the program printed the values, as "at step 400", each place once; none for what is measured.
        outcome: one of seven; None where nothing was judged.
        reason: why.
        rule: what a change is confirmed against.
        baseline: the row that it was judged against; None where there was none.
        change: of the value against the baseline; positive if it is higher.
        confirmed_change: what decided: by rule 1 the current environment against the reference environment, by rule 2
            the runs against the baseline; None before anything is confirmed.
        confirmed_from: what it is a change from: the reference environment's or side a's median today, or the baseline.
        threshold: the confirmed change for the worse, positive, from which the test fails: the larger tolerance, or
            more where noise asks for it.
        wants: what it takes to decide.
    """

    figure: Figure
    value: float | None
    rank: str = ""
    places: tuple[str, ...] = ()
    outcome: Outcome | None = None
    reason: FigureReason = FigureReason.ONLY_MEASURED
    rule: Rule = Rule.BASELINE
    baseline: Baseline | None = None
    change: float | None = None
    confirmed_change: float | None = None
    confirmed_from: float | None = None
    threshold: float | None = None
    wants: Wants = NOTHING

    @property
    def reference(self) -> float | None:
        """The value that its own was compared with: the baseline's, or what it is a confirmed change from."""
        if self.reason is FigureReason.OTHER_UNIT:
            return None
        return self.confirmed_from if self.baseline is None else self.baseline.reference

    @property
    def is_decided(self) -> bool:
        """Whether no further run can change it."""
        return self.wants == NOTHING
