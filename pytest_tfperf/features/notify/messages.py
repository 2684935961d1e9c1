"""A notification in words, and the JSON that webhooks get: our own, and the shapes that Slack and Teams take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from pytest_tfperf.features.notify.news import Event, EventKind, Notification
from pytest_tfperf.lines import one_line, shortened

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
_MOST: Final = 500  # characters of a line


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
    return one_line(shortened(text, _MOST))


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
