"""Telling channels: what each does not know yet, sent within a few seconds, and noted once it was taken."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.notify.channels import Channel
from pytest_tfperf.features.notify.news import Event, Notification, Topic, after, counts, message, untold
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.stores import files, kept

SECONDS: Final = 10.0  # how long all channels together may take
_COMMAND_SECONDS: Final = SECONDS - 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """A notification on its way to a channel: the events that it took so far, and why it did not take the others."""

    channel: Channel
    notification: Notification
    taken: list[Event] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def send(self, root: Path) -> None:
        """Send it; a fault of any kind is noted, and shows nothing of a secret."""
        try:
            self._send(root)
        except TfperfError as error:
            self.faults.append(error.text)
        except Exception as error:  # its text may show a URL
            self.faults.append(f"a fault of pytest-tfperf itself, please report it: {type(error).__name__}")

    def _send(self, root: Path) -> None:
        # These import ssl, which few sessions need.
        kind, notification = self.channel.kind, self.notification
        if kind in ("github", "gitlab"):
            from pytest_tfperf.features.notify.issues import Issues

            Issues.of(self.channel, os.environ).tell(notification, self.taken.extend)
            return
        if kind == "command":
            _run(shlex.split(self.channel.target), json.dumps(notification.to_json()), root)
        else:
            from pytest_tfperf.web.api import Api

            Api(seconds=SECONDS).post(self.channel.url(os.environ), message(kind, notification))
        self.taken.extend(notification.events)

    @property
    def is_taken(self) -> bool:
        """Whether the channel took all of it."""
        return len(self.taken) == len(self.notification.events)

    @property
    def line(self) -> str:
        """What became of it, for the summary."""
        if left := len(self.notification.events) - len(self.taken):
            why = self.faults[0] if self.faults else f"it took more than {SECONDS:g} s"
            what = f"{counted(left, 'event')} not sent to {self.channel}: {why}"
            return f"{what}. The next session sends what is not over"
        return f"notified {self.channel}: {'. '.join([counts(self.taken), *self.faults])}"


def deliveries(
    channels: Sequence[Channel],
    events: Sequence[Event],
    folder: Path,
    *,
    session: str = "",
    gone: Callable[[Event], Event | None] = lambda _: None,
) -> tuple[list[Delivery], list[str]]:
    """Return what each channel does not know yet, and lines for the user.

    The events are the facts, as `news.untold` takes them, and the folder has the file of what channels know. `gone`
    gives the end of what a channel was told of and can't be well again, as of a deleted test; else None.

    Raises:
        TfperfError: the file can't be used.
    """
    told, moved_aside = read(folder)
    owners = {channel.owner for channel in channels}
    found = []
    for channel in channels:
        known = told.get(channel.key, {})
        own = [event for event in events if channel.owner in (owners & _owners(event) or {""})]
        now = {event.topic for event in own}
        own += filter(None, (gone(event) for topic, event in known.items() if topic not in now))
        if news := tuple(untold(own, known)):
            found.append(Delivery(channel, Notification(session, news, tuple(after(known, news).values()))))
    lines = [moved_aside] if moved_aside else []
    if lost := without_channel(channels, events):
        whose = ", ".join(dict.fromkeys(event.owner or "no owner" for event in lost))
        what = f"{counted(len(lost), 'event')} not sent, of {whose}"
        lines.append(f"{what}: tfperf_notify has no channel for it. Add a line without owner=")
    return found, lines


def without_channel(channels: Sequence[Channel], events: Sequence[Event]) -> list[Event]:
    """Return the news of owners that none of the channels is for."""
    owners = {channel.owner for channel in channels}
    return untold([event for event in events if channels and not owners & {*_owners(event), ""}], {})


def _owners(event: Event) -> set[str]:
    """Return the owners of an event, of which CODEOWNERS may name several."""
    return {event.owner, *event.owner.split()} - {""}


def tell(found: Sequence[Delivery], folder: Path, root: Path) -> list[str]:
    """Send all that `deliveries` returned at the same time, note what was taken, and return a line for each channel.

    Commands run in the folder `root`.
    """
    # Looking up a name may outlast any time limit, and nothing can end it; a daemon does not hold up the exit.
    threads = [threading.Thread(target=each.send, args=(root,), daemon=True) for each in found]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + SECONDS
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    lines = [each.line for each in found]
    if taken := {each.channel.key: tuple(each.taken) for each in found if each.taken}:
        try:
            with files.locked(folder):
                told, _ = read(folder)  # another command may have written it meanwhile
                write(folder, told | {key: after(told.get(key, {}), events) for key, events in taken.items()})
        except (OSError, TfperfError) as error:
            lines.append(f"the next session will notify again of the same, because this one could not note it: {error}")
    return lines


def _run(words: Sequence[str], text: str, root: Path) -> None:
    """Run a command with a text as its standard input; what it leaves running is killed."""
    silent = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            words, cwd=root, start_new_session=True, stdin=subprocess.PIPE, stdout=silent, stderr=silent
        )
    except OSError as error:
        raise TfperfError(f"it can't be started: {error.strerror}") from None
    with process:
        try:
            process.communicate(text.encode(), timeout=_COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            raise TfperfError(f"it took more than {_COMMAND_SECONDS:g} s, and was killed") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise TfperfError(f"it ended with exit status {process.returncode}")


# What each channel was last told, beside the history

VERSION: Final = 1
NAME: Final = "told.json"

Told = dict[str, dict[Topic, Event]]  # the last event of each topic that is not over, by the channel's key


@dataclass(frozen=True, slots=True)
class _File:
    channels: Mapping[str, tuple[Event, ...]]


def read(folder: Path) -> tuple[Told, str]:
    """Return what channels were told, and a sentence about a damaged file that was moved aside; "" for none.

    Raises:
        TfperfError: the file can't be read, or a newer version wrote it.
    """
    path = folder / NAME
    try:
        file = kept.read(_File, path, VERSION, "")
    except kept.NewerFormat as error:
        raise error.at("nobody was notified") from None
    except kept.Damaged:
        aside = path.with_name(f"{NAME}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}")
        with suppress(OSError):  # where it can't be moved it can't be written later, which is said then
            path.rename(aside)
        return {}, (
            f"{path} was damaged. It is now {aside.name}, and the channels are told again of all that is not over"
        )
    channels = {} if file is None else file.channels
    return {key: {event.topic: event for event in events} for key, events in channels.items()}, ""


def write(folder: Path, told: Told) -> None:
    """Write the file, whole or not at all.

    Raises:
        TfperfError: as `kept.write`.
    """
    channels = {key: tuple(events.values()) for key, events in told.items() if events}
    kept.write(folder / NAME, _File(channels), VERSION)
