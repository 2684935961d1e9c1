"""The evidence for a verdict on one figure of one test: runs, pairs, and facts of the session and its history.

A figure is judged on a scale: the logarithm for a throughput, its own unit for any other figure. A rate's noise and
tolerance are fractions, so ratios of rates are compared. For other figures, differences are: their accepted change is
the larger of a fraction and an amount, and a value may be 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pytest_tfperf.core.figure import THROUGHPUT, Better, Figure
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.throughput import Throughput, hodges_lehmann
from pytest_tfperf.core.verdict import Noise, Tolerance
from pytest_tfperf.judging.noise import TO_BE_FOUND, accepted_rise, accepted_slowdown, is_blind
from pytest_tfperf.judging.pairs import OF_SUSPECTS, PAIRS_THAT_TELL, PairsTest, Scatter, Terms
from pytest_tfperf.judging.session_effects import CommonDrift, SessionVariance, session_variance
from pytest_tfperf.judging.target import Target
from pytest_tfperf.judging.validity import bias

NO_RISE: Final = 100.0  # log throughput: nothing is so much faster, and floats end soon after


@dataclass(frozen=True)
class Scale:
    """Values of a figure as positions on a scale, and differences of positions as changes that a verdict shows.

    Args:
        figure: the figure.
        tolerance: of a throughput; other figures have their own.
    """

    figure: Figure
    tolerance: Tolerance

    @property
    def is_logarithm(self) -> bool:
        """Whether positions are logarithms of values."""
        return self.figure is THROUGHPUT

    @property
    def is_bounded(self) -> bool:
        """Whether any loss is too large to be accepted."""
        return not self.is_logarithm or self.tolerance.lower is not None

    @property
    def to_be_found(self) -> float:
        """The loss beyond the tolerance that noise must not let pass unsuspected where pairs can confirm it."""
        return TO_BE_FOUND if self.is_logarithm else math.inf

    def is_blind(self, threshold: float, accepted: float, target: float = math.inf) -> bool:
        """Whether noise makes a gate blind: a loss by a quarter would pass; of another figure, one by the whole value.

        A quarter may be little for another figure. `target` is its baseline; without one, it is never blind.
        """
        if self.is_logarithm:
            return is_blind(threshold, accepted)
        return threshold > max(2 * accepted, abs(target))

    def expected(self, target: float, drift: float, offset: float) -> float:
        """Return the expected position of a run.

        Args:
            target: the baseline's value.
            drift: the drift common to all tests of the session, in log throughput.
            offset: what earlier sessions add to the baseline.
        """
        if self.is_logarithm:
            return math.log(target) + drift + offset
        return target * math.exp(self.figure.with_speed * drift) + offset

    def value_at(self, target: float, change: float) -> float:
        """Return the value that differs from a target by a change of position."""
        return target * math.exp(change) if self.is_logarithm else target + change

    def accepted(self, target: float) -> float:
        """Return the accepted loss, positive; inf if any loss is accepted."""
        return accepted_slowdown(self.tolerance) if self.is_logarithm else self.figure.accepted(target)

    def accepted_rise(self, target: float) -> float:
        """Return the gain beyond which a figure is better than expected; inf where it never is."""
        if self.figure.better is Better.SAME:
            return math.inf
        return accepted_rise(self.tolerance) if self.is_logarithm else self.figure.accepted(target)

    def noise(self, noise: Noise, target: float) -> Noise:
        """Return the noise, with its standard deviation between runs on this scale."""
        return noise if self.is_logarithm else replace(noise, between_runs=noise.between_runs * abs(target))

    def of_sessions(self, sigma: float, target: float) -> float:
        """Return the standard deviation between sessions on this scale, from that of log throughput."""
        return sigma if self.is_logarithm else sigma * abs(self.figure.with_speed * target)

    def change(self, value: float, target: float) -> float:
        """Return the change of a value from its target, as a verdict shows it."""
        return value / target - 1 if self.is_logarithm else value - target

    def shown(self, change: float) -> float:
        """Return a change of position as a verdict shows it."""
        return math.expm1(min(change, NO_RISE)) if self.is_logarithm else change

    def shown_loss(self, loss: float) -> float:
        """Return a loss, which is positive, as a verdict shows it."""
        return -self.shown(-loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence for a verdict on one figure of one test.

    Args:
        throughput: the test's runs of this session; runs that are part of `pairs` are not in it.
        target: what the figure is judged against.
        tolerance: the accepted change of the throughput; another figure has its own.
        figure: the figure.
        values: the figure's value in each run, None where a run lacks it; None for the throughput, whose values are in
            `throughput`.
        rank: the rank whose value the last run has, if there are several ranks.
        places: where a program printed the values, each place once; empty for a figure that is measured.
        pairs: good pairs, in order; a is the run of the reference environment or of a comparison's side a.
        drift: the drift common to all tests of the session.
        others: the median change of the other tests, in log throughput, where they are too few for a common drift.
        variance: between the sessions of a single test, learnt from history.
        past: earlier sessions judged against the same row, oldest first.
        tests: verdicts of the session that share the false alarms of rule 2: one for each figure with a baseline.
        suspects: verdicts that share the false alarms of pairs: by rule 1, of tests left undecided by their first run.
        has_reference_environment: whether pairs can be measured, so that rule 1 applies.
        max_runs: the most runs that can be measured, 1 for a log; then no further pairs can be either. None: no limit.
        is_drift_to_come: tests that show the common drift, or the change of the others, are still to run.
        is_comparison: the pairs are of two sides, and b's values are judged against a's instead of a baseline.
        terms: how the pairs decide.
    """

    throughput: Throughput
    target: Target
    tolerance: Tolerance
    figure: Figure = THROUGHPUT
    values: Sequence[float | None] | None = None
    rank: str = ""
    places: tuple[str, ...] = ()
    pairs: Sequence[Pair] = ()
    drift: CommonDrift = CommonDrift()
    others: float | None = None
    variance: SessionVariance = field(default_factory=session_variance)
    past: Sequence[SessionChanges] = ()
    tests: int = 1
    suspects: int = 1
    has_reference_environment: bool = False
    max_runs: int | None = None
    is_drift_to_come: bool = False
    is_comparison: bool = False
    terms: Terms = OF_SUSPECTS

    @property
    def scale(self) -> Scale:
        """The scale on which the figure is judged."""
        return Scale(self.figure, self.tolerance)

    @property
    def value(self) -> float:
        """The figure over all runs: the Hodges-Lehmann median, or the median of side b; NaN where no run has it."""
        if self.values is None:
            return self.throughput.examples_per_sec
        if self.is_comparison:
            return statistics.median(self.values_of_b) if self.values_of_b else math.nan
        known = [value for value in self.values if value is not None]
        return hodges_lehmann(known) if known else math.nan

    @property
    def seen(self) -> Sequence[float | None]:
        """All values of a figure beside the throughput, of runs and of pairs; None where a run lacks it."""
        runs = (run for pair in self.pairs for run in (pair.a, pair.b))
        return [*(self.values or ()), *(run.figures.get(self.figure.name) for run in runs)]

    @property
    def positions(self) -> Sequence[float]:
        """The runs' values on the figure's scale."""
        if self.values is None:
            return [run.log_rate for run in self.throughput.runs]
        return [value for value in self.values if value is not None]

    @property
    def errors(self) -> Sequence[float]:
        """The standard error of each run from its windows; empty for a figure beside the throughput."""
        return [run.error for run in self.throughput.runs] if self.values is None else ()

    @property
    def changes_of_pairs(self) -> Sequence[float]:
        """The changes from the reference environment (or side a) to the current one (or b), on the figure's scale."""
        if self.values is None:
            return [pair.log_ratio + self.offset_of_pairs for pair in self.pairs]
        return [b - a for a, b in self.values_of_pairs]

    @property
    def offset_of_pairs(self) -> float:
        """Added to the pairs' log ratios, so that 0 is as expected: the required ratio and the tolerance."""
        least = self.terms.at_least
        if least is None or self.values is not None:
            return 0.0
        return -math.log(least) - accepted_slowdown(self.tolerance)

    @property
    def may_improve(self) -> bool:
        """Whether pairs can show that b is better than a, and not only good enough."""
        return self.is_comparison and (self.terms.at_least is None or self.values is not None)

    @property
    def errors_of_pairs(self) -> Sequence[float]:
        """The standard errors of these changes, from windows and uneven disturbances; empty for other figures."""
        return [pair.uncertainty for pair in self.pairs] if self.values is None else ()

    @property
    def bias_of_pairs(self) -> float:
        """The most by which disturbances of mostly one side can have changed the mean of the pairs."""
        tells = self.values is None and len(self.pairs) >= PAIRS_THAT_TELL
        return bias(self.pairs) if tells else 0.0

    def pairs_test(
        self, sign: int, known: Scatter, target: float | None = None, *, is_assumed: bool = False
    ) -> PairsTest:
        """Return the test of the pairs' changes in one direction.

        Args:
            sign: makes a change for the worse negative.
            known: the scatter of a pair, on the figure's scale.
            target: the value that the accepted change of a figure is a fraction of, where no pair is known.
            is_assumed: as in a `PairsTest`.
        """
        if self.target_of_pairs is not None:
            target = self.target_of_pairs
        return PairsTest(
            changes=[sign * change for change in self.changes_of_pairs],
            accepted=self.scale.accepted(target or 0.0),
            accepted_rise=self.scale.accepted_rise(target or 0.0) if self.may_improve else math.inf,
            known=known,
            is_assumed=is_assumed,
            errors=self.errors_of_pairs,
            bias=self.bias_of_pairs,
            tests=self.suspects * len(self.figure.signs),
            terms=self.terms if self.max_runs is None else replace(self.terms, max_pairs=len(self.pairs)),
        )

    @property
    def target_of_pairs(self) -> float | None:
        """The median of the figure in the reference environment today; None without pairs."""
        known = [a for a, _ in self.values_of_pairs] if self.values is not None else []
        return statistics.median(known) if known else None

    @property
    def values_of_a(self) -> Sequence[float]:
        """The figure in the pairs' runs of the reference environment, or of side a."""
        return [value for pair in self.pairs if (value := pair.a.figures.get(self.figure.name)) is not None]

    @property
    def values_of_b(self) -> Sequence[float]:
        """The figure in the pairs' runs of the current environment, or of side b."""
        return [value for pair in self.pairs if (value := pair.b.figures.get(self.figure.name)) is not None]

    @property
    def values_of_pairs(self) -> Sequence[tuple[float, float]]:
        """The figure in both runs of each pair; a pair in which a run lacks the figure is left out."""
        both = ((pair.a.figures.get(self.figure.name), pair.b.figures.get(self.figure.name)) for pair in self.pairs)
        return [(a, b) for a, b in both if a is not None and b is not None]

    @property
    def has_pairs(self) -> bool:
        """Whether pairs decide: there are some, or they can be measured."""
        return self.has_reference_environment and (self.max_runs is None or bool(self.pairs))

    @property
    def possible_drifts(self) -> Sequence[CommonDrift]:
        """The drifts under which a test must raise no suspicion; the measured drift comes first.

        The first tests may each have slowed down for a cause of their own, so a drift for the worse clears no other
        test before all have run. Tests that are too few for a common drift may still have become faster together, which
        would hide the loss of a single test; then pairs tell.
        """
        drifts = [self.drift]
        if self.is_drift_to_come and self.drift.log < 0:
            drifts.append(replace(self.drift, log=0.0))
        if self.has_pairs and self.others is not None and self.others > 0:
            drifts.append(replace(self.drift, log=self.others))
        return drifts
