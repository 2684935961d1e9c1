"""The file of what each channel was last told, beside the history."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.notification import Event, Topic
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import files
from pytest_tfperf.stores.kept import NewerFormat, require_version

VERSION: Final = 1
NAME: Final = "told.json"

Told = dict[str, dict[Topic, Event]]
"""The last event of each topic that is not over, by the channel's key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    version: int
    channels: Mapping[str, tuple[Event, ...]]


def read(folder: Path) -> tuple[Told, str]:
    """Return what channels were told, and a sentence about a damaged file that was moved aside; "" for none.

    Raises:
        TfperfError: the file can't be read, or a newer version wrote it.
    """
    path = folder / NAME
    try:
        document = plain_json.from_json(path.read_bytes())
        require_version(document.get("version"), path, newest=VERSION)
        channels = build(_File, document, NAME, newer=True).channels
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        raise TfperfError(f"{path} can't be read: {error.strerror}", next_step="Correct its permissions") from None
    except NewerFormat as error:
        raise error.at("nobody was notified") from None
    except (ValueError, AttributeError, TfperfError):
        return {}, _moved_aside(path)
    return {key: {event.topic: event for event in events} for key, events in channels.items()}, ""


def _moved_aside(path: Path) -> str:
    aside = path.with_name(f"{NAME}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}")
    with suppress(OSError):  # where it can't be moved it can't be written later, which is said then
        path.rename(aside)
    return f"{path} was damaged. It is now {aside.name}, and the channels are told again of all that is not over"


def write(folder: Path, told: Told) -> None:
    """Write the file, whole or not at all.

    Raises:
        OSError: it can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    channels = {key: tuple(events.values()) for key, events in told.items() if events}
    files.replace(folder / NAME, json.dumps(plain(_File(version=VERSION, channels=channels)), indent=1).encode())
