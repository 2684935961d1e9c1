"""The facts of a report: one JSON document that the page draws and scripts read (docs/report.schema.json)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import LastingChange, PastResult, moment
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.session_verdicts import SessionVerdict, red_machines
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page.change_facts import change_facts, machine_changes, previous_facts
from pytest_tfperf.features.page.curves import document_facts, figure, scaling_facts
from pytest_tfperf.features.page.one_test import facts_of_test, figure_facts
from pytest_tfperf.features.page.past import Past, key_of, worst_of_each
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


SCHEMA: Final = 1
"""The version of the document's format; added fields do not change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource:
    """All that a report is made of.

    Args:
        measurements: those of the reported session without another side.
        past: all results in the history, those of figures too, in any order.
        previous: one measurement of each machine's session before, for its environment.
        published: the documents' figures.
        interleaved: the session's measurements beside another side.
        verdicts: on software and machine as a whole.
        not_measured: of each test that ended in an error, that error.
        refused: of each test whose baseline was refused, the error.
        left_out: tests that `--tfperf-budget` had no time for.
        changes: lasting changes of tests and machines, oldest first.
        rerun: how to measure a test again.
        unread: the sentence on rows of the history that can't be read; "" for none.
        scope: "since 2026-11-01" if the report is not about one session.
    """

    measurements: Sequence[Measurement]
    past: Sequence[PastResult] = ()
    previous: Sequence[Measurement] = ()
    published: Sequence[Baseline] = ()
    interleaved: Sequence[Measurement] = ()
    verdicts: Sequence[SessionVerdict] = ()
    not_measured: Mapping[str, TfperfError] = field(default_factory=dict)
    refused: Mapping[str, TfperfError] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    changes: Sequence[LastingChange] = ()
    rerun: RerunCommand = FROM_ROOTDIR
    unread: str = ""
    scope: str = ""


def report_facts(source: ReportSource) -> dict[str, Any]:
    """The document; equal sources give equal documents. No text of it has a URL's password or a control character."""
    facts: dict[str, Any] = _shown(_facts(source))
    return facts


def _facts(source: ReportSource) -> dict[str, Any]:
    now = list(worst_of_each(source.measurements).values())
    past = Past.of(source.past, now)
    keys = {key_of(one) for one in now}
    named = {
        result.session
        for key, series in (past.series | past.figures).items()
        if key._replace(figure="") in keys
        for result in series
    }
    sessions = {id: index for index, id in enumerate(id for id in past.sessions if id in named)}
    red = red_machines(source.verdicts)
    names = shown_names((one.workload.id, one.name) for one in now)
    tests = []
    for one in now:
        series = past.series[key_of(one)]
        changes = change_facts(source.changes, series)
        name = names[one.workload.id, one.name]
        tests.append(
            facts_of_test(
                one,
                name=name,
                series=series,
                sessions=sessions,
                changes=changes,
                figures=figure_facts(one, past.figures, sessions, source.changes),
                rerun=source.rerun,
                red=red,
            )
        )
    tests.sort(key=_worst_first)
    comparisons = sorted(map(_comparison, source.interleaved), key=_worst_first)
    said = session_headline(
        [*source.measurements, *source.interleaved],
        source.verdicts,
        not_measured=source.not_measured,
        refused=source.refused,
        left_out=source.left_out,
    )
    return {
        "schema": SCHEMA,
        "headline": "; ".join(said),
        "clauses": said,
        "scope": source.scope,
        "counts": Counter(test["outcome"] for test in tests),  # those that need action first, as the tests are
        "session": _session(now, source.interleaved),
        "machine_changes": machine_changes(source.changes, {one.machine for one in now}),
        "verdicts": list(filter(None, map(text_of, source.verdicts))),
        "not_measured": [
            {"test": test, "why": str(error), "fact": error.headline}
            for test, error in sorted({**source.not_measured, **source.refused}.items())
        ],
        "left_out": sorted(source.left_out),
        "unread": source.unread,
        "previous": previous_facts(source.previous, now, past),
        "sessions": [{"id": id, "time": past.sessions[id].time, "commit": past.sessions[id].commit} for id in sessions],
        "tests": tests,
        "scaling": scaling_facts(now, source.published),
        "documents": document_facts(now, source.published),
        "comparisons": comparisons,
    }


def _shown(value: Any) -> Any:
    """The value with all its texts as they may be shown."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_shown(name): _shown(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(inner) for inner in value]
    return value


_RANKS = {str(outcome): rank for rank, outcome in enumerate(ACT_FIRST) if outcome}
_RANKS["refused"] = ACT_FIRST.index(Outcome.INVALID)


def _worst_first(test: Mapping[str, Any]) -> tuple[Any, ...]:
    change = test["change"]
    return _RANKS.get(test["outcome"], len(_RANKS)), 1.0 if change is None else change, test["machine"], test["test"]


def _session(now: Sequence[Measurement], interleaved: Sequence[Measurement]) -> dict[str, Any]:
    """Facts about all results together, with the ids of all sessions and commits."""
    results = [*interleaved, *now]
    tests = Counter(machine for machine, _ in {(one.machine, one.test) for one in results})
    machines: dict[str, dict[str, Any]] = {}
    for one in results:
        machine = machines.setdefault(one.machine, {"machine": one.machine, "gpu": "", "environment": {}})
        machine["tests"] = tests[one.machine]
        if one.other is None:  # two sides may have two environments
            machine |= {"gpu": one.gpu, "environment": dict(sorted(one.environment.items()))}
    return {
        "ids": sorted({one.session for one in results}),
        "time": max((one.time for one in results), key=moment, default=""),
        "commits": sorted({one.commit for one in now if one.commit}),
        "seconds": figure(sum(one.seconds for one in results), 4),
        "machines": sorted(machines.values(), key=lambda machine: str(machine["machine"])),
    }


def _comparison(one: Measurement) -> dict[str, Any]:
    a, b = sides(one)
    low, high = one.ratio_interval
    return {
        "test": one.test,
        "a": a,
        "b": b,
        "machine": one.machine,
        "topology": one.topology,
        "outcome": one.outcome.value if one.outcome else "measured",
        "reason": in_brief(one) if one.outcome else why_of(one),
        "change": figure(one.ratio - 1) if one.is_valid else None,
        "low": figure(low - 1) if one.is_valid else None,
        "high": figure(high - 1) if one.is_valid else None,
        "pairs": len(one.pairs),
        "figures": figure_rows([one], all_of_them=True),
    }


def report_source(
    source: ReportSource, past: Sequence[PastResult], history: History, baselines: BaselineStore
) -> ReportSource:
    """`source` completed from the files. Of earlier sessions only `past` and one measurement a machine are read.

    Args:
        past: the history's results in its own order; what was made after the last reported session is left out.
    """
    sessions = {one.session for one in source.measurements}
    figures = _until(sessions, history.figure_results()) if past else []
    past = _until(sessions, past)
    previous = _previous(source.measurements, past, history)
    return replace(
        source,
        past=[*past, *figures],
        changes=changes_of([*past, *figures]),
        previous=previous,
        published=baselines.published(),
        unread=str(history.unread),
    )


def _until(sessions: Collection[str], past: Sequence[PastResult]) -> Sequence[PastResult]:
    """The results up to the last one of these sessions; all where the history has none of them."""
    last = max((place for place, one in enumerate(past) if one.session in sessions), default=len(past))
    return past[: last + 1]


def _previous(now: Sequence[Measurement], past: Sequence[PastResult], history: History) -> list[Measurement]:
    """A measurement of each machine's session before; none where it can't be read, because only its software counts."""
    found: list[Measurement] = []
    for machine, last in sorted(Past.of(past, now).before(now).items()):
        with suppress(TfperfError):
            found += islice(
                history.measurements(session=last.session, test=last.test, machine=machine, is_interleaved=False), 1
            )
    return found
