"""What changed since the session before: software and settings, outcomes, and the tests themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_tfperf.core.measurement import Measurement, compared_names
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.page.past import Past, key_of


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
    known = {
        key: one
        for key, series in past.series.items()
        for one in series
        if key.machine in machines and one.session == session
    }
    was_slow = {key for key, one in known.items() if one.outcome is Outcome.REGRESSED}
    outcomes = {key: one.verdict.outcome if one.verdict else None for key, one in here.items()}
    is_slow = {key for key, outcome in outcomes.items() if outcome is Outcome.REGRESSED}
    is_good = {key for key, outcome in outcomes.items() if outcome in (Outcome.PASS, Outcome.IMPROVED)}
    return {
        "session": session,
        "machines": machines,
        "time": past.sessions[session].time if session in past.sessions else before[0].time,
        "commit": before[0].commit,
        "environment_changes": list(_environment_changes(before, now)),
        "newly_regressed": sorted({key.test for key in (is_slow - was_slow) & known.keys()}),
        "recovered": sorted({key.test for key in was_slow & is_good}),
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
