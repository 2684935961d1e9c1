"""Changes for the worse that last and were not accepted by a new baseline, for `--tfperf-fail-on-drift`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.past import ChangeKind, LastingChange, PastResult
from pytest_tfperf.judging.lasting_changes import LEVEL, changes_of, counts

_Series = tuple[str, Key]
_STILL_LOST = 0.5
"""A loss is over when later changes brought back more than this share of it."""


def lasting_losses(results: Sequence[PastResult], session: str) -> list[LastingChange]:
    """The changes for the worse of what a session measured that are neither over nor accepted, oldest first.

    Recording a baseline after a change accepts it. One of the machine is accepted when most tests' baselines were.
    What the session did not judge against a recorded baseline is left out: `throughput.measure` has nothing to accept
    a slowdown with.

    Args:
        results: throughputs and figures of one machine, each oldest first.
        session: the session's id.
    """
    order = {name: place for place, name in enumerate(dict.fromkeys(result.session for result in results))}
    references: dict[_Series, dict[int, float]] = {}
    judged: dict[_Series, None] = {}
    for result in results:
        which = (result.test, result.key)
        if result.reference is not None:
            references.setdefault(which, {})[order[result.session]] = result.reference
            if result.session == session:
                judged[which] = None
    rates = [which for which in judged if not which[1].figure]

    def concerned_by(change: LastingChange) -> list[_Series]:
        return [which for which in judged if which == (change.test, change.key)] if change.test else rates

    def is_accepted(change: LastingChange) -> bool:
        concerned = concerned_by(change)
        place = order[change.last_session] + (change.kind is not ChangeKind.STEP)
        accepted = sum(_recorded_since(references[which], place) for which in concerned)
        return 2 * accepted > len(concerned)

    changes = [one for one in changes_of(results) if concerned_by(one)]

    def lasts(change: LastingChange) -> bool:
        same = [one for one in changes if (one.test, one.key) == (change.test, change.key)]
        if change.key is None or not change.key.figure:
            return _rate_lasts(change, same[same.index(change) + 1 :])
        which = (change.test or "", change.key)
        points = [one for one in results if (one.test, one.key) == which and counts(one)]
        return _figure_lasts(change, same[-1], points, list(references[which].values())[-1])

    return [one for one in changes if one.is_worse and lasts(one) and not is_accepted(one)]


def _rate_lasts(change: LastingChange, later: Sequence[LastingChange]) -> bool:
    """Whether later changes of the same throughput left it lost."""
    won = math.fsum(math.log1p(one.size) for one in later if one.size > 0)
    return won < -(1 - _STILL_LOST) * math.log1p(change.size)


def _figure_lasts(change: LastingChange, last: LastingChange, points: Sequence[PastResult], reference: float) -> bool:
    """Whether a figure is still away from its level before a change.

    If it should stay the same, any change is for the worse, also the one that brings it back. So it is held against its
    baseline.

    Args:
        change: the figure's change.
        last: the latest change of the same figure, which may be the same one.
        points: the figure's results, oldest first.
        reference: its baseline now.
    """
    sessions = [point.session for point in points]
    values = [point.value for point in points]
    before = statistics.median(values[: sessions.index(change.session)][-LEVEL:])
    start = reference if change.better is Better.SAME else before
    away = statistics.median(values[sessions.index(last.last_session) :][-LEVEL:]) - start
    return away * change.size > 0 and abs(away) > _STILL_LOST * abs(change.size * before)


def _recorded_since(references: Mapping[int, float], place: int) -> bool:
    """Whether the latest reference is another one than before a session; `references` by the sessions' places."""
    before = [reference for at, reference in references.items() if at < place]
    return list(references.values())[-1] != (before[-1] if before else None)
