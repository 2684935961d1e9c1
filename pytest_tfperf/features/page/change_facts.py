"""Lasting changes of tests and machines as facts, and what changed since the session before."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pytest_tfperf.core.measurement import Measurement, compared_names
from pytest_tfperf.core.past import LastingChange, PastResult, moment
from pytest_tfperf.core.verdict import Outcome, worst
from pytest_tfperf.features.page.curves import figure
from pytest_tfperf.features.page.past import Past, SeriesKey, is_valid, key_of, spell
from pytest_tfperf.judging.lasting_changes import LEVEL


def change_facts(changes: Sequence[LastingChange], series: Sequence[PastResult]) -> list[dict[str, Any]]:
    """The changes of one series, oldest first, with the throughput before and after each."""
    last = series[-1]
    found = (one for one in changes if (one.machine, one.test, one.key) == (last.machine, last.test, last.key))
    return [_facts(one) | _levels(one, series) for one in found]


def machine_changes(changes: Sequence[LastingChange], machines: Collection[str]) -> list[dict[str, Any]]:
    """The changes that all tests of one of these machines have in common, oldest first."""
    return [{"machine": one.machine, **_facts(one)} for one in changes if one.test is None and one.machine in machines]


def since(
    changes: Sequence[Mapping[str, Any]], series: Sequence[PastResult], reference: float
) -> dict[str, Any] | None:
    """Since when a series is slower or faster than `reference`: since its last change, or since its spell began.

    A change counts only if it has the same direction and lies in the spell; the effect of an earlier one had ended.
    """
    valid = [one for one in series if is_valid(one)]
    if not valid:
        return None
    is_slower = valid[-1].value < reference
    lasting = spell(valid, reference)
    if changes and (changes[-1]["size"] < 0) == is_slower:
        places = [place for place, one in enumerate(lasting) if one.session == changes[-1]["session"]]
        lasting = lasting[places[0] :] if places else lasting
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


def _facts(one: LastingChange) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "session": one.session,
        "time": one.time,
        "size": figure(one.size),
        "low": figure(one.low),
        "high": figure(one.high),
        "commit_before": one.commit_before,
        "commit_after": one.commit_after,
    }


def _levels(one: LastingChange, series: Sequence[PastResult]) -> dict[str, Any]:
    before = _level([past for past in series if is_valid(past) and moment(past.time) < moment(one.time)])
    return {"before": before, "after": None if before is None else figure(before + abs(before) * one.size)}


def _level(results: Sequence[PastResult]) -> float | None:
    return figure(statistics.median(one.value for one in results[-LEVEL:])) if results else None


def previous_facts(before: Sequence[Measurement], now: Sequence[Measurement], past: Past) -> list[dict[str, Any]]:
    """One entry for each session before, with all machines that it measured.

    `before` has one measurement of each machine, whose environment stands for the whole session. If `now` has several
    sessions of one machine, the result is empty.
    """
    if len({(one.machine, one.session) for one in now}) > len({one.machine for one in now}):
        return []
    sessions = dict.fromkeys(one.session for one in before)
    return [_since([one for one in before if one.session == session], now, past) for session in sessions]


def _since(before: Sequence[Measurement], now: Sequence[Measurement], past: Past) -> dict[str, Any]:
    session, machines = before[0].session, sorted({one.machine for one in before})
    here = {key_of(one): one for one in now if one.machine in machines}
    known: dict[SeriesKey, list[Outcome | None]] = {}
    for key, series in (past.series | past.figures).items():
        then_measured = [one for one in series if one.session == session and key.machine in machines]
        if then_measured:
            found = known.setdefault(key._replace(figure=""), [])
            found += [outcome for one in then_measured for outcome in one.outcomes]
    then = {key: worst(outcomes) for key, outcomes in known.items()}
    today = {key: one.outcome if one.is_decided else None for key, one in here.items()}
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
        "absent": sorted({key.test for key in known} - {key.test for key in here}),
        "added": sorted({key.test for key in here.keys() - known.keys()}),
    }


def _environment_changes(before: Sequence[Measurement], now: Sequence[Measurement]) -> Iterator[dict[str, Any]]:
    """Each change once, with its machines; None for a value that was not set."""
    changes: dict[tuple[str, str | None, str | None], list[str]] = {}
    for old in before:
        # Of the same test where it still is there: a user's program has another environment than a model.
        here = sorted((one for one in now if one.machine == old.machine), key=lambda one: key_of(one) != key_of(old))
        new = here[0].environment if here else {}
        for name in compared_names(old.environment, new):
            if old.environment.get(name) != new.get(name):
                changes.setdefault((name, old.environment.get(name), new.get(name)), []).append(old.machine)
    for (name, was, is_now), machines in changes.items():
        yield {"name": name, "before": was, "now": is_now, "machines": machines}
