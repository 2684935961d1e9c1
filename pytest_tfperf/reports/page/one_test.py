"""The facts of one test: its outcome, the change that was judged, its history, its runs, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_tfperf.core.breakdown import Breakdown
from pytest_tfperf.core.measurement import Measurement, changed_since
from pytest_tfperf.core.past_result import PastResult
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.reports.breakdown import bound_by, breakdown_lines
from pytest_tfperf.reports.message import headline, message
from pytest_tfperf.reports.numbers import percent
from pytest_tfperf.reports.page.changes import since
from pytest_tfperf.reports.page.figures import day, figure
from pytest_tfperf.reports.page.past import series_facts
from pytest_tfperf.reports.page.run_facts import run_facts

_JUDGED = (
    *("reference", "expected", "change", "change_low", "change_high", "raw_change"),
    *("tolerance_low", "tolerance_high", "threshold", "detectable", "drift", "between_runs"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestContext:
    """What a test's facts need besides its measurement.

    Args:
        name: what to call it.
        series: its results, oldest first, the measurement itself last.
        sessions: session id -> its index among the report's sessions.
        changes: its lasting changes, oldest first.
        rerun: how to measure it again.
    """

    __test__ = False  # no test of pytest's

    name: str
    series: Sequence[PastResult]
    sessions: Mapping[str, int]
    changes: Sequence[Mapping[str, Any]] = ()
    rerun: RerunCommand = field(default=FROM_ROOTDIR)


def facts_of_test(m: Measurement, context: TestContext) -> dict[str, Any]:
    """All that the page shows of one test."""
    verdict = m.verdict
    is_valid = verdict is None or verdict.outcome is not Outcome.INVALID
    t = m.throughput
    began = _since(m, context)
    judged = _judged(m)
    return {
        "test": m.test,
        "name": context.name,
        "workload": m.workload.id,
        "topology": m.topology,
        "machine": m.machine,
        "devices": m.devices,
        "unit": t.unit,
        "session": m.session,
        "time": m.time,
        "seconds": figure(m.seconds, 4),
        "outcome": verdict.outcome.value if verdict else "measured",
        "kind": _kind(verdict),
        "reason": verdict.reason.value if verdict else "",
        "story": _story(m, judged, began),
        "rate": figure(t.examples_per_sec) if is_valid else None,
        "low": figure(t.low) if is_valid else None,
        "high": figure(t.high) if is_valid else None,
        **judged,
        "since": began,
        "bound": bound_by(m.breakdown),
        "history": series_facts(context.series, context.sessions),
        "changes": list(context.changes),
        "runs": run_facts(m),
        "breakdown": _breakdown(m),
        "environment_changes": changed_since(verdict.baseline, m.environment) if verdict and verdict.baseline else [],
        "message": message(m, context.rerun) if verdict else headline(m),
        "commands": _commands(m, context.rerun),
    }


def _judged(m: Measurement) -> dict[str, Any]:
    """The change that decides, with its interval, against what it is held.

    `change` is free of the drift common to all tests, or against the reference environment; `raw_change` is not.
    """
    verdict = m.verdict
    baseline = verdict.baseline if verdict else None
    facts: dict[str, Any] = dict.fromkeys(_JUDGED)
    if verdict is None or baseline is None or verdict.change is None:
        return facts
    rate = m.throughput.examples_per_sec
    expected = baseline.reference * math.exp(verdict.common_drift)
    if verdict.confirmed_change is not None:
        expected = rate / (1 + verdict.confirmed_change)
    tolerance = verdict.tolerance
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


def _kind(verdict: Verdict | None) -> str:
    if verdict is None:
        return ""
    return "provisional" if verdict.is_provisional else "floor" if verdict.is_floor and verdict.baseline else ""


def _since(m: Measurement, context: TestContext) -> dict[str, Any] | None:
    """Since when a test is as slow or as fast as now; None where it is as it should be."""
    verdict = m.verdict
    moved = (Outcome.REGRESSED, Outcome.IMPROVED, Outcome.INCONCLUSIVE)
    if verdict is None or verdict.outcome not in moved or verdict.baseline is None:
        return None
    return since(context.changes, context.series, verdict.baseline.reference)


def _story(m: Measurement, judged: Mapping[str, Any], began: Mapping[str, Any] | None) -> str:
    """One sentence for a reader who knows nothing of it: how much, how sure, since when."""
    verdict = m.verdict
    if verdict is None:
        return "measured, not judged"
    if verdict.outcome is Outcome.INVALID:
        return message(m).partition("\n")[0].partition("INVALID: ")[2] or verdict.reason.value
    change = judged["change"]
    if change is None or verdict.outcome in (Outcome.PASS, Outcome.NO_BASELINE):
        return verdict.reason.value
    against = "earlier sessions" if verdict.is_provisional else "the floor" if verdict.is_floor else "its baseline"
    text = f"{percent(change)} {'slower' if change < 0 else 'faster'} than {against}"
    if verdict.outcome is Outcome.INCONCLUSIVE:
        why = "nobody has confirmed it" if verdict.reason is Reason.SUSPECTED else verdict.reason.value
        return f"{text}; {why}"
    if began is not None:
        sessions = began["sessions"]
        text += ", new in this session" if sessions == 1 else f" since {day(began['time'])}, {sessions} sessions"
    return f"{text}; slowed on purpose" if "injected_slowdown" in m.environment else text


def _breakdown(m: Measurement) -> dict[str, Any] | None:
    found: Breakdown | None = m.breakdown
    if found is None:
        return None
    verdict = m.verdict
    slower = verdict.baseline.reference if verdict and verdict.baseline and _regressed(verdict) else None
    return {
        "bound": found.bound.value if found.bound else None,
        "pipeline_rate": figure(found.pipeline_examples_per_sec),
        "device_data_rate": figure(found.device_data_examples_per_sec),
        "products_fraction": figure(found.products_fraction, 3),
        "exchange_fraction": figure(found.exchange_fraction, 3),
        "lines": [[label, text] for label, text in breakdown_lines(found, m.throughput, slower)],
    }


def _commands(m: Measurement, rerun: RerunCommand) -> list[dict[str, str]]:
    if not m.is_test:
        return []
    record = f"{rerun.of(m.test)} --update-baselines"
    commands = [{"label": "Rerun this test", "command": rerun.of(m.test)}]
    if m.profile is not None and m.profile.folder:
        commands.append({"label": f"Open its trace, {m.profile.folder}", "command": m.profile.command})
    if m.verdict is not None and _regressed(m.verdict) and not m.verdict.is_provisional:
        return [*commands, {"label": "Accept the slowdown: record a new baseline", "command": record}]
    if m.verdict is not None and (m.verdict.outcome is Outcome.NO_BASELINE or m.verdict.is_provisional):
        return [*commands, {"label": "Record a baseline", "command": record}]
    if m.verdict is not None and m.verdict.outcome is Outcome.IMPROVED:
        return [*commands, {"label": "Keep the gain: record a new baseline", "command": record}]
    return commands


def _regressed(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.REGRESSED
