"""Lasting changes for the worse that no new baseline accepted, for `--tfperf-fail-on-drift`."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better, Figure
from pytest_tfperf.core.past import ChangeKind, LastingChange, PastResult
from pytest_tfperf.core.settings import DEFAULT_TOLERANCE
from pytest_tfperf.judging.lasting_changes import changes_of

_Series = tuple[str, Key]
_Baselines = Mapping[int, float]
"""The values of a baseline by the index of the session that it judged, oldest first."""

_RECOVERED_SHARE = 0.5
"""A loss is over when more than this share of it has come back."""


def lasting_losses(
    results: Sequence[PastResult], session: str, tolerances: Mapping[_Series, float]
) -> list[LastingChange]:
    """Return the changes for the worse of tests in a session that are neither over nor accepted, oldest first.

    A change is accepted if it is within the test's tolerance, or if the test has got a new baseline since; a change of
    the whole machine, if that is so for most of its tests. Only tests that the session judged against a recorded
    baseline count: a slowdown of the others, as of `throughput.measure`, could never be accepted.

    Args:
        results: throughputs and figures of one machine, each oldest first.
        session: the session's id.
        tolerances: the slowdowns that the session's tests accept, as fractions; by default 2 %.
    """
    order = {id: index for index, id in enumerate(dict.fromkeys(result.session for result in results))}
    baselines: dict[_Series, dict[int, float]] = {}
    judged: dict[_Series, Figure | None] = {}
    for result in results:
        series = (result.test, result.key)
        if result.baseline is not None:
            baselines.setdefault(series, {})[order[result.session]] = result.baseline
            if result.session == session:
                judged[series] = result.figure

    def accepted(series: _Series, level: float) -> float:
        figure = judged[series]
        return figure.accepted(level) if figure else tolerances.get(series, DEFAULT_TOLERANCE) * level

    losses = []
    for change in changes_of(results):
        concerned = _concerned(change, judged)
        if not change.is_worse or not concerned:
            continue
        # If a figure should stay the same, the change that brings it back is for the worse, too: its baseline tells
        # them apart.
        start = _latest(baselines[concerned[0]]) if change.better is Better.SAME else change.before
        away = change.now - start
        within = statistics.median(accepted(series, start) for series in concerned)
        least = max(within, (1 - _RECOVERED_SHARE) * abs(change.size * change.before))
        lasts = away * change.size > 0 and abs(away) > least
        if lasts and not _is_accepted(change, [baselines[series] for series in concerned], order):
            losses.append(change)
    return losses


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
