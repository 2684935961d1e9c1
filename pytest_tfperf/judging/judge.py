"""The judgement: a throughput held against a baseline, pure and from numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.canary import in_words
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.judging.common_drift import NO_SHIFT, Night, Shift, level_of
from pytest_tfperf.judging.loss import no_number
from pytest_tfperf.judging.noise import Noise
from pytest_tfperf.judging.thresholds import RUNS_TO_CONFIRM, Limits

_NIGHTS_BEFORE = 2

_ITSELF = 0.25  # of the tolerance: what a test must have lost by itself, however much others gained

_CLEAR = 2.0  # five runs decide where the drop is so many times as large as they must show; a close call takes eight


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
    runs_are: str = "",
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
        runs_are: what the runs are in the verdict's reason; "": fresh workers, and how many.
    """
    if diverged := no_number(throughput):
        return Verdict(outcome=Outcome.INVALID, reason=diverged)
    if baseline is None or noise is None:
        return Verdict(outcome=Outcome.NO_BASELINE, reason="there is no baseline for this workload on this machine")
    if shift.unfit:
        return Verdict(outcome=Outcome.INVALID, reason=_unfit(shift), shift=shift)
    level = level_of(baseline.runs, nights)
    reference = math.log(baseline.reference) + shift.credited
    now = Night(tuple(run.log_rate - reference for run in throughput.runs))
    *before, tonight = (night.against(level) for night in [*nights[-_NIGHTS_BEFORE:], now])
    limits = Limits(throughput.runs, level, tolerance, noise, tests)
    stages = [stage if most_runs is None else min(stage, most_runs) for stage in RUNS_TO_CONFIRM]
    count = len(tonight.drops)
    fresh = runs_are or f"{count} fresh worker{'s' if count > 1 else ''}"
    outcome, reason, wanted = _decide(tonight, before, limits, stages, fresh, hold=hold)
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
    limits = Limits(throughput.runs, level, tolerance, noise, 1)
    drop = run.log_rate - math.log(baseline.reference) - level.offset
    return drop - 2 * run.error >= -limits.suspicion(limits.begins_with)


def _decide(
    tonight: Night, before: Sequence[Night], limits: Limits, stages: Sequence[int], fresh: str, *, hold: bool
) -> tuple[Outcome, str, int]:
    count = len(tonight.drops)
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
    if not _shows(tonight, limits):
        return Outcome.REGRESSED, f"confirmed in {fresh} and over {len(before) + 1} nights", 0
    if count == 1:  # all that a log or a file holds
        return Outcome.REGRESSED, f"shown by {fresh} alone, beyond what noise explains", 0
    return Outcome.REGRESSED, f"confirmed in {fresh}", 0


def _shows(night: Night, limits: Limits, times: float = 1.0) -> bool:
    """Whether a night shows the drop: its centre beyond the line, and every run (of eight all but one) half as far.

    One lucky run must not hide a loss, as one slow one must not make one. Five have no such excuse: where a worker is
    slow in one start of four, five slow ones in a row are rare, and four of five are not.
    """
    line = times * limits.drop(len(night.drops))
    excused = 1 if len(night.drops) > RUNS_TO_CONFIRM[1] else 0
    return night.centre < -line and sorted(night.drops)[-1 - excused] < -line / 2


def _shows_over_nights(nights: Sequence[Night], limits: Limits) -> bool:
    """Whether three nights together show a drop that each by itself is too small to show."""
    if len(nights) <= _NIGHTS_BEFORE:
        return False
    together = Night(tuple(drop for night in nights for drop in night.drops))
    line = limits.drop(len(together.drops), len(nights))
    return together.centre < -line and all(night.centre < -line / 2 for night in nights)


def _unfit(shift: Shift) -> str:
    lost = -math.expm1(shift.common)
    return (
        f"the machine itself is {lost:.0%} slower than when its baselines were recorded: {in_words(shift.canaries)}. "
        "See to its clocks, cooling and neighbours, or record it anew with --update-baselines"
    )


def _good(tonight: Night, limits: Limits) -> tuple[Outcome, str, int]:
    if tonight.centre > limits.rise(len(tonight.drops)):
        return Outcome.IMPROVED, "faster than the baseline by more than the tolerance", 0
    return Outcome.PASS, "within what is accepted", 0
