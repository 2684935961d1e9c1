"""Lasting changes for the worse that no new baseline accepted, for `--tfperf-fail-on-drift`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.past import ChangeKind, LastingChange, PastResult
from pytest_tfperf.judging.lasting_changes import LEVEL, changes_of, counts

_Series = tuple[str, Key]
_Baselines = Mapping[int, float]
"""The values of a baseline by the index of the session that it judged, oldest first."""

_RECOVERED_SHARE = 0.5
"""A loss is over when later changes brought back more than this share of it."""


def lasting_losses(results: Sequence[PastResult], session: str) -> list[LastingChange]:
    """Return the changes for the worse of tests in a session that are neither over nor accepted, oldest first.

    A new baseline of a test after a change accepts it; a change of the whole machine is accepted by new baselines of
    most tests. Only tests that the session judged against a recorded baseline count: a slowdown of the others, as of
    `throughput.measure`, could never be accepted.

    Args:
        results: throughputs and figures of one machine, each oldest first.
        session: the session's id.
    """
    order = {id: index for index, id in enumerate(dict.fromkeys(result.session for result in results))}
    baselines: dict[_Series, dict[int, float]] = {}
    judged: dict[_Series, None] = {}
    for result in results:
        series = (result.test, result.key)
        if result.baseline is not None:
            baselines.setdefault(series, {})[order[result.session]] = result.baseline
            if result.session == session:
                judged[series] = None
    concerned = {change: _concerned(change, judged) for change in changes_of(results)}
    changes = [change for change, of_change in concerned.items() if of_change]
    return [
        change
        for change in changes
        if change.is_worse
        and _lasts(change, changes, results, baselines)
        and not _is_accepted(change, [baselines[series] for series in concerned[change]], order)
    ]


def _concerned(change: LastingChange, judged: Iterable[_Series]) -> list[_Series]:
    """Return the judged series that show a change: all throughputs if it is the machine's."""
    if change.test:
        return [series for series in judged if series == (change.test, change.key)]
    return [(test, key) for test, key in judged if not key.figure]


def _is_accepted(change: LastingChange, baselines: Sequence[_Baselines], order: Mapping[str, int]) -> bool:
    """Return whether most of the baselines were recorded again after a change."""
    start = order[change.last_session] + (change.kind is not ChangeKind.STEP)
    accepted = sum(_recorded_since(start, of_series) for of_series in baselines)
    return 2 * accepted > len(baselines)


def _recorded_since(start: int, baselines: _Baselines) -> bool:
    """Return whether the baseline is another now than before a session."""
    before = [baseline for index, baseline in baselines.items() if index < start]
    return _latest(baselines) != (before[-1] if before else None)


def _latest(baselines: _Baselines) -> float:
    return list(baselines.values())[-1]


def _lasts(
    change: LastingChange,
    changes: Iterable[LastingChange],
    results: Iterable[PastResult],
    baselines: Mapping[_Series, _Baselines],
) -> bool:
    """Return whether a change is not over."""
    same = [other for other in changes if (other.test, other.key) == (change.test, change.key)]
    if change.key is None or not change.key.figure:
        return _throughput_lasts(change, same[same.index(change) + 1 :])
    series = (change.test or "", change.key)
    points = [result for result in results if (result.test, result.key) == series and counts(result)]
    return _figure_lasts(change, same[-1], points, _latest(baselines[series]))


def _throughput_lasts(change: LastingChange, later: Sequence[LastingChange]) -> bool:
    """Return whether later changes of the same throughput brought back too little."""
    won = math.fsum(math.log1p(gain.size) for gain in later if gain.size > 0)
    return won < -_RECOVERED_SHARE * math.log1p(change.size)


def _figure_lasts(change: LastingChange, last: LastingChange, points: Sequence[PastResult], baseline: float) -> bool:
    """Return whether a figure is still away from its level before a change.

    Args:
        change: the figure's change.
        last: the latest change of the same figure, perhaps `change` itself.
        points: the figure's results, oldest first.
        baseline: its baseline now.
    """
    sessions = [point.session for point in points]
    values = [point.value for point in points]
    before = statistics.median(values[: sessions.index(change.session)][-LEVEL:])
    # If a figure should stay the same, the change that brings it back is for the worse, too: its baseline tells them
    # apart.
    start = baseline if change.better is Better.SAME else before
    away = statistics.median(values[sessions.index(last.last_session) :][-LEVEL:]) - start
    return away * change.size > 0 and abs(away) > (1 - _RECOVERED_SHARE) * abs(change.size * before)
