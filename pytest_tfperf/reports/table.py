"""The summary: one row for each measurement, then what is left to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.reports.numbers import change, percent, rate
from pytest_tfperf.reports.where import limit

_LEAST_WINDOWS = 3

_COLUMNS: Sequence[tuple[str, str, Callable[[Measurement], str]]] = (
    ("workload", "<", lambda r: r.workload.id),
    ("topology", "<", lambda r: r.topology),
    ("images/s", ">", lambda r: rate(r.throughput.images_per_sec)),
    ("+/-", "<", lambda r: _uncertainty(r)),
    ("baseline", ">", lambda r: rate(r.verdict.baseline.reference) if r.verdict and r.verdict.baseline else "-"),
    ("change", ">", lambda r: change(r.verdict.change) if r.verdict and r.verdict.change is not None else "-"),
    ("fails at", ">", lambda r: _fails_at(r)),
    ("detects", ">", lambda r: _detects(r)),
    ("limit", "<", lambda r: limit(r.breakdown)),
    ("outcome", "<", lambda r: outcome(r)),
    ("document", "<", lambda r: _document(r)),
    ("file", "<", lambda r: r.file or "-"),
)


def outcome(record: Measurement) -> str:
    """The outcome's word; a floor says so, what was not judged too."""
    if record.verdict is None:
        return "measured"
    floor = record.verdict.floor and record.verdict.baseline is not None
    return record.verdict.outcome.value + (" (floor)" if floor else "")


def table(records: Iterable[Measurement]) -> list[str]:
    """Aligned lines under a heading; a column that says nothing in any row is left out."""
    rows = list(records)
    cells = {name: [text(r) for r in rows] for name, _, text in _COLUMNS}
    if len({Path(record.file).parent for record in rows if record.file}) == 1:  # which the messages name
        cells["file"] = [Path(record.file).name or "-" for record in rows]
    shown = [(name, side) for name, side, _ in _COLUMNS if any(cell != "-" for cell in cells[name])]
    widths = {name: max(map(len, [name, *cells[name]])) for name, _ in shown}
    heading = "  ".join(f"{name:{side}{widths[name]}}" for name, side in shown)
    lines = ["  ".join(f"{cells[name][i]:{side}{widths[name]}}" for name, side in shown) for i in range(len(rows))]
    return [line.rstrip() for line in [heading, *lines]]


def _uncertainty(record: Measurement) -> str:
    """tf_cnn_benchmarks' +/-; of fewer than three windows, or beyond the figure itself, it says nothing."""
    t = record.throughput
    return rate(t.uncertainty) if t.windows >= _LEAST_WINDOWS and t.uncertainty <= t.images_per_sec else "-"


def _fails_at(record: Measurement) -> str:
    """The confirmed drop that fails; where noise asks for more than the tolerance, that in brackets."""
    verdict = record.verdict
    if verdict is None or verdict.fails_at is None or verdict.tolerance is None or verdict.tolerance.lower is None:
        return "-"
    asked, widened = percent(verdict.tolerance.lower), percent(verdict.fails_at)
    return asked if widened == asked else f"{widened} ({asked})"


def _document(record: Measurement) -> str:
    """A document's figure; another machine's says whose it is, or somebody takes it for this one's."""
    row = record.document
    if row is None:
        return "-"
    return rate(row.reference) if row.machine == record.machine else f"{rate(row.reference)} ({row.machine})"


def _detects(record: Measurement) -> str:
    """The loss that would have been caught 95 times in 100."""
    loss = record.verdict.smallest_loss if record.verdict else None
    return "-" if loss is None else percent(loss)


def counts(records: Iterable[Measurement]) -> str:
    """ "3 PASS, 1 REGRESSED", in the order in which the outcomes first came."""
    return ", ".join(f"{count} {word}" for word, count in Counter(outcome(r) for r in records).items())
