"""Lasting changes of tests and machines as facts, and since when a test is slower or faster."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_tfperf.core.change import Change
from pytest_tfperf.core.iso_time import moment
from pytest_tfperf.core.past_result import PastResult
from pytest_tfperf.features.page.figures import figure
from pytest_tfperf.features.page.past import is_valid, spell

_LEVEL = 10  # results whose median is the level before a change


def change_facts(changes: Sequence[Change], series: Sequence[PastResult]) -> list[dict[str, Any]]:
    """The changes of one series, oldest first, with the throughput before and after each."""
    last = series[-1]
    found = (one for one in changes if (one.machine, one.test, one.key) == (last.machine, last.test, last.key))
    return [_facts(one) | _levels(one, series) for one in found]


def machine_changes(changes: Sequence[Change], machines: Collection[str]) -> list[dict[str, Any]]:
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
    is_slower = valid[-1].examples_per_sec < reference
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


def _facts(one: Change) -> dict[str, Any]:
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


def _levels(one: Change, series: Sequence[PastResult]) -> dict[str, Any]:
    before = _level([past for past in series if is_valid(past) and moment(past.time) < moment(one.time)])
    return {"before": before, "after": None if before is None else figure(before * (1 + one.size))}


def _level(results: Sequence[PastResult]) -> float | None:
    return figure(statistics.median(one.examples_per_sec for one in results[-_LEVEL:])) if results else None
