"""The facts of a test's figures beside its throughput: the cells of a table, and a plot of each over sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.figure_verdict import FigureVerdict
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.session_verdicts import Change
from pytest_tfperf.features.page.changes import change_facts
from pytest_tfperf.features.page.past import SeriesKey, key_of, series_facts
from pytest_tfperf.features.page.run_facts import figure
from pytest_tfperf.reports.figures import figure_rows, prefix_of


def figure_facts(
    m: Measurement,
    series: Mapping[SeriesKey, Sequence[PastResult]],
    sessions: Mapping[str, int],
    changes: Sequence[Change],
) -> list[dict[str, Any]]:
    """For each figure a table's cells by column, and its plot; None where no session measured it."""
    rows = figure_rows([m], all_of_them=True)
    found = [series.get(key_of(m)._replace(figure=one.figure.name), ()) for one in m.figures]
    return [
        row | {"plot": _plot(one, results, sessions, changes) if results else None}
        for row, one, results in zip(rows, m.figures, found, strict=True)
    ]


def _plot(
    one: FigureVerdict, series: Sequence[PastResult], sessions: Mapping[str, int], changes: Sequence[Change]
) -> dict[str, Any]:
    """All values in one unit that is easy to read, GiB in place of bytes."""
    unit, size = one.figure.unit or "", 1
    if unit == "bytes":
        unit, size = prefix_of(max(result.value for result in series))
    scaled = [
        replace(
            result,
            value=result.value / size,
            reference=None if result.reference is None else result.reference / size,
        )
        for result in series
    ]
    low, high = _accepted(one)
    return {
        "unit": unit,
        "reference": figure(one.baseline.reference / size) if one.baseline else None,
        "accepted_low": None if low is None else figure(low / size),
        "accepted_high": None if high is None else figure(high / size),
        "fails": [figure(value / size) for value in _fails(one)],
        "history": series_facts(scaled, sessions),
        "changes": change_facts(changes, scaled),
    }


def _accepted(one: FigureVerdict) -> tuple[float | None, float | None]:
    """The lowest and the highest accepted value; None for no bound, both where it has no baseline."""
    if one.baseline is None:
        return None, None
    reference, better = one.baseline.reference, one.figure.better
    accepted = one.figure.accepted(reference)
    return (
        None if better is Better.LOWER else reference - accepted,
        None if better is Better.HIGHER else reference + accepted,
    )


def _fails(one: FigureVerdict) -> list[float]:
    """The values beyond which it fails: its thresholds and its limit."""
    found = [] if one.figure.limit is None else [one.figure.limit]
    if one.baseline is not None and one.threshold is not None:
        found += [one.baseline.reference - sign * one.threshold for sign in one.figure.signs]
    return found
