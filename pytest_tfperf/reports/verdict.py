"""The words of verdicts by the scale of their figure: value, fault, threshold, baseline and runs.

A throughput's changes are fractions, and those of other figures are in the figure's unit. Messages, tables, Markdown,
JUnit, annotations, `tfperf explain` and the page take the words from here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from pytest_tfperf.core.baseline import READ, Baseline, Provenance
from pytest_tfperf.core.figure import LOSS, PEAK_MEMORY, RATE, SHARE, Better, Figure, at_fixed_steps, shown_name
from pytest_tfperf.core.measurement import MeasuredSide, Measurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.verdict import BAD_NEWS, WORST_FIRST, Against, Consequence, Outcome, Reason, Rule, Verdict
from pytest_tfperf.core.workload import shown_name as workload_name
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.invalid import fallback_fact, invalid
from pytest_tfperf.reports.numbers import SMALLEST_SHOWN, change, compared, counted, interval, percent, rate, written_in
from pytest_tfperf.reports.table import shown_names

_DISTINGUISHING: Final = ("commit", "packages", "tensorflow", "torch", "jax", "python")
_NOT_COMPARABLE: Final = (Reason.OTHER_PLACE, Reason.OTHER_UNIT)
_DOUBTS_OF_A_RATIO: Final = {
    Reason.WITHIN_NOISE: "within noise: ",
    Reason.TOO_NOISY: "too noisy to judge, although it is ",
}
_SAYS_NOTHING_OF_A_RATIO: Final = (Reason.TOO_FEW, Reason.NOT_PROVED)


def written(figure: Figure, value: float) -> str:
    """Write a value with its unit: "18.3 GiB", "1.42 s", "2.301"; a throughput without it."""
    return rate(value) if figure.name == RATE else written_in(figure.unit or "", value)


def value_of_row(row: Baseline) -> str:
    """Write a row's value, of a throughput without its unit."""
    return written_in(row.unit, row.value) if row.key.figure else rate(row.value)


def bad_figures(m: Measurement) -> list[Verdict]:
    """Return figures that regressed, are in doubt, could not be measured, or lack the baseline that the throughput has.

    The worst come first. In a comparison figures that the other side does not give are among them.
    """
    lacks = m.verdict is not None and m.verdict.outcome is not Outcome.NO_BASELINE
    bad = (*BAD_NEWS, Outcome.NO_BASELINE) if lacks else BAD_NEWS
    verdicts = [verdict for verdict in m.figures if verdict.outcome in bad]
    return sorted(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.outcome or Outcome.PASS))


def figures_to_blame(m: Measurement) -> list[Verdict]:
    """Return the bad figures where they, and not the throughput, cause the outcome; a message begins with them."""
    if not m.figures:
        return []
    rate_outcome = m.verdict.outcome if m.verdict else None
    is_of_rate = rate_outcome in (Outcome.REGRESSED, Outcome.INVALID) or (
        rate_outcome is Outcome.INCONCLUSIVE and m.outcome is Outcome.INCONCLUSIVE
    )
    return [] if is_of_rate else bad_figures(m)


def location(m: Measurement) -> str:
    """Return workload, devices and machine."""
    return f"{workload_name(m.workload.id, m.name)} on {m.devices} ({m.machine})"


def headline(m: Measurement) -> str:
    """Return workload, devices, machine, throughput and change in a line, after the file's name if it was replayed.

    Of a comparison it has both sides and their ratio.
    """
    if m.other is not None:
        return _headline_of_both(m, m.other)
    where = f"{m.file}: {location(m)}" if m.file else location(m)
    # A reader would take the throughput of an INVALID measurement for a result.
    return f"{where}: {fact(m, m.verdict or Verdict()) if m.is_valid else invalid(m)}"


def _headline_of_both(b: Measurement, a: MeasuredSide) -> str:
    a_shown, b_shown = sides(b)
    subject = "" if a.workload != b.workload or a.topology else f"{workload_name(a.workload.id, a.name)}, "
    where = f"on {b.devices} ({b.machine})"
    if not b.is_valid:
        return f"{subject}{b_shown} against {a_shown} {where}: {invalid(b)}"
    if a.at_least is not None:
        return f"{subject}{b_shown} over {a_shown} {where}: {ratio(b)}, {_required(b, a.at_least)}"
    return f"{subject}{b_shown} is {compared(b.ratio - 1)} {a_shown} {where}: {ratio(b)}"


def in_brief(m: Measurement) -> str:
    """Return the outcome of a judged measurement in a few words, for a line that names the test already."""
    if figures := figures_to_blame(m):
        return "; ".join(f"{verdict.outcome}: {fact(m, verdict)}" for verdict in figures)
    if not m.is_valid:
        return invalid(m)
    verdict, unit = m.verdicts[0], f" {m.throughput.unit}/s"
    if m.other is not None:
        return f"{verdict.outcome}: {ratio_fact(m, m.other)}"
    changes = _changes(verdict, unit)
    return f"{verdict.outcome}: {changes[0] if changes else f'{rate(m.throughput.examples_per_sec)}{unit}'}"


def fact(m: Measurement, verdict: Verdict) -> str:
    """Write the value of a figure and its fault.

    "1,402 images/s, 13.0 % slower than 1,612", or "peak memory 18.3 GiB, 9 % more than 16.8 GiB".
    """
    figure = verdict.figure
    if figure.name == RATE:
        t = m.throughput
        known = interval(t.low, t.high)
        text = f"{rate(t.examples_per_sec)} {t.unit}/s" + (f" (95 % CI {known})" if known else "")
        if verdict.outcome is not None and (verdict.baseline is None or verdict.change is None):
            return f"{text}; {verdict.why}"
        return ", ".join([text, *_changes(verdict)])
    name = shown_name(figure.name)
    if verdict.value is None:
        if verdict.rule is Rule.OTHER_SIDE and verdict.confirmed_from is not None:
            return f"{name}: b does not give it, and a gives {written(figure, verdict.confirmed_from)}"
        return f"{name}: {_why_not_measured(figure)}"
    if verdict.reason is Reason.OTHER_PLACE:
        text = f"{name} was {READ}{' and '.join(verdict.places)}"
        if verdict.baseline is None:
            return text
        place = f"is {READ}{verdict.baseline.place}" if verdict.baseline.place else "does not say where"
        return f"{text}, and its baseline {place}"
    place = f" {verdict.places[0]}" if len(verdict.places) == 1 else ""
    text = f"{name} {written(figure, verdict.value)}{f' of {verdict.rank}' if verdict.rank else ''}{place}"
    if verdict.reason is Reason.OTHER_UNIT and verdict.baseline is not None:
        return f"{text}, and its baseline is {written_in(verdict.baseline.unit, verdict.baseline.value)}"
    if verdict.reason is Reason.BEYOND_LIMIT and figure.limit is not None:
        return f"{text}, beyond its limit of {written(figure, figure.limit)}"
    if not math.isfinite(verdict.value):
        target = verdict.compared_with
        return text if target is None else f"{text}, and not {written(figure, target)}"
    changes = _changes(verdict)
    if not changes and verdict.outcome is Outcome.NO_BASELINE:
        return f"{text}, without a baseline"
    return ", ".join([text, *changes])


def _changes(verdict: Verdict, unit: str = "") -> list[str]:
    """Write the change that decided and the one from the baseline: "13.0 % slower than 1,750"; [] where none is known.

    Where the change without the session's drift reads differently, it follows in brackets. `unit` is the throughput's.
    """
    figure, row, was = verdict.figure, verdict.baseline, verdict.confirmed_from
    if verdict.rule is Rule.OTHER_SIDE and figure.name != RATE:
        if verdict.reason is Reason.OTHER_SIDE_LACKS:
            return ["which a does not give" if was is None else "which a gives in some runs only"]
        if verdict.change is None or was is None:
            return []
        return [f"{_compared(figure, verdict.change, was)} a's {written(figure, was)}"]
    if row is None or verdict.change is None:
        return []
    text = _compared(figure, verdict.change, row.value)
    floor = "the floor of " if verdict.is_floor else ""
    source = f" (against {row.source})" if verdict.against is Against.EARLIER_SESSIONS else ""
    from_row = f"{text} {floor}{written(figure, row.value)}{unit}{source}"
    judged, expected = verdict.deciding_change, verdict.expected
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT and verdict.confirmed_change is not None:
        where = "the reference environment" if figure.name == RATE else "in the reference environment"
        return [f"{_compared(figure, verdict.confirmed_change, was or row.value)} {where}", from_row]
    if judged is not None and expected and (of_judged := _compared(figure, judged, expected)) != text:
        from_row += f" ({of_judged} the {written(figure, expected)} expected in this session)"
    return [from_row]


def _compared(figure: Figure, difference: float, target: float) -> str:
    """Write a change as "13.0 % slower than", "9 % more than", or in the figure's unit where the target is 0.

    Counts, and shares in percent, are compared in their unit, too: "2 more than 1", "19 points more than 12 %".
    """
    if figure.name == RATE:
        return compared(difference)
    more, less = figure.definition.more_and_less
    if not difference:
        return "level with"
    # Of a figure that does not vary, a difference may be 0.0 %.
    is_shown = bool(target) and abs(difference / target) >= SMALLEST_SHOWN
    if figure.unit == SHARE:
        amount = f"{100 * abs(difference):.3g} points"
    elif figure.is_count or not is_shown:
        amount = written(figure, abs(difference))
    else:
        amount = percent(difference / target)
    return f"{amount} {more if difference > 0 else less} than"


def as_fraction(verdict: Verdict, difference: float | None) -> float | None:
    """Return a change as a fraction of its target; None where there is none."""
    if verdict.figure.name == RATE:
        return difference
    target = abs(verdict.compared_with or 0.0)
    return difference / target if target and difference is not None else None


def facts(verdict: Verdict) -> dict[str, str | None]:
    """Return the facts of a verdict by their labels, which are columns of tables; None for what is not known."""
    figure, row, low = verdict.figure, verdict.baseline, verdict.min_detectable_slowdown
    return {
        "value": None if verdict.value is None else written(figure, verdict.value),
        "a": None if verdict.confirmed_from is None else written(figure, verdict.confirmed_from),
        "baseline": value_of_row(row) if row else None,
        "change": _signed(verdict, verdict.change),
        "confirmed": _signed(verdict, verdict.confirmed_change),
        "fails from": fails_at(verdict),
        "detectable": None if low is None else percent(low),
    }


def _signed(verdict: Verdict, difference: float | None) -> str | None:
    if difference is None or not math.isfinite(difference):
        return None
    fraction = as_fraction(verdict, difference)
    if fraction is None:
        return None if verdict.compared_with is None else f"{difference:+.3g}"
    return change(fraction)


def fails_at(verdict: Verdict) -> str | None:
    """Write the slowdown that fails a test or makes it warn, with its tolerance in brackets where noise widens it.

    Of another figure than the throughput, write the value from which it fails, or the change where it should stay the
    same.
    """
    figure, row, threshold = verdict.figure, verdict.baseline, verdict.threshold
    if figure.name == RATE:
        lower = verdict.tolerance.lower if verdict.tolerance else None
        if threshold is None or lower is None:
            return None
        if verdict.if_slower is Consequence.WARNS:
            return f"{percent(threshold)}, {verdict.if_slower}"
        return percent(lower) if percent(threshold) == percent(lower) else f"{percent(threshold)} ({percent(lower)})"
    if row is None or threshold is None:
        return None if figure.limit is None else written(figure, figure.limit)
    if figure.better is Better.SAME:
        return f"+-{written(figure, threshold)}"
    return written(figure, row.value + (-threshold if figure.better is Better.HIGHER else threshold))


def lines_about(m: Measurement, verdict: Verdict) -> Iterator[Line]:
    """Yield labelled lines about a judged figure: what it fails from, the baseline, and its runs or pairs."""
    row = verdict.baseline
    if verdict.reason in _NOT_COMPARABLE:
        yield Line(_correction(verdict), "next")
        return
    if verdict.value is None and verdict.figure.name != RATE:
        return
    if row is None and verdict.confirmed_from is not None:
        yield Line(_accepted(verdict.figure, verdict.confirmed_from), "accepted")
    elif row is None and verdict.figure.limit is None:
        return
    else:
        yield Line(_threshold(verdict), "threshold")
    if row is not None:
        yield Line(_baseline(verdict, row), "baseline")
    yield _runs(m, verdict)


def _threshold(verdict: Verdict) -> str:
    figure, row, threshold = verdict.figure, verdict.baseline, verdict.threshold
    limit = "" if figure.limit is None else f"limit {written(figure, figure.limit)}"
    lower = verdict.tolerance.lower if verdict.tolerance else None
    is_rate = figure.name == RATE
    if is_rate and (threshold is None or lower is None):
        return "none: any slowdown is accepted"
    if row is None or threshold is None:
        return f"fails {'below' if figure.better is Better.HIGHER else 'above'} its {limit}"
    if is_rate:
        shown, expected = percent(threshold), verdict.expected or row.value
        accepted, is_wider = f"tolerance {percent(lower or 0.0)}", shown != percent(lower or 0.0)
        way = "slower than the"
        target = f"{row.source if verdict.against is Against.EARLIER_SESSIONS else verdict.against} {rate(row.value)}"
        if rate(expected) != rate(row.value):
            target += f", expected in this session {rate(expected)}"
        start = f"{verdict.if_slower} below {rate(expected * (1 - threshold))}"
    else:
        shown, accepted = written(figure, threshold), _tolerance(figure)
        is_wider = threshold > 1.001 * figure.accepted(row.value)
        way = {Better.LOWER: "more than in the", Better.HIGHER: "less than in the"}.get(
            Better(figure.better or ""), "away from the"
        )
        target = f"baseline {written(figure, row.value)}"
        start = f"fails from {'a change of ' + shown if figure.better is Better.SAME else fails_at(verdict)}"
        if not threshold:  # as of a count
            start = f"fails {'below' if figure.better is Better.HIGHER else 'above'} {written(figure, row.value)}"
    if is_wider:
        accepted += f", widened to {shown} by noise"
    if verdict.threshold_recorded is not None:
        accepted += f"; {percent(verdict.threshold_recorded)} when the baseline was recorded"
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT:
        start, target = f"fails from {shown} {way} reference environment", "" if is_rate else target
    return f"{start}    ({', '.join(filter(None, (target, accepted, limit)))})"


def _baseline(verdict: Verdict, row: Baseline) -> str:
    text = row.provenance.value + (f", {row.source}" if row.source else "") + (f" ({row.date})" if row.date else "")
    if row.provenance is not Provenance.PUBLISHED:
        text += f", {counted(row.runs, 'run')}"
    text += f", {READ}{row.place}" if row.place else ""
    text += f"; {row.load}" if row.load else ""
    return f"{text}; a floor: measured on the weaker {row.gpu or row.machine}" if verdict.is_floor else text


def _runs(m: Measurement, verdict: Verdict) -> Line:
    """Return the runs or pairs, with the number that confirm a regression or the reason why none is confirmed."""
    figure, is_rate, showing = verdict.figure, verdict.figure.name == RATE, ""
    is_beside = m.other is not None or verdict.rule is Rule.REFERENCE_ENVIRONMENT
    is_of_pairs = bool(m.pairs) and (is_rate or is_beside)
    if is_rate:
        if is_of_pairs:  # a pair shows it if it lost more than the tolerance
            logs = [pair.log_ratio for pair in m.pairs]
            least = math.log1p((verdict.tolerance.lower if verdict.tolerance else None) or 0.0)
            values = [change(math.expm1(log)) for log in logs]
        else:  # and a run if it lost more than half of the threshold
            logs = [run.log_rate - math.log(verdict.expected or 1.0) for run in m.throughput.runs]
            least = math.log1p(-(verdict.threshold or 0.0)) / 2
            values = [rate(run.examples_per_sec) for run in m.throughput.runs]
        showing = f"{sum(log < least for log in logs)} of "
    elif is_of_pairs:
        both = [(pair.a.figures.get(figure.name), pair.b.figures.get(figure.name)) for pair in m.pairs]
        values = [
            f"{'none' if a is None else written(figure, a)} -> {written(figure, b)}" for a, b in both if b is not None
        ]
    else:
        values = [written(figure, run.figures[figure.name]) for run in m.runs if figure.name in run.figures]
    number = len(m.pairs if is_of_pairs else m.throughput.runs if is_rate else m.runs)
    shown = "  ".join(values)
    if verdict.outcome is not Outcome.REGRESSED or number == 1:
        return Line(f"{shown}: {verdict.why}", "pairs" if is_of_pairs else "runs")
    noun = counted(number, "interleaved pair" if is_of_pairs else "fresh run")
    beside = " with the reference environment" if is_of_pairs and m.other is None else ""
    return Line(f"{showing}{noun}{beside}: {shown}", "confirmed")


def _accepted(figure: Figure, target: float) -> str:
    """Write the accepted change from side a's value."""
    way = {Better.LOWER: "more", Better.HIGHER: "less"}.get(Better(figure.better or ""), "of change")
    limit = "" if figure.limit is None else f", limit {written(figure, figure.limit)}"
    return f"{written(figure, figure.accepted(target))} {way}    ({_tolerance(figure)}{limit})"


def _tolerance(figure: Figure) -> str:
    if not (figure.tolerance or figure.absolute):
        return "exact"
    relative = f"tolerance {percent(figure.tolerance or 0.0)}"
    if figure.unit == SHARE and figure.absolute:
        points = f"{100 * figure.absolute:.3g} points"
        return f"{relative} and {points}" if figure.tolerance else f"tolerance {points}"
    return f"{relative} and {written(figure, figure.absolute)}" if figure.absolute else relative


def _correction(verdict: Verdict) -> str:
    """Return the next step where a figure can't be compared with its baseline, or its values with each other."""
    record = f"record the row again with {recording_option()}"
    if verdict.reason is Reason.OTHER_UNIT:
        return f"{record}, or delete it"
    if verdict.baseline is None or len(verdict.places) > 1:
        return at_fixed_steps(verdict.figure.name, verdict.places[0])
    figure = verdict.figure
    is_of_test = figure.is_measured or figure.counts or figure.steps is not None  # and not where a program prints
    if is_of_test or not verdict.baseline.place:
        return record
    return f"{at_fixed_steps(verdict.figure.name, verdict.baseline.place)}; where its steps were changed, {record}"


def _why_not_measured(figure: Figure) -> str:
    if figure.name == PEAK_MEMORY:
        return "not measured: neither the framework nor the system tells it here, or it ended within a second"
    if figure.name == LOSS:
        return "not measured: the training gives no loss, or runs several steps in one call"
    if figure.is_count:
        return "not measured: what trains does not count it, or runs several steps in one call"
    return "not measured"


# Two sides


def sides(b: Measurement) -> tuple[str, str]:
    """Return names for a and b: their workloads, or the software that differs between them."""
    a = b.other
    if a is None:
        return "a", "b"
    names = shown_names((side.workload.id, side.name) for side in (a, b))
    a_name, b_name = names[a.workload.id, a.name], names[b.workload.id, b.name]
    if a.topology:
        return f"{a_name} on {a.topology}", f"{b_name} on {b.topology}"
    if a.workload != b.workload:
        return a_name, b_name
    for name in _DISTINGUISHING:
        if a.environment.get(name) != b.environment.get(name):
            return f"{name} {a.environment.get(name, '?')}", f"{name} {b.environment.get(name, '?')}"
    return "a", "b"


def ratio(b: Measurement) -> str:
    """Write the ratio of b to a with its interval."""
    return f"ratio {b.ratio:.3f}, 95 % CI {ratio_interval(b)}"


def ratio_fact(b: Measurement, a: MeasuredSide) -> str:
    """Write the ratio: "ratio 1.990, 20.4 % below the required 2.500", or "b is 10 % slower than a, ratio 0.900"."""
    if a.at_least is None:
        return f"b is {compared(b.ratio - 1)} a, ratio {b.ratio:.3f}"
    return f"ratio {b.ratio:.3f}, {_required(b, a.at_least)}"


def ratio_cells(b: Measurement, a: MeasuredSide) -> dict[str, str | None]:
    """Return the ratio and the ratio that is required, by column of a table; None for what is not known."""
    return {
        "b / a": f"{b.ratio:.3f}" if b.is_valid else None,
        "required": None if a.at_least is None else f"{a.at_least:.3f}",
    }


def _required(b: Measurement, least: float) -> str:
    below = 1 - b.ratio / least
    if below <= 0:
        return f"at least the required {least:.3f}"
    return f"{'just' if below < SMALLEST_SHOWN else percent(below)} below the required {least:.3f}"


def ratio_interval(b: Measurement) -> str:
    """Write the ratio's 95 % confidence interval."""
    low, high = b.ratio_interval
    return f"{low:.3f} to {high:.3f}" if math.isfinite(high) else "unknown"


def why_of(b: Measurement) -> str:
    """Return the reason for the ratio's outcome, and why an undecided comparison has no more pairs."""
    assert b.other is not None, "only a measurement beside another side has a ratio"
    if not b.is_valid:
        return invalid(b)
    verdict, least = b.verdicts[0], b.other.at_least
    why = verdict.why
    if least is not None and verdict.reason not in _SAYS_NOTHING_OF_A_RATIO:
        why = f"{_DOUBTS_OF_A_RATIO.get(verdict.reason, '')}{_required(b, least)}"
    why = f"{why} in {counted(len(b.pairs), 'fresh pair')}"
    return "; ".join(filter(None, (why, b.other.ended or "", fallback_fact(b.other))))
