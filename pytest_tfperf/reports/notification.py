"""The words of a notification: its title, and the lines of each event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from pytest_tfperf.core.notification import Event, EventKind, Notification
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
