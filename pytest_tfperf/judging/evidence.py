"""The evidence for a verdict on one figure of one test: runs, pairs, and facts of the session and its history.

A figure is judged on a scale: the logarithm for a throughput, its own unit for any other figure. Values are positions
on the scale, and a verdict shows differences of positions as changes.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from pytest_tfperf.core.figure import THROUGHPUT, Better, Figure
from pytest_tfperf.core.past import SessionChanges
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.throughput import Throughput, hodges_lehmann, summarise
from pytest_tfperf.core.verdict import Reason, Tolerance, Verdict
from pytest_tfperf.judging.noise import ASSUMED_BETWEEN_RUNS, TO_BE_FOUND, accepted_rise, accepted_slowdown, is_blind
from pytest_tfperf.judging.pairs import EXPECTED_PAIRS, OF_SUSPECTS, PAIRS_THAT_TELL, PairsTest, Scatter, Terms
from pytest_tfperf.judging.session_effects import CommonDrift, SessionVariance, session_variance
from pytest_tfperf.judging.target import Target
from pytest_tfperf.judging.validity import bias, unusable

OF_RATES = Scatter(2 * ASSUMED_BETWEEN_RUNS**2, EXPECTED_PAIRS)
"""The scatter that is assumed for pairs of throughputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """The values of a figure in runs and pairs."""

    value: float  # over all runs: the Hodges-Lehmann median, or the median of side b; NaN where no run has it
    unit: str  # of the values; of a throughput what it counts
    fault: Reason | None  # why they can't be judged; None where they can
    positions: Sequence[float]  # of the runs, on the figure's scale
    errors: Sequence[float] = ()  # standard error of each run from its windows; empty for other figures
    changes: Sequence[float] = ()  # of the pairs, from the reference environment (or a), on the scale
    errors_of_pairs: Sequence[float] = ()  # of these, from windows and uneven disturbances; empty for other figures
    bias: float = 0.0  # the most by which disturbances of mostly one side can have changed the mean of the pairs
    seen: Sequence[float | None] = ()  # all values of another figure, of runs and of pairs; None where a run lacks it
    a: Sequence[float] = ()  # another figure in the pairs' runs of this side
    b: Sequence[float] = ()
    target: float | None = None  # another figure's median in the reference environment (or a); None without pairs


@dataclass(frozen=True, slots=True)
class LogScale:
    """The scale of throughputs: a rate's noise and tolerance are fractions, so ratios of rates are compared."""

    tolerance: Tolerance

    to_be_found: ClassVar[float] = TO_BE_FOUND
    """The loss beyond the tolerance that noise must not let pass unsuspected where pairs can confirm it."""
    most_rise: ClassVar[float] = 100.0
    """Nothing is so much faster, and floats end soon after."""
    assumed: ClassVar[Scatter] = OF_RATES
    """The scatter of pairs where no noise was measured."""
    is_taught: ClassVar[bool] = True
    """Whether a session's other tests and earlier sessions teach how much the figure varies."""

    def values(self, evidence: Evidence) -> Values:
        """Return the throughputs of runs and pairs."""
        throughput, pairs = evidence.throughput, evidence.pairs
        of_runs = Values(
            value=throughput.examples_per_sec,
            unit=throughput.unit,
            fault=Reason.DIVERGED if throughput.is_diverged else None,
            positions=[run.log_rate for run in throughput.runs],
            errors=[run.error for run in throughput.runs],
        )
        if not pairs:
            return of_runs
        return replace(
            of_runs,
            changes=[pair.log_ratio + evidence.offset_of_pairs for pair in pairs],
            errors_of_pairs=[pair.uncertainty for pair in pairs],
            bias=bias(pairs) if len(pairs) >= PAIRS_THAT_TELL else 0.0,
        )

    def fault(self, run: Run) -> Reason | None:
        """Return why a run's value can't be compared; None where it can."""
        return Reason.DIVERGED if summarise([run]).is_diverged else None

    def accepted(self, _target: float) -> float:
        """Return the accepted loss, positive; inf if any loss is accepted."""
        return accepted_slowdown(self.tolerance)

    def accepted_rise(self, _target: float) -> float:
        """Return the gain beyond which a figure is better than expected; inf where it never is."""
        return accepted_rise(self.tolerance)

    def unit(self, _target: float) -> float:
        """Return the length of a change by the whole target, for small changes."""
        return 1.0

    def is_blind(self, threshold: float, accepted: float, _target: float = math.inf) -> bool:
        """Whether noise makes a gate blind: a loss by a quarter would pass."""
        return is_blind(threshold, accepted)

    def expected(self, target: float, drift: float, offset: float) -> tuple[float, float]:
        """Return the expected position of a run, and the value there.

        Args:
            target: the baseline's value.
            drift: the drift common to all tests of the session, in log throughput.
            offset: what earlier sessions add to the baseline.
        """
        return math.log(target) + drift + offset, target * math.exp(drift + offset)

    def value_at(self, target: float, change: float) -> float:
        """Return the value that differs from a target by a change of position."""
        return target * math.exp(change)

    def change(self, value: float, target: float) -> float:
        """Return the change of a value from its target, as a verdict shows it."""
        return value / target - 1

    def shown(self, change: float) -> float:
        """Return a change of position as a verdict shows it."""
        return math.expm1(min(change, self.most_rise))


@dataclass(frozen=True, slots=True)
class LinearScale:
    """The scale of any other figure: a value may be 0, so differences are compared.

    The accepted change is the larger of a fraction and an amount.
    """

    figure: Figure

    tolerance: ClassVar[None] = None
    """A `LogScale` has one; the figure has its own."""
    to_be_found: ClassVar[float] = math.inf
    most_rise: ClassVar[float] = sys.float_info.max
    assumed: ClassVar[Scatter] = Scatter(0.0, 0.0)
    """Nothing is assumed: the figure may be the same in each run, and then a small change counts."""
    is_taught: ClassVar[bool] = False

    def values(self, evidence: Evidence) -> Values:
        """Return the figure's values in runs and pairs; a pair in which a run lacks it has no change."""
        name = self.figure.name
        pairs = [(pair.a.figures.get(name), pair.b.figures.get(name)) for pair in evidence.pairs]
        both = [(a, b) for a, b in pairs if a is not None and b is not None]
        seen = [*evidence.values, *(value for pair in pairs for value in pair)]
        runs = [value for value in evidence.values if value is not None]
        of_b = [b for _, b in pairs if b is not None]
        value = math.nan
        if evidence.is_comparison and of_b:
            value = statistics.median(of_b)
        elif runs:
            value = hodges_lehmann(runs)
        return Values(
            value=value,
            unit=self.figure.unit or "",
            fault=unusable(seen),
            positions=runs,
            changes=[b - a for a, b in both],
            seen=seen,
            a=[a for a, _ in pairs if a is not None],
            b=of_b,
            target=statistics.median(a for a, _ in both) if both else None,
        )

    def fault(self, run: Run) -> Reason | None:
        """Return why a run's value can't be compared; None where it can."""
        return unusable([run.figures.get(self.figure.name)])

    def accepted(self, target: float) -> float:
        """Return the accepted loss, positive."""
        return self.figure.accepted(target)

    def accepted_rise(self, target: float) -> float:
        """Return the gain beyond which a figure is better than expected; inf where it never is."""
        return math.inf if self.figure.better is Better.SAME else self.figure.accepted(target)

    def unit(self, target: float) -> float:
        """Return the length of a change by the whole target; 0 for a count, which does not vary by a part of it."""
        return 0.0 if self.figure.is_count else abs(target)

    def is_blind(self, threshold: float, accepted: float, target: float = math.inf) -> bool:
        """Whether noise makes a gate blind: a loss by the whole target would pass; a quarter may be little.

        Without a target it is never blind.
        """
        return threshold > max(2 * accepted, abs(target))

    def expected(self, target: float, drift: float, offset: float) -> tuple[float, float]:
        """Return the expected position of a run, and the value there, as a `LogScale` does."""
        expected = target * math.exp(self.figure.with_speed * drift) + offset
        return expected, expected

    def value_at(self, target: float, change: float) -> float:
        """Return the value that differs from a target by a change of position."""
        return target + change

    def change(self, value: float, target: float) -> float:
        """Return the change of a value from its target."""
        return value - target

    def shown(self, change: float) -> float:
        """Return a change of position as a verdict shows it."""
        return change


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence for a verdict on one figure of one test."""

    throughput: Throughput  # the test's runs of this session; runs that are part of `pairs` are not in it
    target: Target  # what the figure is judged against
    tolerance: Tolerance  # the accepted change of the throughput; another figure has its own
    figure: Figure = THROUGHPUT
    values: Sequence[float | None] = ()  # in each run, None where a run lacks it; a throughput's are in `throughput`
    rank: str = ""  # the rank whose value the last run has, if there are several ranks
    places: tuple[str, ...] = ()  # where a program printed the values, each once; empty for a figure that is measured
    pairs: Sequence[Pair] = ()  # good pairs, in order; a is the run of the reference environment or of side a
    drift: CommonDrift = CommonDrift()  # the drift common to all tests of the session
    others: float | None = None  # median change of the other tests, in log throughput, where too few for a common drift
    variance: SessionVariance = field(default_factory=session_variance)  # of a single test's sessions, from history
    past: Sequence[SessionChanges] = ()  # earlier sessions judged against the same row, oldest first
    tests: int = 1  # verdicts of the session that share the false alarms of rule 2: one for each figure with a baseline
    suspects: int = 1  # verdicts that share pairs' false alarms: by rule 1, of tests that the first run left undecided
    has_reference_environment: bool = False  # whether pairs can be measured, so that rule 1 applies
    max_runs: int | None = None  # that can be measured, 1 for a log, and then no further pairs can; None: no limit
    is_drift_to_come: bool = False  # tests that show the common drift, or the change of the others, are still to run
    is_comparison: bool = False  # the pairs are of two sides, and b's values are judged against a's, not a baseline
    terms: Terms = OF_SUSPECTS  # how the pairs decide; only a throughput's have `at_least`

    @cached_property
    def scale(self) -> LogScale | LinearScale:
        """The scale on which the figure is judged."""
        return LogScale(self.tolerance) if self.figure is THROUGHPUT else LinearScale(self.figure)

    @cached_property
    def measured(self) -> Values:
        """The figure in runs and pairs."""
        return self.scale.values(self)

    @property
    def blank(self) -> Verdict:
        """A verdict with the facts that it has whatever the outcome."""
        return Verdict(
            figure=self.figure,
            value=self.measured.value,
            rank=self.rank,
            places=self.places,
            baseline=self.target.baseline,
            is_floor=self.target.is_floor,
        )

    @property
    def offset_of_pairs(self) -> float:
        """Added to the pairs' log ratios, so that 0 is as expected: the required ratio and the tolerance."""
        least = self.terms.at_least
        return 0.0 if least is None else -math.log(least) - accepted_slowdown(self.tolerance)

    def pairs_test(self, sign: int, known: Scatter, target: float = 0.0, *, is_assumed: bool = False) -> PairsTest:
        """Return the test of the pairs' changes in one direction.

        Args:
            sign: makes a change for the worse negative.
            known: the scatter of a pair, on the figure's scale.
            target: the value that the accepted change of a figure is a fraction of, where no pair is known.
            is_assumed: as in a `PairsTest`.
        """
        measured = self.measured
        target = target if measured.target is None else measured.target
        # A required ratio is reached or not: no b is better than good enough.
        may_improve = self.is_comparison and self.terms.at_least is None
        return PairsTest(
            changes=[sign * change for change in measured.changes],
            accepted=self.scale.accepted(target),
            accepted_rise=self.scale.accepted_rise(target) if may_improve else math.inf,
            known=known,
            is_assumed=is_assumed,
            errors=measured.errors_of_pairs,
            bias=measured.bias,
            tests=self.suspects * len(self.figure.signs),
            terms=self.terms if self.max_runs is None else replace(self.terms, max_pairs=len(self.pairs)),
        )

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
