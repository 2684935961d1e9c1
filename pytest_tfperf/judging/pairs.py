"""The decision from interleaved pairs: a clipped sequential likelihood ratio (Wald). Pure.

Each pair adds to the evidence for a loss of twice the accepted change against no loss; a bound at either end decides.
docs/statistics.md gives the promised error rates, and how they were counted.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from pytest_tfperf.core.throughput import scatter as robust_deviation
from pytest_tfperf.core.verdict import NOTHING, Outcome, Reason, Tolerance, Want, Wants
from pytest_tfperf.judging.noise import DETECTION, FALSE_ALARMS, quantile

MOST_PAIRS = 20
"""Pairs after which a test is decided, or in doubt."""

MAX_SECONDS = 300.0
"""Seconds after which an undecided comparison takes no further pair."""

MIN_PAIRS = 3
"""The fewest pairs that can decide a comparison with the usual error rates."""

PAIRS_THAT_TELL = 6
"""The number of pairs from which on their own scatter counts, and they can fail a test."""

EXPECTED_PAIRS = 4.0
"""Degrees of freedom of an assumed scatter, beside the scatter of the pairs."""

_FALSE_PASSES = 0.025
_CLIP = 1.5  # the most that one pair adds: a slow worker fails no test
_SAFETY = 3.0  # Wald's bound is for a known variance; simulated, a third of the error rate keeps the promise
_DOUBT = 2.0  # the evidence at the end, as a likelihood ratio, from which a test is in doubt and does not pass
_LEAST_EFFECT = 0.4  # standard deviations of a pair: the effect that 20 pairs detect best, where less is accepted
_LEAST_SCATTER = 0.1  # least standard deviation of a pair, in accepted changes, for a figure that never varies
_CONTRADICTS = 4.0  # times the known variance: pairs that scatter so much show that it has grown
_TRIMMED_FROM = 10  # pairs from which on one is trimmed at either end; two from twice as many


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How a comparison is decided."""

    tolerance: Tolerance | None = None  # of the throughput; None for each test's own
    at_least: float | None = None  # the ratio b / a that is required, in place of 1 less the tolerance; None: none is
    max_pairs: int = MOST_PAIRS  # the most pairs; more pairs find smaller slowdowns, and take longer
    max_seconds: float = MAX_SECONDS  # no pair is begun that would probably end later
    false_alarms: float = FALSE_ALARMS  # how often an unchanged figure is REGRESSED
    false_passes: float = _FALSE_PASSES  # how often a loss of twice the accepted change passes


OF_SUSPECTS = Terms(false_passes=0.1)
"""The error rates of rule 1: a first run suspected the loss already, so unchanged tests may pass sooner."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """The variance of a pair's change, and its degrees of freedom."""

    variance: float
    degrees_of_freedom: float

    def bound(self, error: float) -> float:
        """Return the variance for normal quantiles that gives this scatter's t quantile at an error rate."""
        if math.isinf(self.variance) or self.degrees_of_freedom <= 0:
            return math.inf
        return self.variance * (quantile(self.degrees_of_freedom, error) / quantile(math.inf, error)) ** 2


@dataclass(frozen=True, kw_only=True)
class PairsTest:
    """The sequential test of pairs' changes, which are on a figure's scale and negative for the worse."""

    counts_shown: ClassVar[tuple[int, ...]] = (PAIRS_THAT_TELL, 10, MOST_PAIRS)

    changes: Sequence[float]  # of each pair, in order
    accepted: float  # the accepted loss, positive; inf for any
    accepted_rise: float = math.inf  # the gain beyond which the figure is IMPROVED; inf where it never is
    known: Scatter  # the scatter of a pair between fresh workers, known before the first pair
    is_assumed: bool = False  # `known` is not measured but assumed, so the pairs' own scatter is pooled with it
    errors: Sequence[float] = ()  # of the changes, from windows and uneven disturbances; empty if not known
    bias: float = 0.0  # the most by which disturbances of mostly one side can have changed the mean
    tests: int = 1  # the number of figures and directions that share the false alarms
    terms: Terms = field(default_factory=Terms)  # how often it may be wrong, and the pairs after which it ends

    def decided(self) -> tuple[Outcome, Reason, Wants]:
        """Return the outcome of the pairs so far, the reason, and the further pair wanted."""
        count, evidence = len(self.changes), self.evidence
        if evidence >= self.fails_at and count >= PAIRS_THAT_TELL and self.middle < -self.accepted:
            return Outcome.REGRESSED, Reason.CONFIRMED, NOTHING
        # Where the noise is only assumed, a loss that the pairs show and noise may explain is a doubt, and no pass.
        may_pass = not (self.is_assumed and self.accepted) or self.middle >= -self.accepted
        if evidence <= self.passes_at and may_pass:
            if self.evidence_of_rise >= -self.passes_at:
                return Outcome.IMPROVED, Reason.BETTER, NOTHING
            return Outcome.PASS, self.good_reason, NOTHING
        if count < self.most:
            return Outcome.INCONCLUSIVE, Reason.SUSPECTED, Wants(Want.PAIRS, count + 1)
        in_doubt = self.middle < -self.accepted and evidence >= math.log(_DOUBT * self.tests)
        if in_doubt or not may_pass or count < PAIRS_THAT_TELL:
            is_worse = self.middle < -self.accepted
            return Outcome.INCONCLUSIVE, Reason.WITHIN_NOISE if is_worse else Reason.TOO_FEW, NOTHING
        return Outcome.PASS, self.good_reason, NOTHING

    @property
    def good_reason(self) -> Reason:
        """Why the pairs pass."""
        return Reason.WITHIN_TOLERANCE if self.middle >= -self.accepted else Reason.WITHIN_NOISE

    @property
    def middle(self) -> float:
        """The trimmed mean of the changes; 0 before the first pair."""
        return trimmed_mean(self.changes) if self.changes else 0.0

    @cached_property
    def evidence(self) -> float:
        """The log likelihood ratio of a loss of twice the accepted change to none."""
        return _evidence(self.changes, self.accepted, self.variance)

    @property
    def evidence_of_rise(self) -> float:
        """The log likelihood ratio of a gain of twice the accepted rise to none."""
        return _evidence([-change for change in self.changes], self.accepted_rise, self.variance)

    @property
    def fails_at(self) -> float:
        """The evidence from which the test fails."""
        return math.log(_SAFETY * self.tests / self.terms.false_alarms)

    @property
    def passes_at(self) -> float:
        """The (negative) evidence at or below which the test passes."""
        return math.log(self.terms.false_passes)

    @cached_property
    def scatter(self) -> Scatter:
        """The scatter of a pair: as known before, or the pairs' own where it is narrower or contradicts that."""
        count, windows = len(self.changes), _usual_square(self.errors)
        own = spread(self.changes) if count > 1 else (0.0, 0)
        if self.is_assumed:
            expected = self.known.variance + (windows if count < PAIRS_THAT_TELL else min(windows, own[0]))
            return self._biased(_pooled(Scatter(expected, self.known.degrees_of_freedom), Scatter(*own)))
        known = replace(self.known, variance=self.known.variance + windows)
        if count < PAIRS_THAT_TELL:
            return known
        of_pairs = self._biased(Scatter(*own))
        if robust_deviation(self.changes) ** 2 > _CONTRADICTS * known.variance:
            return of_pairs
        return min(known, of_pairs, key=lambda scatter: scatter.bound(self._error))

    @property
    def variance(self) -> float:
        """The variance of a pair that the evidence is computed with."""
        return max(self.scatter.bound(self._error), self._least_variance)

    @property
    def _least_variance(self) -> float:
        return (_LEAST_SCATTER * self.accepted) ** 2 if math.isfinite(self.accepted) else 0.0

    @property
    def _error(self) -> float:
        return self.terms.false_alarms / self.tests

    def _biased(self, scatter: Scatter) -> Scatter:
        # The bias is of the mean: more pairs make it no smaller.
        return replace(scatter, variance=scatter.variance + len(self.changes) * self.bias**2)

    @property
    def steps(self) -> dict[str, Any]:
        """The fields of a `Decision` that only pairs have."""
        return {"showing": None, "showing_needed": None, "evidence": self.evidence, "evidence_needed": self.fails_at}

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % confidence interval of the mean change; it does not decide."""
        scatter = self.scatter
        if not self.changes or scatter.degrees_of_freedom <= 0:
            return -math.inf, math.inf
        half = quantile(scatter.degrees_of_freedom, 0.025) * math.sqrt(scatter.variance / len(self.changes))
        return self.middle - half, self.middle + half

    @property
    def most(self) -> int:
        """The number of pairs that decides at the latest."""
        return self.terms.max_pairs

    @property
    def last(self) -> int:
        """The number of pairs that decides at the latest, or of the pairs so far if there are more."""
        return max(self.most, len(self.changes), 1)

    def threshold_in(self, count: int) -> float:
        """Return the mean loss from which this many pairs fail the test.

        With a variance v and an effect e, a pair adds 2 e (loss - e) / v on average, and `count` pairs reach the bound.
        """
        variance = self._variance_in(count)
        effect = _effect(self.accepted, variance)
        if not effect or math.isinf(effect):
            return effect
        return effect + self.fails_at * variance / (2 * effect * count)

    @property
    def hidden_by_noise(self) -> float:
        """The loss beyond the accepted loss that the last pair may still let pass."""
        return self.threshold_in(self.last) - self.accepted

    def _variance_in(self, count: int) -> float:
        """Return the variance by which this many pairs are judged, if further pairs scatter as the pairs so far."""
        if count <= max(len(self.changes), PAIRS_THAT_TELL):
            return self.variance
        own = Scatter(self.scatter.variance, count - 1).bound(self._error)
        return max(min(self.variance, own), self._least_variance)

    def detectable(self, count: int) -> float:
        """Return the loss that fails in this many pairs with 97 % power.

        In simulations, the first pairs pass too many losses within a pair's standard deviation of the tolerance.
        """
        deviation = math.sqrt(self.scatter.variance)
        return max(self.threshold_in(count) + DETECTION * deviation / math.sqrt(count), self.accepted + deviation)

    def enough(self, most: int) -> int | None:
        """Return the least count, up to `most`, at which this mean loss fails; None if none does, or it is accepted."""
        if not self.changes or self.middle >= -self.accepted:
            return None
        counts = range(PAIRS_THAT_TELL, most + 1)  # the threshold falls with the count
        first = bisect(counts, False, key=lambda count: self.middle < -self.threshold_in(count))
        return counts[first] if first < len(counts) else None


def _effect(accepted: float, variance: float) -> float:
    """Return half of the loss to detect: the accepted change, or more where noise would hide it."""
    return max(accepted, _LEAST_EFFECT * math.sqrt(variance))


def _evidence(changes: Sequence[float], accepted: float, variance: float) -> float:
    if math.isinf(accepted):
        return -math.inf
    if math.isinf(variance):
        return 0.0
    effect = _effect(accepted, variance)
    if not variance:  # neither a tolerance nor any noise: each change for the worse counts in full
        return math.fsum(_CLIP if change < 0 else -_CLIP for change in changes)
    steps = (-2 * effect * (change + effect) / variance for change in changes)
    return math.fsum(max(-_CLIP, min(step, _CLIP)) for step in steps)


def _pooled(first: Scatter, second: Scatter) -> Scatter:
    freedom = first.degrees_of_freedom + second.degrees_of_freedom
    if not freedom:
        return Scatter(math.inf, 0)
    squares = first.degrees_of_freedom * first.variance + second.degrees_of_freedom * second.variance
    return Scatter(squares / freedom, freedom)


def _usual_square(errors: Sequence[float]) -> float:
    known = [error for error in errors if math.isfinite(error)]
    # The median, because one uneven pair among many says nothing about the others.
    return statistics.median(known) ** 2 if known else 0.0


def spread(changes: Sequence[float]) -> tuple[float, float]:
    """Return the variance of a change and its degrees of freedom, by Yuen (1974): an outlier hardly moves it.

    Divided by the number of pairs, it is the variance of their trimmed mean.
    """
    kept, winsorised = _trimmed(changes)
    return statistics.variance(winsorised) * (len(winsorised) / len(kept)) ** 2, len(kept) - 1


def trimmed_mean(changes: Sequence[float]) -> float:
    """Return the mean of the changes, from ten on without a tenth at either end; `spread` gives its variance."""
    return statistics.fmean(_trimmed(changes)[0])


def _trimmed(changes: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the sorted changes without a tenth at either end, and with the ends replaced by the outermost kept."""
    count, in_order = len(changes), sorted(changes)
    cut = count // _TRIMMED_FROM
    kept = in_order[cut : count - cut]
    return kept, [kept[0]] * cut + kept + [kept[-1]] * cut
