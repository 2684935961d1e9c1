"""The facts of a report: one JSON document that the page draws and scripts read (docs/report.schema.json)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import PastResult, moment
from pytest_tfperf.core.rerun_command import FROM_ROOTDIR, RerunCommand
from pytest_tfperf.core.session_verdicts import Change, SessionVerdict, red_machines
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.page.change_facts import change_facts, machine_changes, previous_facts
from pytest_tfperf.features.page.curves import document_facts, figure, scaling_facts
from pytest_tfperf.features.page.one_test import facts_of_test, figure_facts
from pytest_tfperf.features.page.past import Past, drift_facts, key_of, worst_of_each
from pytest_tfperf.judging.lasting_changes import changes_of
from pytest_tfperf.lines import printable
from pytest_tfperf.reports.comparisons import in_brief, reason_of
from pytest_tfperf.reports.figures import compared_figure_rows
from pytest_tfperf.reports.measurement_table import ACT_FIRST
from pytest_tfperf.reports.numbers import compared, counted
from pytest_tfperf.reports.session_verdicts import in_one_sentence, session_clauses, text_of
from pytest_tfperf.reports.table import shown_names

if TYPE_CHECKING:
    from pytest_tfperf.stores.baselines import BaselineStore
    from pytest_tfperf.stores.history import History


def clauses(
    tests: Sequence[Mapping[str, Any]],
    drifts: Sequence[Mapping[str, Any]],
    not_measured: Collection[str],
    comparisons: Sequence[str],
    left_out: Collection[str],
    verdicts: Sequence[SessionVerdict] = (),
) -> list[str]:
    """ "Machine REGRESSED (6.1 % slower than its baselines)", "2 of 49 tests regressed".

    `verdicts` on software and machine come first, because all tests may pass in a session that fails.
    `not_measured` has the tests that ended in an error; a test with an earlier result among them has not passed.
    `comparisons` has the outcomes of interleaved comparisons, which are counted if nothing else was measured. A test
    that is slower than earlier sessions but has no baseline has not regressed.

    What all tests of a machine have in common since last week may come from the machine or from the software, so
    neither is named.
    """
    unmeasured = [f"{len(left_out)} left out by --tfperf-budget"] if left_out else []
    if tests:
        counts = [*_counts(tests, not_measured), *unmeasured, *_drifts(tests, drifts)]
    else:
        counts = [_compared(comparisons) if comparisons else _nothing(len(not_measured)), *unmeasured]
    return in_one_sentence([*session_clauses(verdicts), *counts])


def _counts(tests: Sequence[Mapping[str, Any]], not_measured: Collection[str]) -> list[str]:
    without_result = len(set(not_measured) - {test["test"] for test in tests})
    total = len(tests) + without_result
    slower = [test for test in tests if test["outcome"] == Outcome.REGRESSED]
    provisional = sum(test["kind"] == "provisional" for test in slower)
    failed = without_result + sum(
        test["outcome"] == Outcome.INVALID or (test["outcome"] != Outcome.REGRESSED and test["test"] in not_measured)
        for test in tests
    )
    refused = sum(test["outcome"] == "refused" for test in tests)
    judged = [test for test in tests if test["outcome"] != "refused"]
    parts = [_regressed(judged, len(slower) - provisional, total - refused, not_measured)] if judged else []
    if refused:
        parts.append(f"{counted(refused, 'test')} refused as {'a baseline' if refused == 1 else 'baselines'}")
    if provisional:
        parts.append(f"{provisional} slower than earlier sessions")
    if failed and not (judged and _all_invalid(judged)):
        parts.append(f"{failed} could not be measured")
    return parts


def _drifts(tests: Sequence[Mapping[str, Any]], drifts: Sequence[Mapping[str, Any]]) -> list[str]:
    is_alone = len({test["machine"] for test in tests}) == 1
    parts = []
    for drift in drifts:
        if drift["is_sure"]:
            which = "all tests" if is_alone else f"the tests on {drift['machine']}"
            parts.append(f"{which} together are {compared(drift['change'])} last week")
    return parts


def _regressed(tests: Sequence[Mapping[str, Any]], regressed: int, total: int, not_measured: Collection[str]) -> str:
    if regressed:
        return f"{regressed} of {counted(total, 'test')} regressed"
    if _all_invalid(tests):
        return _nothing(total)
    if all(test["reference"] is None for test in tests):
        return "1 test measured, not judged" if len(tests) == 1 else f"{len(tests)} tests measured, none of them judged"
    good = [test for test in tests if test["outcome"] in (Outcome.PASS, Outcome.IMPROVED)]
    passed = sum(test["test"] not in not_measured for test in good)
    if passed == total:
        return ("The test passed" if total == 1 else f"All {total} tests passed") + _weaker(good)
    return f"No test regressed; {passed} of {total} passed" + _weaker(good)


def _weaker(good: Sequence[Mapping[str, Any]]) -> str:
    """How many passed against less than a recorded baseline, in brackets: " (3 provisional)"."""
    kinds = Counter(test["kind"] for test in good if test["kind"])
    if not kinds:
        return ""
    if list(kinds.values()) == [len(good)]:
        return f" ({next(iter(kinds))})"
    return f" ({', '.join(f'{number} {kind}' for kind, number in sorted(kinds.items()))})"


def _all_invalid(tests: Sequence[Mapping[str, Any]]) -> bool:
    return all(test["outcome"] == Outcome.INVALID for test in tests)


def _compared(outcomes: Sequence[str]) -> str:
    regressed = sum(word == Outcome.REGRESSED for word in outcomes)
    count = counted(len(outcomes), "comparison")
    return f"{regressed} of {count} regressed" if regressed else f"{count}, none of them regressed"


def _nothing(not_measured: int) -> str:
    if not not_measured:
        return "Nothing was measured"
    return "The test could not be measured" if not_measured == 1 else f"None of {not_measured} tests could be measured"


SCHEMA: Final = 1
"""The version of the document's format; added fields do not change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource:
    """All that a report is made of.

    Args:
        measurements: those of the reported session.
        past: all results in the history, those of figures too, in any order.
        previous: one measurement of each machine's session before, for its environment.
        published: the documents' figures.
        comparisons: interleaved comparisons of the session.
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
    comparisons: Sequence[Comparison] = ()
    verdicts: Sequence[SessionVerdict] = ()
    not_measured: Mapping[str, TfperfError] = field(default_factory=dict)
    refused: Mapping[str, TfperfError] = field(default_factory=dict)
    left_out: Sequence[str] = ()
    changes: Sequence[Change] = ()
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
    comparisons = [_comparison(one) for one in source.comparisons]
    drifts = drift_facts(past, now)
    outcomes = [one["outcome"] for one in comparisons]
    said = clauses(tests, drifts, source.not_measured, outcomes, source.left_out, source.verdicts)
    return {
        "schema": SCHEMA,
        "headline": "; ".join(said),
        "clauses": said,
        "scope": source.scope,
        "counts": Counter(test["outcome"] for test in tests),  # those that need action first, as the tests are
        "session": _session(now),
        "drifts": drifts,
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


def _session(now: Sequence[Measurement]) -> dict[str, Any]:
    """Facts about all measurements together, with the ids of all sessions and commits."""
    last = max(now, key=lambda one: moment(one.time), default=None)
    machines: dict[str, dict[str, Any]] = {}
    for one in now:
        machine = machines.setdefault(one.machine, {"machine": one.machine, "gpu": one.gpu, "tests": 0})
        machine |= {"environment": dict(sorted(one.environment.items())), "tests": machine["tests"] + 1}
    return {
        "ids": sorted({one.session for one in now}),
        "time": last.time if last else "",
        "commits": sorted({one.commit for one in now if one.commit}),
        "seconds": figure(sum(one.seconds for one in now), 4),
        "machines": sorted(machines.values(), key=lambda machine: str(machine["machine"])),
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "test": one.test,
        "a": one.a.name or one.a.workload.id,
        "b": one.b.name or one.b.workload.id,
        "machine": one.machine,
        "topology": one.topology,
        "outcome": one.outcome.value if one.outcome else "measured",
        "reason": in_brief(one) if one.outcome is not one.of_ratio else reason_of(one),
        "change": figure(one.ratio - 1),
        "low": figure(one.low - 1),
        "high": figure(one.high - 1),
        "pairs": len(one.pairs),
        "figures": compared_figure_rows([one], all_of_them=True),
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
            found += islice(history.measurements(session=last.session, test=last.test, machine=machine), 1)
    return found
