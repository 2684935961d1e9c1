"""The verdict on a figure: its outcome and reason, the tolerance, and the numbers that led to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum, auto
from typing import Final, Self, TypeGuard

from pytest_tfperf.core.acknowledgement import Acknowledgement, Standing
from pytest_tfperf.core.baseline import MOST_TOLERANCE, PUBLISHED_TOLERANCE, Baseline, Provenance
from pytest_tfperf.core.figure import RATE, THROUGHPUT, Figure
from pytest_tfperf.core.settings import DEFAULT_TOLERANCE
from pytest_tfperf.errors import TfperfError

MOST_COUNTED: Final = 100
"""The most runs or pairs that `Decision.enough` considers."""


@dataclass(frozen=True, slots=True)
class Power:
    """The power of a number of runs or pairs; slowdowns are positive fractions."""

    count: int  # the number of runs or pairs
    threshold: float  # the slowdown from which the test would fail
    detectable: float  # the minimum detectable slowdown (95 % power), given that the first run must raise a suspicion


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardDeviations:
    """The sources of noise, as standard deviations of log throughput; None if not known."""

    within_runs: float | None  # the standard error of a run, from its windows
    between_runs: float  # between fresh runs
    of_baseline: float  # the standard error of the baseline, which rests on a limited number of runs
    between_sessions: float  # between a test's sessions, without the drift common to all tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The steps from runs to a verdict; changes are fractions, -0.05 for 5 % slower."""

    expected: float  # the throughput that the runs were compared with, the drift common to all tests included
    first_change: float  # the first run's change, which raises a suspicion or passes the test
    # the slowdown of the first run, a positive fraction, from which it is suspected; negative where only a faster run
    # passes without suspicion
    suspected_from: float
    # of each run or pair that decided, in order; `Verdict.rule` says whether of runs or of pairs
    changes: tuple[float, ...]
    # the Hodges-Lehmann median of the runs' changes, or the trimmed mean of the pairs'; None before there is one
    middle: float | None
    accepted: float  # the slowdown that the tolerance accepts, a positive fraction
    threshold: float  # the slowdown from which the test fails: the tolerance, or more where noise explains more
    showing: int | None  # the number of runs that show at least half of the threshold; None for pairs
    showing_needed: int | None  # the number that must show it
    # the pairs' log likelihood ratio of a loss of twice the tolerance to none; None for runs
    evidence: float | None = None
    evidence_needed: float | None = None  # the ratio from which the test fails
    last: int  # the number of runs or pairs after which the verdict is final
    # the least number for which the threshold is below this slowdown; None where the tolerance accepts the slowdown, or
    # no number up to `MOST_COUNTED` is enough
    enough: int | None
    deviations: StandardDeviations  # the noise that the threshold allows for
    powers: tuple[Power, ...]  # of other numbers of runs or pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise that a verdict allows for; standard deviations are of natural logarithms of throughput."""

    between_runs: float  # standard deviation between fresh runs, pooled over the machine's rows
    degrees_of_freedom: float  # of the estimate `between_runs`; inf where it is assumed
    rows: int = 0  # the machine's rows that it was estimated from; 0 where it is assumed from the DGX-1 document
    # standard deviation between a test's sessions, without the common drift; one value for a machine, estimated from
    # its history (`judging/session_effects.py`)
    between_sessions: float = 0.0


class Outcome(StrEnum):
    """The outcomes of a verdict."""

    PASS = "PASS"
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    TOO_NOISY = "TOO_NOISY"
    NO_BASELINE = "NO_BASELINE"
    INVALID = "INVALID"

    @property
    def meaning(self) -> str:
        """Its meaning, and what to do; docs/reading-results.md has the same words."""
        return _MEANINGS[self]


_MEANINGS: Final[Mapping[Outcome, str]] = {
    Outcome.PASS: "Not slower than accepted. Nothing to do.",
    Outcome.IMPROVED: "Faster than the baseline by more than the tolerance. "
    "Record the gain with `tfperf baselines accept`, or a later loss of it goes unnoticed.",
    Outcome.REGRESSED: "Slower than accepted, and confirmed in fresh runs. "
    "Start with the message's lines `environment` and `slower`; fix, acknowledge or accept it.",
    Outcome.INCONCLUSIVE: "It looks slower and is not proven. "
    "Measure again on a quieter machine, or raise the tolerance.",
    Outcome.TOO_NOISY: "The machine is too noisy: even a 25 % slowdown could go unnoticed. "
    "Measure on a quieter machine, and record the baseline there.",
    Outcome.NO_BASELINE: "There is nothing to judge against. Record one with `--update-baselines`.",
    Outcome.INVALID: "The numbers are not valid, such as those of a diverged run. "
    "The message names the cause: fix the program or the test.",
}

WORST_FIRST: Final = (
    Outcome.REGRESSED,
    Outcome.INVALID,
    Outcome.INCONCLUSIVE,
    Outcome.TOO_NOISY,
    Outcome.NO_BASELINE,
    Outcome.IMPROVED,
    Outcome.PASS,
)
"""The outcomes in the order in which they need action; a check's outcome is the worst of its figures' outcomes."""

LOSSES: Final = (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
"""The outcomes of a loss, confirmed or in doubt."""

BAD_NEWS: Final = (Outcome.REGRESSED, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.TOO_NOISY)
"""The outcomes that need action."""

MOVED: Final = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE, Outcome.TOO_NOISY)
"""The outcomes of a figure that is not at its baseline, or may not be."""


class Rule(StrEnum):
    """The target that a suspected slowdown is confirmed against."""

    REFERENCE_ENVIRONMENT = "reference environment"
    BASELINE = "baseline"
    OTHER_SIDE = "other side"


class Reason(StrEnum):
    """The reasons for an outcome; `Verdict.why` has their words, those of a session's `reports/session_verdicts.py`."""

    ONLY_MEASURED = auto()
    WITHIN_TOLERANCE = auto()
    WITHIN_LIMIT = auto()
    BETTER = auto()
    ABOVE_FLOOR = auto()
    NO_BASELINE = auto()
    DRIFT_UNKNOWN = auto()
    SUSPECTED = auto()
    CONFIRMED = auto()
    SINGLE_RUN = auto()
    BEYOND_LIMIT = auto()
    WITHIN_NOISE = auto()
    TOO_NOISY = auto()
    WIDENED = auto()
    OTHERS_TOO = auto()
    RUNS_DISAGREE = auto()
    NOT_CONFIRMED = auto()
    DIVERGED = auto()
    DISTURBED = auto()
    NOT_MEASURED = auto()
    OTHER_SIDE_LACKS = auto()
    TOO_FEW = auto()
    NOT_FINITE = auto()
    OTHER_UNIT = auto()
    OTHER_PLACE = auto()
    NOT_PROVED = auto()
    # Of a session's verdict:
    UNDECIDED = auto()
    """More pairs could decide."""
    FEW_TESTS = auto()
    """Too few tests of the session have a baseline."""
    FEW_WITH_PAIRS = auto()
    """Too few tests that have a baseline also have pairs."""
    SLOW_IN_PART = auto()
    """The machine slows some tests down, and not the others."""
    NO_PAIRS = auto()
    """No chosen test could be compared with the reference environment."""


_WHY: Final = {
    Reason.ONLY_MEASURED: "it was only measured",
    Reason.WITHIN_TOLERANCE: "within the tolerance",
    Reason.WITHIN_LIMIT: "within the limit",
    Reason.BETTER: "{better} by more than the tolerance",
    Reason.ABOVE_FLOOR: "above the floor",
    Reason.NO_BASELINE: "there is no baseline for this {subject} on this machine",
    Reason.DRIFT_UNKNOWN: "the drift common to all tests is not known yet",
    Reason.SUSPECTED: "a {loss} is suspected, not confirmed",
    Reason.CONFIRMED: "the {loss} is confirmed",
    Reason.SINGLE_RUN: "the {loss} is larger than noise explains, but only one run is known",
    Reason.BEYOND_LIMIT: "beyond the limit",
    Reason.WITHIN_NOISE: "within noise: {worse} by more than the tolerance, but not by more than noise explains",
    Reason.TOO_NOISY: "too noisy to judge: noise widens the threshold so far that a {too_much} would pass",
    Reason.WIDENED: (
        "too noisy to judge: sessions differ so much that they have widened the threshold beyond 10 % since the "
        "baseline was recorded"
    ),
    Reason.OTHERS_TOO: (
        "{worse} by more than the tolerance, as the session's other tests are; they are too few to tell whether the "
        "machine is the cause"
    ),
    Reason.RUNS_DISAGREE: "too few runs show the {loss}",
    Reason.NOT_CONFIRMED: "a {loss} is suspected, and the run that was to confirm it was disturbed or never settled",
    Reason.DIVERGED: "the loss is not a finite number",
    Reason.DISTURBED: "every run was disturbed",
    Reason.NOT_MEASURED: "not measured",
    Reason.OTHER_SIDE_LACKS: "the other side does not give it in each run",
    Reason.TOO_FEW: "too few pairs to decide",
    Reason.NOT_FINITE: "it is not a finite number",
    Reason.OTHER_UNIT: "its baseline is in another unit",
    Reason.OTHER_PLACE: "the values are not of the same place in the output",
    Reason.NOT_PROVED: "not proved that each side ran its own code",
}
"""The words of the reasons; the figure fills its own words in: a throughput "slower" for `{worse}`."""


_LARGEST_EXPONENT: Final = 700.0
"""math.exp overflows above 709; the common drift of a damaged row may be larger."""


class Consequence(StrEnum):
    """The effect of a verdict on its test."""

    PASSES = "passes"
    WARNS = "warns"
    FAILS = "fails"
    ERRORS = "errors"


class Against(StrEnum):
    """The target that a test is judged against; the values are its names in tables."""

    BASELINE = "baseline"
    FLOOR = "floor"
    """A document's figure for a weaker GPU."""
    EARLIER_SESSIONS = "provisional"
    """A provisional baseline, where no row was recorded."""

    @classmethod
    def of(cls, row: Baseline | None, *, is_floor: bool) -> Self | None:
        """Return the kind of a row, by its provenance; None without a row."""
        if row is None:
            return None
        if row.provenance is Provenance.PROVISIONAL:
            return cls.EARLIER_SESSIONS
        return cls.FLOOR if is_floor else cls.BASELINE


def effect_of_slowdown(against: Against | None) -> Consequence:
    """Return what a confirmed slowdown does: a provisional baseline, which nobody has reviewed, fails no test."""
    return Consequence.WARNS if against is Against.EARLIER_SESSIONS else Consequence.FAILS


class Want(StrEnum):
    """The kinds of measurements that a decision may still want."""

    NOTHING = "nothing"
    COMMON_DRIFT = "common drift"
    """More tests of the session must run first, which show the drift common to all tests."""
    RUNS = "runs"
    PAIRS = "pairs"
    """With the reference environment."""


@dataclass(frozen=True, slots=True)
class Wants:
    """The measurements that a verdict or a new baseline still wants; `count` runs or pairs in all."""

    what: Want = Want.NOTHING
    count: int = 0


NOTHING: Final = Wants()


def worst(outcomes: Iterable[Outcome | None]) -> Outcome | None:
    """Return the worst of the outcomes; None where nothing was judged."""
    return min(filter(None, outcomes), key=WORST_FIRST.index, default=None)


def combined(wants: Iterable[Wants]) -> Wants:
    """Return what several verdicts of a test want next: pairs before runs, and the largest number of either."""
    known = list(wants)
    for what in (Want.PAIRS, Want.RUNS, Want.COMMON_DRIFT):
        if counts := [want.count for want in known if want.what is what]:
            return Wants(what, max(counts))
    return NOTHING


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The accepted change, as signed fractions; None for no bound, as in ReFrame."""

    lower: float | None = -DEFAULT_TOLERANCE
    upper: float | None = DEFAULT_TOLERANCE

    def __post_init__(self) -> None:
        if self.lower is not None and not (_is_number(self.lower) and -MOST_TOLERANCE <= self.lower < 0):
            raise TfperfError(
                f"tolerance: lower {self.lower!r} must be from -{MOST_TOLERANCE:g} to below 0, -0.05 for 5 %, or None"
            )
        if self.upper is not None and not (_is_number(self.upper) and 0 < self.upper <= MOST_TOLERANCE):
            raise TfperfError(
                f"tolerance: upper {self.upper!r} must be above 0, up to {MOST_TOLERANCE:g}, 0.05 for 5 %, or None"
            )

    @classmethod
    def of(cls, value: float | tuple[float | None, float | None] | Self) -> Self:
        """Make a tolerance from a fraction, 0.05 for (-0.05, 0.05), or from a pair of lower and upper."""
        if isinstance(value, cls):
            return value
        if isinstance(value, tuple):
            if len(value) != 2:
                raise TfperfError(f"tolerance={value!r}: give one fraction, 0.05, or a pair, (-0.05, None)")
            return cls(*value)
        if not (_is_number(value) and 0 < value <= MOST_TOLERANCE):
            raise TfperfError(f"tolerance={value!r}: give a fraction above 0, up to {MOST_TOLERANCE:g}, 0.05 for 5 %")
        return cls(-value, value)

    def within(self, baseline: Baseline) -> Self:
        """Return this tolerance, with the bounds of the baseline's row where it has any."""
        lower, upper = baseline.lower, baseline.upper
        if baseline.provenance is Provenance.PUBLISHED:
            lower = -PUBLISHED_TOLERANCE if lower is None else lower
            upper = PUBLISHED_TOLERANCE if upper is None else upper
        return type(self)(
            self.lower if lower is None else (None if math.isinf(lower) else lower),
            self.upper if upper is None else (None if math.isinf(upper) else upper),
        )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of a figure, with the numbers that led to it.

    A change is a fraction of the throughput, -0.13 for 13 % slower; of any other figure it is in the figure's unit.
    In a comparison the value is side b's, and its change is from side a's.
    """

    outcome: Outcome | None = None  # None where nothing was judged
    reason: Reason = Reason.ONLY_MEASURED  # for the outcome
    figure: Figure = THROUGHPUT  # the throughput or another figure
    value: float | None = None  # the Hodges-Lehmann median of the runs; None if a run did not give it
    rank: str = ""  # for several ranks, the rank whose value the last run has; "" for a single worker
    # where a program printed the values, as "at step 400", each place once; empty for a measured figure
    places: tuple[str, ...] = ()
    rule: Rule = Rule.BASELINE  # the target that a change is confirmed against (docs/statistics.md)
    baseline: Baseline | None = None  # the row that the figure was judged against; None where there was none
    is_floor: bool = False  # the baseline is a document's figure for a weaker GPU, so only a drop below it counts
    change: float | None = None  # of the value from the baseline, the common drift included
    # the change that decided: by rule 1 from the reference environment to the current one, by rule 2 from the baseline
    # without the common drift; None before a change is confirmed
    confirmed_change: float | None = None
    # the value that it is a change from: the reference environment's or side a's median today, or the baseline
    confirmed_from: float | None = None
    # the 95 % confidence interval of the change that decides, the common drift taken out; None where a verdict rests on
    # no threshold. The tests of runs and pairs decide, and not the interval.
    interval: tuple[float, float] | None = None
    # lower, upper: the values between which a single run passes today; None where unbounded
    lower: float | None = None
    upper: float | None = None
    tolerance: Tolerance | None = None  # the accepted change of a throughput; any other figure has its own
    # the confirmed change for the worse, positive, from which the test fails: the tolerance, or more where noise asks
    # for it; None where any drop is accepted
    threshold: float | None = None
    # the threshold of the same runs when the baseline was recorded, before sessions taught how much they differ, and
    # without the common drift; None where it was no lower
    threshold_recorded: float | None = None
    # the smallest slowdown that is detected with 95 % power; None as above
    min_detectable_slowdown: float | None = None
    noise: Noise | None = None  # the noise that the threshold allows for
    # the drift common to all tests of the session, in log throughput; 0 where too few tests show it
    common_drift: float = 0.0
    tests: int = 1  # the number of the session's verdicts that share the false-alarm rate
    wants: Wants = NOTHING  # the measurements that it still wants; pairs only by rule 1
    # the steps to the verdict; None without a threshold, and for other figures than the throughput
    decision: Decision | None = None
    # the loss that the team knows of; None where it knows of none, and in a comparison
    acknowledged: Acknowledgement | None = None

    @property
    def why(self) -> str:
        """The reason in words."""
        return _WHY[self.reason].format_map(self.figure.words)

    @property
    def against(self) -> Against | None:
        """The kind of its baseline; None without a baseline."""
        return Against.of(self.baseline, is_floor=self.is_floor)

    @property
    def if_slower(self) -> Consequence:
        """The effect of a confirmed slowdown on the test."""
        return effect_of_slowdown(self.against)

    @property
    def compared_with(self) -> float | None:
        """The value that it was compared with: the baseline's, or `confirmed_from`."""
        if self.reason is Reason.OTHER_UNIT:
            return None
        return self.confirmed_from if self.baseline is None else self.baseline.value

    @property
    def expected(self) -> float | None:
        """The value expected today: the reference environment's or side a's, or the baseline with drift and offset."""
        is_rate = self.figure.name == RATE
        if is_rate and self.confirmed_change is not None and self.value is not None:
            return self.value / (1 + self.confirmed_change)
        if self.decision is not None:
            return self.decision.expected
        if self.baseline is None:
            return None
        drift = self.common_drift if is_rate else 0.0
        return self.baseline.value * math.exp(min(drift, _LARGEST_EXPONENT))

    @property
    def deciding_change(self) -> float | None:
        """The change that `interval` is of, from the value expected today; None without a comparison."""
        if self.confirmed_change is not None:
            return self.confirmed_change
        change, row, expected = self.change, self.baseline, self.expected
        if change is None or row is None or expected in (None, 0.0, row.value):
            return change
        if self.figure.name == RATE:
            return (1 + change) * row.value / expected - 1
        return change + row.value - expected

    @property
    def is_decided(self) -> bool:
        """Whether no further run can change it."""
        return self.wants == NOTHING

    def standing(self, day: date) -> Standing | None:
        """Return what its acknowledgement means on the day of the measurement; None without an acknowledgement."""
        known, interval = self.acknowledged, self.interval
        if known is None:
            return None
        if self.outcome in (Outcome.PASS, Outcome.IMPROVED) and interval is not None and known.is_better(interval):
            return Standing.RECOVERED
        if self.outcome in LOSSES and (interval is None or not known.covers(interval)):
            return Standing.WORSE
        return Standing.HOLDS if known.days_left(day) >= 0 else Standing.ENDED
