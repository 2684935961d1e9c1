"""The message about one measurement: fact, location, next step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from shlex import quote

from pytest_tfperf.core.baseline import RUNS
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.measurement import (
    EnvironmentChange,
    MeasuredSide,
    Measurement,
    changes_since,
    environment_changes,
    recorded_parts,
)
from pytest_tfperf.core.profile import Growth, Profile
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand, recording_option
from pytest_tfperf.core.run import Pair, Run, StepParts
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.core.verdict import BAD_NEWS, Consequence, Outcome, Reason, Rule, Verdict
from pytest_tfperf.core.workload import Workload, shown_name
from pytest_tfperf.lines import Line, command
from pytest_tfperf.reports.acknowledgement import lines_about_owner
from pytest_tfperf.reports.invalid import ADVICE, advice_on_invalid, disturbance_fact, disturbed_pairs
from pytest_tfperf.reports.numbers import change, counted, percent, rate
from pytest_tfperf.reports.run import breakdown_lines, not_counted_lines, parts_lines, telemetry_lines
from pytest_tfperf.reports.verdict import (
    bad_figures,
    fact,
    figures_to_blame,
    headline,
    lines_about,
    location,
    ratio_fact,
    sides,
    why_of,
)

_WORTH_SHOWING = 0.001
_TOO_GOOD = 2.0  # as a change: three times the baseline
_IS_TOO_GOOD = "more than 3 times the baseline: is it of another workload (precision, batch, devices, mode)?"
_STEADIER = "free the machine of other work, or measure more steps; then record the baseline again"
_FAILED_LATER = "the reference environment failed in a later pair"
_MOST_TIMES = 5  # the square is how many times as many runs anybody would take
_BY_NOISE = (Reason.RUNS_DISAGREE, Reason.WITHIN_NOISE, Reason.TOO_FEW, Reason.TOO_NOISY)


def message(m: Measurement, rerun: RerunCommand = FROM_ROOTDIR, hint: str = "") -> list[Line]:
    """Return the message about a judged measurement; its first line alone explains the outcome.

    `rerun` has the command that measures it again; `hint` is a further next step.
    """
    assert m.other is not None or m.verdict is not None, "only a judged measurement has a message"
    verdict, figures = m.verdicts[0], figures_to_blame(m)
    lines = [Line(f"{fact(m, figures[0])}: {location(m)}" if figures else headline(m))]
    for figure in figures:
        if figure is not figures[0]:
            lines.append(Line(fact(m, figure), "and"))
        lines += lines_about(m, figure)
    if figures:
        lines.append(Line(_beside_figures(m, verdict), "throughput"))
    else:
        lines += [Line(f"{bad.outcome}: {fact(m, bad)}", "figure") for bad in bad_figures(m)]
    if m.other is not None:
        lines += _of_both(m, m.other)
    elif not figures:
        lines += throughput_lines(m, verdict)
    lines += environment_lines(m, figures)
    if m.other is None and not figures and verdict.outcome in BAD_NEWS:
        lines += telemetry_lines([*m.runs, *(pair.b for pair in m.pairs)] or m.discarded)
    lines += lines_about_owner(m)
    if m.other is not None or not figures:
        lines += _next_steps(m, verdict, hint)
    return [*lines, *next_commands(m, rerun)]


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


def _beside_figures(m: Measurement, verdict: Verdict) -> str:
    """Write the throughput where other figures cause the outcome."""
    if m.other is not None:
        return f"{verdict.outcome}: {ratio_fact(m, m.other)}"
    return f"{rate(m.throughput.examples_per_sec)} {m.throughput.unit}/s: {verdict.outcome}, {verdict.why}"


def throughput_lines(m: Measurement, verdict: Verdict) -> Iterator[Line]:
    """Yield labelled lines about the throughput of a test: what it was judged by, its runs, and its breakdown."""
    row = verdict.baseline
    if verdict.outcome is Outcome.INVALID:
        yield from _discarded(m)
    elif row is None:
        yield from breakdown_lines(m.breakdown, m.throughput)
        yield from not_counted_lines(m.runs)
    else:
        if (id := m.workload.id) != shown_name(id, m.name):
            yield Line(f"{id}    (its key in files)", "workload")
        yield from lines_about(m, verdict)
        if abs(verdict.common_drift) >= _WORTH_SHOWING:
            yield Line(f"{change(math.expm1(verdict.common_drift))} is common to all tests of this session", "drift")
        yield from _discarded(m)
        yield from breakdown_lines(m.breakdown, m.throughput)
        then = StepParts.of(pair.a for pair in m.pairs) or recorded_parts(row)
        yield from parts_lines(then, StepParts.of(pair.b for pair in m.pairs) or StepParts.of(m.runs))
        yield from not_counted_lines(m.runs)
        yield from profile_lines(m.profile)
        if verdict.min_detectable_slowdown is not None and verdict.noise is not None:
            yield Line(_detectable(verdict), "detectable")


def _of_both(b: Measurement, a: MeasuredSide) -> Iterator[Line]:
    verdict = b.verdicts[0]
    for name, throughput, shown in zip("ab", (a.throughput, b.throughput), sides(b), strict=True):
        text = f"{rate(throughput.examples_per_sec)} {throughput.unit}/s"
        yield Line(text if shown == name else f"{text}: {shown}", name)
    if a.at_least is None:
        lower = verdict.tolerance.lower if verdict.tolerance else None
        text = "any slowdown" if lower is None else f"{percent(lower)}: down to a ratio of {1 + lower:g}"
        yield Line(text, "tolerance")
    elif a.document is None or b.document is None:
        yield Line(f"fails below {a.at_least:g}    (at_least, in the test)", "threshold")
    else:
        of_documents = f"the documents' {b.document.value / a.document.value:.3f}, less the tolerance"
        yield Line(f"fails below {a.at_least:.3f}    ({of_documents})", "threshold")
        figures = f"{rate(b.document.value)} / {rate(a.document.value)} on {b.document.machine}"
        yield Line(f"{figures}: {b.document.source}; over {a.document.source}", "document")
    changes = "  ".join(_of_pair(pair, a) for pair in b.pairs)
    yield Line(f"{changes}: {why_of(b)}" if b.is_valid else changes, "pairs")
    if a.doubt:
        yield Line(a.doubt, "doubt")
    yield from _discarded(b)
    yield from cause_lines(b)
    for name, side in (("a", a), ("b", b)):
        for line in breakdown_lines(side.breakdown, side.throughput):
            yield Line(line.text, f"{name}'s {line.label}")


def cause_lines(b: Measurement) -> Iterator[Line]:
    """Yield labelled lines about the step of a program beside another side: its parts, and the operations that grew."""
    yield from parts_lines(StepParts.of(pair.a for pair in b.pairs), StepParts.of(pair.b for pair in b.pairs))
    yield from profile_lines(b.profile)


def _discarded(m: Measurement) -> Iterator[Line]:
    """Yield lines about disturbed pairs that count, and about the runs and pairs that do not."""
    if m.is_valid or m.other is None:
        yield from disturbed_pairs(m.pairs)
    for run in m.discarded:
        why = disturbance_fact(run.disturbance) if run.disturbance else _FAILED_LATER
        yield Line(f"{rate(run_value(run).examples_per_sec)}: {why}", "discarded")
    for pair in m.discarded_pairs:
        why = disturbance_fact(pair.disturbance) if pair.disturbance else _FAILED_LATER
        yield Line(f"pair at {_of_pair(pair, m.other)}: {why}", "discarded")


def _of_pair(pair: Pair, a: MeasuredSide | None) -> str:
    """Write a pair's change, or its ratio where one is required."""
    is_ratio = a is not None and a.at_least is not None
    return f"{math.exp(pair.log_ratio):.3f}" if is_ratio else change(math.expm1(pair.log_ratio))


def environment_lines(m: Measurement, figures: Sequence[Verdict] = ()) -> Iterator[Line]:
    """Yield a line about the environment's changes since the baseline, or from side a to b; none without changes."""
    changes: Sequence[EnvironmentChange] = ()
    if m.other is not None:
        changes = environment_changes(m.other.environment, m.environment)
    elif m.is_valid and (row := m.verdicts[0].baseline or (figures[0].baseline if figures else None)):
        changes = changes_since(row, m.environment)
    if changes:
        yield Line(", ".join(map(str, changes)), "environment")


def _detectable(verdict: Verdict) -> str:
    noise = verdict.noise
    assert noise is not None, "a detectable slowdown has its noise"
    source = f"{counted(noise.rows, 'row')} of this machine" if noise.rows else "assumed"
    text = f"slowdowns from {percent(verdict.min_detectable_slowdown or 0.0)} (95 % power); "
    text += f"between-run standard deviation {percent(noise.between_runs)} ({source})"
    if noise.between_sessions >= _WORTH_SHOWING / 2:
        text += f", between sessions {percent(noise.between_sessions)}"
    return text


def _next_steps(m: Measurement, verdict: Verdict, hint: str) -> Iterator[Line]:
    if hint:
        yield Line(hint, "next")
    if m.other is None and verdict.outcome is Outcome.IMPROVED and (verdict.change or 0.0) > _TOO_GOOD:
        yield Line(_IS_TOO_GOOD, "next")
    if verdict.outcome is Outcome.TOO_NOISY:
        yield Line(_STEADIER, "next")
    if ways := ways_out_of_doubt(m):
        yield Line("; or ".join(ways), "next")
    if not m.is_valid:
        yield from advice_on_invalid(m)


def ways_out_of_doubt(m: Measurement) -> list[str]:
    """Return what decides where noise leaves a throughput in doubt, by the scatter of its runs or pairs."""
    verdict = m.verdicts[0]
    least = None if m.other is None else m.other.at_least
    lower = (verdict.tolerance.lower if verdict.tolerance else None) if least is None else least - 1
    if verdict.outcome is not Outcome.INCONCLUSIVE or verdict.reason not in _BY_NOISE or lower is None:
        return []
    taken, noun, more = len(m.throughput.runs), "run", ": tfperf reference create"
    if verdict.rule is not Rule.BASELINE:
        taken, noun, more = len(m.pairs), "pair", ""
    if m.other is not None and not m.other.is_of_session:
        more = ": max_pairs=, max_seconds="
    elif not isinstance(m.workload, Workload):  # of a program nothing is kept that could be run again
        more = ""
    ways = ["free the machine of other work"]
    decides, interval = verdict.deciding_change, verdict.interval
    if decides is not None and interval is not None and all(map(math.isfinite, interval)):
        accepted = math.ceil(round(-100 * interval[0], 6)) / 100
        if least is None and -lower < accepted < 1:
            ways.append(f"accept the loss that these {noun}s allow for: tolerance={accepted:g}")
        apart, half = abs(decides - lower), (interval[1] - interval[0]) / 2
        needed = math.ceil(taken * (half / apart) ** 2) if apart * _MOST_TIMES > half else 0
        if needed > taken:
            ways.append(f"about {needed} {noun}s with this scatter would decide, and {taken} did not{more}")
    return ways


def next_commands(m: Measurement, rerun: RerunCommand) -> Iterator[Line]:
    """Yield the commands that measure a test again, record its baseline, or accept its change; none for a log."""
    if not m.is_test or (m.other is not None and m.outcome is Outcome.PASS):
        return
    verdict, figures = m.verdict, figures_to_blame(m)
    again, record = command("rerun", rerun.of(m.test)), f"{rerun.of(m.test)} {recording_option()}"
    if verdict is None or m.other is not None:
        yield again
    elif figures:
        yield again
        regressed = [figure for figure in figures if figure.outcome is Outcome.REGRESSED and figure.baseline]
        # A figure beyond its limit fails with any baseline.
        if any(figure.reason is not Reason.BEYOND_LIMIT for figure in regressed):
            yield from _accept(m, rerun)
        elif all(figure.outcome is Outcome.NO_BASELINE for figure in figures):
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
            yield from _accept(m, rerun)


def _accept(m: Measurement, rerun: RerunCommand) -> Iterator[Line]:
    """Yield the command that accepts a measured loss; where its runs are too few, the one that takes the others."""
    if "injected_slowdown" in m.environment:
        return
    if len(m.free.runs) >= RUNS and m.session:
        yield command("accept", rerun.accepting(m.test, m.session), "if it is intended; commit the rows")
    else:
        take = f"{rerun.of(m.test)} --tfperf-accept={quote(m.test)}"
        yield command("accept", take, f"if it is intended: takes {RUNS} runs, and names the command")


_NEGLIGIBLE = 0.01  # as a fraction of the operation's present time


def profile_lines(profile: Profile | None) -> Iterator[Line]:
    """Yield labelled lines about a profile; none without a profile."""
    if profile is None:
        return
    if profile.folder:
        yield Line(f"{profile.folder}    (open with {profile.command})", "profile")
    elif profile.fault:
        yield Line(f"none: {profile.fault}", "profile")
    for growth in profile.grown:
        yield Line(_growth(growth), "grew")


def _growth(growth: Growth) -> str:
    """Write a growth: "Conv2D block3/conv 1.2 -> 3.4 ms a step, calls 1 -> 14"."""
    name = growth.name if growth.name == growth.type else f"{growth.type} {growth.name}"
    before = _milliseconds(growth.before_seconds)
    if growth.is_at_most:
        before = f"under {before}" if growth.before_seconds > _NEGLIGIBLE * growth.seconds else "0"
    text = f"{name} {before} -> {_milliseconds(growth.seconds)} ms a step"
    has_other_count = growth.count != growth.before_count and not growth.is_at_most
    return f"{text}, calls {growth.before_count:.3g} -> {growth.count:.3g}" if has_other_count else text


def _milliseconds(seconds: float) -> str:
    """Write milliseconds with at least two digits: "1.2", "0.034", "123"; "0" for less than half a microsecond."""
    value = seconds * 1e3
    if value < 0.0005:
        return "0"
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"
