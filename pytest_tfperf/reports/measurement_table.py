"""The tables of a session: measurements, their figures, and both sides of comparisons; the words of outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.figure import shown_name
from pytest_tfperf.core.measurement import MeasuredSide, Measurement
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import WORST_FIRST, Against, Outcome, Verdict
from pytest_tfperf.reports.numbers import interval, rate
from pytest_tfperf.reports.run import bound_by
from pytest_tfperf.reports.table import Columns, Named, shown_names, table
from pytest_tfperf.reports.verdict import facts, figures_to_blame, ratio_cells, ratio_interval, sides

_RIGHT = {"baseline", "change", "confirmed", "fails from", "detectable"}
_OPTIONAL = ("baseline", "fails from", "confirmed", "95 % CI", "detectable", "bound", "document")

ACT_FIRST = (*WORST_FIRST, None)
"""The outcomes in the order of a table's rows: those that need action first, None (not judged) last."""


def measurement_table(measurements: Iterable[Measurement], width: int | None = None) -> list[str]:
    """Return a table of measurements, those that need action first; an INVALID measurement has no throughput.

    `width` is the terminal's, None for no limit.
    """
    measurements = sorted(measurements, key=action_rank)
    heading, rows = measurement_rows(measurements)
    columns = Columns(right=_RIGHT | {heading}, optional=_OPTIONAL, ids=("workload", "file"))
    return table(rows, columns, width)


def measurement_rows(measurements: Sequence[Measurement]) -> tuple[str, list[dict[str, str | None]]]:
    """Return the heading of the throughputs' column, and the cells of each measurement by column."""
    heading = rate_heading(m.throughput for m in measurements)
    names = shown_names((m.workload.id, m.name) for m in measurements)
    return heading, [_row(m, heading, names[m.workload.id, m.name]) for m in measurements]


def rate_heading(throughputs: Iterable[Throughput]) -> str:
    """Return the heading of the throughputs' column: "images/s", or "rate" if their units differ."""
    units = {throughput.unit for throughput in throughputs}
    return f"{units.pop()}/s" if len(units) == 1 else "rate"


def rate_cell(throughput: Throughput, heading: str) -> str:
    """Return a throughput's cell in the column of this heading, with its unit unless the heading has it."""
    text = rate(throughput.examples_per_sec)
    return text if heading == f"{throughput.unit}/s" else f"{text} {throughput.unit}/s"


def outcome(m: Measurement) -> str:
    """Return the word for the outcome: "PASS (floor)"; "measured" or "compared" if nothing was judged.

    "refused" if its runs were refused as a baseline; "undecided" if its verdict waits for runs that were never made.
    """
    kind = kind_of(m)
    return f"{outcome_alone(m)} ({kind})" if kind else outcome_alone(m)


def kind_of(m: Measurement) -> str:
    """Return the kind of its baseline if it is not a recorded row: "provisional" or "floor"; "" while it is undecided.

    Also "" where another figure is worse than the throughput, because that was judged against a recorded row. A loss
    that the team knows of is "acknowledged".
    """
    if m.is_decided and m.is_acknowledged:
        return "acknowledged"
    verdict = m.verdict
    is_of_rate = verdict is not None and verdict.is_decided and verdict.outcome is m.outcome
    return target_kind(verdict) if verdict is not None and is_of_rate else ""


def outcome_alone(m: Measurement) -> str:
    """Return `outcome` without the kind of the baseline."""
    if m.verdict is None:
        return "refused" if m.is_refused else "compared" if m.other else "measured"
    return m.outcome.value if m.outcome and m.is_decided else "undecided"


def target_kind(verdict: Verdict) -> str:
    """Return the kind of a verdict's baseline if it is not a recorded row: "provisional" or "floor"."""
    return "" if verdict.against in (None, Against.BASELINE) else str(verdict.against)


def action_rank(m: Measurement) -> int:
    """Return its index in `ACT_FIRST`; a refused baseline needs action as much as an INVALID measurement."""
    return ACT_FIRST.index(Outcome.INVALID if m.is_refused else m.outcome)


def result_rank(m: Measurement) -> int:
    """Return its index in `ACT_FIRST`, where an undecided test is the last."""
    return action_rank(m) if m.is_decided else ACT_FIRST.index(None)


def is_gain(m: Measurement, red: Collection[str] = ()) -> bool:
    """Whether an IMPROVED test has a gain worth recording as its baseline.

    IMPROVED is relative to the drift common to all tests, so on a slower machine the test may be slower than its
    baseline. `red` are the machines that are REGRESSED as a whole, where nothing is worth recording.
    """
    verdict = m.verdict
    if verdict is None or verdict.outcome is not Outcome.IMPROVED:
        return False
    return (verdict.change or 0.0) > 0 and m.machine not in red


def counts(results: Iterable[Measurement]) -> str:
    """Count the outcomes: "1 REGRESSED, 3 PASS", those that need action first, others in order of appearance."""
    counted = Counter(map(outcome, sorted(results, key=result_rank)))
    return ", ".join(f"{count} {word}" for word, count in counted.items())


def _row(m: Measurement, heading: str, name: str) -> dict[str, str | None]:
    t, known = m.throughput, facts(m.verdict or Verdict())
    return {
        "outcome": _with_figure(m),
        "workload": name,
        "topology": m.topology,
        heading: rate_cell(t, heading) if m.is_valid else None,
        "95 % CI": interval(t.low, t.high) if m.is_valid else None,
        **{label: known[label] for label in ("baseline", "change", "confirmed", "fails from", "detectable")},
        "bound": bound_by(m.breakdown),
        "document": _document(m.document, m.machine) if m.document else None,
        "file": m.file,
    }


def _with_figure(m: Measurement) -> str:
    """Return its outcome, with the figure that causes it unless it is the throughput: "REGRESSED (peak memory)"."""
    for verdict in figures_to_blame(m)[:1]:  # the worst
        if verdict.outcome is m.outcome:
            return f"{outcome(m)} ({shown_name(verdict.figure.name)})"
    return outcome(m)


def _document(row: Baseline, here: str) -> str:
    """Write a document's figure, with its machine in brackets if it is not this machine."""
    return rate(row.value) + ("" if row.machine == here else f" ({row.machine})")


# Figures beside the throughput


def figure_table(measurements: Sequence[Measurement], width: int | None = None) -> list[str]:
    """Return a table of the figures that did not pass, after an empty line; nothing where all passed.

    Either all measurements are beside another side or none is.
    """
    if not any(m.figures for m in measurements):
        return []
    columns = Columns(
        right={"value", "baseline", "a", "b", "change", "fails from"},
        optional=("why", "baseline", "fails from", "topology"),
        ids=("workload",),
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
            "outcome": _outcome_of_figure(verdict),
            "figure": shown_name(verdict.figure.name),
            "workload": names[m.workload.id, m.name],
            "topology": m.topology,
            **_cells(m, verdict),
        }
        for m in measurements
        for verdict in m.figures
        if all_of_them or verdict.outcome not in (Outcome.PASS, None)
    ]


def _outcome_of_figure(verdict: Verdict) -> str:
    if verdict.outcome is None:
        return "measured"
    return verdict.outcome.value if verdict.is_decided else "undecided"


def _cells(m: Measurement, verdict: Verdict) -> dict[str, str | None]:
    known = facts(verdict)
    if m.other is not None:
        return {"a": known["a"], "b": known["value"], "change": known["change"], "why": verdict.why}
    return {label: known[label] for label in ("value", "baseline", "change", "fails from")}


# Measurements beside another side


def interleaved_table(measurements: Iterable[Measurement], width: int | None = None) -> list[str]:
    """Return a table of the measurements beside another side, those that need action first.

    An INVALID measurement has no ratio. `width` is the terminal's, None for no limit.
    """
    in_order = sorted((m for m in measurements if m.other is not None), key=lambda m: ACT_FIRST.index(m.outcome))
    return _table_of_both(in_order, width)


def latest_interleaved(measurements: Iterable[Measurement], width: int | None = None) -> list[str]:
    """Return a table of the latest measurement of each test and pair of sides, with its machine, test and time."""
    both = [(m, m.other) for m in measurements if m.other is not None]
    latest = {(m.machine, m.topology, m.test, a.workload, *sides(m)): m for m, a in both}
    return _table_of_both(list(latest.values()), width, is_past=True)


def _table_of_both(measurements: Sequence[Measurement], width: int | None, *, is_past: bool = False) -> list[str]:
    """Return a table of both sides of each measurement; `is_past` for those of several tests, machines and times."""
    both = [(b, b.other) for b in measurements if b.other is not None]
    all_sides: list[Measurement | MeasuredSide] = [side for b, a in both for side in (a, b)]
    heading = rate_heading(side.throughput for side in all_sides)
    names = shown_names((side.workload.id, side.name) for side in all_sides)
    columns = Columns(
        right={"b / a", "required", "pairs", f"a {heading}", f"b {heading}"},
        optional=("95 % CI", f"b {heading}", f"a {heading}", "when", "machine", "test", "b bound", "a bound", "pairs"),
        ids=("workload", "a", "b"),
    )
    rows = [_row_of_both(b, a, heading, names) for b, a in both]
    if is_past:
        for row, b in zip(rows, measurements, strict=True):
            row |= {"machine": b.machine, "test": b.test, "when": b.time}
    return table(rows, columns, width)


def _row_of_both(b: Measurement, a: MeasuredSide, heading: str, names: Mapping[Named, str]) -> dict[str, str | None]:
    a_name, b_name = (names[side.workload.id, side.name] for side in (a, b))
    is_same = a.workload == b.workload
    a_shown, b_shown = sides(b) if is_same else (a_name, b_name)
    return {
        "outcome": outcome(b),
        "workload": a_name if is_same else None,
        "topology": b.topology,
        "a": a_shown,
        f"a {heading}": rate_cell(a.throughput, heading),
        "a bound": bound_by(a.breakdown),
        "b": b_shown,
        f"b {heading}": rate_cell(b.throughput, heading),
        "b bound": bound_by(b.breakdown),
        **ratio_cells(b, a),
        "95 % CI": ratio_interval(b) if b.is_valid else None,
        "pairs": str(len(b.pairs)),
    }
