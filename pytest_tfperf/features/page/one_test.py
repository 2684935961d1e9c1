"""The facts of one test: its outcome, the change that was judged, its history, runs, figures, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.measurement import Measurement, changed_since
from pytest_tfperf.core.past import LastingChange, PastResult
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.telemetry import merged
from pytest_tfperf.core.verdict import Outcome, Rule, Verdict
from pytest_tfperf.features.page.change_facts import change_facts, since
from pytest_tfperf.features.page.curves import day, figure, run_facts
from pytest_tfperf.features.page.past import SeriesKey, key_of, series_facts
from pytest_tfperf.lines import plain
from pytest_tfperf.reports.breakdown import bound_by, breakdown_lines
from pytest_tfperf.reports.figures import figure_rows, figures_to_blame, prefix_of
from pytest_tfperf.reports.measurement_table import is_gain, outcome_alone, reference_kind
from pytest_tfperf.reports.message import headline, in_brief, message, next_commands
from pytest_tfperf.reports.numbers import compared, whole_percent

_JUDGED = (
    *("reference", "expected", "change", "change_low", "change_high", "raw_change"),
    *("tolerance_low", "tolerance_high", "threshold", "detectable", "drift", "between_runs"),
)
_DRIFT_WORTH_SHOWING = 0.003
_LOAD_WORTH_SHOWING = DisturbanceLimits().other_cpu_fraction
_MOVED = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE, Outcome.TOO_NOISY)
"""The outcomes of a test that is not as fast as its baseline; the page says since when."""


def facts_of_test(
    m: Measurement,
    *,
    name: str,
    series: Sequence[PastResult],
    sessions: Mapping[str, int],
    changes: Sequence[Mapping[str, Any]],
    figures: Sequence[Mapping[str, Any]],
    rerun: RerunCommand,
    red: Collection[str],
) -> dict[str, Any]:
    """All that the page shows of one test.

    Args:
        m: its measurement.
        name: what to call the workload.
        series: the test's results, oldest first, the measurement itself last.
        sessions: session id -> its index among the report's sessions.
        changes: the test's lasting changes, oldest first.
        figures: the facts of its figures.
        rerun: how to measure it again.
        red: the machines that are REGRESSED as a whole.
    """
    verdict, t = m.verdict, m.throughput
    is_valid = m.is_valid
    began = None
    is_of_rate = not figures_to_blame(m)
    if verdict is not None and verdict.baseline is not None and verdict.outcome in _MOVED and is_of_rate:
        began = since(changes, series, verdict.baseline.reference)
    judged = _judged(m)
    return {
        "test": m.test,
        "name": name,
        "workload": m.workload.id,
        "topology": m.topology,
        "machine": m.machine,
        "devices": m.devices,
        "unit": t.unit,
        "session": m.session,
        "time": m.time,
        "seconds": figure(m.seconds, 4),
        "outcome": outcome_alone(m),
        "kind": reference_kind(verdict) if verdict else "",
        "story": _story(m, judged, began),
        "rate": figure(t.examples_per_sec) if is_valid else None,
        "low": figure(t.low) if is_valid else None,
        "high": figure(t.high) if is_valid else None,
        **judged,
        "since": began,
        "bound": bound_by(m.breakdown),
        "history": series_facts(series, sessions),
        "changes": list(changes),
        "runs": run_facts(m),
        "breakdown": _breakdown(m),
        "figures": list(figures),
        "environment_changes": changed_since(verdict.baseline, m.environment) if verdict and verdict.baseline else [],
        "message": plain(message(m, rerun)) if verdict else headline(m),
        "commands": _commands(m, rerun, red),
    }


def _judged(m: Measurement) -> dict[str, Any]:
    """The change that decided, with its interval and what it was judged against.

    `change` is without the drift common to all tests, or relative to the reference environment. `raw_change` is
    relative to the baseline alone.
    """
    verdict = m.verdict
    baseline = verdict.baseline if verdict else None
    facts: dict[str, Any] = dict.fromkeys(_JUDGED)
    if verdict is None or baseline is None or verdict.change is None:
        return facts
    rate, tolerance = m.throughput.examples_per_sec, verdict.tolerance
    expected = verdict.expected or baseline.reference
    return {
        "reference": figure(baseline.reference),
        "expected": figure(expected),
        "change": figure(rate / expected - 1),
        "change_low": figure(m.throughput.low / expected - 1) if m.throughput.low > 0 else None,
        "change_high": figure(m.throughput.high / expected - 1),
        "raw_change": figure(verdict.change),
        "tolerance_low": tolerance.lower if tolerance else None,
        "tolerance_high": tolerance.upper if tolerance else None,
        "threshold": figure(verdict.threshold),
        "detectable": figure(verdict.min_detectable_slowdown),
        "drift": figure(math.expm1(verdict.common_drift)),
        "between_runs": figure(verdict.noise.between_runs) if verdict.noise else None,
    }


def _story(m: Measurement, judged: Mapping[str, Any], began: Mapping[str, Any] | None) -> str:
    """Its outcome in brief; where the throughput moved also since when, and what else may explain it."""
    verdict = m.verdict
    if verdict is None:
        return "measured, not judged"
    text = in_brief(m)
    change = judged["change"]
    if began is None or change is None:
        return text
    is_of_baseline = verdict.rule is not Rule.REFERENCE_ENVIRONMENT or verdict.confirmed_change is None
    if is_of_baseline and abs(judged["raw_change"] - change) >= _DRIFT_WORTH_SHOWING:
        text += f", {compared(change)} expected with the common drift"
    if verdict.outcome in (Outcome.INCONCLUSIVE, Outcome.TOO_NOISY):
        return f"{text}; {verdict.why}"
    sessions = began["sessions"]
    text += ", new in this session" if sessions == 1 else f", since {day(began['time'])}, {sessions} sessions"
    text += _load(m) if change < 0 else ""
    return f"{text}; slowed on purpose" if "injected_slowdown" in m.environment else text


def _load(m: Measurement) -> str:
    """What other processes took meanwhile, where a run would usually be discarded for it; "" for less."""
    seen = merged(run.telemetry for run in (*m.runs, *(pair.b for pair in m.pairs)))
    used = (seen.other_cpu_fraction_mean if seen else None) or 0.0
    return f"; meanwhile other processes used {whole_percent(used)} of the CPU" if used > _LOAD_WORTH_SHOWING else ""


def _breakdown(m: Measurement) -> dict[str, Any] | None:
    found = m.breakdown
    if found is None:
        return None
    return {
        "bound": found.bound.value if found.bound else None,
        "pipeline_rate": figure(found.pipeline_examples_per_sec),
        "device_data_rate": figure(found.device_data_examples_per_sec),
        "products_fraction": figure(found.products_fraction, 3),
        "exchange_fraction": figure(found.exchange_fraction, 3),
        "lines": [[line.label, line.text] for line in breakdown_lines(found, m.throughput)],
    }


_LABELS = {
    "rerun": "Rerun this test",
    "record": "Record a baseline",
    "accept": "Accept the change: record a new baseline",
}


def _commands(m: Measurement, rerun: RerunCommand, red: Collection[str]) -> list[dict[str, str]]:
    """The message's, and those that only a page has room for."""
    commands = [{"label": _LABELS[line.label or ""], "command": line.text} for line in next_commands(m, rerun)]
    if m.profile is not None and m.profile.folder:
        commands.append({"label": f"Open its trace, {m.profile.folder}", "command": m.profile.command})
    if m.is_test and is_gain(m, red) and m.outcome is Outcome.IMPROVED:
        record = f"{rerun.of(m.test)} --update-baselines"
        commands.append({"label": "Keep the gain: record a new baseline", "command": record})
    return commands


def figure_facts(
    m: Measurement,
    series: Mapping[SeriesKey, Sequence[PastResult]],
    sessions: Mapping[str, int],
    changes: Sequence[LastingChange],
) -> list[dict[str, Any]]:
    """For each figure a table's cells by column, and its plot; None where no session measured it."""
    rows = figure_rows([m], all_of_them=True)
    found = [series.get(key_of(m)._replace(figure=one.figure.name), ()) for one in m.figures]
    return [
        row | {"plot": _plot(one, results, sessions, changes) if results else None}
        for row, one, results in zip(rows, m.figures, found, strict=True)
    ]


def _plot(
    one: Verdict, series: Sequence[PastResult], sessions: Mapping[str, int], changes: Sequence[LastingChange]
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


def _accepted(one: Verdict) -> tuple[float | None, float | None]:
    """The lowest and the highest accepted value; None for no bound, both where it has no baseline."""
    if one.baseline is None:
        return None, None
    reference, better = one.baseline.reference, one.figure.better
    accepted = one.figure.accepted(reference)
    return (
        None if better is Better.LOWER else reference - accepted,
        None if better is Better.HIGHER else reference + accepted,
    )


def _fails(one: Verdict) -> list[float]:
    """The values beyond which it fails: its thresholds and its limit."""
    found = [] if one.figure.limit is None else [one.figure.limit]
    if one.baseline is not None and one.threshold is not None:
        found += [one.baseline.reference - sign * one.threshold for sign in one.figure.signs]
    return found
