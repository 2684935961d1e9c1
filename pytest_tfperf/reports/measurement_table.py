"""The table of a session: one row for each measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.consequence import outcome_of
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.reports.breakdown import bound_by
from pytest_tfperf.reports.names import shown_names
from pytest_tfperf.reports.numbers import change, percent, rate
from pytest_tfperf.reports.table import Columns, table

_LEAST_WINDOWS = 3  # for tf_cnn_benchmarks' +/-
_RIGHT = {"baseline", "change", "confirmed", "fails at", "detectable"}
_OPTIONAL = ("baseline", "fails at", "confirmed", "detectable", "bound", "document", "+/-")

ACT_FIRST = (
    Outcome.REGRESSED,
    Outcome.INVALID,
    Outcome.INCONCLUSIVE,
    Outcome.NO_BASELINE,
    Outcome.IMPROVED,
    Outcome.PASS,
    None,
)
"""The outcomes in the order of a table's rows: those that need action first, what was not judged last."""

_RANKS = {str(outcome): rank for rank, outcome in enumerate(ACT_FIRST)}


def measurement_table(measurements: Iterable[Measurement], width: int | None = None) -> list[str]:
    """Those that need action first, else in the order given; the throughput of an INVALID one means nothing: left out.

    `width` is the most characters of a line, None for any number.
    """
    measurements = sorted(measurements, key=lambda m: ACT_FIRST.index(outcome_of(m)))
    heading, rows = measurement_rows(measurements)
    columns = Columns(right=_RIGHT | {heading}, optional=_OPTIONAL, ids=("workload", "file"))
    return table(rows, columns, width)


def measurement_rows(measurements: Sequence[Measurement]) -> tuple[str, list[dict[str, str | None]]]:
    """The heading of the throughputs' column, and of each measurement its texts by column."""
    heading = rate_heading(m.throughput for m in measurements)
    names = shown_names((m.workload.id, m.name) for m in measurements)
    return heading, [_row(m, heading, names[m.workload.id, m.name]) for m in measurements]


def rate_heading(throughputs: Iterable[Throughput]) -> str:
    """The heading of their column: "images/s", or "rate" where they count different things."""
    units = {throughput.unit for throughput in throughputs}
    return f"{units.pop()}/s" if len(units) == 1 else "rate"


def rate_cell(throughput: Throughput, heading: str) -> str:
    """A throughput in the column of this heading; with its unit where the heading does not say it."""
    text = rate(throughput.examples_per_sec)
    return text if heading == f"{throughput.unit}/s" else f"{text} {throughput.unit}/s"


def outcome(measurement: Measurement) -> str:
    """The word for the outcome: "PASS (floor)", "PASS (provisional)", or "measured" where nothing was judged."""
    verdict = measurement.verdict
    if verdict is None:
        return "measured"
    kind = " (provisional)" if verdict.is_provisional else " (floor)" if verdict.is_floor and verdict.baseline else ""
    return verdict.outcome.value + kind


def urgency(word: str) -> int:
    """Where an outcome's word, as in "PASS (floor)", stands in `ACT_FIRST`; any other word comes last."""
    return _RANKS.get(word.partition(" (")[0], len(_RANKS))


def counts(words: Iterable[str]) -> str:
    """ "1 REGRESSED, 3 PASS": those that need action first, else in the order in which the words first occur."""
    counted = sorted(Counter(words).items(), key=lambda item: urgency(item[0]))
    return ", ".join(f"{count} {word}" for word, count in counted)


def _row(m: Measurement, heading: str, name: str) -> dict[str, str | None]:
    verdict, t = m.verdict, m.throughput
    is_valid = outcome_of(m) is not Outcome.INVALID
    baseline = verdict.baseline if verdict else None
    return {
        "outcome": outcome(m),
        "workload": name,
        "topology": m.topology,
        heading: rate_cell(t, heading) if is_valid else None,
        "+/-": rate(t.uncertainty) if is_valid and t.windows >= _LEAST_WINDOWS else None,
        "baseline": rate(baseline.reference) if baseline else None,
        "change": _written(verdict.change if verdict else None, change),
        "confirmed": _written(verdict.confirmed_change if verdict else None, change),
        "fails at": _fails_at(verdict),
        "detectable": _written(verdict.min_detectable_slowdown if verdict else None, percent),
        "bound": bound_by(m.breakdown),
        "document": _document(m.document, m.machine) if m.document else None,
        "file": m.file,
    }


def _written(figure: float | None, form: Callable[[float], str]) -> str | None:
    return None if figure is None else form(figure)


def _fails_at(verdict: Verdict | None) -> str | None:
    """The confirmed slowdown that fails the test, or warns; the tolerance in brackets where noise widens it."""
    if verdict is None or verdict.threshold is None or verdict.tolerance is None or verdict.tolerance.lower is None:
        return None
    tolerance, threshold = percent(verdict.tolerance.lower), percent(verdict.threshold)
    if verdict.is_provisional:
        return f"{threshold}, warns"
    return tolerance if threshold == tolerance else f"{threshold} ({tolerance})"


def _document(row: Baseline, here: str) -> str:
    """A document's figure; one of another machine names the machine, so that it is not taken for this one's."""
    return rate(row.reference) + ("" if row.machine == here else f" ({row.machine})")
