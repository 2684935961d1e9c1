"""Earlier sessions: the series of each test, its lasting changes, and the differences to the session before."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.measurement import EnvironmentChange, Measurement, environment_changes
from pytest_tfperf.core.past import LastingChange, PastResult, moment
from pytest_tfperf.core.verdict import Outcome, worst
from pytest_tfperf.features.page.curves import rounded
from pytest_tfperf.judging.change_points import LEVEL
from pytest_tfperf.reports.measurement_table import ACT_FIRST

_Result = TypeVar("_Result", PastResult, Measurement)


class SeriesKey(NamedTuple):
    """The identity of a series: results with the same key, one for each session, are its points."""

    machine: str
    test: str
    workload: str
    topology: str
    figure: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """All results in the order of time, including those of the reported session.

    Args:
        sessions: id -> the latest result of the session, oldest session first.
        series: throughputs of each test, one result for each session, oldest first.
        figures: other figures of each test, likewise.
    """

    sessions: Mapping[str, PastResult]
    series: dict[SeriesKey, list[PastResult]]
    figures: dict[SeriesKey, list[PastResult]]

    @classmethod
    def of(cls, past: Iterable[PastResult], now: Sequence[Measurement]) -> Past:
        """Sort the history's results; those of `now` replace the history's own of the same session.

        Results of other machines, with an injected slowdown, or later than `now` are left out.
        """
        current = {
            (result.session, key_of(result)): result
            for m in now
            for result in (PastResult.of(m), *PastResult.of_figures(m))
        }
        machines = {m.machine for m in now}
        known = worst_of_each(
            result for result in past if result.machine in machines and not result.is_slowed_on_purpose
        )
        last = max((moment(result.time) for result in current.values()), default=None)
        in_order = sorted(
            ((moment(result.time), result) for result in (known | current).values()),
            key=lambda timed: (timed[0], timed[1].id),
        )
        sessions: dict[str, PastResult] = {}
        series: dict[SeriesKey, list[PastResult]] = {}
        for time, result in in_order:
            if last is not None and time > last and (result.session, key_of(result)) not in current:
                continue
            sessions[result.session] = result
            series.setdefault(key_of(result), []).append(result)
        for results in series.values():  # sessions of two hosts with one name may overlap
            results.sort(key=lambda result: moment(sessions[result.session].time))
        figures = {key: results for key, results in series.items() if key.figure}
        return cls(sessions, {key: results for key, results in series.items() if not key.figure}, figures)

    def before(self, measurements: Sequence[Measurement]) -> dict[str, PastResult]:
        """Return the last result of each machine's session before these measurements; machines without one are absent.

        A session counts if it has at least half of the machine's tests, so that a rerun by hand does not count.
        """
        current = {m.session for m in measurements}
        tests_of_now = {(m.machine, m.test) for m in measurements}
        number_of_now = Counter(machine for machine, _ in tests_of_now)
        sessions: dict[tuple[str, str], list[PastResult]] = {}
        for result in itertools.chain.from_iterable(self.series.values()):
            if result.session not in current and (result.machine, result.test) in tests_of_now:
                sessions.setdefault((result.machine, result.session), []).append(result)
        last_results = [
            max(results, key=lambda result: moment(result.time))
            for (machine, _), results in sessions.items()
            if 2 * len({result.test for result in results}) >= number_of_now[machine]
        ]
        return {result.machine: result for result in sorted(last_results, key=lambda result: moment(result.time))}


def key_of(result: PastResult | Measurement) -> SeriesKey:
    """Return the key of the series that a result belongs to."""
    return SeriesKey(result.machine, result.test, *result.key)


def worst_of_each(results: Iterable[_Result]) -> dict[tuple[str, SeriesKey], _Result]:
    """Return the worst decided result of each session and series, so that no regression is lost; else the last."""
    kept: dict[tuple[str, SeriesKey], _Result] = {}
    for result in results:
        key = result.session, key_of(result)
        if key not in kept or _badness(result) <= _badness(kept[key]):
            kept[key] = result
    return kept


def _badness(measured: PastResult | Measurement) -> tuple[int, float]:
    """A sort key: the worst outcome first, then the worst value; all undecided results are equal."""
    result = measured if isinstance(measured, PastResult) else PastResult.of(measured)
    rank = len(ACT_FIRST) if result.outcome is None else ACT_FIRST.index(result.outcome)
    sign = 1 if result.better is Better.HIGHER else -1
    return rank, sign * result.value if result.outcome else 0.0


def _is_valid(result: PastResult) -> bool:
    return result.outcome is not Outcome.INVALID and (result.value > 0 or result.figure is not None)


def series_facts(series: Sequence[PastResult], sessions: Mapping[str, int]) -> dict[str, Any]:
    """Return a series as columns of equal length; `session` is the session's index in the report."""
    return {
        "session": [sessions[result.session] for result in series],
        "rate": [rounded(result.value) for result in series],
        "low": [None if result.figure else rounded(result.low) for result in series],
        "high": [None if result.figure else rounded(result.high) for result in series],
        "baseline": [rounded(result.baseline) for result in series],
        "outcome": [result.outcome_word for result in series],
    }


def spell(series: Sequence[PastResult], baseline: float) -> Sequence[PastResult]:
    """Return the latest results in a row that are nearer to the last one than to `baseline`; at least the last."""
    now = math.log(series[-1].value)
    middle = (now + math.log(baseline)) / 2
    start = len(series) - 1
    while start > 0 and (math.log(series[start - 1].value) < middle) == (now < middle):
        start -= 1
    return series[start:]


# Lasting changes


def change_facts(changes: Sequence[LastingChange], series: Sequence[PastResult]) -> list[dict[str, Any]]:
    """Return the changes of one series, oldest first, with the level before and after each.

    Changes before the first session that the series shows are left out.
    """
    first, last = series[0], series[-1]
    return [
        _facts(change) | _levels(change, series)
        for change in changes
        if (change.machine, change.test, change.key) == (last.machine, last.test, last.key)
        and moment(change.time) >= moment(first.time)
    ]


def machine_changes(changes: Sequence[LastingChange], machines: Collection[str]) -> list[dict[str, Any]]:
    """Return the changes that all tests of one of these machines have in common, oldest first."""
    return [
        {"machine": change.machine, **_facts(change)}
        for change in changes
        if change.test is None and change.machine in machines
    ]


def since(changes: Sequence[Mapping[str, Any]], series: Sequence[PastResult], baseline: float) -> dict[str, Any] | None:
    """Return when a series became slower or faster than `baseline`: at its last change, or when its spell began.

    A change counts only if it has the same direction and lies in the spell; the effect of an earlier change had ended.
    """
    valid = [result for result in series if _is_valid(result)]
    if not valid:
        return None
    is_slower = valid[-1].value < baseline
    lasting = spell(valid, baseline)
    if changes and (changes[-1]["size"] < 0) == is_slower:
        starts = [index for index, result in enumerate(lasting) if result.session == changes[-1]["session"]]
        lasting = lasting[starts[0] :] if starts else lasting
    before = valid[: len(valid) - len(lasting)]
    first = lasting[0]
    return {
        "session": first.session,
        "time": first.time,
        "sessions": len(lasting),
        "before": _level(before),
        "commit_before": before[-1].commit if before else "",
        "commit_after": first.commit,
    }


def _facts(change: LastingChange) -> dict[str, Any]:
    return {
        "kind": change.kind.value,
        "session": change.session,
        "time": change.time,
        "size": rounded(change.size),
        "low": rounded(change.low),
        "high": rounded(change.high),
        "commit_before": change.commit_before,
        "commit_after": change.commit_after,
    }


def _levels(change: LastingChange, series: Sequence[PastResult]) -> dict[str, Any]:
    before = _level([result for result in series if _is_valid(result) and moment(result.time) < moment(change.time)])
    return {"before": before, "after": None if before is None else rounded(before + abs(before) * change.size)}


def _level(results: Sequence[PastResult]) -> float | None:
    return rounded(statistics.median(result.value for result in results[-LEVEL:])) if results else None


# The session before


def previous_facts(before: Sequence[Measurement], now: Sequence[Measurement], past: Past) -> list[dict[str, Any]]:
    """Return an entry for each session before, with all machines that it measured.

    `before` has one measurement of each machine, whose environment stands for the whole session. If `now` has several
    sessions of one machine, the result is empty.
    """
    if len({(m.machine, m.session) for m in now}) > len({m.machine for m in now}):
        return []
    sessions = dict.fromkeys(m.session for m in before)
    return [_differences([m for m in before if m.session == session], now, past) for session in sessions]


def _differences(before: Sequence[Measurement], now: Sequence[Measurement], past: Past) -> dict[str, Any]:
    session, machines = before[0].session, sorted({m.machine for m in before})
    then = _outcomes_in(session, machines, past)
    today = {key_of(m): m.outcome if m.is_decided else None for m in now if m.machine in machines}
    changed = [key for key in then.keys() & today.keys() if then[key] is not today[key]]
    slower = [key for key in changed if today[key] is Outcome.REGRESSED]
    good = (Outcome.PASS, Outcome.IMPROVED)
    recovered = [key for key in changed if then[key] is Outcome.REGRESSED and today[key] in good]
    others = [key for key in changed if key not in slower and key not in recovered]
    return {
        "session": session,
        "machines": machines,
        "time": past.sessions[session].time if session in past.sessions else before[0].time,
        "commit": before[0].commit,
        "environment_changes": list(_environment_changes(before, now)),
        "newly_regressed": sorted({key.test for key in slower}),
        "recovered": sorted({key.test for key in recovered}),
        "other_outcomes": sorted({key.test for key in others}),
        "absent": sorted({key.test for key in then} - {key.test for key in today}),
        "added": sorted({key.test for key in today.keys() - then.keys()}),
    }


def _outcomes_in(session: str, machines: Collection[str], past: Past) -> dict[SeriesKey, Outcome | None]:
    """Return the worst outcome of each test in a session, over its throughput and its figures."""
    outcomes: dict[SeriesKey, list[Outcome | None]] = {}
    for key, series in (past.series | past.figures).items():
        if key.machine in machines:
            for result in series:
                if result.session == session:
                    outcomes.setdefault(key._replace(figure=""), []).extend(result.outcomes)
    return {key: worst(of_test) for key, of_test in outcomes.items()}


def _environment_changes(before: Sequence[Measurement], now: Sequence[Measurement]) -> Iterator[dict[str, Any]]:
    """Yield each change once, with its machines; None stands for a value that was not set."""
    changes: dict[EnvironmentChange, list[str]] = {}
    for old in before:
        # Prefer the same test if it still exists: a user's program has another environment than a model.
        here = sorted((m for m in now if m.machine == old.machine), key=lambda m: key_of(m) != key_of(old))
        new = here[0].environment if here else {}
        for change in environment_changes(old.environment, new):
            changes.setdefault(change, []).append(old.machine)
    for change, machines in changes.items():
        yield {"name": change.name, "before": change.then, "now": change.now, "machines": machines}
