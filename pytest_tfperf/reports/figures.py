"""The words of figures beside the throughput: values, verdicts, and the lines of a message."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_tfperf.core.baseline import READ, Baseline
from pytest_tfperf.core.figure import LOSS, PEAK_MEMORY, Better, Figure, at_fixed_steps, shown_name
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.verdict import BAD_NEWS, WORST_FIRST, Outcome, Reason, Rule, Verdict
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import counted, percent, size
from pytest_tfperf.reports.table import Columns, shown_names, table

_WAYS: Final = {
    Better.LOWER: "more than in the",
    Better.HIGHER: "less than in the",
    Better.SAME: "away from the",
}
_IDS: Final = ("workload",)
_MOST_TIMES: Final = 5  # the square is how many times as many runs anybody would take
_BY_NOISE: Final = (Reason.RUNS_DISAGREE, Reason.WITHIN_NOISE, Reason.TOO_FEW, Reason.TOO_NOISY)


def written(figure: Figure, value: float) -> str:
    """Write a value with its unit: "18.3 GiB", "1.42 s", "2.301"."""
    return written_in(figure.unit or "", value)


def written_in(unit: str, value: float) -> str:
    """Write a value in this unit."""
    return size(value) if unit == "bytes" else f"{value:.4g} {unit}".rstrip()


def ways_out_of_doubt(
    verdict: Verdict, change: float | None, interval: tuple[float, float] | None, taken: int, noun: str, more: str
) -> Iterator[Line]:
    """Yield the next step where noise leaves a throughput in doubt: what decides, by the scatter of its runs.

    Args:
        verdict: on the throughput.
        change: the change that is judged, as a fraction.
        interval: its 95 % confidence interval.
        taken: the number of runs or pairs.
        noun: "run" or "pair".
        more: how to take more of them, after a colon; "" where that can't be asked for.
    """
    lower = verdict.tolerance.lower if verdict.tolerance else None
    if verdict.outcome is not Outcome.INCONCLUSIVE or verdict.reason not in _BY_NOISE or lower is None:
        return
    ways = ["free the machine of other work"]
    if change is not None and interval is not None and all(map(math.isfinite, interval)):
        accepted = math.ceil(round(-100 * interval[0], 6)) / 100
        if -lower < accepted < 1:
            ways.append(f"accept the loss that these {noun}s allow for: tolerance={accepted:g}")
        apart, half = abs(change - lower), (interval[1] - interval[0]) / 2
        needed = math.ceil(taken * (half / apart) ** 2) if apart * _MOST_TIMES > half else 0
        if needed > taken:
            ways.append(f"about {needed} {noun}s with this scatter would decide, and {taken} did not{more}")
    yield Line("; or ".join(ways), "next")


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
    rate_outcome = m.verdict.outcome if m.verdict else None
    is_of_rate = rate_outcome in (Outcome.REGRESSED, Outcome.INVALID) or (
        rate_outcome is Outcome.INCONCLUSIVE and m.outcome is Outcome.INCONCLUSIVE
    )
    return [] if is_of_rate else bad_figures(m)


def figure_fact(verdict: Verdict) -> str:
    """Write a figure's value and its fault: "peak memory 18.3 GiB, 9 % more than 16.8 GiB"."""
    figure, name = verdict.figure, shown_name(verdict.figure.name)
    if verdict.value is None:
        if verdict.rule is Rule.OTHER_SIDE and verdict.confirmed_from is not None:
            return f"{name}: b does not give it, and a gives {written(figure, verdict.confirmed_from)}"
        return f"{name}: {_why_not_measured(figure)}"
    if verdict.reason is Reason.OTHER_PLACE:
        return f"{name} was {READ}{' and '.join(verdict.places)}{_place_of(verdict.baseline)}"
    place = f" {verdict.places[0]}" if len(verdict.places) == 1 else ""
    text = f"{name} {written(figure, verdict.value)}{f' of {verdict.rank}' if verdict.rank else ''}{place}"
    if verdict.reason is Reason.OTHER_UNIT and verdict.baseline is not None:
        return f"{text}, and its baseline is {written_in(verdict.baseline.unit, verdict.baseline.value)}"
    if verdict.reason is Reason.BEYOND_LIMIT and figure.limit is not None:
        return f"{text}, beyond its limit of {written(figure, figure.limit)}"
    if not math.isfinite(verdict.value):
        target = _target(verdict)
        return text if target is None else f"{text}, and not {written(figure, target)}"
    change = _change_in_words(verdict)
    return f"{text}, {change}" if change else text


def _change_in_words(verdict: Verdict) -> str:
    """Write the change that counts, "9 % more than 16.8 GiB", or why there is none; "" where it is not known."""
    figure, change, target = verdict.figure, verdict.change, verdict.confirmed_from
    if verdict.rule is Rule.OTHER_SIDE:
        if verdict.reason is Reason.OTHER_SIDE_LACKS:
            return "which a does not give" if target is None else "which a gives in some runs only"
        if change is None or target is None:
            return ""
        return f"{_compared(figure, change, target)} than a's {written(figure, target)}"
    confirmed = verdict.confirmed_change if verdict.rule is Rule.REFERENCE_ENVIRONMENT else None
    if confirmed is not None and target is not None:
        return f"{_compared(figure, confirmed, target)} than in the reference environment"
    if change is not None and verdict.baseline is not None:
        target, judged, expected = verdict.baseline.value, verdict.deciding_change, verdict.expected
        text = _compared(figure, change, target)
        if judged is None or not expected or (of_judged := _compared(figure, judged, expected)) == text:
            return f"{text} than {written(figure, target)}"
        return f"{text} than {written(figure, target)} ({of_judged} than the {written(figure, expected)} expected)"
    return "without a baseline" if verdict.outcome is Outcome.NO_BASELINE else ""


def figure_lines(m: Measurement, verdict: Verdict) -> Iterator[Line]:
    """Yield labelled lines about a figure that was judged."""
    row = verdict.baseline
    if verdict.reason in _NOT_COMPARABLE:
        yield Line(_correction(verdict), "next")
        return
    if verdict.value is None:
        return
    if row is None and verdict.confirmed_from is not None:
        yield Line(_accepted(verdict.figure, verdict.confirmed_from), "accepted")
    elif row is None and verdict.figure.limit is None:
        return
    else:
        yield Line(_threshold(verdict, row), "threshold")
    if row is not None:
        source = f", {row.source}" if row.source else ""
        date = f" ({row.date})" if row.date else ""
        load = f"; {row.load}" if row.load else ""
        place = f", {READ}{row.place}" if row.place else ""
        yield Line(f"{row.provenance}{source}{date}, {counted(row.runs, 'run')}{place}{load}", "baseline")
    yield _measured(m, verdict)


def _accepted(figure: Figure, target: float) -> str:
    """Write the accepted change from side a's value."""
    accepted = written(figure, figure.accepted(target))
    way = {Better.LOWER: "more", Better.HIGHER: "less"}.get(Better(figure.better or ""), "of change")
    limit = "" if figure.limit is None else f", limit {written(figure, figure.limit)}"
    return f"{accepted} {way}    ({_tolerance(figure)}{limit})"


def figure_table(measurements: Sequence[Measurement], width: int | None = None) -> list[str]:
    """Return a table of the figures that did not pass, after an empty line; nothing where all passed.

    Either all measurements are beside another side or none is.
    """
    columns = Columns(
        right={"value", "baseline", "a", "b", "change", "fails from"},
        optional=("why", "baseline", "fails from", "topology"),
        ids=_IDS,
    )
    rows = figure_rows(measurements)
    return ["", *table(rows, columns, width)] if rows else []


def figure_rows(measurements: Sequence[Measurement], *, all_of_them: bool = False) -> list[dict[str, str | None]]:
    """Return the cells of a table of figures by column; figures that passed only with `all_of_them`.

    Either all measurements are beside another side or none is.
    """
    names = shown_names((m.workload.id, m.name) for m in measurements)
    return [
        {
            "outcome": _outcome(verdict),
            "figure": shown_name(verdict.figure.name),
            "workload": names[m.workload.id, m.name],
            "topology": m.topology,
            **(_cells(verdict) if m.other is None else _cells_of_both(verdict)),
        }
        for m in measurements
        for verdict in m.figures
        if all_of_them or verdict.outcome not in (Outcome.PASS, None)
    ]


def _outcome(verdict: Verdict) -> str:
    if verdict.outcome is None:
        return "measured"
    return verdict.outcome.value if verdict.is_decided else "undecided"


def _cells(verdict: Verdict) -> dict[str, str | None]:
    return {
        "value": None if verdict.value is None else written(verdict.figure, verdict.value),
        "baseline": written_in(verdict.baseline.unit, verdict.baseline.value) if verdict.baseline else None,
        "change": _signed(verdict),
        "fails from": _fails_from(verdict),
    }


def _cells_of_both(verdict: Verdict) -> dict[str, str | None]:
    return {
        "a": None if verdict.confirmed_from is None else written(verdict.figure, verdict.confirmed_from),
        "b": None if verdict.value is None else written(verdict.figure, verdict.value),
        "change": _signed(verdict),
        "why": verdict.why,
    }


def figure_properties(m: Measurement) -> dict[str, str | float | None]:
    """Return each figure's value, outcome, baseline and confirmed change by name; None for what is not known.

    The change is a fraction of the baseline, as the throughput's; None where the baseline is 0. A comparison has b's
    value, and a's in place of the baseline. Names are "figure.loss" and "figure.loss.outcome"; a figure's own name has
    no dot, so no name is that of another property.
    """
    properties: dict[str, str | float | None] = {}
    for verdict in m.figures:
        name = f"figure.{verdict.figure.name}"
        properties |= {
            name: verdict.value,
            f"{name}.outcome": None if verdict.outcome is None else verdict.outcome.value,
            f"{name}.{'a' if verdict.rule is Rule.OTHER_SIDE else 'baseline'}": _target(verdict),
            f"{name}.confirmed_change": _as_fraction(verdict, verdict.confirmed_change),
        }
    return properties


_NOT_COMPARABLE: Final = (Reason.OTHER_PLACE, Reason.OTHER_UNIT)


def _place_of(row: Baseline | None) -> str:
    if row is None:
        return ""
    return f", and its baseline is {READ}{row.place}" if row.place else ", and its baseline does not say where"


def _correction(verdict: Verdict) -> str:
    """Return the next step where a figure can't be compared with its baseline, or its values with each other."""
    record = f"record the row again with {recording_option()}"
    if verdict.reason is Reason.OTHER_UNIT:
        return f"{record}, or delete it"
    if verdict.baseline is None or len(verdict.places) > 1:
        return at_fixed_steps(verdict.figure.name, verdict.places[0])
    if not verdict.baseline.place:
        return record
    return f"{at_fixed_steps(verdict.figure.name, verdict.baseline.place)}; where its steps were changed, {record}"


def _why_not_measured(figure: Figure) -> str:
    if figure.name == PEAK_MEMORY:
        return "not measured: neither the framework nor the system tells it here, or it ended within a second"
    if figure.name == LOSS:
        return "not measured: the training gives no loss"
    return "not measured"


def _compared(figure: Figure, change: float, target: float) -> str:
    """Write a change as "9 % more", or in the figure's unit where the target is 0."""
    more, less = figure.more_and_less
    amount = percent(change / target) if target else written(figure, abs(change))
    return f"{amount} {more if change >= 0 else less}"


def _signed(verdict: Verdict) -> str | None:
    if verdict.change is None or not math.isfinite(verdict.change) or _target(verdict) is None:
        return None
    fraction = _as_fraction(verdict, verdict.change)
    return f"{verdict.change:+.3g}" if fraction is None else f"{100 * fraction:+z.1f} %"


def _as_fraction(verdict: Verdict, difference: float | None) -> float | None:
    target = abs(_target(verdict) or 0.0)
    return difference / target if target and difference is not None else None


def _target(verdict: Verdict) -> float | None:
    """Return the value that its change is from: the baseline, or side a's."""
    if verdict.rule is Rule.OTHER_SIDE:
        return verdict.confirmed_from
    return verdict.compared_with if verdict.baseline is not None else None


def _tolerance(figure: Figure) -> str:
    relative = f"tolerance {percent(figure.tolerance or 0.0)}"
    return f"{relative} and {written(figure, figure.absolute)}" if figure.absolute else relative


def _fails_from(verdict: Verdict) -> str | None:
    """Write the value from which it fails, or the change where the figure should stay the same."""
    if verdict.baseline is None or verdict.threshold is None:
        return None if verdict.figure.limit is None else written(verdict.figure, verdict.figure.limit)
    if verdict.figure.better is Better.SAME:
        return f"+-{written(verdict.figure, verdict.threshold)}"
    sign = -1 if verdict.figure.better is Better.HIGHER else 1
    return written(verdict.figure, verdict.baseline.value + sign * verdict.threshold)


def _threshold(verdict: Verdict, row: Baseline | None) -> str:
    figure = verdict.figure
    limit = "" if figure.limit is None else f"limit {written(figure, figure.limit)}"
    if row is None or verdict.threshold is None:
        return f"fails {'below' if figure.better is Better.HIGHER else 'above'} its {limit}"
    accepted = _tolerance(figure)
    if verdict.threshold > 1.001 * figure.accepted(row.value):
        accepted += f", widened to {written(figure, verdict.threshold)} by noise"
    against = f"baseline {written(figure, row.value)}"
    if verdict.rule is Rule.REFERENCE_ENVIRONMENT:
        way = _WAYS[Better(figure.better or "")]
        start = f"fails from {written(figure, verdict.threshold)} {way} reference environment"
    elif figure.better is Better.SAME:
        start = f"fails from a change of {written(figure, verdict.threshold)}"
    else:
        start = f"fails from {_fails_from(verdict)}"
    return f"{start}    ({', '.join(filter(None, (against, accepted, limit)))})"


def _measured(m: Measurement, verdict: Verdict) -> Line:
    """Write its runs, or the values of each pair."""
    figure = verdict.figure
    pairs = [(pair.a.figures.get(figure.name), pair.b.figures.get(figure.name)) for pair in m.pairs]
    if m.other is not None or (verdict.rule is Rule.REFERENCE_ENVIRONMENT and pairs):
        each = "  ".join(
            f"{'none' if a is None else written(figure, a)} -> {written(figure, b)}" for a, b in pairs if b is not None
        )
        what = counted(len(pairs), "interleaved pair")
        what += "" if m.other is not None else " with the reference environment"
    else:
        each = "  ".join(written(figure, run.figures[figure.name]) for run in m.runs if figure.name in run.figures)
        what = counted(len(m.runs), "fresh run")
    label = "confirmed" if verdict.outcome is Outcome.REGRESSED else "runs"
    return Line(f"{what}: {each}" + ("" if verdict.outcome is Outcome.REGRESSED else f": {verdict.why}"), label)
