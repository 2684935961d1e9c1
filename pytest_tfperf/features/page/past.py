"""What a report reads of the history: each test's series, its lasting changes, and the session before."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.measurement import EnvironmentChange, Measurement, environment_changes
from pytest_tfperf.core.past import LastingChange, Series, Value, moment, seconds_of, series_of
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.verdict import Outcome, worst
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page.curves import rounded
from pytest_tfperf.judging.change_points import LEVEL
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.reports.measurement_table import ACT_FIRST

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

_Result = TypeVar("_Result", Value, Measurement)


@dataclass(frozen=True, slots=True)
class Past:
    """The history of the reported tests, in the order of time, with the reported session itself."""

    sessions: Mapping[str, Value]  # id -> the latest result of the session, oldest session first
    series: Mapping[Series, list[Value]]  # of each throughput and figure, one result a session, oldest first
    changes: Sequence[LastingChange] = ()  # lasting changes of tests and machines, oldest first
    previous: Sequence[Measurement] = ()  # one measurement of each machine's session before, for its environment
    unread: str = ""  # a sentence about rows of the history that can't be read; "" if all can
    trial: str = ""  # a sentence about the last trial of the gate on one of these machines; "" for none

    @classmethod
    def of(cls, past: Iterable[Value], now: Sequence[Measurement], **more: Any) -> Past:
        """Sort the history's results; those of `now` replace the history's own of the same session.

        Results of other machines, with an injected slowdown, or later than `now` are left out. `more` are the further
        fields.
        """
        current = {
            (result.session, key_of(result)): result
            for m in worst_of_each(now).values()
            for result in (Value.of(m), *Value.of_figures(m))
        }
        machines = {m.machine for m in now}
        known = worst_of_each(
            result for result in past if result.machine in machines and not result.is_slowed_on_purpose
        )
        last = max((result.at for result in current.values()), default=None)
        in_order = sorted(
            (known | current).values(),
            key=lambda result: (result.at, result.number),
        )
        sessions: dict[str, Value] = {}
        series: dict[Series, list[Value]] = {}
        for result in in_order:
            if last is not None and result.at > last and (result.session, key_of(result)) not in current:
                continue
            sessions[result.session] = result
            series.setdefault(key_of(result), []).append(result)
        for results in series.values():  # sessions of two hosts with one name may overlap
            results.sort(key=lambda result: sessions[result.session].at)
        return cls(sessions, series, **more)

    def before(self, measurements: Sequence[Measurement]) -> dict[str, Value]:
        """Return the last result of each machine's session before these measurements; machines without one are absent.

        A session counts if it has at least half of the machine's tests, so that a rerun by hand does not count.
        """
        current = {m.session for m in measurements}
        tests_of_now = {(m.machine, m.test) for m in measurements}
        number_of_now = Counter(machine for machine, _ in tests_of_now)
        sessions: dict[tuple[str, str], list[Value]] = {}
        for result in chain.from_iterable(self.series.values()):
            is_of_now = (result.machine, result.test) in tests_of_now
            if is_of_now and result.session not in current and result.figure is None:
                sessions.setdefault((result.machine, result.session), []).append(result)
        last_results = [
            max(results, key=lambda result: result.at)
            for (machine, _), results in sessions.items()
            if 2 * len({result.test for result in results}) >= number_of_now[machine]
        ]
        return {result.machine: result for result in sorted(last_results, key=lambda result: result.at)}


_MOST_POINTS: Final = 366  # sessions that a test's series shows: a year of nights
_MOST_POINTS_IN_ALL: Final = 80_000
_LEAST_POINTS: Final = 30


def read_past(history: History, result: SessionResult, since: datetime | None = None) -> Past:
    """Read what a report on these measurements needs; without a history that can be read, they stand alone.

    The history is read once, result by result. The latest of the reported tests are kept, fewer of each where there are
    many tests, and those of the session before. Results after the last reported measurement are left out, and those
    before `since`.
    """
    now = result.alone
    keys = {key_of(m): 1 + len(m.figures) for m in now}  # with the number of series that each has
    most = min(_MOST_POINTS, max(_MOST_POINTS_IN_ALL // max(sum(keys.values()), 1), _LEAST_POINTS))
    kept: dict[Series, deque[Value]] = defaultdict(lambda: deque(maxlen=most))
    is_reported = cache(lambda series: series._replace(figure="") in keys)

    def keeping(results: Iterable[Value]) -> Iterator[Value]:
        for past_result in results:
            if is_reported(past_result.series):
                kept[past_result.series].append(past_result)
            yield past_result

    past: list[Value] = []
    changes: list[LastingChange] = []
    previous: list[Measurement] = []
    with suppress(TfperfError):  # a smoke run has none, and a broken history was reported before
        for results in _until_last(now, history, since):  # one machine after the other needs less memory
            changes += changes_of(keeping(results))
        changes.sort(key=lambda change: moment(change.time))
        past = list(chain.from_iterable(kept.values()))
        before = Past.of(past, now).before(now)
        previous = list(_previous(before, history))
        past += [other for other in _in_sessions(before, history) if key_of(other)._replace(figure="") not in keys]
    trial = _trial(history, {m.machine for m in result.results})
    return Past.of(past, now, changes=changes, previous=previous, unread=str(history.unread), trial=trial)


def _trial(history: History, machines: Collection[str]) -> str:
    """Return what `tfperf trial` keeps beside a history in a sentence, if it was of one of these machines; else ""."""
    if (path := history.database.path) is not None:
        with suppress(OSError, ValueError, KeyError, TypeError):  # the command itself says why it can't be read
            trial = json.loads((path.parent / "trial" / "trial.json").read_bytes())
            return str(trial["fact"]) if trial["machine"] in machines else ""
    return ""


def _until_last(now: Sequence[Measurement], history: History, since: datetime | None) -> Iterator[Iterator[Value]]:
    """Yield the results of each reported machine since a time, up to the last reported measurement."""
    until = max((moment(m.time) for m in now), default=moment("")) + timedelta(seconds=1)
    for machine in sorted({m.machine for m in now}):
        yield history.values(machine=machine, since=since, until=until)


def _previous(before: Mapping[str, Value], history: History) -> Iterator[Measurement]:
    """Yield a measurement of each machine's session before; it stands for the session's environment."""
    for machine, last in sorted(before.items()):
        with suppress(TfperfError):  # a report without the differences in software is still worth having
            yield from islice(
                history.measurements(session=last.session, test=last.test, machine=machine, is_interleaved=False), 1
            )


def _in_sessions(before: Mapping[str, Value], history: History) -> Iterator[Value]:
    """Yield all results of each machine's session before."""
    for machine, last in before.items():
        yield from history.values(session=last.session, machine=machine)


def key_of(result: Value | Measurement) -> Series:
    """Return the key of the series that a result belongs to."""
    return result.series if isinstance(result, Value) else series_of(result)


def worst_of_each(results: Iterable[_Result]) -> dict[tuple[str, Series], _Result]:
    """Return the worst decided result of each session and series, so that no regression is lost; else the last."""
    kept: dict[tuple[str, Series], _Result] = {}
    for result in results:
        key = result.session, key_of(result)
        if key not in kept or _badness(result) <= _badness(kept[key]):
            kept[key] = result
    return kept


def _badness(measured: Value | Measurement) -> tuple[int, float]:
    """A sort key: the worst outcome first, then the worst value; all undecided results are equal."""
    result = measured if isinstance(measured, Value) else Value.of(measured)
    rank = len(ACT_FIRST) if result.outcome is None else ACT_FIRST.index(result.outcome)
    sign = 1 if result.better is Better.HIGHER else -1
    return rank, sign * result.value if result.outcome else 0.0


def _is_valid(result: Value) -> bool:
    return result.outcome is not Outcome.INVALID and (result.value > 0 or result.figure is not None)


def series_facts(series: Sequence[Value], sessions: Mapping[str, int]) -> dict[str, Any]:
    """Return a series as columns of equal length; `session` is the session's index in the report."""
    return {
        "session": [sessions[result.session] for result in series],
        "rate": [rounded(result.value) for result in series],
        "low": [None if result.figure else rounded(result.low) for result in series],
        "high": [None if result.figure else rounded(result.high) for result in series],
        "baseline": [rounded(result.baseline) for result in series],
        "outcome": [result.outcome_word for result in series],
    }


def spell(series: Sequence[Value], baseline: float) -> Sequence[Value]:
    """Return the latest results in a row that are nearer to the last one than to `baseline`; at least the last."""
    now = math.log(series[-1].value)
    middle = (now + math.log(baseline)) / 2
    start = len(series) - 1
    while start > 0 and (math.log(series[start - 1].value) < middle) == (now < middle):
        start -= 1
    return series[start:]


# Lasting changes


def change_facts(changes: Sequence[LastingChange], series: Sequence[Value]) -> list[dict[str, Any]]:
    """Return the changes of one series, oldest first, with the level before and after each.

    Changes before the first session that the series shows are left out.
    """
    first, last = series[0], series[-1]
    return [
        _facts(change) | _levels(change, series)
        for change in changes
        if (change.machine, change.test, change.key) == (last.machine, last.test, last.key)
        and seconds_of(change.time) >= first.at
    ]


def machine_changes(changes: Sequence[LastingChange], machines: Collection[str]) -> list[dict[str, Any]]:
    """Return the changes that all tests of one of these machines have in common, oldest first."""
    return [
        {"machine": change.machine, **_facts(change)}
        for change in changes
        if change.test is None and change.machine in machines
    ]


def since(changes: Sequence[Mapping[str, Any]], series: Sequence[Value], baseline: float) -> dict[str, Any] | None:
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


def _levels(change: LastingChange, series: Sequence[Value]) -> dict[str, Any]:
    before = _level([result for result in series if _is_valid(result) and result.at < seconds_of(change.time)])
    return {"before": before, "after": None if before is None else rounded(before + abs(before) * change.size)}


def _level(results: Sequence[Value]) -> float | None:
    return rounded(statistics.median(result.value for result in results[-LEVEL:])) if results else None


# The session before


def previous_facts(now: Sequence[Measurement], past: Past) -> list[dict[str, Any]]:
    """Return an entry for each session before, with all machines that it measured.

    If `now` has several sessions of one machine, the result is empty.
    """
    if len({(m.machine, m.session) for m in now}) > len({m.machine for m in now}):
        return []
    sessions = dict.fromkeys(m.session for m in past.previous)
    return [_differences([m for m in past.previous if m.session == session], now, past) for session in sessions]


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


def _outcomes_in(session: str, machines: Collection[str], past: Past) -> dict[Series, Outcome | None]:
    """Return the worst outcome of each test in a session, over its throughput and its figures."""
    outcomes: dict[Series, list[Outcome | None]] = {}
    for key, series in past.series.items():
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
