"""How figures beside the throughput are worded: their values, verdicts, and the lines of a message."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_tfperf.core.baseline import READ, Baseline
from pytest_tfperf.core.figure import LOSS, PEAK_MEMORY, Better, Figure, at_fixed_steps, shown_name
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import BAD_NEWS, WORST_FIRST, Outcome, Reason, Rule, Verdict
from pytest_tfperf.lines import Line
from pytest_tfperf.reports.numbers import counted, percent
from pytest_tfperf.reports.table import Columns, shown_names, table

_WAYS: Final = {
    Better.LOWER: "more than in the",
    Better.HIGHER: "less than in the",
    Better.SAME: "away from the",
}
_IDS: Final = ("workload",)
_SIZES: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def written(figure: Figure, value: float) -> str:
    """A value with its unit: "18.3 GiB", "1.42 s", "2.301"."""
    return written_in(figure.unit or "", value)


def written_in(unit: str, value: float) -> str:
    """A value of a figure that counts this unit."""
    if unit == "bytes":
        prefix, size = prefix_of(value)
        return f"{value / size:.3g} {prefix}" if abs(value) < 1000 * size else f"{value / size:,.0f} {prefix}"
    return f"{value:.4g} {unit}".rstrip()


def prefix_of(value: float) -> tuple[str, int]:
    """The unit that a number of bytes is easy to read in, and its bytes: "GiB", 2**30."""
    return next((one for one in _SIZES if abs(value) >= one[1]), ("B", 1))


def bad_figures(m: Measurement) -> list[Verdict]:
    """Its figures that regressed, are in doubt, could not be measured, or lack the baseline that the throughput has.

    The worst come first. Of a comparison also those that its other side does not give.
    """
    lacks = m.verdict is not None and m.verdict.outcome is not Outcome.NO_BASELINE
    bad = (*BAD_NEWS, Outcome.NO_BASELINE) if lacks else BAD_NEWS
    found = [one for one in m.figures if one.outcome in bad]
    return sorted(found, key=lambda one: WORST_FIRST.index(one.outcome or Outcome.PASS))


def figures_to_blame(m: Measurement) -> list[Verdict]:
    """Its bad figures where the outcome is theirs and not the throughput's: a message begins with them."""
    of_rate = m.verdict.outcome if m.verdict else None
    is_the_rates = of_rate in (Outcome.REGRESSED, Outcome.INVALID) or (
        of_rate is Outcome.INCONCLUSIVE and m.outcome is Outcome.INCONCLUSIVE
    )
    return [] if is_the_rates else bad_figures(m)


def figure_fact(one: Verdict) -> str:
    """A figure and what is wrong with it: "peak memory 18.3 GiB, 9 % more than 16.8 GiB"."""
    figure, name = one.figure, shown_name(one.figure.name)
    if one.value is None:
        return f"{name}: {_why_not_measured(figure)}"
    if one.reason is Reason.OTHER_PLACE:
        return f"{name} was printed {' and '.join(one.places)}{_place_of(one.baseline)}"
    place = f" {one.places[0]}" if len(one.places) == 1 else ""
    text = f"{name} {written(figure, one.value)}{f' of {one.rank}' if one.rank else ''}{place}"
    if one.reason is Reason.OTHER_UNIT and one.baseline is not None:
        return f"{text}, and its baseline is {written_in(one.baseline.unit, one.baseline.reference)}"
    if one.reason is Reason.BEYOND_LIMIT and figure.limit is not None:
        return f"{text}, beyond its limit of {written(figure, figure.limit)}"
    if not math.isfinite(one.value):
        reference = _reference(one)
        return text if reference is None else f"{text}, and not {written(figure, reference)}"
    if one.rule is Rule.OTHER_SIDE:
        if one.change is None or one.confirmed_from is None:
            return f"{text}, which a does not give" if one.reason is Reason.OTHER_SIDE_LACKS else text
        changed = _compared(figure, one.change, one.confirmed_from)
        return f"{text}, {changed} than a's {written(figure, one.confirmed_from)}"
    is_by_pairs = one.rule is Rule.REFERENCE_ENVIRONMENT
    if is_by_pairs and one.confirmed_change is not None and one.confirmed_from is not None:
        compared = _compared(figure, one.confirmed_change, one.confirmed_from)
        return f"{text}, {compared} than in the reference environment"
    if one.change is not None and one.baseline is not None:
        reference = one.baseline.reference
        return f"{text}, {_compared(figure, one.change, reference)} than {written(figure, reference)}"
    return f"{text}, without a baseline" if one.outcome is Outcome.NO_BASELINE else text


def figure_lines(m: Measurement, one: Verdict) -> Iterator[Line]:
    """Labelled lines about a figure that was judged."""
    row = one.baseline
    if one.reason in _NOT_COMPARABLE:
        yield Line(_mend(one), "next")
        return
    if one.value is None:
        return
    if row is None and one.confirmed_from is not None:
        yield Line(_accepted(one.figure, one.confirmed_from), "accepted")
    elif row is None and one.figure.limit is None:
        return
    else:
        yield Line(_threshold(one, row), "threshold")
    if row is not None:
        source = f", {row.source}" if row.source else ""
        date = f" ({row.date})" if row.date else ""
        load = f"; {row.load}" if row.load else ""
        place = f", {READ}{row.place}" if row.place else ""
        yield Line(f"{row.provenance}{source}{date}, {counted(row.runs, 'run')}{place}{load}", "baseline")
    yield _measured(m, one)


def _accepted(figure: Figure, target: float) -> str:
    """The change from side a's value that is accepted."""
    accepted = written(figure, figure.accepted(target))
    way = {Better.LOWER: "more", Better.HIGHER: "less"}.get(Better(figure.better or ""), "of change")
    limit = "" if figure.limit is None else f", limit {written(figure, figure.limit)}"
    return f"{accepted} {way}    ({_tolerance(figure)}{limit})"


def figure_table(measurements: Sequence[Measurement], width: int | None = None) -> list[str]:
    """A row for each figure that did not pass, after an empty line; nothing where all passed.

    The measurements are all beside another side, or none is.
    """
    columns = Columns(
        right={"value", "baseline", "a", "b", "change", "fails from"},
        optional=("why", "baseline", "fails from", "topology"),
        ids=_IDS,
    )
    rows = figure_rows(measurements)
    return ["", *table(rows, columns, width)] if rows else []


def figure_rows(measurements: Sequence[Measurement], *, all_of_them: bool = False) -> list[dict[str, str | None]]:
    """The cells of a table of figures by column; those that passed only where all are wanted.

    The measurements are all beside another side, or none is.
    """
    names = shown_names((m.workload.id, m.name) for m in measurements)
    return [
        {
            "outcome": "measured" if one.outcome is None else one.outcome.value if one.is_decided else "undecided",
            "figure": shown_name(one.figure.name),
            "workload": names[m.workload.id, m.name],
            "topology": m.topology,
            **(_cells(one) if m.other is None else _cells_of_both(one)),
        }
        for m in measurements
        for one in m.figures
        if all_of_them or one.outcome not in (Outcome.PASS, None)
    ]


def _cells(one: Verdict) -> dict[str, str | None]:
    return {
        "value": None if one.value is None else written(one.figure, one.value),
        "baseline": written_in(one.baseline.unit, one.baseline.reference) if one.baseline else None,
        "change": _signed(one),
        "fails from": _fails_from(one),
    }


def _cells_of_both(one: Verdict) -> dict[str, str | None]:
    return {
        "a": None if one.confirmed_from is None else written(one.figure, one.confirmed_from),
        "b": None if one.value is None else written(one.figure, one.value),
        "change": _signed(one),
        "why": one.why,
    }


def figure_properties(m: Measurement) -> dict[str, str | float | None]:
    """Each figure's value, outcome, baseline and confirmed change by name; what is not known is None.

    The change is a fraction of the baseline, as the throughput's; None where that is 0.

    Of a comparison b's value, and a's in the place of the baseline. Names are "figure.loss" and "figure.loss.outcome":
    a figure's own name has no dot, so none is that of another property.
    """
    found: dict[str, str | float | None] = {}
    for one in m.figures:
        name = f"figure.{one.figure.name}"
        found |= {
            name: one.value,
            f"{name}.outcome": None if one.outcome is None else one.outcome.value,
            f"{name}.{'a' if one.rule is Rule.OTHER_SIDE else 'baseline'}": _reference(one),
            f"{name}.confirmed_change": _as_fraction(one, one.confirmed_change),
        }
    return found


_NOT_COMPARABLE: Final = (Reason.OTHER_PLACE, Reason.OTHER_UNIT)


def _place_of(row: Baseline | None) -> str:
    if row is None:
        return ""
    return f", and its baseline is {READ}{row.place}" if row.place else ", and its baseline does not say where"


def _mend(one: Verdict) -> str:
    """The next step where a figure can't be compared with its baseline, or its values with each other."""
    record = "record the row again with --update-baselines"
    if one.reason is Reason.OTHER_UNIT:
        return f"{record}, or delete it"
    if one.baseline is None or len(one.places) > 1:
        return at_fixed_steps(one.figure.name, one.places[0])
    if not one.baseline.place:
        return record
    return f"{at_fixed_steps(one.figure.name, one.baseline.place)}; where its steps were changed, {record}"


def _why_not_measured(figure: Figure) -> str:
    if figure.name == PEAK_MEMORY:
        return "not measured: neither the framework nor the system tells it here, or it ended within a second"
    if figure.name == LOSS:
        return "not measured: the training gives no loss"
    return "not measured"


def _compared(figure: Figure, change: float, reference: float) -> str:
    """ "9 % more", or in the unit where there is nothing to divide by."""
    more, less = figure.more_and_less
    size = percent(change / reference) if reference else written(figure, abs(change))
    return f"{size} {more if change >= 0 else less}"


def _signed(one: Verdict) -> str | None:
    if one.change is None or not math.isfinite(one.change) or _reference(one) is None:
        return None
    fraction = _as_fraction(one, one.change)
    return f"{one.change:+.3g}" if fraction is None else f"{100 * fraction:+z.1f} %"


def _as_fraction(one: Verdict, difference: float | None) -> float | None:
    reference = abs(_reference(one) or 0.0)
    return difference / reference if reference and difference is not None else None


def _reference(one: Verdict) -> float | None:
    """What its change is from: the baseline, or side a."""
    if one.rule is Rule.OTHER_SIDE:
        return one.confirmed_from
    return one.compared_with if one.baseline is not None else None


def _tolerance(figure: Figure) -> str:
    relative = f"tolerance {percent(figure.tolerance or 0.0)}"
    return f"{relative} and {written(figure, figure.absolute)}" if figure.absolute else relative


def _fails_from(one: Verdict) -> str | None:
    """The value from which it fails; of one that should stay the same, the change."""
    if one.baseline is None or one.threshold is None:
        return None if one.figure.limit is None else written(one.figure, one.figure.limit)
    if one.figure.better is Better.SAME:
        return f"+-{written(one.figure, one.threshold)}"
    sign = -1 if one.figure.better is Better.HIGHER else 1
    return written(one.figure, one.baseline.reference + sign * one.threshold)


def _threshold(one: Verdict, row: Baseline | None) -> str:
    figure = one.figure
    limit = "" if figure.limit is None else f"limit {written(figure, figure.limit)}"
    if row is None or one.threshold is None:
        return f"fails {'below' if figure.better is Better.HIGHER else 'above'} its {limit}"
    accepted = _tolerance(figure)
    if one.threshold > 1.001 * figure.accepted(row.reference):
        accepted += f", widened to {written(figure, one.threshold)} by noise"
    against = f"baseline {written(figure, row.reference)}"
    if one.rule is Rule.REFERENCE_ENVIRONMENT:
        start = (
            f"fails from {written(figure, one.threshold)} {_WAYS[Better(figure.better or '')]} reference environment"
        )
    elif figure.better is Better.SAME:
        start = f"fails from a change of {written(figure, one.threshold)}"
    else:
        start = f"fails from {_fails_from(one)}"
    return f"{start}    ({', '.join(filter(None, (against, accepted, limit)))})"


def _measured(m: Measurement, one: Verdict) -> Line:
    """Its runs, or what each pair changed."""
    figure = one.figure
    pairs = [(pair.a.figures.get(figure.name), pair.b.figures.get(figure.name)) for pair in m.pairs]
    if m.other is not None or (one.rule is Rule.REFERENCE_ENVIRONMENT and pairs):
        each = "  ".join(
            f"{'none' if a is None else written(figure, a)} -> {written(figure, b)}" for a, b in pairs if b is not None
        )
        what = counted(len(pairs), "interleaved pair")
        what += "" if m.other is not None else " with the reference environment"
    else:
        each = "  ".join(written(figure, run.figures[figure.name]) for run in m.runs if figure.name in run.figures)
        what = counted(len(m.runs), "fresh run")
    label = "confirmed" if one.outcome is Outcome.REGRESSED else "runs"
    return Line(f"{what}: {each}" + ("" if one.outcome is Outcome.REGRESSED else f": {one.why}"), label)
