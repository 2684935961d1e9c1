"""The facts of a report, a JSON document that the page draws and scripts read (docs/report.schema.json)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import LastingChange, PastResult, moment
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.session_verdicts import SessionVerdict, red_machines
from pytest_tfperf.core.verdict import Against, Consequence, Outcome
from pytest_tfperf.errors import FailsHereOnly, TfperfError
from pytest_tfperf.features.page.curves import document_facts, rounded, scaling_facts
from pytest_tfperf.features.page.one_test import DIGITS_OF_A_CHANGE, facts_of_test, figure_facts
from pytest_tfperf.features.page.past import (
    Past,
    SeriesKey,
    change_facts,
    key_of,
    machine_changes,
    previous_facts,
    worst_of_each,
)
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.lines import printable
from pytest_tfperf.reports.figures import figure_rows
from pytest_tfperf.reports.interleaved import sides, why_of
from pytest_tfperf.reports.measurement_table import ACT_FIRST
from pytest_tfperf.reports.message import in_brief
from pytest_tfperf.reports.session_verdicts import session_headline, text_of
from pytest_tfperf.reports.table import shown_names

if TYPE_CHECKING:
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.history import History
    from pytest_tfperf.stores.history_queries import Filters


SCHEMA: Final = 1
"""The version of the document's format; added fields do not change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource:
    """The input of a report.

    Args:
        measurements: of the reported session, without another side.
        past: all results in the history, of throughputs and of other figures, in any order.
        previous: one measurement of each machine's session before, for its environment.
        published: the documents' figures.
        interleaved: measurements of the session beside another side.
        verdicts: on software and machine as a whole.
        not_measured: test -> error, for tests that could not be measured.
        refused: test -> error, for tests whose baseline was refused.
        not_run: tests that were measured lately and did not run now, and why.
        changes: lasting changes of tests and machines, oldest first.
        rerun: how to measure a test again.
        unread: a sentence about rows of the history that can't be read; "" if all can.
        trial: a sentence about the last trial of the gate on this machine; "" for none.
        scope: "since 2026-11-01" if the report is not about one session.
        exit_status: the session's; None where only its measurements are known.
        effect: what a measurement does to its test; None where the session's options are not known.
    """

    measurements: Sequence[Measurement]
    past: Sequence[PastResult] = ()
    previous: Sequence[Measurement] = ()
    published: Sequence[Baseline] = ()
    interleaved: Sequence[Measurement] = ()
    verdicts: Sequence[SessionVerdict] = ()
    not_measured: Mapping[str, TfperfError] = field(default_factory=dict)
    refused: Mapping[str, TfperfError] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    changes: Sequence[LastingChange] = ()
    rerun: RerunCommand = FROM_ROOTDIR
    unread: str = ""
    trial: str = ""
    scope: str = ""
    exit_status: int | None = None
    effect: Callable[[Measurement], Consequence | None] = lambda _: None


def report_facts(source: ReportSource) -> dict[str, Any]:
    """Return the document; equal sources give equal documents.

    No text of it has a URL's password or a control character.
    """
    facts: dict[str, Any] = _printable(_facts(source))
    return facts


def _facts(source: ReportSource) -> dict[str, Any]:
    now = list(worst_of_each(source.measurements).values())
    past = Past.of(source.past, now)
    sessions = _session_indices(past, now)
    tests = _tests(source, now, past, sessions)
    comparisons = sorted((_comparison(m, source) for m in source.interleaved), key=_worst_first)
    clauses = session_headline(
        [*source.measurements, *source.interleaved],
        source.verdicts,
        not_measured=source.not_measured,
        refused=source.refused,
    )
    return {
        "schema": SCHEMA,
        "headline": "; ".join(clauses),
        "clauses": clauses,
        "scope": source.scope,
        "exit_status": source.exit_status,
        "counts": Counter(test["outcome"] for test in tests),  # those that need action first, as the tests are
        "judged": _judged(source),
        "session": _session(now, source.interleaved),
        "machine_changes": machine_changes(source.changes, {m.machine for m in now}),
        "verdicts": list(filter(None, map(text_of, source.verdicts))),
        "not_measured": [
            {"test": test, "effect": _effect(error), "why": str(error), "fact": error.headline}
            for test, error in sorted({**source.not_measured, **source.refused}.items())
        ],
        "not_run": _by_reason(source.not_run),
        "unread": source.unread,
        "trial": source.trial,
        "previous": previous_facts(source.previous, now, past),
        "sessions": [{"id": id, "time": past.sessions[id].time, "commit": past.sessions[id].commit} for id in sessions],
        "tests": tests,
        "scaling": scaling_facts(now, source.published),
        "documents": document_facts(now, source.published),
        "comparisons": comparisons,
    }


_JUDGED: Final = ("regressed", "in_doubt", "not_judged", "passed")  # the worst first


def _judged(source: ReportSource) -> dict[str, int]:
    """Count the throughput tests, those that were judged, and what was found, each test by its worst call.

    An exit status of 0 alone says little: a test without a baseline passes, and so does one that is in doubt.
    """
    words = dict.fromkeys((*source.not_measured, *source.refused), "not_judged")
    for m in (*source.measurements, *source.interleaved):
        words[m.test] = min(words.get(m.test, _JUDGED[-1]), _word(m), key=_JUDGED.index)
    count = Counter(words.values())
    judged = {word: count[word] for word in _JUDGED if word != "not_judged"}
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


def _effect(error: TfperfError) -> Consequence:
    return Consequence.FAILS if isinstance(error, FailsHereOnly) else Consequence.ERRORS


def _by_reason(not_run: Mapping[str, str]) -> list[dict[str, Any]]:
    reasons = sorted(set(not_run.values()))
    return [{"why": why, "tests": sorted(test for test, its in not_run.items() if its == why)} for why in reasons]


def as_json(facts: Mapping[str, Any]) -> bytes:
    """Return the document as scripts read it."""
    return json.dumps(facts, indent=1).encode()


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_printable(name): _printable(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_printable(inner) for inner in value]
    return value


def _session_indices(past: Past, now: Sequence[Measurement]) -> dict[str, int]:
    """Number the sessions that have a point in a series of these measurements, oldest first."""
    keys = {key_of(m) for m in now}
    plotted = {
        result.session
        for key, series in (past.series | past.figures).items()
        if key._replace(figure="") in keys
        for result in series
    }
    return {id: index for index, id in enumerate(id for id in past.sessions if id in plotted)}


def _tests(
    source: ReportSource, now: Sequence[Measurement], past: Past, sessions: Mapping[str, int]
) -> list[dict[str, Any]]:
    red = red_machines(source.verdicts)
    names = shown_names((m.workload.id, m.name) for m in now)
    tests = []
    for m in now:
        series = past.series[key_of(m)]
        tests.append(
            facts_of_test(
                m,
                name=names[m.workload.id, m.name],
                effect=source.effect(m),
                series=series,
                sessions=sessions,
                changes=change_facts(source.changes, series),
                figures=figure_facts(m, past.figures, sessions, source.changes),
                rerun=source.rerun,
                red=red,
            )
        )
    return sorted(tests, key=_worst_first)


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


def _comparison(m: Measurement, source: ReportSource) -> dict[str, Any]:
    a, b = sides(m)
    low, high = m.ratio_interval
    return {
        "test": m.test,
        "a": a,
        "b": b,
        "machine": m.machine,
        "topology": m.topology,
        "outcome": m.outcome.value if m.outcome else "measured",
        "effect": source.effect(m),
        "reason": in_brief(m) if m.outcome else why_of(m),
        "change": rounded(m.ratio - 1, DIGITS_OF_A_CHANGE) if m.is_valid else None,
        "low": rounded(low - 1, DIGITS_OF_A_CHANGE) if m.is_valid else None,
        "high": rounded(high - 1, DIGITS_OF_A_CHANGE) if m.is_valid else None,
        "pairs": len(m.pairs),
        "figures": figure_rows([m], all_of_them=True),
    }


_MOST_POINTS: Final = 366
"""Sessions that a test's series shows: a year of nights."""

_MOST_POINTS_IN_ALL: Final = 100_000
_LEAST_POINTS: Final = 30


def report_source(source: ReportSource, history: History, baselines: BaselineStore) -> ReportSource:
    """Complete `source` from the files; without a history that can be read, from the baselines alone.

    The history is read once, result by result. The latest of the reported tests are kept, fewer of each where there are
    many tests, and those of the session before. Results after the last reported measurement are left out.
    """
    past: list[PastResult] = []
    changes: list[LastingChange] = []
    previous: list[Measurement] = []
    with suppress(TfperfError):  # a smoke run has none, and a broken history was reported before
        kept = _Kept(source.measurements)
        changes = changes_of(kept.noting(_until_last(source.measurements, history)))
        before = Past.of(kept.results, source.measurements).before(source.measurements)
        previous = list(_previous(before, history))
        past = [*kept.results, *_others(before, kept.keys, history)]
    return replace(
        source,
        past=past,
        changes=changes,
        previous=previous,
        published=baselines.published(),
        unread=str(history.unread),
        trial=_trial(history, {m.machine for m in (*source.measurements, *source.interleaved)}),
    )


def _trial(history: History, machines: Collection[str]) -> str:
    """Return what `tfperf trial` keeps beside a history in a sentence, if it was of one of these machines; else ""."""
    if (path := history.database.path) is not None:
        with suppress(OSError, ValueError, KeyError):  # the command itself says why it can't be read
            trial = json.loads((path.parent / "trial" / "trial.json").read_bytes())
            return str(trial["fact"]) if trial["machine"] in machines else ""
    return ""


class _Kept:
    """The results of the reported tests' series, the latest of each."""

    def __init__(self, now: Sequence[Measurement]) -> None:
        self.keys = {key_of(m) for m in now}
        most = min(_MOST_POINTS, max(_MOST_POINTS_IN_ALL // max(len(self.keys), 1), _LEAST_POINTS))
        self._series: dict[SeriesKey, deque[PastResult]] = defaultdict(lambda: deque(maxlen=most))

    def noting(self, results: Iterable[PastResult]) -> Iterator[PastResult]:
        """Yield the results, and keep those of the reported tests."""
        for result in results:
            key = key_of(result)
            if key._replace(figure="") in self.keys:
                self._series[key].append(result)
            yield result

    @property
    def results(self) -> list[PastResult]:
        """The results that are kept."""
        return [result for series in self._series.values() for result in series]


def _until_last(now: Sequence[Measurement], history: History) -> Iterator[PastResult]:
    """Yield all results of the reported machines up to the last reported measurement."""
    until = max((moment(m.time) for m in now), default=moment("")) + timedelta(seconds=1)
    for machine in sorted({m.machine for m in now}):
        yield from history.results(machine=machine, until=until)
        yield from history.figure_results(machine=machine, until=until)


def _previous(before: Mapping[str, PastResult], history: History) -> Iterator[Measurement]:
    """Yield a measurement of each machine's session before; it stands for the session's environment."""
    for machine, last in sorted(before.items()):
        with suppress(TfperfError):  # a report without the differences in software is still worth having
            yield from islice(
                history.measurements(session=last.session, test=last.test, machine=machine, is_interleaved=False), 1
            )


def _others(before: Mapping[str, PastResult], keys: Collection[SeriesKey], history: History) -> Iterator[PastResult]:
    """Yield the results of each machine's session before that are of tests which the report lacks."""
    for machine, last in before.items():
        part: Filters = {"session": last.session, "machine": machine}
        for result in chain(history.results(**part), history.figure_results(**part)):
            if key_of(result)._replace(figure="") not in keys:
                yield result
