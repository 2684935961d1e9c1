"""The facts of a session that may be news: losses, what is well, and what could not be measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from typing import Final

from pytest_tfperf.core.acknowledgement import ENDS_SOON_DAYS, Acknowledgement, Standing
from pytest_tfperf.core.figure import RATE
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import moment
from pytest_tfperf.core.rerun_command import RerunCommand
from pytest_tfperf.core.session_verdicts import SessionResult, VerdictOn, red_machines
from pytest_tfperf.core.verdict import Consequence, Outcome, Verdict
from pytest_tfperf.features.notify.news import Event, EventKind, Topic
from pytest_tfperf.lines import shortened
from pytest_tfperf.reports.acknowledgement import loss
from pytest_tfperf.reports.numbers import counted, duration
from pytest_tfperf.reports.session_verdicts import fact_of
from pytest_tfperf.reports.verdict import fact, headline

_WELL: Final = (Outcome.PASS, Outcome.IMPROVED)
_DRIFT: Final = "drift"
_HEARTBEAT: Final = "heartbeat"


def session_events(
    record: SessionResult, known: Mapping[str, str], rerun: RerunCommand, now: str, *, judges_drift: bool = False
) -> list[Event]:
    """Return the facts of a session, one of a topic, as `news.untold` takes them.

    What is undecided, too noisy, or without a recorded baseline changes nothing; nor does the throughput of a single
    test on a machine that is slower as a whole, nor a session that is slowed on purpose.

    Results beside another side are left out. `known` is the machine of each test that could not be measured now and
    that an earlier session measured, and `now` the time, ISO 8601 with its zone. Where the session judges drift, a
    lasting loss that it does not find is over.
    """
    if any("injected_slowdown" in m.environment for m in record.alone):
        return []
    found = {event.topic: event for event in (*_missing(record, known, rerun, now), *_of_session(record, now))}
    red, uncertain = red_machines(record.verdicts), set[Topic]()
    for m in record.alone:
        facts: list[tuple[Topic, Event | None]] = []
        facts += [_of_figure(m, verdict, rerun) for verdict in (m.figures if m.machine in red else m.verdicts)]
        facts += _measured(m, judges_drift=judges_drift) if m.is_valid and m.test not in record.not_measured else []
        for topic, event in facts:
            if event is None:
                uncertain.add(topic)
            else:
                found[topic] = max(found.get(topic, event), event, key=_size)
    return [e for e in found.values() if e.kind is not EventKind.RECOVERED or e.topic not in uncertain]


def _size(event: Event) -> float:
    """Return what tells which of a test's several calls counts: the largest loss."""
    return -1.0 if event.kind is EventKind.RECOVERED else abs(event.change or 0.0)


def _of_figure(m: Measurement, verdict: Verdict, rerun: RerunCommand) -> tuple[Topic, Event | None]:
    """Return what a verdict says about a figure; None for nothing certain, or for a loss that is acknowledged."""
    is_rate, known, kind = verdict.figure.name == RATE, verdict.acknowledged, _kind(m, verdict)
    text = headline(m) if is_rate else f"{fact(m, verdict)}, of {m.workload.id} on {m.devices} ({m.machine})"
    event = Event(
        kind=kind or EventKind.NEW,
        machine=m.machine,
        test=m.test,
        figure=verdict.figure.name,
        headline=f"{text}; {_known(m, known, verdict)}" if known else text,
        change=verdict.deciding_change,
        interval=verdict.interval,
        owner=m.owner,
        acknowledged_until=str(known.until) if known else "",
        commit=m.commit,
        rerun=rerun.of(m.test),
        time=m.time,
    )
    return event.topic, event if kind else None


def _known(m: Measurement, known: Acknowledgement, verdict: Verdict) -> str:
    """Return what an acknowledgement says of a loss, which may be worse than it, or later."""
    match verdict.standing(m.day):
        case Standing.WORSE:
            return f"WORSE than acknowledged, which was {loss(known, known.change)} until {known.until}: {known.why}"
        case Standing.ENDED:
            return f"acknowledged until {known.until}, which is over: {known.why}"
    return f"acknowledged until {known.until}: {known.why}"


def _kind(m: Measurement, verdict: Verdict) -> EventKind | None:
    if not m.is_decided or verdict.if_slower is not Consequence.FAILS:
        return None
    if verdict.outcome is not Outcome.REGRESSED:
        return EventKind.RECOVERED if verdict.outcome in _WELL else None
    match verdict.standing(m.day):
        case Standing.WORSE:
            return EventKind.WORSE
        case Standing.ENDED:
            return EventKind.ENDED
        case Standing.HOLDS if verdict.acknowledged is not None:
            is_soon = verdict.acknowledged.days_left(m.day) <= ENDS_SOON_DAYS
            return EventKind.ENDS if is_soon else None
    return EventKind.NEW


def _measured(m: Measurement, *, judges_drift: bool) -> list[tuple[Topic, Event]]:
    """Return that a test and its machine are measured; where drifts are judged, also that theirs are over."""
    topics = [(m.test, ""), ("", ""), ("", _HEARTBEAT)]
    if judges_drift:
        topics += [("", _DRIFT), *((m.test, f"{verdict.figure.name} {_DRIFT}") for verdict in m.verdicts)]
    events = []
    for test, figure in topics:
        text = "its lasting loss is over, or accepted by a new baseline" if _DRIFT in figure else "measured again"
        well = Event(kind=EventKind.RECOVERED, machine=m.machine, test=test, figure=figure, headline=text, time=m.time)
        events.append((well.topic, replace(well, owner=m.owner if test else "", commit=m.commit)))
    return events


def _missing(record: SessionResult, known: Mapping[str, str], rerun: RerunCommand, now: str) -> Iterator[Event]:
    """Yield the tests that could not be measured; a machine on which no test could be, in place of its tests."""
    measured = {m.machine for m in record.results if m.test not in record.not_measured}
    for machine in dict.fromkeys(known.values()):
        tests = {test: shortened(record.not_measured[test].headline) for test in known if known[test] == machine}
        if len(tests) > 1 and machine not in measured:
            (test, why), *_ = tests.items()
            text = f"none of {counted(len(tests), 'test')} could be measured: {test}: {why}"
            yield Event(kind=EventKind.MISSING, machine=machine, headline=text, time=now)
            continue
        for test, why in tests.items():
            owner = record.selection[test].owner if test in record.selection else ""
            event = Event(kind=EventKind.MISSING, machine=machine, test=test, headline=why, owner=owner, time=now)
            yield replace(event, rerun=rerun.of(test))


def _of_session(record: SessionResult, now: str) -> Iterator[Event]:
    """Yield what the verdicts on software and machine say, and each lasting loss."""
    for verdict in record.verdicts:
        is_slower = verdict.outcome is Outcome.REGRESSED
        kind = EventKind.NEW if is_slower else EventKind.RECOVERED
        event = Event(kind=kind, machine=verdict.machine, headline=fact_of(verdict), time=now)
        if verdict.kind is VerdictOn.DRIFT:
            for change in verdict.slowdowns:
                figure = f"{change.key.figure or RATE} {_DRIFT}" if change.key else _DRIFT
                text = fact_of(replace(verdict, slowdowns=(change,)))
                size, interval = change.size, (change.low, change.high)
                yield replace(
                    event, test=change.test or "", figure=figure, headline=text, change=size, interval=interval
                )
        elif is_slower or verdict.outcome in _WELL:
            yield replace(event, figure=verdict.kind, change=verdict.change, interval=verdict.interval)


def pulse(machine: str, last: str | None, now: datetime, most_seconds: float, ahead: str = "") -> Event:
    """Return whether a machine was measured in the last `most_seconds`.

    `last` is the time of its last measurement, None where all of them lie ahead of the clock, and `ahead` that of the
    last one that does, "" for none.
    """
    age = inf if last is None else max(0.0, (now - moment(last)).total_seconds())
    text = "never measured at a time before now" if last is None else f"last measured {_utc(last)}, {duration(age)} ago"
    if ahead:
        why = "the clock was ahead when it was made, or is behind now"
        text += f"; a measurement of {_utc(ahead)} does not count: {why}"
    return Event(
        kind=EventKind.SILENT if age > most_seconds else EventKind.RECOVERED,
        machine=machine,
        figure=_HEARTBEAT,
        headline=text,
        time=now.isoformat(timespec="seconds"),
    )


def gone(event: Event, why: str, now: str) -> Event:
    """Return the end of what a channel was told of something that no longer exists."""
    return replace(event, kind=EventKind.GONE, headline=why, change=None, interval=None, rerun="", time=now)


def _utc(time: str) -> str:
    return f"{moment(time).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
