"""What of a session is news for a channel, by what the channel was last told."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pytest_tfperf.core.notification import OVER, Event, EventKind, Topic


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
