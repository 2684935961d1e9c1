"""Results of earlier sessions: the sessions in order, each test's series, and spells."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pytest_tfperf.core.figure import Better
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult, moment
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.features.page.curves import figure
from pytest_tfperf.reports.measurement_table import ACT_FIRST

_Result = TypeVar("_Result", PastResult, Measurement)


class SeriesKey(NamedTuple):
    """What is measured again from session to session."""

    machine: str
    test: str
    workload: str
    topology: str
    figure: str = ""


@dataclass(frozen=True, slots=True)
class Past:
    """All results in the order of time, including those of the reported session.

    Args:
        sessions: id -> its latest result's time, oldest first.
        series: each test's results, one for each session, oldest first.
        figures: the same of its figures.
    """

    sessions: Mapping[str, PastResult]
    series: dict[SeriesKey, list[PastResult]]
    figures: dict[SeriesKey, list[PastResult]]

    @classmethod
    def of(cls, past: Iterable[PastResult], now: Sequence[Measurement]) -> Past:
        """The history's results with those of `now`, which replace the history's own of the same session.

        Results of other machines, with an injected slowdown, or later than `now` are left out.
        """
        current = {
            (one.session, key_of(one)): one for m in now for one in (PastResult.of(m), *PastResult.of_figures(m))
        }
        machines = {one.machine for one in now}
        known = worst_of_each(one for one in past if one.machine in machines and not one.is_slowed_on_purpose)
        last = max((moment(one.time) for one in current.values()), default=None)
        in_order = sorted(
            ((moment(one.time), one) for one in (known | current).values()), key=lambda timed: (timed[0], timed[1].id)
        )
        sessions: dict[str, PastResult] = {}
        series: dict[SeriesKey, list[PastResult]] = {}
        for time, one in in_order:
            if last is not None and time > last and (one.session, key_of(one)) not in current:
                continue
            sessions[one.session] = one
            series.setdefault(key_of(one), []).append(one)
        for results in series.values():  # sessions of two hosts with one name may overlap
            results.sort(key=lambda one: moment(sessions[one.session].time))
        figures = {key: results for key, results in series.items() if key.figure}
        return cls(sessions, {key: results for key, results in series.items() if not key.figure}, figures)

    def before(self, measurements: Sequence[Measurement]) -> dict[str, PastResult]:
        """For each machine the last result of the session before these measurements, if there is one.

        A session counts if it has at least half of the machine's tests, so that a rerun by hand does not count.
        """
        current = {one.session for one in measurements}
        tests_of_now = {(one.machine, one.test) for one in measurements}
        number_of_now = Counter(machine for machine, _ in tests_of_now)
        sessions: dict[tuple[str, str], list[PastResult]] = {}
        for one in itertools.chain.from_iterable(self.series.values()):
            if one.session not in current and (one.machine, one.test) in tests_of_now:
                sessions.setdefault((one.machine, one.session), []).append(one)
        last_results = [
            max(results, key=lambda one: moment(one.time))
            for (machine, _), results in sessions.items()
            if 2 * len({one.test for one in results}) >= number_of_now[machine]
        ]
        return {one.machine: one for one in sorted(last_results, key=lambda one: moment(one.time))}


def key_of(one: PastResult | Measurement) -> SeriesKey:
    """The series that a result belongs to."""
    return SeriesKey(one.machine, one.test, *one.key)


def worst_of_each(results: Iterable[_Result]) -> dict[tuple[str, SeriesKey], _Result]:
    """The worst decided result of each session and series, so that no regression is lost; else the last result."""
    found: dict[tuple[str, SeriesKey], _Result] = {}
    for one in results:
        place = one.session, key_of(one)
        if place not in found or _badness(one) <= _badness(found[place]):
            found[place] = one
    return found


def _badness(one: PastResult | Measurement) -> tuple[int, float]:
    """A sort key: the worst outcome first, then the worst value; all undecided results are equal."""
    result = one if isinstance(one, PastResult) else PastResult.of(one)
    rank = len(ACT_FIRST) if result.outcome is None else ACT_FIRST.index(result.outcome)
    sign = 1 if result.better is Better.HIGHER else -1
    return rank, sign * result.value if result.outcome else 0.0


def is_valid(one: PastResult) -> bool:
    """Whether its throughput or figure can be used."""
    return one.outcome is not Outcome.INVALID and (one.value > 0 or one.figure is not None)


def series_facts(series: Sequence[PastResult], sessions: Mapping[str, int]) -> dict[str, Any]:
    """Columns of equal length: the session's index, the throughput or figure, its interval, reference, outcome."""
    return {
        "session": [sessions[one.session] for one in series],
        "rate": [figure(one.value) for one in series],
        "low": [None if one.figure else figure(one.low) for one in series],
        "high": [None if one.figure else figure(one.high) for one in series],
        "reference": [figure(one.reference) for one in series],
        "outcome": [one.outcome_word for one in series],
    }


def spell(series: Sequence[PastResult], reference: float) -> Sequence[PastResult]:
    """The latest results in a row that are nearer to the last one than to `reference`; at least the last one."""
    now = math.log(series[-1].value)
    middle = (now + math.log(reference)) / 2
    start = len(series) - 1
    while start > 0 and (math.log(series[start - 1].value) < middle) == (now < middle):
        start -= 1
    return series[start:]
