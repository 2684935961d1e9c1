"""The judgement: a throughput held against a baseline, pure and from numbers alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pytest_tfperf.baseline import Baseline, Provenance
from pytest_tfperf.canary import in_words
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.night import NO_SHIFT, Level, Night, Shift, level_of
from pytest_tfperf.noise import Noise
from pytest_tfperf.throughput import RunValue, Throughput

RUNS_TO_CONFIRM = (3, 5, 8)
"""Fresh runs that a suspicion asks for: three, where they don't clear it five, and where these don't prove it eight."""

FALSE_ALARMS_A_NIGHT = 0.03
"""Over all tests, by what noise alone gives in the last eight runs; benchmarks/verdict.py asks what comes of it."""

TOO_NOISY_TO_GATE = 0.15
"""Where one run could not catch a loss of 15 %, three come first; where they can't either, it is no baseline."""

_NIGHTS_BEFORE = 2
_SUSPICION = 1.5  # spreads; below this one run passes. See docs/statistics.md for the error rates that it gives
_PUBLISHED_TOLERANCE = 0.05
# A loss must raise suspicion and be confirmed. At 2.05 standard errors beyond each line each happens 98 times in 100.
# At spreads of 1 and 2 % this gives 4.2 and 8.0 %; benchmarks/verdict.py finds that 4.2 and 7.4 % are caught 95 times.
_DETECTION = 2.05
_ITSELF = 0.25  # of the tolerance: what a test must have lost by itself, however much others gained
_CLEAR = 2.0  # five runs decide where the drop is so many times as large as they must show; a close call takes eight


class Outcome(StrEnum):
    """The six outcomes."""

    PASS = "PASS"
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"
    INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The change that is accepted, as signed fractions; None is unbounded, as ReFrame writes it."""

    lower: float | None = -0.02
    upper: float | None = 0.02

    def __post_init__(self) -> None:
        if self.lower is not None and not -1 < self.lower < 0:
            raise TfperfError(f"tolerance: lower {self.lower!r} must lie between -1 and 0, as -0.05 for 5 % (or None)")
        if self.upper is not None and not 0 < self.upper < math.inf:
            raise TfperfError(f"tolerance: upper {self.upper!r} must be above 0, as 0.05 for 5 % (or None)")

    @classmethod
    def of(cls, value: float | tuple[float | None, float | None] | Self) -> Self:
        """0.05 is (-0.05, 0.05); a pair is lower and upper."""
        if isinstance(value, cls):
            return value
        if isinstance(value, tuple):
            if len(value) != 2:
                raise TfperfError(f"tolerance={value!r}: give one fraction, 0.05, or a pair, (-0.05, None)")
            return cls(*value)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
            raise TfperfError(f"tolerance={value!r}: give a fraction between 0 and 1, 0.05 for 5 %")
        return cls(-value, value)

    def within(self, baseline: Baseline) -> Self:
        """This tolerance with the baseline's own bounds in the place of ours where its row has some."""
        lower, upper = baseline.lower, baseline.upper
        if baseline.provenance is Provenance.PUBLISHED:
            lower = -_PUBLISHED_TOLERANCE if lower is None else lower
            upper = _PUBLISHED_TOLERANCE if upper is None else upper
        return type(self)(
            self.lower if lower is None else (None if math.isinf(lower) else lower),
            self.upper if upper is None else (None if math.isinf(upper) else upper),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One outcome, with the numbers that led to it.

    Args:
        outcome: one of six.
        reason: one sentence.
        baseline: what it was held against; None where there was none.
        floor: the baseline is a document's figure for a weaker machine: only a drop below it counts.
        change: fraction against the reference, -0.13 for 13 % slower.
        lower, upper: images per second between which it passes unremarked tonight; None where unbounded.
        tolerance: what was accepted.
        threshold: the drop, a positive fraction, that so many runs tell from noise: the tolerance, or more.
        fails_at: the same for the runs that decide where a drop is suspected: the confirmed drop that fails.
        noise: what the runs are known to differ by.
        smallest_loss: the loss that would have been caught about 95 times in 100, with as many runs as that takes.
        shift: what all tests of the night have in common.
        credited: what of it was taken out of the drop, a difference of log throughputs.
        level: where the reference is by now, with the good nights after it.
        runs_wanted: fresh runs in all that it would take to decide; 0 when decided.
    """

    outcome: Outcome
    reason: str = ""
    baseline: Baseline | None = None
    floor: bool = False
    change: float | None = None
    lower: float | None = None
    upper: float | None = None
    tolerance: Tolerance | None = None
    threshold: float | None = None
    fails_at: float | None = None
    noise: Noise | None = None
    smallest_loss: float | None = None
    shift: Shift = NO_SHIFT
    credited: float = 0.0
    level: Level | None = None
    runs_wanted: int = 0

    @property
    def waits(self) -> bool:
        """Whether it waits for the other tests of the night: what they have in common is not known yet."""
        return self.shift.waits


def judge(
    throughput: Throughput,
    baseline: Baseline | None,
    tolerance: Tolerance,
    noise: Noise | None = None,
    *,
    floor: bool = False,
    tests: int = 1,
    most_runs: int | None = None,
    shift: Shift = NO_SHIFT,
    nights: Sequence[Night] = (),
    hold: bool = False,
) -> Verdict:
    """Hold a throughput against a baseline.

    REGRESSED takes a drop beyond the tolerance *and* beyond what the noise explains in eight fresh runs, of which all
    but one are half as bad: one slow run of a night fails nobody. One run that looks bad asks for three, three that
    still do for five, and five for eight, unless they show twice the drop that they must. A row so noisy that one run
    would miss a loss of 15 % begins with three. The drop is that of the runs' Hodges-Lehmann median, which is what is
    shown.

    Args:
        throughput: tonight's runs.
        baseline: the reference; None gives NO_BASELINE.
        tolerance: the drop and the rise that are accepted.
        noise: between-run spread, from `noise_of`.
        floor: only a drop counts.
        tests: tests in the session; the false alarms of a night are shared among them.
        most_runs: runs that can be had at all (a log is one); None: as many as it takes.
        shift: what all tests of the night have in common (`night.shift_of`); what is the night's or the machine's of it
            is taken out of the drop, both ways; but a test that hardly lost fails nobody because others gained. Where
            it `waits`, nothing can be decided.
        nights: earlier nights of this workload, oldest first. The last two count with tonight, so that a small loss
            shows in three; the first good ones make the reference more exact (`night.level_of`).
        hold: REGRESSED only where one of the last two nights shows it as well.
    """
    if throughput.loss is not None and not math.isfinite(throughput.loss):
        return Verdict(outcome=Outcome.INVALID, reason=f"the loss is {throughput.loss}: what it trains is not a model")
    if baseline is None or noise is None:
        return Verdict(outcome=Outcome.NO_BASELINE, reason="there is no baseline for this workload on this machine")
    if shift.unfit:
        return Verdict(outcome=Outcome.INVALID, reason=_unfit(shift), shift=shift)
    level = level_of(baseline.runs, nights)
    reference = math.log(baseline.reference) + shift.credited
    now = Night(tuple(run.log_rate - reference for run in throughput.runs))
    *before, tonight = (night.against(level) for night in [*nights[-_NIGHTS_BEFORE:], now])
    limits = _Limits(throughput.runs, level, tolerance, noise, tests)
    stages = [stage if most_runs is None else min(stage, most_runs) for stage in RUNS_TO_CONFIRM]
    outcome, reason, wanted = _decide(tonight, before, limits, stages, hold=hold)
    runs, centre = tonight.drops, baseline.reference * math.exp(level.offset + shift.credited)
    if outcome is Outcome.REGRESSED and tonight.centre + shift.credited > -_ITSELF * limits.accepted:
        outcome, reason = Outcome.INCONCLUSIVE, "slower than the other tests tonight, and hardly than its baseline"
    if floor and outcome is Outcome.IMPROVED:
        outcome, reason = Outcome.PASS, "above the floor"
    return Verdict(
        outcome=outcome,
        reason=reason,
        baseline=baseline,
        floor=floor,
        change=throughput.images_per_sec / baseline.reference - 1,
        lower=None if tolerance.lower is None else centre * math.exp(-limits.drop(len(runs))),
        upper=None if tolerance.upper is None or floor else centre * math.exp(limits.rise(len(runs))),
        tolerance=tolerance,
        threshold=None if tolerance.lower is None else 1 - math.exp(-limits.drop(len(runs))),
        fails_at=None if tolerance.lower is None else 1 - math.exp(-limits.drop(max(len(runs), stages[-1]))),
        noise=noise,
        smallest_loss=None if tolerance.lower is None else 1 - math.exp(-limits.smallest_loss(stages[-1])),
        shift=shift,
        credited=shift.credited,
        level=level,
        runs_wanted=wanted,
    )


def may_stop(
    throughput: Throughput, baseline: Baseline, tolerance: Tolerance, noise: Noise, nights: Sequence[Night] = ()
) -> bool:
    """Whether a first run, so far, is good whatever else it measures: its lower end is above what raises suspicion.

    Only good news stops a run early: stopping on bad news multiplies the false alarms.
    """
    run, level = throughput.runs[0], level_of(baseline.runs, nights)
    limits = _Limits(throughput.runs, level, tolerance, noise, 1)
    drop = run.log_rate - math.log(baseline.reference) - level.offset
    return drop - 2 * run.error >= -limits.suspicion(limits.begins_with)


def loss_seen(spread: float, runs: int) -> float:
    """The loss that a baseline of so many runs catches 95 times in 100, if their spread is true, at 2 % tolerance."""
    noise = Noise(spread, math.inf, "")
    return 1 - math.exp(-_Limits([], Level(0.0, runs), Tolerance(), noise, 1).smallest_loss(RUNS_TO_CONFIRM[-1]))


def resolvable(baseline: Baseline, tolerance: Tolerance, noise: Noise, *, tests: int = 1) -> tuple[float, float]:
    """The drop that fails over the eight runs that decide, and the loss that is caught 95 times in 100.

    Positive fractions, known before anything is measured; a drop above what `tolerance` accepts is noise's.
    """
    limits, last = _Limits([], Level(0.0, baseline.runs), tolerance, noise, tests), RUNS_TO_CONFIRM[-1]
    return 1 - math.exp(-limits.drop(last)), 1 - math.exp(-limits.smallest_loss(last))


class _Limits:
    """The drops, in natural logarithms, at which things happen."""

    def __init__(self, runs: Sequence[RunValue], level: Level, tolerance: Tolerance, noise: Noise, tests: int) -> None:
        # A run that was cut short, or on a restless night, is known less well than the baseline's runs were.
        self._spread = max(noise.spread, _window_error(runs))
        self._known_spread = noise.spread
        self._degrees_of_freedom = noise.degrees_of_freedom
        self._reference_variance = _reference_variance(level.runs)
        self._tests = tests
        self.accepted = math.inf if tolerance.lower is None else -math.log1p(tolerance.lower)
        self._upper = math.inf if tolerance.upper is None else math.log1p(tolerance.upper)

    def suspicion(self, runs: int) -> float:
        """The drop of so many runs that makes us look again: a restless run is no reason to look less closely."""
        noise = _SUSPICION * self._known_spread * math.sqrt(1 / runs + self._reference_variance)
        return max(noise, self.accepted - noise)

    def drop(self, runs: int) -> float:
        return max(self.accepted, self._explained(runs))

    def rise(self, runs: int) -> float:
        return max(self._upper, self._explained(runs))

    @property
    def begins_with(self) -> int:
        """Fresh runs that come first: one, or of a noisy row three."""
        one_misses = (_SUSPICION + _DETECTION) * self._known_spread * math.sqrt(1 + self._reference_variance)
        return 1 if one_misses <= max(-math.log1p(-TOO_NOISY_TO_GATE), self.accepted) else RUNS_TO_CONFIRM[0]

    def smallest_loss(self, last_stage: int) -> float:
        first = min(self.begins_with, last_stage)
        lines = {first: self.suspicion(first)} | {last_stage: self.drop(last_stage)}  # one stage, where that is all
        return max(
            line + _DETECTION * self._spread * math.sqrt(1 / runs + self._reference_variance)
            for runs, line in lines.items()
        )

    def _explained(self, runs: int) -> float:
        """What noise alone exceeds once in 1/alpha nights, over all tests of a night."""
        alpha = (1 - (1 - FALSE_ALARMS_A_NIGHT) ** (1 / max(self._tests, 1))) / 2
        return (
            _t_quantile(alpha, self._degrees_of_freedom) * self._spread * math.sqrt(1 / runs + self._reference_variance)
        )


def _decide(
    tonight: Night, before: Sequence[Night], limits: _Limits, stages: Sequence[int], *, hold: bool
) -> tuple[Outcome, str, int]:
    count = len(tonight.drops)
    fresh = f"{count} fresh worker{'s' if count > 1 else ''}"
    lately = _shows_over_nights([*before, tonight], limits)
    clear = count in stages[1:] and _shows(tonight, limits, times=_CLEAR)
    if not clear and (more := [stage for stage in stages if stage > count]):
        # A good second run must not call off the third.
        if count not in stages and min(tonight.drops) < -limits.suspicion(1):
            return Outcome.INCONCLUSIVE, f"a drop is suspected, and {fresh} can't settle it", more[0]
        if lately or tonight.centre < -limits.suspicion(count):
            return Outcome.INCONCLUSIVE, f"a drop is suspected after {fresh}, not confirmed", more[0]
        if count < stages[0] and before and before[-1].doubtful:
            return Outcome.INCONCLUSIVE, f"the night before was in doubt, and {fresh} can't settle it", more[0]
        if count < limits.begins_with:
            return Outcome.INCONCLUSIVE, f"its runs differ too much for {fresh} to settle it", more[0]
        return _good(tonight, limits)
    if not (lately or _shows(tonight, limits)):
        if tonight.centre >= -limits.accepted:
            return _good(tonight, limits)
        if tonight.centre >= -limits.drop(count):
            return Outcome.INCONCLUSIVE, f"a drop beyond the tolerance in {fresh}, within what noise explains", 0
        return Outcome.INCONCLUSIVE, f"too few of {fresh} show the drop", 0
    if hold and not any(_shows(night, limits) for night in before):
        return Outcome.INCONCLUSIVE, f"held: {fresh} show the drop, none of the nights before does", 0
    over = "" if _shows(tonight, limits) else f" and over {len(before) + 1} nights"
    return Outcome.REGRESSED, f"confirmed in {fresh}{over}", 0


def _shows(night: Night, limits: _Limits, times: float = 1.0) -> bool:
    """Whether a night shows the drop: its centre beyond the line, and every run (from five on all but one) half as far.

    One lucky run must not hide a loss, as one slow one must not make one.
    """
    line = times * limits.drop(len(night.drops))
    excused = 1 if len(night.drops) >= RUNS_TO_CONFIRM[1] else 0
    return night.centre < -line and sorted(night.drops)[-1 - excused] < -line / 2


def _shows_over_nights(nights: Sequence[Night], limits: _Limits) -> bool:
    """Whether three nights together show a drop that each by itself is too small to show."""
    if len(nights) <= _NIGHTS_BEFORE:
        return False
    together = Night(tuple(drop for night in nights for drop in night.drops))
    line = limits.drop(len(together.drops))
    return together.centre < -line and all(night.centre < -line / 2 for night in nights)


def _unfit(shift: Shift) -> str:
    lost = -math.expm1(shift.common)
    return (
        f"the machine itself is {lost:.0%} slower than when its baselines were recorded: {in_words(shift.canaries)}. "
        "See to its clocks, cooling and neighbours, or record it anew with --update-baselines"
    )


def _good(tonight: Night, limits: _Limits) -> tuple[Outcome, str, int]:
    if tonight.centre > limits.rise(len(tonight.drops)):
        return Outcome.IMPROVED, "faster than the baseline by more than the tolerance", 0
    return Outcome.PASS, "within what is accepted", 0


def _window_error(runs: Sequence[RunValue]) -> float:
    """What the windows leave uncertain of a run: their standard error, where they are too few what the runs differ by.

    0 for one run of too few windows, as a log without steps is: nothing tells it.
    """
    errors = [run.error for run in runs if math.isfinite(run.error)]
    if errors:
        return statistics.fmean(errors)
    return statistics.stdev(run.log_rate for run in runs) if len(runs) > 1 else 0.0


def _reference_variance(runs: int) -> float:
    """Of a Hodges-Lehmann median over a baseline's runs, in spreads squared (1.07: its efficiency on normal data)."""
    return 1.07 / runs if runs > 1 else 1.0


def _t_quantile(alpha: float, degrees_of_freedom: float) -> float:
    if math.isinf(degrees_of_freedom):
        return -statistics.NormalDist().inv_cdf(alpha)
    from scipy.special import stdtrit

    return -float(stdtrit(degrees_of_freedom, alpha))
