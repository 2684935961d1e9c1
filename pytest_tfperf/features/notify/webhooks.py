"""The JSON that webhooks get: our own, and the shapes that Slack and Teams take."""

from __future__ import annotations

from typing import Any, Final

from pytest_tfperf.core.notification import Notification
from pytest_tfperf.reports.notification import event_lines, title

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
