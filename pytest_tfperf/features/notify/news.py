"""News for people: events, the notification that a channel gets of them, and which of them are news to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.lines import without_passwords

SCHEMA: Final = 1
"""The version of a notification's JSON; it changes where a field is removed or means something else."""


class EventKind(StrEnum):
    """`missing`: what was measured before can't be; `gone`: it no longer exists; `ends`, `ended`: an acknowledgement.

    `silent` is of a machine.
    """

    NEW = "new"
    WORSE = "worse"
    RECOVERED = "recovered"
    MISSING = "missing"
    GONE = "gone"
    ENDS = "ends"
    ENDED = "ended"
    SILENT = "silent"


class Topic(NamedTuple):
    """The subject of events, as `Event` names it; of each a channel is told once."""

    machine: str
    test: str
    figure: str


OVER: Final = (EventKind.RECOVERED, EventKind.GONE)
"""The kinds of events after which nothing of their topic is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact about a test or a machine that is news.

    Args:
        kind: the kind of news.
        machine: the machine's key.
        test: pytest's node id; "" for the machine as a whole.
        figure: "throughput" or another figure's name, "throughput drift" for a loss that lasts over sessions; of a
            machine "software", "machine", "together", "drift" or "heartbeat"; "" for whether it could be measured.
        headline: the fact in one line.
        change: as a `Verdict` has it: -0.13 for 13 % slower, of other figures in their unit; None where not known.
        interval: its 95 % confidence interval; None where it is not known.
        owner: of the test; "" for none.
        acknowledged_until: the last day of its acknowledgement, as "2027-01-15"; "" where it has none.
        commit: the git commit of the tests' repository; "" where it is not known.
        rerun: the command that measures the test again; "" for a machine.
        time: of the measurement, ISO 8601 with its zone.
        since: the time of the first event of this topic that the channel was told of; "" before it is told.
    """

    kind: EventKind
    machine: str
    headline: str
    test: str = ""
    figure: str = ""
    change: float | None = None
    interval: tuple[float, float] | None = None
    owner: str = ""
    acknowledged_until: str = ""
    commit: str = ""
    rerun: str = ""
    time: str = ""
    since: str = ""

    @property
    def topic(self) -> Topic:
        """What it is about."""
        return Topic(self.machine, self.test, self.figure)


@dataclass(frozen=True, slots=True)
class Notification:
    """What a channel is told at once.

    Args:
        session: the session's id; "" where there is none, as for a silent machine.
        events: the news, at least one event.
        open: all that the channel was told of, these events included, and that is not over.
    """

    session: str
    events: tuple[Event, ...]
    open: tuple[Event, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what webhooks and commands get, without passwords; docs/notifications.md describes it."""
        events = [{name: _shown(value) for name, value in plain(event).items()} for event in self.events]
        return {"schema": SCHEMA, "session": self.session, "events": events}


def _shown(value: Any) -> Any:
    return without_passwords(value) if isinstance(value, str) else value


def untold(events: Iterable[Event], told: Mapping[Topic, Event]) -> list[Event]:
    """Return the news among the facts of a session.

    Args:
        events: the facts, one of a topic: RECOVERED for all that is well, GONE for what no longer exists, and the
            others as if nobody knew of them.
        told: what the channel was last told of each topic that is not over.
    """
    return list(_untold(events, told))


def _untold(events: Iterable[Event], told: Mapping[Topic, Event]) -> Iterator[Event]:
    for event in events:
        before = told.get(event.topic)
        if before is None:
            if event.kind not in OVER:
                yield replace(event, since=event.time)
        elif _is_news(event, before):
            yield replace(event, since=before.since)
        elif _is_worse(event, before):
            yield replace(event, kind=EventKind.WORSE, since=before.since)


def _is_news(event: Event, before: Event) -> bool:
    match event.kind:
        case EventKind.RECOVERED | EventKind.GONE:
            return True
        case EventKind.SILENT:  # once a day
            return before.kind is not EventKind.SILENT or before.time[:10] != event.time[:10]
        case EventKind.ENDS:
            return before.acknowledged_until != event.acknowledged_until
        case EventKind.WORSE:  # than what was acknowledged, so that the test fails again
            known = EventKind.WORSE, event.acknowledged_until
            return known != (before.kind, before.acknowledged_until)
        case EventKind.ENDED:
            # Whatever was told of this acknowledgement after its end keeps its date.
            return before.acknowledged_until != event.acknowledged_until or before.kind is EventKind.ENDS
    return False


def _is_worse(event: Event, before: Event) -> bool:
    """Whether a loss grew since a channel was told of it, by more than noise explains: the intervals are apart."""
    if event.interval is None or before.interval is None or before.change is None:
        return False
    sign = math.copysign(1.0, before.change)
    return min(sign * end for end in event.interval) > max(sign * end for end in before.interval)


def after(told: Mapping[Topic, Event], events: Iterable[Event]) -> dict[Topic, Event]:
    """Return what a channel was last told of each topic that is not over, once it has taken these events."""
    known = dict(told)
    for event in events:
        if event.kind in OVER:
            known.pop(event.topic, None)
        else:
            known[event.topic] = event
    return known
