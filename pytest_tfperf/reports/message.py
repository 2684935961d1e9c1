"""The message about one measurement: fact, location, next step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.measurement import Measurement, changed_since
from pytest_tfperf.core.profile import Growth, Profile
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand, recording_option
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.core.verdict import BAD_NEWS, Against, Consequence, Noise, Outcome, Reason, Rule, Verdict
from pytest_tfperf.core.workload import Workload, shown_name
from pytest_tfperf.lines import Line, command
from pytest_tfperf.reports.acknowledgement import lines_about_owner
from pytest_tfperf.reports.breakdown import breakdown_lines
from pytest_tfperf.reports.figures import (
    bad_figures,
    figure_fact,
    figure_lines,
    figures_to_blame,
    ways_out_of_doubt,
)
from pytest_tfperf.reports.interleaved import interleaved_headline, interleaved_in_brief, interleaved_message
from pytest_tfperf.reports.invalid import (
    ADVICE,
    advice_on_measurement,
    disturbance_fact,
    disturbed_pairs,
    invalid_measurement,
)
from pytest_tfperf.reports.numbers import change, compared, counted, interval, percent, rate
from pytest_tfperf.reports.telemetry import telemetry_lines

_WORTH_SHOWING = 0.001
_TOO_GOOD = 2.0  # as a change: three times the baseline
_IS_TOO_GOOD = "more than 3 times the baseline: is it of another workload (precision, batch, devices, mode)?"
_STEADIER = "free the machine of other work, or measure more steps; then record the baseline again, from more runs"
_FAILED_LATER = "the reference environment failed in a later pair"


def message(measurement: Measurement, rerun: RerunCommand = FROM_ROOTDIR, hint: str = "") -> list[Line]:
    """Return the message about a judged measurement; its first line alone explains the outcome.

    `rerun` has the command that measures it again; `hint` is a further next step.
    """
    if measurement.other is not None:
        return interleaved_message(measurement, measurement.other, rerun)
    verdict = measurement.verdict
    assert verdict is not None, "only a judged measurement has a message"
    if figures := figures_to_blame(measurement):
        return _of_figures(measurement, verdict, figures, rerun)
    return [
        Line(headline(measurement)),
        *(Line(f"{bad.outcome}: {figure_fact(bad)}", "figure") for bad in bad_figures(measurement)),
        *_facts(measurement, verdict),
        *lines_about_owner(measurement),
        *_next_steps(measurement, verdict, rerun, hint),
    ]


def _of_figures(m: Measurement, verdict: Verdict, figures: Sequence[Verdict], rerun: RerunCommand) -> list[Line]:
    """Return the message where figures, and not the throughput, cause the outcome."""
    where = f"{shown_name(m.workload.id, m.name)} on {m.devices} ({m.machine})"
    lines = [Line(f"{figure_fact(figures[0])}: {where}")]
    for figure in figures:
        lines += [Line(figure_fact(figure), "and")] if figure is not figures[0] else []
        lines += figure_lines(m, figure)
    t = m.throughput
    lines.append(Line(f"{rate(t.examples_per_sec)} {t.unit}/s: {verdict.outcome}, {verdict.why}", "throughput"))
    row = verdict.baseline or figures[0].baseline
    if row is not None and (changed := changed_since(row, m.environment)):
        lines.append(Line(", ".join(changed), "environment"))
    return [*lines, *lines_about_owner(m), *next_commands(m, rerun)]


def not_measured(
    test: str,
    rerun: RerunCommand,
    *,
    disturbance: Disturbance | None = None,
    runs: Sequence[Run] = (),
    earlier: Measurement | None = None,
) -> list[Line]:
    """Return the lines below the reason why a test could not be measured: the known facts, and the next step.

    `disturbance` and `runs` are of disturbed runs, whose telemetry is shown. `earlier` is the test's measurement before
    the error, in the same session.
    """
    lines = list(telemetry_lines(runs))
    if earlier is not None:
        lines.append(Line(headline(earlier), "before"))
    if disturbance is not None:
        lines.append(Line(ADVICE[disturbance.kind], "next"))
    return [*lines, command("rerun", rerun.of(test))]


def headline(measurement: Measurement) -> str:
    """Return workload, devices, machine, throughput and change in a line, after the file's name if it was replayed."""
    if measurement.other is not None:
        return interleaved_headline(measurement, measurement.other)
    verdict, t = measurement.verdict, measurement.throughput
    where = f"{measurement.file}: " if measurement.file else ""
    where += f"{shown_name(measurement.workload.id, measurement.name)} on {measurement.devices} ({measurement.machine})"
    if verdict is not None and verdict.outcome is Outcome.INVALID:  # a reader would take its throughput for a result
        return f"{where}: {invalid_measurement(measurement, verdict)}"
    text = f"{where}: {rate(t.examples_per_sec)} {t.unit}/s"
    if known := interval(t.low, t.high):
        text += f" (95 % CI {known})"
    if verdict is None:
        return text
    if verdict.baseline is None or verdict.change is None:
        return f"{text}; {verdict.why}"
    from_baseline = f"{compared(verdict.change)} {_target(verdict, verdict.baseline)}"
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT and verdict.confirmed_change is not None:
        return f"{text}, {compared(verdict.confirmed_change)} the reference environment, {from_baseline}"
    return f"{text}, {from_baseline}{_judged(verdict)}"


def _target(verdict: Verdict, row: Baseline, unit: str = "") -> str:
    """Return the target that a throughput was compared with, as it follows "slower than"."""
    floor = "the floor of " if verdict.is_floor else ""
    against = f" (against {row.source})" if verdict.against is Against.EARLIER_SESSIONS else ""
    return f"{floor}{rate(row.value)}{unit}{against}"


def _judged(verdict: Verdict) -> str:
    """Return the change that was judged, in brackets; "" where it reads like the change from the baseline."""
    judged, expected = verdict.deciding_change, verdict.expected
    if judged is None or expected is None or change(judged) == change(verdict.change or 0.0):
        return ""
    return f" ({compared(judged)} the {rate(expected)} expected in this session)"


def in_brief(measurement: Measurement) -> str:
    """Return the outcome of a judged measurement in a few words, for a line that names the test already."""
    if measurement.other is not None:
        return interleaved_in_brief(measurement, measurement.other)
    verdict, t = measurement.verdict, measurement.throughput
    assert verdict is not None, "only a judged measurement has an outcome"
    if figures := figures_to_blame(measurement):
        return "; ".join(f"{figure.outcome}: {figure_fact(figure)}" for figure in figures)
    if verdict.outcome is Outcome.INVALID:
        return invalid_measurement(measurement, verdict)
    if verdict.baseline is None or verdict.change is None:
        return f"{verdict.outcome}: {rate(t.examples_per_sec)} {t.unit}/s"
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT and verdict.confirmed_change is not None:
        return f"{verdict.outcome}: {compared(verdict.confirmed_change)} the reference environment"
    target = _target(verdict, verdict.baseline, f" {t.unit}/s")
    return f"{verdict.outcome}: {compared(verdict.change)} {target}{_judged(verdict)}"


def _facts(m: Measurement, verdict: Verdict) -> Iterator[Line]:
    row = verdict.baseline
    if verdict.outcome is Outcome.INVALID:
        yield from _discarded(m)
    elif row is None:
        yield from breakdown_lines(m.breakdown, m.throughput)
    else:
        expected = verdict.expected or row.value
        if (id := m.workload.id) != shown_name(id, m.name):
            yield Line(f"{id}    (its key in files)", "workload")
        yield Line(_threshold(verdict, row, expected), "threshold")
        yield Line(_baseline(verdict, row), "baseline")
        yield _runs(m, verdict, expected)
        if abs(verdict.common_drift) >= _WORTH_SHOWING:
            yield Line(f"{change(math.expm1(verdict.common_drift))} is common to all tests of this session", "drift")
        yield from _discarded(m)
        yield from breakdown_lines(m.breakdown, m.throughput)
        yield from profile_lines(m.profile)
        if verdict.min_detectable_slowdown is not None and verdict.noise is not None:
            yield Line(_detectable(verdict.min_detectable_slowdown, verdict.noise), "detectable")
        if changed := changed_since(row, m.environment):
            yield Line(", ".join(changed), "environment")
    if verdict.outcome in BAD_NEWS:
        yield from telemetry_lines([*m.runs, *(pair.b for pair in m.pairs)] or m.discarded)


def _next_steps(m: Measurement, verdict: Verdict, rerun: RerunCommand, hint: str) -> Iterator[Line]:
    if hint:
        yield Line(hint, "next")
    if verdict.outcome is Outcome.IMPROVED and (verdict.change or 0.0) > _TOO_GOOD:
        yield Line(_IS_TOO_GOOD, "next")
    if verdict.outcome is Outcome.TOO_NOISY:
        yield Line(_STEADIER, "next")
    is_of_pairs = verdict.rule is Rule.REFERENCE_ENVIRONMENT
    taken, noun = (len(m.pairs), "pair") if is_of_pairs else (len(m.throughput.runs), "run")
    # Of a program nothing is kept that could be run again.
    more = ": tfperf reference create" if isinstance(m.workload, Workload) and not is_of_pairs else ""
    yield from ways_out_of_doubt(verdict, verdict.deciding_change, verdict.interval, taken, noun, more)
    if verdict.outcome is Outcome.INVALID:
        yield from advice_on_measurement(m, verdict)
    yield from next_commands(m, rerun)


def next_commands(m: Measurement, rerun: RerunCommand) -> Iterator[Line]:
    """Yield the commands that measure a test again, record its baseline, or accept its change; none for a log."""
    if not m.is_test:
        return
    verdict, figures = m.verdict, figures_to_blame(m)
    again, record = command("rerun", rerun.of(m.test)), f"{rerun.of(m.test)} {recording_option()}"
    if verdict is None:
        yield again
    elif figures:
        yield again
        regressed = [each for each in figures if each.outcome is Outcome.REGRESSED and each.baseline is not None]
        # A figure beyond its limit fails with any baseline.
        if any(each.reason is not Reason.BEYOND_LIMIT for each in regressed):
            yield command("accept", record, "if it is intended; commit the rows")
        elif all(each.outcome is Outcome.NO_BASELINE for each in figures):
            yield command("record", record)
    else:
        if verdict.outcome is Outcome.NO_BASELINE:
            yield command("record", record)
        elif verdict.is_floor and verdict.outcome is not Outcome.REGRESSED:
            yield command("record", record, "a floor is not a baseline of this machine")
        else:
            yield again
        if verdict.if_slower is Consequence.WARNS:
            yield command("record", record, "earlier sessions are no baseline, so this test can't fail")
        elif verdict.outcome is Outcome.REGRESSED:
            yield command("accept", record, "if the slowdown is intended; commit the row")


def _threshold(verdict: Verdict, row: Baseline, expected: float) -> str:
    tolerance, threshold = verdict.tolerance, verdict.threshold
    if threshold is None or tolerance is None or tolerance.lower is None:
        return "none: any slowdown is accepted"
    accepted = f"tolerance {percent(tolerance.lower)}"
    if percent(threshold) != percent(tolerance.lower):
        accepted += f", widened to {percent(threshold)} by noise"
    if verdict.threshold_recorded is not None:
        accepted += f"; {percent(verdict.threshold_recorded)} when the baseline was recorded"
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT:
        return f"fails from {percent(threshold)} slower than the reference environment    ({accepted})"
    kind = row.source if verdict.against is Against.EARLIER_SESSIONS else verdict.against
    target = f"{kind} {rate(row.value)}"
    if rate(expected) != rate(row.value):
        target += f", expected in this session {rate(expected)}"
    return f"{verdict.if_slower} below {rate(expected * (1 - threshold))}    ({target}, {accepted})"


def _baseline(verdict: Verdict, row: Baseline) -> str:
    text = row.provenance.value + (f", {row.source}" if row.source else "") + (f" ({row.date})" if row.date else "")
    if row.provenance is not Provenance.PUBLISHED:
        text += f", {counted(row.runs, 'run')}"
    if row.load:
        text += f"; {row.load}"
    return f"{text}; a floor: measured on the weaker {row.gpu or row.machine}" if verdict.is_floor else text


def _runs(m: Measurement, verdict: Verdict, expected: float) -> Line:
    """Return the runs or pairs, with the number that confirm a regression or the reason why none is confirmed."""
    # A pair shows the slowdown if it lost more than the tolerance, a run if it lost more than half of the threshold.
    least = math.log1p(-(verdict.threshold or 0.0)) / 2
    if m.pairs:
        label, what = "pairs", "interleaved pairs with the reference environment"
        logs = [pair.log_ratio for pair in m.pairs]
        least = math.log1p((verdict.tolerance.lower if verdict.tolerance else None) or 0.0)
        figures = "  ".join(change(math.expm1(log)) for log in logs)
    else:
        label, what = "runs", "fresh runs"
        logs = [run.log_rate - math.log(expected) for run in m.throughput.runs]
        figures = "  ".join(rate(run.examples_per_sec) for run in m.throughput.runs)
    if verdict.outcome is not Outcome.REGRESSED or len(logs) == 1:
        return Line(f"{figures}: {verdict.why}", label)
    return Line(f"{sum(log < least for log in logs)} of {len(logs)} {what}: {figures}", "confirmed")


def _discarded(m: Measurement) -> Iterator[Line]:
    yield from disturbed_pairs(m.pairs)
    for run in m.discarded:
        why = disturbance_fact(run.disturbance) if run.disturbance else _FAILED_LATER
        yield Line(f"{rate(run_value(run).examples_per_sec)}: {why}", "discarded")
    for pair in m.discarded_pairs:
        why = disturbance_fact(pair.disturbance) if pair.disturbance else _FAILED_LATER
        yield Line(f"pair at {change(math.expm1(pair.log_ratio))}: {why}", "discarded")


def _detectable(slowdown: float, noise: Noise) -> str:
    source = f"{counted(noise.rows, 'row')} of this machine" if noise.rows else "assumed"
    text = f"slowdowns from {percent(slowdown)} (95 % power); "
    text += f"between-run standard deviation {percent(noise.between_runs)} ({source})"
    if noise.between_sessions >= _WORTH_SHOWING / 2:
        text += f", between sessions {percent(noise.between_sessions)}"
    return text


_NEGLIGIBLE = 0.01  # as a fraction of the operation's present time


def profile_lines(profile: Profile | None) -> Iterator[Line]:
    """Yield labelled lines about a profile; none without a profile."""
    if profile is None:
        return
    if profile.folder:
        yield Line(f"{profile.folder}    (open with {profile.command})", "profile")
    else:
        yield Line(f"none: {profile.fault}", "profile")
    for growth in profile.grown:
        yield Line(_growth(growth), "grew")


def _growth(growth: Growth) -> str:
    """Write a growth: "Conv2D block3/conv 1.2 -> 3.4 ms a step"."""
    name = growth.name if growth.name == growth.type else f"{growth.type} {growth.name}"
    before = _milliseconds(growth.before_seconds)
    if growth.is_at_most:
        before = f"under {before}" if growth.before_seconds > _NEGLIGIBLE * growth.seconds else "0"
    return f"{name} {before} -> {_milliseconds(growth.seconds)} ms a step"


def _milliseconds(seconds: float) -> str:
    """Write milliseconds with at least two digits: "1.2", "0.034", "123"; "0" for less than half a microsecond."""
    value = seconds * 1e3
    if value < 0.0005:
        return "0"
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"
