"""The screen, which suspects a slowdown, and rule 2, which confirms it in fresh runs."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.verdict import NOTHING, Against, Noise, Outcome, Reason, Want, Wants
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.noise import DETECTION, DOUBTS, FALSE_ALARMS, mean_square, quantile, suspicion
from pytest_tfperf.judging.session_effects import CommonDrift, LearntBaseline

RUN_STAGES = (1, 3, 8)
"""Runs after which a suspect may be cleared; the last stage decides."""

_FELT = 0.2
"""The standard deviation of the share of a common drift that a test feels more or less than the others."""

_AGREEMENT, _DOUBT = 7 / 8, 6 / 8
"""The shares of runs that must show half of the threshold for a failure and a doubt: a few slow runs fail no test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The changes so far and the variances to judge them by, in natural logarithms of throughput or a figure's unit."""

    counts_shown: ClassVar[tuple[int, ...]] = (1, 3, 5, 8)

    changes: tuple[float, ...]  # of each run, against the baseline
    stages: tuple[int, ...]  # counts of runs at which a suspect may be cleared; the last count decides
    accepted: float  # the slowdown that the tolerance accepts
    to_be_found: float = math.inf  # beyond `accepted`, and not to pass unsuspected because of noise; inf: any may pass
    own_variance: float  # of one change, between runs
    # More than `own_variance` if today's windows vary more than the baseline's runs did. It widens the threshold, never
    # the suspicion.
    own_variance_today: float
    shared_variance: float = 0.0  # of the baseline, which all changes are compared with
    session_variance: float = 0.0  # the variance that sessions are expected to add
    most_session_variance: float = 0.0  # the most variance that sessions are likely to add; the threshold allows for it
    degrees_of_freedom: float  # of the variances between runs
    degrees_of_sessions: float = math.inf  # of the variances that sessions add
    tests: int  # the number of tests that share the session's false alarms
    warns_only: bool = False  # it can't fail the test, so only a slowdown beyond the threshold is worth further runs

    @property
    def middle(self) -> float:
        """The Hodges-Lehmann median of the changes."""
        return hodges_lehmann(self.changes)

    @property
    def next_stage(self) -> int:
        """The count of runs at the next stage; 0 at the last stage."""
        return next((stage for stage in self.stages if stage > len(self.changes)), 0)

    @property
    def is_suspected(self) -> bool:
        """Whether the screen suspects a slowdown.

        Between two stages a suspect stays suspected; otherwise a good second run would clear it.
        """
        if len(self.changes) in self.stages or not self.next_stage:
            return self.middle < -self.suspicion(len(self.changes))
        return min(self.changes) < -self.suspicion(1)

    def decided(self) -> tuple[Outcome, Reason, Wants]:
        """Return the outcome of a suspect's runs so far, the reason, and the further runs wanted."""
        count = len(self.changes)
        if count in self.stages and self.middle >= -self.suspicion(count):
            return Outcome.PASS, self.good_reason, NOTHING
        if self.next_stage:
            return Outcome.INCONCLUSIVE, Reason.SUSPECTED, Wants(Want.RUNS, self.next_stage)
        if self.middle >= -self.accepted:
            return Outcome.PASS, Reason.WITHIN_TOLERANCE, NOTHING
        if self._shows(FALSE_ALARMS, _AGREEMENT):
            return Outcome.REGRESSED, Reason.CONFIRMED, NOTHING
        is_doubtful = self._shows(DOUBTS, _DOUBT)
        outcome, level = (Outcome.INCONCLUSIVE, FALSE_ALARMS) if is_doubtful else (Outcome.PASS, DOUBTS)
        disagree = self.middle < -self.threshold_in(self.last, level)
        return outcome, Reason.RUNS_DISAGREE if disagree else Reason.WITHIN_NOISE, NOTHING

    @property
    def good_reason(self) -> Reason:
        """Why changes that are not suspicious pass."""
        return Reason.WITHIN_TOLERANCE if self.middle >= -self.accepted else Reason.WITHIN_NOISE

    def suspicion(self, count: int) -> float:
        """Return the slowdown from which the middle of this many changes is suspected."""
        if self.warns_only:
            return self.threshold_in(self.last)
        error = math.sqrt(self.own_variance / count + self.shared_variance)
        return suspicion(self.accepted, error, self.to_be_found)

    def threshold_in(self, count: int, false_alarms: float = FALSE_ALARMS) -> float:
        """Return the tolerance or, if larger, the slowdown of this many runs that noise exceeds in so many sessions."""
        share = false_alarms / max(self.tests, 1)
        of_runs = self.own_variance_today / count + self.shared_variance
        squares = quantile(self.degrees_of_freedom, share) ** 2 * of_runs
        squares += quantile(self.degrees_of_sessions, share) ** 2 * self.most_session_variance
        return max(self.accepted, math.sqrt(squares))

    def _shows(self, false_alarms: float, agreement: float) -> bool:
        """Whether the middle is beyond the threshold, and this share of the changes is beyond half of it."""
        threshold = self.threshold_in(self.last, false_alarms)
        return self.middle < -threshold and self._showing(threshold) >= math.ceil(agreement * len(self.changes))

    def _showing(self, threshold: float) -> int:
        """Return how many changes show at least half of the threshold."""
        return sum(change < -threshold / 2 for change in self.changes)

    @property
    def steps(self) -> dict[str, Any]:
        """The fields of a `Decision` that only runs have."""
        showing = self._showing(self.threshold_in(self.last))
        return {"showing": showing, "showing_needed": math.ceil(_AGREEMENT * len(self.changes))}

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % confidence interval of the middle."""
        half = quantile(self.degrees_of_freedom, 0.025) * self.error(len(self.changes))
        return self.middle - half, self.middle + half

    def enough(self, most: int) -> int | None:
        """Return the least count, up to `most`, for which this slowdown exceeds the threshold; None if none does."""
        if not self.changes or self.middle >= -self.accepted:
            return None
        counts = range(1, most + 1)  # the threshold falls with the count
        first = bisect(counts, False, key=lambda count: self.middle < -self.threshold_in(count))
        return counts[first] if first < most else None

    @property
    def hidden_by_noise(self) -> float:
        """The largest loss that the last stage may let pass."""
        return self.threshold_in(self.last)

    def detectable(self, count: int) -> float:
        """Return the loss that fails in this many runs with 98 % power."""
        return self.threshold_in(count) + DETECTION * self.error(count)

    def error(self, count: int) -> float:
        """Return the standard error of the middle of this many changes, with the variance that sessions add."""
        return math.sqrt(self.own_variance / count + self.shared_variance + self.session_variance)

    @property
    def most(self) -> int:
        """The number of runs that decides at the latest."""
        return self.stages[-1]

    @property
    def last(self) -> int:
        """The number of runs that decides at the latest, or of the runs so far if there are more."""
        return max(self.most, len(self.changes), 1)


def by_runs(
    evidence: Evidence,
    changes: Sequence[float],
    accepted: float,
    *,
    noise: Noise,
    learnt: LearntBaseline,
    drift: CommonDrift,
    between_sessions: tuple[float, float],
) -> Confirmation:
    """Return the confirmation by rule 2: the runs' changes against the baseline, and all variances to judge them by.

    `between_sessions` are standard deviations between sessions of one test: the expected one, and the largest that the
    threshold allows for.
    """
    own = noise.between_runs**2
    shared = own * learnt.runs_variance
    # The drift is a median over the tests' first runs, so its own error is pi / 2 of a mean's variance.
    of_drift = math.pi / 2 / drift.tests if drift.is_known else 0.0
    of_felt = (_FELT * drift.log) ** 2
    expected, most = (
        (1 + learnt.sessions_variance) * sigma**2 + of_drift * (own + shared + 2 * sigma**2) + of_felt
        for sigma in between_sessions
    )
    max_runs = evidence.max_runs
    return Confirmation(
        changes=tuple(changes),
        stages=RUN_STAGES if max_runs is None else tuple(min(stage, max_runs) for stage in RUN_STAGES),
        accepted=accepted,
        to_be_found=evidence.scale.to_be_found if evidence.has_pairs else math.inf,
        own_variance=own,
        own_variance_today=max(own, mean_square(evidence.measured.errors) or 0.0),
        shared_variance=shared,
        session_variance=expected,
        most_session_variance=most,
        degrees_of_freedom=noise.degrees_of_freedom,
        # With few tests, what a session does to all of them is in the variance, and little is known of that.
        degrees_of_sessions=math.inf if drift.is_known else noise.degrees_of_freedom,
        tests=evidence.tests * len(evidence.figure.signs),
        warns_only=evidence.target.against is Against.EARLIER_SESSIONS,
    )
