"""News for people: events, which of them are news to a channel, and the notification that it gets of them in words."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.lines import one_line, shortened, without_passwords

SCHEMA: Final = 1  # the version of a notification's JSON; it changes where a field is removed or means something else


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


OVER: Final = (EventKind.RECOVERED, EventKind.GONE)  # the kinds of events after which nothing of their topic is left


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A fact about a test or a machine that is news."""

    kind: EventKind
    machine: str  # the machine's key
    headline: str  # the fact in one line
    test: str = ""  # pytest's node id; "" for the machine as a whole
    # "throughput" or another figure's name, "throughput drift" for a loss that lasts over sessions; of a machine
    # "software", "machine", "together", "drift" or "heartbeat"; "" for whether it could be measured.
    figure: str = ""
    change: float | None = None  # as in `Verdict`: -0.13 for 13 % slower, or in its figure's unit; None: not known
    interval: tuple[float, float] | None = None  # its 95 % confidence interval; None where it is not known
    owner: str = ""  # of the test; "" for none
    acknowledged_until: str = ""  # the last day of its acknowledgement, as "2027-01-15"; "" where it has none
    commit: str = ""  # the git commit of the tests' repository; "" where it is not known
    rerun: str = ""  # the command that measures the test again; "" for a machine
    time: str = ""  # of the measurement, ISO 8601 with its zone
    since: str = ""  # the time of the first event of this topic that the channel was told of; "" before it is told

    @property
    def topic(self) -> Topic:
        """What it is about."""
        return Topic(self.machine, self.test, self.figure)


@dataclass(frozen=True, slots=True)
class Notification:
    """What a channel is told at once."""

    session: str  # the session's id; "" where there is none, as for a silent machine
    events: tuple[Event, ...]  # the news, at least one event
    open: tuple[Event, ...] = ()  # all that the channel was told of, these events included, and that is not over

    def to_json(self) -> dict[str, Any]:
        """Return what webhooks and commands get, without passwords; docs/notifications.md describes it."""
        events = [
            {
                name: without_passwords(value) if isinstance(value, str) else value
                for name, value in plain(event).items()
            }
            for event in self.events
        ]
        return {"schema": SCHEMA, "session": self.session, "events": events}


def untold(events: Iterable[Event], told: Mapping[Topic, Event]) -> list[Event]:
    """Return the news among the facts of a session.

    Of each topic there is one: RECOVERED for all that is well, GONE for what no longer exists, and the others as if
    nobody knew of them. `told` is what the channel was last told of each topic that is not over.
    """
    news = []
    for event in events:
        before = told.get(event.topic)
        if before is None:
            if event.kind not in OVER:
                news.append(replace(event, since=event.time))
        elif _is_news(event, before):
            news.append(replace(event, since=before.since))
        elif _is_worse(event, before):
            news.append(replace(event, kind=EventKind.WORSE, since=before.since))
    return news


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


# In words, and as the JSON that webhooks get: our own, and the shapes that Slack and Teams take

_WORDS: Final = {
    EventKind.NEW: "NEW",
    EventKind.WORSE: "WORSE",
    EventKind.RECOVERED: "RECOVERED",
    EventKind.MISSING: "NOT MEASURED",
    EventKind.GONE: "NO LONGER MEASURED",
    EventKind.ENDS: "ACKNOWLEDGEMENT ENDS",
    EventKind.ENDED: "ACKNOWLEDGEMENT ENDED",
    EventKind.SILENT: "SILENT",
}
_COMMIT_CHARACTERS: Final = 10
_MOST_OF_A_LINE: Final = 500  # characters


def title(notification: Notification) -> str:
    """Return "performance: 2 new, 1 recovered on dgx1-p100"."""
    machines = dict.fromkeys(event.machine for event in notification.events)
    return _line(f"performance: {counts(notification.events)} on {', '.join(machines)}")


def counts(events: Iterable[Event]) -> str:
    """Return "2 new, 1 recovered"."""
    numbers = Counter(event.kind for event in events)
    return ", ".join(f"{numbers[kind]} {_WORDS[kind].lower()}" for kind in EventKind if kind in numbers)


def subject(event: Event) -> str:
    """Return the test and its machine, or the machine alone."""
    return _line(f"{event.test} on {event.machine}" if event.test else f"machine {event.machine}")


def event_lines(event: Event) -> list[str]:
    """Return what happened to which test, the fact, what else is known, and the command that measures it again."""
    known = [f"owner {event.owner}"] if event.owner else []
    known += [f"acknowledged until {event.acknowledged_until}"] if event.acknowledged_until else []
    known += [f"commit {event.commit[:_COMMIT_CHARACTERS]}"] if event.commit else []
    known += [f"known since {event.since[:10]}"] if event.since[:10] != event.time[:10] else []
    lines = [f"{_WORDS[event.kind]}: {subject(event)}", event.headline, ", ".join(known), event.rerun]
    return [_line(line) for line in lines if line]


def _line(text: str) -> str:
    return one_line(shortened(text, _MOST_OF_A_LINE))


_MOST_EVENTS: Final = 40  # Slack takes 50 blocks, Teams 28 KB
_MOST_CHARACTERS: Final = 16_000  # of all events of a message


def message(kind: str, notification: Notification) -> dict[str, Any]:
    """Return the JSON for a kind of channel."""
    return {"slack": _slack, "teams": _teams}.get(kind, Notification.to_json)(notification)


def _slack(notification: Notification) -> dict[str, Any]:
    # Plain text makes no mention, link or emoji; only the short text for the phone has to be escaped.
    heading, texts = title(notification), _texts(notification)
    escaped = heading.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    blocks = [{"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}} for text in texts]
    header = {"type": "header", "text": {"type": "plain_text", "text": heading[:150], "emoji": False}}
    return {"text": escaped, "blocks": [header, *blocks]}


def _teams(notification: Notification) -> dict[str, Any]:
    def block(text: str, **style: str) -> dict[str, Any]:
        # A run of text is shown as it is; a TextBlock would be read as Markdown.
        return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **style}]}

    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "body": [block(title(notification), weight="Bolder"), *map(block, _texts(notification))],
    }
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [content]}


def _texts(notification: Notification) -> list[str]:
    """Return the text of each event, as many as the chats take, and how many are left out."""
    texts: list[str] = []
    for event in notification.events[:_MOST_EVENTS]:
        text = "\n".join(event_lines(event))
        if sum(map(len, texts)) + len(text) > _MOST_CHARACTERS:
            break
        texts.append(text)
    left = len(notification.events) - len(texts)
    return [*texts, f"and {left} more, which the session's summary has"] if left else texts
