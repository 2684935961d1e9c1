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
from pytest_tfperf.core.rerun_command import RerunCommand, recording_option
from pytest_tfperf.core.telemetry import merged
from pytest_tfperf.core.verdict import MOVED, Consequence, Outcome, Verdict
from pytest_tfperf.features.page.curves import day, rounded, run_facts
from pytest_tfperf.features.page.past import SeriesKey, change_facts, key_of, series_facts, since
from pytest_tfperf.lines import plain
from pytest_tfperf.reports.measurement_table import figure_rows, is_gain, outcome_alone, target_kind
from pytest_tfperf.reports.message import message, next_commands
from pytest_tfperf.reports.numbers import prefix_of, whole_percent
from pytest_tfperf.reports.run import bound_by, breakdown_lines
from pytest_tfperf.reports.verdict import figures_to_blame, headline, in_brief

_JUDGED = (
    *("baseline", "expected", "change", "change_low", "change_high", "raw_change"),
    *("tolerance_low", "tolerance_high", "threshold", "detectable", "drift", "between_runs"),
)
DIGITS_OF_A_CHANGE = 9  # with five, the page would round some changes twice, and show 18.6 % for a message's 18.5 %
_LOAD_WORTH_SHOWING = DisturbanceLimits().other_cpu_fraction


def facts_of_test(
    m: Measurement,
    *,
    name: str,
    effect: Consequence | None,
    series: Sequence[PastResult],
    sessions: Mapping[str, int],
    changes: Sequence[Mapping[str, Any]],
    figures: Sequence[Mapping[str, Any]],
    rerun: RerunCommand,
    red: Collection[str],
) -> dict[str, Any]:
    """Return all that the page shows of a test.

    Args:
        m: its measurement.
        name: the workload's name on this page.
        effect: on its test; None where it is not known.
        series: the test's results, oldest first, the measurement itself last.
        sessions: session id -> its index among the report's sessions.
        changes: the test's lasting changes, oldest first.
        figures: the facts of its figures.
        rerun: how to measure it again.
        red: the machines that are REGRESSED as a whole.
    """
    verdict, t = m.verdict, m.throughput
    baseline = verdict.baseline if verdict else None
    is_valid = m.is_valid
    began = None
    throughput_moved = verdict is not None and verdict.outcome in MOVED and not figures_to_blame(m)
    if throughput_moved and baseline is not None:
        began = since(changes, series, baseline.value)
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
        "seconds": rounded(m.seconds, 4),
        "owner": m.owner,
        "outcome": outcome_alone(m),
        "effect": effect,
        "kind": target_kind(verdict) if verdict else "",
        "story": _story(m, judged, began) + ("; acknowledged" if m.is_acknowledged else ""),
        "rate": rounded(t.examples_per_sec) if is_valid else None,
        "low": rounded(t.low) if is_valid else None,
        "high": rounded(t.high) if is_valid else None,
        **judged,
        "since": began,
        "bound": bound_by(m.breakdown),
        "history": series_facts(series, sessions),
        "changes": list(changes),
        "runs": run_facts(m),
        "breakdown": _breakdown(m),
        "figures": list(figures),
        "acknowledged": [_acknowledged(m, each) for each in m.verdicts if each.acknowledged],
        "environment_changes": changed_since(baseline, m.environment) if baseline else [],
        "message": plain(message(m, rerun)) if verdict else headline(m),
        "commands": _commands(m, rerun, red),
    }


def _acknowledged(m: Measurement, verdict: Verdict) -> dict[str, Any]:
    """Return the loss that the team knows of, and what it means for this verdict."""
    one = verdict.acknowledged
    assert one is not None, "it is acknowledged"
    return {
        "figure": one.figure,
        "change": rounded(one.change),
        "until": one.until.isoformat(),
        "why": one.why,
        "standing": str(verdict.standing(m.day)),
    }


def _judged(m: Measurement) -> dict[str, Any]:
    """Return the change that decided, its interval, and the facts that it was judged by; None for each unknown value.

    `change` is relative to the throughput expected today, or to the reference environment, and the interval is the
    verdict's. `raw_change` is relative to the baseline.
    """
    verdict = m.verdict
    baseline = verdict.baseline if verdict else None
    facts: dict[str, Any] = dict.fromkeys(_JUDGED)
    if verdict is None or baseline is None or verdict.change is None:
        return facts
    tolerance = verdict.tolerance
    low, high = verdict.interval or (None, None)
    return {
        "baseline": rounded(baseline.value),
        "expected": rounded(verdict.expected),
        "change": rounded(verdict.deciding_change, DIGITS_OF_A_CHANGE),
        "change_low": rounded(low, DIGITS_OF_A_CHANGE),
        "change_high": rounded(high, DIGITS_OF_A_CHANGE),
        "raw_change": rounded(verdict.change, DIGITS_OF_A_CHANGE),
        "tolerance_low": tolerance.lower if tolerance else None,
        "tolerance_high": tolerance.upper if tolerance else None,
        "threshold": rounded(verdict.threshold),
        "detectable": rounded(verdict.min_detectable_slowdown),
        "drift": rounded(math.expm1(verdict.common_drift)),
        "between_runs": rounded(verdict.noise.between_runs) if verdict.noise else None,
    }


def _story(m: Measurement, judged: Mapping[str, Any], began: Mapping[str, Any] | None) -> str:
    """Return the outcome in brief; if the throughput moved, also since when, and what else may explain it."""
    verdict = m.verdict
    if verdict is None:
        return "measured, not judged"
    text = in_brief(m)
    change = judged["change"]
    if began is None or change is None:
        return text
    if verdict.outcome in (Outcome.INCONCLUSIVE, Outcome.TOO_NOISY):
        return f"{text}; {verdict.why}"
    sessions = began["sessions"]
    text += ", new in this session" if sessions == 1 else f", since {day(began['time'])}, {sessions} sessions"
    text += _load(m) if change < 0 else ""
    return f"{text}; slowed on purpose" if "injected_slowdown" in m.environment else text


def _load(m: Measurement) -> str:
    """Return a clause about the CPU time of other processes; "" if no run would be discarded for so little."""
    telemetry = merged(run.telemetry for run in (*m.runs, *(pair.b for pair in m.pairs)))
    used = (telemetry.other_cpu_fraction_mean if telemetry else None) or 0.0
    return f"; meanwhile other processes used {whole_percent(used)} of the CPU" if used > _LOAD_WORTH_SHOWING else ""


def _breakdown(m: Measurement) -> dict[str, Any] | None:
    breakdown = m.breakdown
    if breakdown is None:
        return None
    return {
        "bound": breakdown.bound.value if breakdown.bound else None,
        "pipeline_rate": rounded(breakdown.pipeline_examples_per_sec),
        "device_data_rate": rounded(breakdown.device_data_examples_per_sec),
        "products_fraction": rounded(breakdown.products_fraction, 3),
        "exchange_fraction": rounded(breakdown.exchange_fraction, 3),
        "lines": [[line.label, line.text] for line in breakdown_lines(breakdown, m.throughput)],
    }


_LABELS = {
    "rerun": "Rerun this test",
    "record": "Record a baseline",
    "accept": "Accept the change: record a new baseline",
}


def _commands(m: Measurement, rerun: RerunCommand, red: Collection[str]) -> list[dict[str, str]]:
    """Return the message's commands, and further ones that only a page has room for."""
    commands = [{"label": _LABELS[line.label or ""], "command": line.text} for line in next_commands(m, rerun)]
    if m.profile is not None and m.profile.folder:
        commands.append({"label": f"Open its trace, {m.profile.folder}", "command": m.profile.command})
    if m.is_test and is_gain(m, red) and m.outcome is Outcome.IMPROVED:
        record = f"{rerun.of(m.test)} {recording_option()}"
        commands.append({"label": "Keep the gain: record a new baseline", "command": record})
    return commands


def figure_facts(
    m: Measurement,
    series: Mapping[SeriesKey, Sequence[PastResult]],
    sessions: Mapping[str, int],
    changes: Sequence[LastingChange],
) -> list[dict[str, Any]]:
    """Return each figure's table cells by column, and its plot: None if no session measured the figure."""
    facts: list[dict[str, Any]] = []
    for row, verdict in zip(figure_rows([m], all_of_them=True), m.figures, strict=True):
        results = series.get(key_of(m)._replace(figure=verdict.figure.name), ())
        facts.append({**row, "plot": _plot(verdict, results, sessions, changes) if results else None})
    return facts


def _plot(
    verdict: Verdict, series: Sequence[PastResult], sessions: Mapping[str, int], changes: Sequence[LastingChange]
) -> dict[str, Any]:
    """Return the plot's values, all in a unit that is easy to read: GiB in place of bytes."""
    unit, size = verdict.figure.unit or "", 1
    if unit == "bytes":
        unit, size = prefix_of(max(result.value for result in series))
    scaled = [
        replace(
            result,
            value=result.value / size,
            baseline=None if result.baseline is None else result.baseline / size,
        )
        for result in series
    ]
    low, high = _accepted(verdict)
    return {
        "unit": unit,
        "baseline": rounded(verdict.baseline.value / size) if verdict.baseline else None,
        "accepted_low": None if low is None else rounded(low / size),
        "accepted_high": None if high is None else rounded(high / size),
        "fails": [rounded(value / size) for value in _thresholds(verdict)],
        "history": series_facts(scaled, sessions),
        "changes": change_facts(changes, scaled),
    }


def _accepted(verdict: Verdict) -> tuple[float | None, float | None]:
    """Return the lowest and the highest accepted value; None where there is no bound."""
    if verdict.baseline is None:
        return None, None
    baseline, better = verdict.baseline.value, verdict.figure.better
    accepted = verdict.figure.accepted(baseline)
    return (
        None if better is Better.LOWER else baseline - accepted,
        None if better is Better.HIGHER else baseline + accepted,
    )


def _thresholds(verdict: Verdict) -> list[float]:
    """Return the values beyond which the figure fails, including its hard limit."""
    values = [] if verdict.figure.limit is None else [verdict.figure.limit]
    if verdict.baseline is not None and verdict.threshold is not None:
        values += [verdict.baseline.value - sign * verdict.threshold for sign in verdict.figure.signs]
    return values
