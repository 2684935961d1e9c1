"""One outcome of seven, what is accepted, and the numbers that led to it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Final, Self, TypeGuard

from pytest_tfperf.core.baseline import MOST_TOLERANCE, PUBLISHED_TOLERANCE, Baseline, Provenance
from pytest_tfperf.core.figure import THROUGHPUT, Figure
from pytest_tfperf.errors import TfperfError

MOST_COUNTED: Final = 100
"""Runs or pairs up to which `Decision.enough` looks."""


@dataclass(frozen=True, slots=True)
class Power:
    """What a number of runs or pairs can show; the slowdowns are positive fractions.

    Args:
        count: runs or pairs.
        threshold: the slowdown from which the test would fail.
        detectable: the slowdown that is detected with 95 % power, suspicion by the first run included.
    """

    count: int
    threshold: float
    detectable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardDeviations:
    """Why two measurements differ, as standard deviations of log throughput; None if not known.

    Args:
        within_runs: what the windows of one run leave uncertain.
        between_runs: of fresh runs.
        of_baseline: of the baseline, which rests on a limited number of runs.
        between_sessions: of what a session does to one test by itself.
    """

    within_runs: float | None
    between_runs: float
    of_baseline: float
    between_sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The steps from runs to a verdict; changes are fractions, -0.05 for 5 % slower.

    Args:
        expected: the throughput that the runs were held against, with the drift common to all tests.
        first_change: of the first run, which raises a suspicion or passes the test.
        suspected_from: the slowdown of the first run, a positive fraction, from which it is suspected; negative where
            only a faster run passes unsuspected.
        changes: of each run or pair that decided, in order; the verdict's rule says which.
        middle: the Hodges-Lehmann median of the runs' changes, or the trimmed mean of the pairs'; None before there is
            one.
        accepted: the slowdown that the tolerance accepts, a positive fraction.
        threshold: the slowdown from which the test fails: the tolerance, or more where noise explains more.
        showing: how many runs show at least half of the threshold; None of pairs.
        showing_needed: how many of them must.
        evidence: the pairs' log likelihood ratio of a loss of twice the tolerance to none; None of runs.
        evidence_needed: the ratio from which the test fails.
        last: the count of runs or pairs that decides at the latest.
        enough: the least count for which the threshold is below this slowdown; None where the tolerance accepts the
            slowdown, or no count up to `MOST_COUNTED` would be enough.
        deviations: where the threshold comes from.
        powers: what other counts would show.
    """

    expected: float
    first_change: float
    suspected_from: float
    changes: tuple[float, ...]
    middle: float | None
    accepted: float
    threshold: float
    showing: int | None
    showing_needed: int | None
    evidence: float | None = None
    evidence_needed: float | None = None
    last: int
    enough: int | None
    deviations: StandardDeviations
    powers: tuple[Power, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise that a verdict allows for; standard deviations are of natural logarithms of throughput.

    Args:
        between_runs: standard deviation between fresh runs, pooled over the machine's rows.
        degrees_of_freedom: how well it is known; inf where it is assumed.
        rows: rows of the machine that it was learnt from; 0 where it is assumed from the DGX-1 document.
        between_sessions: standard deviation of what a session does to one test by itself; one figure for a machine,
            learnt from its history (`judging/session_variance.py`).
    """

    between_runs: float
    degrees_of_freedom: float
    rows: int = 0
    between_sessions: float = 0.0


class Outcome(StrEnum):
    """The seven outcomes."""

    PASS = "PASS"
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    TOO_NOISY = "TOO_NOISY"
    NO_BASELINE = "NO_BASELINE"
    INVALID = "INVALID"


WORST_FIRST: Final = (
    Outcome.REGRESSED,
    Outcome.INVALID,
    Outcome.INCONCLUSIVE,
    Outcome.TOO_NOISY,
    Outcome.NO_BASELINE,
    Outcome.IMPROVED,
    Outcome.PASS,
)
"""The outcomes in the order in which they need action; a check's outcome is the worst of its throughput and figures."""

BAD_NEWS: Final = (Outcome.REGRESSED, Outcome.INVALID, Outcome.INCONCLUSIVE, Outcome.TOO_NOISY)
"""The outcomes that somebody must look into."""


class Rule(StrEnum):
    """What a suspected slowdown is confirmed against."""

    REFERENCE_ENVIRONMENT = "reference environment"
    BASELINE = "baseline"
    OTHER_SIDE = "other side"


class Reason(StrEnum):
    """Why a verdict has its outcome; `Verdict.why` says it in words."""

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
    OTHERS_TOO = auto()
    RUNS_DISAGREE = auto()
    NOT_CONFIRMED = auto()
    DIVERGED = auto()
    DISTURBED = auto()
    NOT_MEASURED = auto()
    OTHER_SIDE_LACKS = auto()
    NOT_FINITE = auto()
    OTHER_UNIT = auto()
    OTHER_PLACE = auto()


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
    Reason.TOO_NOISY: "too noisy to judge: noise widens the threshold so far that a {loss} by a quarter would pass",
    Reason.OTHERS_TOO: (
        "{worse} by more than the tolerance, as the session's other tests are; they are too few to tell whether the "
        "machine is the cause"
    ),
    Reason.RUNS_DISAGREE: "too few runs show the {loss}",
    Reason.NOT_CONFIRMED: "a {loss} is suspected, and the run that was to confirm it was disturbed or never settled",
    Reason.DIVERGED: "the loss is not a finite number",
    Reason.DISTURBED: "every run was disturbed",
    Reason.NOT_MEASURED: "not measured",
    Reason.OTHER_SIDE_LACKS: "the other side does not give it",
    Reason.NOT_FINITE: "it is not a finite number",
    Reason.OTHER_UNIT: "its baseline is in another unit",
    Reason.OTHER_PLACE: "the values are not of the same place in the output",
}
"""In a message; the figure puts its own words in: of a throughput `{worse}` is "slower" and `{loss}` "slowdown"."""


class Consequence(StrEnum):
    """What happens to the test."""

    PASSES = "passes"
    WARNS = "warns"
    FAILS = "fails"
    ERRORS = "errors"


class Against(StrEnum):
    """What a test is judged against; the values are what tables call it."""

    BASELINE = "baseline"
    FLOOR = "floor"
    """A document's figure for a weaker GPU."""
    EARLIER_SESSIONS = "provisional"
    """Where no row was recorded."""

    @classmethod
    def of(cls, row: Baseline, *, is_floor: bool) -> Self:
        """What a row is, by its provenance."""
        if row.provenance is Provenance.PROVISIONAL:
            return cls.EARLIER_SESSIONS
        return cls.FLOOR if is_floor else cls.BASELINE

    @property
    def if_slower(self) -> Consequence:
        """What a confirmed slowdown does: earlier sessions, which nobody has confirmed, never fail a test."""
        return Consequence.WARNS if self is Against.EARLIER_SESSIONS else Consequence.FAILS


class Want(StrEnum):
    """What can be missing for a decision."""

    NOTHING = "nothing"
    COMMON_DRIFT = "common drift"
    """More tests of the session must run first: they show the drift that all have in common."""
    RUNS = "runs"
    PAIRS = "pairs"
    """With the reference environment."""


@dataclass(frozen=True, slots=True)
class Wants:
    """What a verdict, or a new baseline, still wants; `count` is how many runs or pairs it takes in all."""

    what: Want = Want.NOTHING
    count: int = 0


NOTHING: Final = Wants()


def worst(outcomes: Iterable[Outcome | None]) -> Outcome | None:
    """The worst of these; None where nothing was judged."""
    return min((one for one in outcomes if one is not None), key=WORST_FIRST.index, default=None)


def combined(wants: Iterable[Wants]) -> Wants:
    """What has to be measured next for several verdicts of one test: pairs before runs, and the most of them."""
    known = list(wants)
    for what in (Want.PAIRS, Want.RUNS, Want.COMMON_DRIFT):
        if counts := [one.count for one in known if one.what is what]:
            return Wants(what, max(counts))
    return NOTHING


DEFAULT_TOLERANCE: Final = 0.02


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The change that is accepted, as signed fractions; None is unbounded, as ReFrame writes it."""

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
        """0.05 is (-0.05, 0.05); a pair is lower and upper."""
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
        """This tolerance with the baseline's own bounds in the place of ours where its row has some."""
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
    """One outcome of one figure, with the numbers that led to it.

    A change is a fraction of the throughput, -0.13 for 13 % slower; of any other figure it is in the figure's unit.
    In a comparison the value is side b's, and its change is from side a's.

    Args:
        outcome: one of seven; None where nothing was judged.
        reason: why.
        figure: the figure, the throughput or another.
        value: the Hodges-Lehmann median of the runs; None if a run could not tell it.
        rank: of several ranks, the one whose value the last run has; "" for one worker.
        places: where a program printed the values, as "at step 400", each place once; none for what is measured.
        rule: what a change is confirmed against (docs/statistics.md).
        baseline: the row that the figure was judged against; None where there was none.
        is_floor: the baseline is a document's figure for a weaker GPU, so only a drop below it counts.
        change: of the value against the baseline; nothing is taken out of it.
        confirmed_change: what decided: by rule 1 the current environment against the reference environment, by rule 2
            the runs against the baseline without the common drift; None before anything is confirmed.
        interval: of a comparison, the 95 % confidence interval of that change; the rule decides, and not the interval.
        confirmed_from: what it is a change from: the reference environment's or side a's median today, or the baseline.
        lower, upper: values between which one run passes unremarked today; None where unbounded.
        tolerance: the accepted change of a throughput; a figure has its own.
        threshold: the confirmed change for the worse, positive, from which the test fails: the tolerance, or more where
            noise asks for it; None where any drop is accepted.
        min_detectable_slowdown: the smallest slowdown that is detected with 95 % power; None as above.
        noise: what was allowed for.
        common_drift: what all tests of the session have in common, in log throughput; 0 where too few tests tell.
        tests: verdicts of the session among which false alarms are shared.
        wants: what it takes to decide; pairs only by rule 1.
        decision: the numbers that it rested on; None without a threshold, and for other figures than the throughput.
    """

    outcome: Outcome | None = None
    reason: Reason = Reason.ONLY_MEASURED
    figure: Figure = THROUGHPUT
    value: float | None = None
    rank: str = ""
    places: tuple[str, ...] = ()
    rule: Rule = Rule.BASELINE
    baseline: Baseline | None = None
    is_floor: bool = False
    change: float | None = None
    confirmed_change: float | None = None
    interval: tuple[float, float] | None = None
    confirmed_from: float | None = None
    lower: float | None = None
    upper: float | None = None
    tolerance: Tolerance | None = None
    threshold: float | None = None
    min_detectable_slowdown: float | None = None
    noise: Noise | None = None
    common_drift: float = 0.0
    tests: int = 1
    wants: Wants = NOTHING
    decision: Decision | None = None

    @property
    def why(self) -> str:
        """The reason in words."""
        return _WHY[self.reason].format_map(self.figure.words)

    @property
    def against(self) -> Against | None:
        """What it was judged against; None where there was nothing."""
        return Against.of(self.baseline, is_floor=self.is_floor) if self.baseline else None

    @property
    def if_slower(self) -> Consequence:
        """What a confirmed slowdown does to the test."""
        return self.against.if_slower if self.against else Consequence.FAILS

    @property
    def compared_with(self) -> float | None:
        """The value that its own was compared with: the baseline's, or what it is a confirmed change from."""
        if self.reason is Reason.OTHER_UNIT:
            return None
        return self.confirmed_from if self.baseline is None else self.baseline.reference

    @property
    def is_decided(self) -> bool:
        """Whether no further run can change it."""
        return self.wants == NOTHING
