"""The facts of a report, a JSON document that the page draws and scripts read (docs/report.schema.json)."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.figure import SHARE, Better
from pytest_tfperf.core.measurement import Measurement, changes_since
from pytest_tfperf.core.past import Value, moment
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand, recording_option
from pytest_tfperf.core.session_verdicts import SessionResult, red_machines
from pytest_tfperf.core.telemetry import merged
from pytest_tfperf.core.verdict import MOVED, Against, Consequence, Outcome, Verdict
from pytest_tfperf.errors import FailsHereOnly
from pytest_tfperf.features.page.curves import day, document_facts, rounded, run_facts, scaling_facts
from pytest_tfperf.features.page.past import (
    Past,
    change_facts,
    key_of,
    machine_changes,
    previous_facts,
    series_facts,
    since,
    worst_of_each,
)
from pytest_tfperf.lines import plain, printable
from pytest_tfperf.reports.measurement_table import ACT_FIRST, figure_rows, is_gain, outcome_alone, target_kind
from pytest_tfperf.reports.message import cause_lines, message, next_commands
from pytest_tfperf.reports.numbers import prefix_of, whole_percent
from pytest_tfperf.reports.run import bound_by, breakdown_lines
from pytest_tfperf.reports.session_verdicts import session_headline, text_of
from pytest_tfperf.reports.table import shown_names
from pytest_tfperf.reports.verdict import figures_to_blame, headline, in_brief, sides, why_of
from pytest_tfperf.stores.documents import brief
from pytest_tfperf.stores.measurement_file import VERSION

SCHEMA: Final = 1  # the version of the document's format; added fields do not change it

_DIGITS_OF_A_CHANGE = 9  # with five, the page would round some changes twice, and show 18.6 % for a message's 18.5 %
_LOAD_WORTH_SHOWING = DisturbanceLimits().other_cpu_fraction


def report_facts(
    result: SessionResult,
    past: Past,
    published: Sequence[Baseline] = (),
    *,
    rerun: RerunCommand = FROM_ROOTDIR,
    scope: str = "",
) -> dict[str, Any]:
    """Return the document; equal arguments give equal documents.

    No text of it has a URL's password or a control character.

    `published` are the documents' figures, and `scope` is "since 2026-11-01" if the report is not about one session.
    """
    now = list(worst_of_each(result.alone).values())
    keys = {key_of(m) for m in now}
    plotted = {
        point.session for key, series in past.series.items() if key._replace(figure="") in keys for point in series
    }
    sessions = {id: index for index, id in enumerate(id for id in past.sessions if id in plotted)}  # oldest first
    names = shown_names((m.workload.id, m.name) for m in now)
    tests = [_test(m, names[m.workload.id, m.name], result, past, sessions, rerun) for m in now]
    tests.sort(key=_worst_first)
    clauses = session_headline(result)
    errors = {**result.not_measured, **result.refused}
    facts: dict[str, Any] = {
        "schema": SCHEMA,
        "headline": "; ".join(clauses),
        "clauses": clauses,
        "scope": scope,
        "exit_status": result.exit_status,
        "counts": Counter(test["outcome"] for test in tests),  # those that need action first, as the tests are
        "judged": _judged_tests(result),
        "session": _session(now, result.interleaved),
        "machine_changes": machine_changes(past.changes, {m.machine for m in now}),
        "verdicts": list(filter(None, map(text_of, result.verdicts))),
        "not_measured": [
            {
                "test": test,
                "effect": Consequence.FAILS if isinstance(error, FailsHereOnly) else Consequence.ERRORS,
                "why": str(error),
                "fact": error.headline,
            }
            for test, error in sorted(errors.items())
        ],
        "not_run": [
            {"why": reason, "tests": sorted(test for test, why in result.not_run.items() if why == reason)}
            for reason in sorted(set(result.not_run.values()))
        ],
        "remarks": list(result.remarks),
        "unread": past.unread,
        "trial": past.trial,
        "previous": previous_facts(now, past),
        "sessions": [{"id": id, "time": past.sessions[id].time, "commit": past.sessions[id].commit} for id in sessions],
        "tests": tests,
        "scaling": scaling_facts(now, published),
        "documents": document_facts(now, published),
        "comparisons": sorted((_comparison(m, result) for m in result.interleaved), key=_worst_first),
    }
    whole: dict[str, Any] = _printable(facts)
    return whole


_CALLS: Final = ("regressed", "in_doubt", "not_judged", "passed")  # the worst first


def _judged_tests(result: SessionResult) -> dict[str, int]:
    """Count the throughput tests, those that were judged, and what was found, each test by its worst call.

    An exit status of 0 alone says little: a test without a baseline passes, and so does one that is in doubt.
    """
    words = dict.fromkeys((*result.not_measured, *result.refused), "not_judged")
    for m in result.results:
        words[m.test] = min(words.get(m.test, _CALLS[-1]), _word(m), key=_CALLS.index)
    count = Counter(words.values())
    judged = {word: count[word] for word in _CALLS if word != "not_judged"}
    return {"of": len(words), "tests": sum(judged.values()), **judged}


def _word(m: Measurement) -> str:
    """Return what a measurement says of its test; a pass counts against a recorded row or another side alone."""
    verdict = m.verdict
    is_against_row = m.other is not None or (verdict is not None and verdict.against is Against.BASELINE)
    if not m.is_decided or m.is_refused:
        return "not_judged"
    match m.outcome:
        case Outcome.REGRESSED:
            return "in_doubt" if verdict is not None and verdict.if_slower is Consequence.WARNS else "regressed"
        case Outcome.INCONCLUSIVE | Outcome.TOO_NOISY:
            return "in_doubt"
        case Outcome.PASS | Outcome.IMPROVED if is_against_row:
            return "passed"
    return "not_judged"


_RANKS = {str(outcome): rank for rank, outcome in enumerate(ACT_FIRST) if outcome}
_RANKS["refused"] = ACT_FIRST.index(Outcome.INVALID)


def _worst_first(test: Mapping[str, Any]) -> tuple[Any, ...]:
    change = test["change"]
    return _RANKS.get(test["outcome"], len(_RANKS)), 1.0 if change is None else change, test["machine"], test["test"]


def _session(now: Sequence[Measurement], interleaved: Sequence[Measurement]) -> dict[str, Any]:
    """Return facts about all results together; a report since a date has several sessions and commits."""
    results = [*interleaved, *now]
    tests = Counter(machine for machine, _ in {(m.machine, m.test) for m in results})
    machines: dict[str, dict[str, Any]] = {}
    for m in results:
        machine = machines.setdefault(m.machine, {"machine": m.machine, "gpu": "", "environment": {}})
        machine["tests"] = tests[m.machine]
        if m.other is None:  # two sides may have two environments
            machine |= {"gpu": m.gpu, "environment": dict(sorted(m.environment.items()))}
    return {
        "ids": sorted({m.session for m in results}),
        "time": max((m.time for m in results), key=moment, default=""),
        "commits": sorted({m.commit for m in now if m.commit}),
        "seconds": rounded(sum(m.seconds for m in results), 4),
        "machines": sorted(machines.values(), key=lambda machine: str(machine["machine"])),
    }


def _comparison(m: Measurement, result: SessionResult) -> dict[str, Any]:
    assert m.other is not None, "only a measurement beside another side is a comparison"
    a, b = sides(m)
    low, high = m.ratio_interval
    return {
        "test": m.test,
        "a": a,
        "b": b,
        "machine": m.machine,
        "topology": m.topology,
        "outcome": m.outcome.value if m.outcome else "measured",
        "effect": result.consequence_of(m),
        "reason": in_brief(m) if m.outcome else why_of(m),
        "required_ratio": rounded(m.other.at_least),
        "change": rounded(m.ratio - 1, _DIGITS_OF_A_CHANGE) if m.is_valid else None,
        "low": rounded(low - 1, _DIGITS_OF_A_CHANGE) if m.is_valid else None,
        "high": rounded(high - 1, _DIGITS_OF_A_CHANGE) if m.is_valid else None,
        "pairs": len(m.pairs),
        "figures": figure_rows([m], all_of_them=True),
        "causes": [f"{line.label}: {line.text}" for line in cause_lines(m)],
    }


def with_measurements(facts: Mapping[str, Any], measurements: Iterable[Measurement]) -> dict[str, Any]:
    """Return the document with what `tfperf baselines accept --from` reads, at its begin, by which it is known."""
    brief_ones = [brief(plain_json.plain(m, brief=True)) for m in measurements]
    return {"version": VERSION, "measurements": _printable(brief_ones), **facts}


def as_json(facts: Mapping[str, Any]) -> bytes:
    """Return the document as scripts read it."""
    return json.dumps(facts, indent=1).encode()


_NUMBERS: Final = (float, int, type(None))
_printable_text: Final = lru_cache(maxsize=10_000)(printable)  # most texts are words that come a thousand times


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return _printable_text(value)
    if isinstance(value, dict):
        return {_printable(name): _printable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        # Most are numbers: a call for each of them would take as long as all else.
        return [inner if type(inner) in _NUMBERS else _printable(inner) for inner in value]
    return value


# One test


def _test(
    m: Measurement,
    name: str,
    result: SessionResult,
    past: Past,
    sessions: Mapping[str, int],
    rerun: RerunCommand,
) -> dict[str, Any]:
    """Return all that the page shows of a test; `sessions` are their ids, with their indices in the report."""
    verdict, t, series = m.verdict, m.throughput, past.series[key_of(m)]
    baseline = verdict.baseline if verdict else None
    changes = change_facts(past.changes, series)
    began = None
    if baseline is not None and verdict is not None and verdict.outcome in MOVED and not figures_to_blame(m):
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
        "effect": result.consequence_of(m),
        "kind": target_kind(verdict) if verdict else "",
        "story": _story(m, judged, began) + ("; acknowledged" if m.is_acknowledged else ""),
        "rate": rounded(t.examples_per_sec) if m.is_valid else None,
        "low": rounded(t.low) if m.is_valid else None,
        "high": rounded(t.high) if m.is_valid else None,
        **judged,
        "since": began,
        "bound": bound_by(m.breakdown),
        "history": series_facts(series, sessions),
        "changes": changes,
        "runs": run_facts(m),
        "breakdown": _breakdown(m),
        "figures": _figures(m, past, sessions),
        "acknowledged": [_acknowledged(m, verdict) for verdict in m.verdicts if verdict.acknowledged],
        "environment_changes": list(map(str, changes_since(baseline, m.environment))) if baseline else [],
        "message": plain(message(m, rerun)) if verdict else headline(m),
        "commands": _commands(m, rerun, red_machines(result.verdicts)),
    }


def _acknowledged(m: Measurement, verdict: Verdict) -> dict[str, Any]:
    """Return the loss that the team knows of, and what it means for this verdict."""
    loss = verdict.acknowledged
    assert loss is not None, "it is acknowledged"
    return {
        "figure": loss.figure,
        "change": rounded(loss.change),
        "until": loss.until.isoformat(),
        "why": loss.why,
        "standing": str(verdict.standing(m.day)),
    }


_JUDGED = (
    *("baseline", "expected", "change", "change_low", "change_high", "raw_change"),
    *("tolerance_low", "tolerance_high", "threshold", "detectable", "drift", "between_runs"),
)


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
        "change": rounded(verdict.deciding_change, _DIGITS_OF_A_CHANGE),
        "change_low": rounded(low, _DIGITS_OF_A_CHANGE),
        "change_high": rounded(high, _DIGITS_OF_A_CHANGE),
        "raw_change": rounded(verdict.change, _DIGITS_OF_A_CHANGE),
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


def _figures(m: Measurement, past: Past, sessions: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return each figure's table cells by column, and its plot: None if no session measured the figure."""
    facts: list[dict[str, Any]] = []
    for row, verdict in zip(figure_rows([m], all_of_them=True), m.figures, strict=True):
        series = past.series.get(key_of(m)._replace(figure=verdict.figure.name), ())
        facts.append({**row, "plot": _plot(verdict, series, past, sessions) if series else None})
    return facts


def _plot(verdict: Verdict, series: Sequence[Value], past: Past, sessions: Mapping[str, int]) -> dict[str, Any]:
    """Return the plot's values, all in a unit that is easy to read: GiB in place of bytes, % of a share."""
    unit, size = verdict.figure.unit or "", 1.0
    if unit == "bytes":
        unit, size = prefix_of(max(result.value for result in series))
    elif unit == SHARE:
        unit, size = "%", 0.01
    scaled = []
    for result in series:
        baseline = None if result.baseline is None else result.baseline / size
        scaled.append(result._replace(value=result.value / size, baseline=baseline))
    low, high = _accepted(verdict)
    return {
        "unit": unit,
        "baseline": rounded(verdict.baseline.value / size) if verdict.baseline else None,
        "accepted_low": None if low is None else rounded(low / size),
        "accepted_high": None if high is None else rounded(high / size),
        "fails": [rounded(value / size) for value in _thresholds(verdict)],
        "history": series_facts(scaled, sessions),
        "changes": change_facts(past.changes, scaled),
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
