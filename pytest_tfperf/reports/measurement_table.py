"""The table of a session: one row for each measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Verdict
from pytest_tfperf.reports.breakdown import bound_by
from pytest_tfperf.reports.numbers import change, percent, rate
from pytest_tfperf.reports.table import Column, table

_LEAST_WINDOWS = 3


def measurement_table(measurements: Iterable[Measurement]) -> list[str]:
    """The measurements in the order given."""
    return table(_COLUMNS, measurements)


def outcome(measurement: Measurement) -> str:
    """The word for the outcome: "PASS", "PASS (floor)", or "measured" where nothing was judged."""
    verdict = measurement.verdict
    if verdict is None:
        return "measured"
    return verdict.outcome.value + (" (floor)" if verdict.is_floor and verdict.baseline else "")


def counts(measurements: Iterable[Measurement]) -> str:
    """ "3 PASS, 1 REGRESSED", in the order in which the outcomes first occur."""
    return ", ".join(f"{count} {word}" for word, count in Counter(map(outcome, measurements)).items())


def _of_verdict(
    figure: Callable[[Verdict], float | None], written: Callable[[float], str]
) -> Callable[[Measurement], str | None]:
    """A cell with one figure of the verdict, where there is one."""

    def cell(measurement: Measurement) -> str | None:
        value = figure(measurement.verdict) if measurement.verdict else None
        return None if value is None else written(value)

    return cell


def _uncertainty(measurement: Measurement) -> str | None:
    """tf_cnn_benchmarks' +/-; left out for fewer than three windows."""
    t = measurement.throughput
    return rate(t.uncertainty) if t.windows >= _LEAST_WINDOWS else None


def _fails_at(measurement: Measurement) -> str | None:
    """The confirmed slowdown that fails the test; the tolerance in brackets where noise widens it."""
    verdict = measurement.verdict
    if verdict is None or verdict.threshold is None or verdict.tolerance is None or verdict.tolerance.lower is None:
        return None
    tolerance, threshold = percent(verdict.tolerance.lower), percent(verdict.threshold)
    return tolerance if threshold == tolerance else f"{threshold} ({tolerance})"


def _document(measurement: Measurement) -> str | None:
    """A document's figure; one of another machine names the machine, so that it is not taken for this one's."""
    row = measurement.document
    if row is None:
        return None
    return rate(row.reference) if row.machine == measurement.machine else f"{rate(row.reference)} ({row.machine})"


_COLUMNS: Sequence[Column[Measurement]] = (
    Column("workload", lambda m: m.workload.id),
    Column("topology", lambda m: m.topology),
    Column("images/s", lambda m: rate(m.throughput.images_per_sec), right=True),
    Column("+/-", _uncertainty),
    Column("baseline", _of_verdict(lambda v: v.baseline.reference if v.baseline else None, rate), right=True),
    Column("change", _of_verdict(lambda v: v.change, change), right=True),
    Column("confirmed", _of_verdict(lambda v: v.confirmed_change, change), right=True),
    Column("fails at", _fails_at, right=True),
    Column("detectable", _of_verdict(lambda v: v.min_detectable_slowdown, percent), right=True),
    Column("bound", lambda m: bound_by(m.breakdown)),
    Column("outcome", outcome),
    Column("document", _document),
    Column("file", lambda m: m.file),
)
