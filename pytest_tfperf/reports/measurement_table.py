"""The table of a session: one row for each measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.reports.breakdown import bound_by
from pytest_tfperf.reports.numbers import change, percent, rate
from pytest_tfperf.reports.table import table

_LEAST_WINDOWS = 3  # for tf_cnn_benchmarks' +/-
_RIGHT = {"images/s", "baseline", "change", "confirmed", "fails at", "detectable"}


def measurement_table(measurements: Iterable[Measurement]) -> list[str]:
    """The measurements in the order given; the throughput of an INVALID one is left out, as it means nothing."""
    return table(map(_row, measurements), _RIGHT)


def outcome(measurement: Measurement) -> str:
    """The word for the outcome: "PASS", "PASS (floor)", or "measured" where nothing was judged."""
    verdict = measurement.verdict
    if verdict is None:
        return "measured"
    return verdict.outcome.value + (" (floor)" if verdict.is_floor and verdict.baseline else "")


def counts(words: Iterable[str]) -> str:
    """ "3 PASS, 1 REGRESSED", in the order in which the words first occur."""
    return ", ".join(f"{count} {word}" for word, count in Counter(words).items())


def _row(m: Measurement) -> dict[str, str | None]:
    verdict, t = m.verdict, m.throughput
    is_valid = verdict is None or verdict.outcome is not Outcome.INVALID
    baseline = verdict.baseline if verdict else None
    return {
        "workload": m.workload.id,
        "topology": m.topology,
        "images/s": rate(t.examples_per_sec) if is_valid else None,
        "+/-": rate(t.uncertainty) if is_valid and t.windows >= _LEAST_WINDOWS else None,
        "baseline": rate(baseline.reference) if baseline else None,
        "change": _written(verdict.change if verdict else None, change),
        "confirmed": _written(verdict.confirmed_change if verdict else None, change),
        "fails at": _fails_at(verdict),
        "detectable": _written(verdict.min_detectable_slowdown if verdict else None, percent),
        "bound": bound_by(m.breakdown),
        "outcome": outcome(m),
        "document": _document(m.document, m.machine) if m.document else None,
        "file": m.file,
    }


def _written(figure: float | None, form: Callable[[float], str]) -> str | None:
    return None if figure is None else form(figure)


def _fails_at(verdict: Verdict | None) -> str | None:
    """The confirmed slowdown that fails the test; the tolerance in brackets where noise widens it."""
    if verdict is None or verdict.threshold is None or verdict.tolerance is None or verdict.tolerance.lower is None:
        return None
    tolerance, threshold = percent(verdict.tolerance.lower), percent(verdict.threshold)
    return tolerance if threshold == tolerance else f"{threshold} ({tolerance})"


def _document(row: Baseline, here: str) -> str:
    """A document's figure; one of another machine names the machine, so that it is not taken for this one's."""
    return rate(row.reference) + ("" if row.machine == here else f" ({row.machine})")
