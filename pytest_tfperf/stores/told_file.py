"""The file of what each channel was last told, beside the history."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pytest_tfperf.core import bounded_decoding
from pytest_tfperf.core.notification import Event, Topic
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import files

VERSION: Final = 1
NAME: Final = "told.json"

Told = dict[str, dict[Topic, Event]]
"""By the channel's key, and by the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    version: int
    channels: Mapping[str, tuple[Event, ...]]


def read(folder: Path) -> tuple[Told, str]:
    """Return what each channel was told, and a sentence about a damaged file that was moved aside; "" for none.

    Raises:
        TfperfError: the file can't be read, or a newer version wrote it.
    """
    path = folder / NAME
    try:
        document = bounded_decoding.from_json(path.read_bytes())
        if isinstance(document, dict) and document.get("version", 0) > VERSION:
            raise _refused(path, "a newer version of pytest-tfperf wrote it", "Update pytest-tfperf here")
        channels = build(_File, document, NAME).channels
        return {key: {event.topic: event for event in events} for key, events in channels.items()}, ""
    except FileNotFoundError:
        return {}, ""
    except OSError as error:
        raise _refused(path, f"{error.strerror}", "Correct its permissions") from None
    except _Refused:
        raise
    except (ValueError, TypeError, TfperfError):
        return {}, _moved_aside(path)


class _Refused(TfperfError):
    pass


def _refused(path: Path, why: str, next_step: str) -> _Refused:
    return _Refused(f"nobody was notified: {path}, which says what channels know, can't be used: {why}", next_step=next_step)


def _moved_aside(path: Path) -> str:
    aside = path.with_name(f"{NAME}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}")
    try:
        path.rename(aside)
    except OSError as error:
        raise _refused(path, f"it is damaged, and stays: {error.strerror}", "Delete it") from None
    return f"{path} was damaged. It is now {aside.name}, and channels are told again of what is not over"


def write(folder: Path, told: Told) -> None:
    """Write the file, whole or not at all.

    Raises:
        OSError: it can't be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    channels = {key: tuple(events.values()) for key, events in told.items() if events}
    files.replace(folder / NAME, json.dumps(plain(_File(version=VERSION, channels=channels)), indent=1).encode())
