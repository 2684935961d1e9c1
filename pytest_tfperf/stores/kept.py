"""Kept files: a noun as JSON, beside the version of its form, which docs/formats.md explains."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.stores import files

if TYPE_CHECKING:
    from pathlib import Path

T = TypeVar("T")


class NewerFormat(TfperfError):
    """A newer version of pytest-tfperf wrote it; it is left as it is."""


class Damaged(TfperfError):
    """A kept file that can be opened does not have its form, or a history is no whole SQLite database."""


def read(cls: type[T], path: Path, version: int, again: str) -> T | None:
    """Return what `write` wrote; None where there is no file. Fields that a later pytest-tfperf added are left out.

    `version` is the newest that is read here; `again` is the next step where the file is damaged, as in "Begin the
    trial anew: tfperf trial --again".

    Raises:
        NewerFormat: it has a later version.
        Damaged: it does not have this form.
        TfperfError: the system can't read it.
    """
    with worded(path, "read", "Correct its permissions"):
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
    try:
        document = plain_json.from_json(data)
        if not isinstance(document, dict) or "version" not in document:
            raise ValueError('it is no object with a "version"')
        require_version(document.pop("version"), path, newest=version)
        return build(cls, document, path.name, newer=True)
    except NewerFormat:
        raise
    except Damaged as error:
        raise Damaged(error.fact, next_step=again) from None
    except (ValueError, TfperfError) as error:
        raise Damaged(f"{path} is damaged: {error}", next_step=again) from None


def write(path: Path, value: Any, version: int) -> None:
    """Write a frozen dataclass, whole or not at all; its folder is made where missing.

    Raises:
        TfperfError: the system can't write it.
    """
    text = json.dumps({"version": version, **plain(value)}, indent=1)
    with worded(path, "written", f"Correct the permissions of {path.parent}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, text.encode())


def require_version(version: object, place: object, *, newest: int, otherwise: str = "") -> None:
    """Check that this pytest-tfperf reads a version.

    Args:
        version: the version that is written in this file or on this server.
        newest: the newest version that is read here; all before it are, too.
        otherwise: the alternative to an upgrade of pytest-tfperf; "" for none.

    Raises:
        NewerFormat: it is a later version.
        TfperfError: it is no version, because the place is damaged.
    """
    if isinstance(version, int) and version > newest:
        raise NewerFormat(
            f"{place} has version {version} of its format, and this pytest-tfperf reads version {newest}",
            next_step=f"Upgrade pytest-tfperf{otherwise and ', or '}{otherwise}",
        )
    if version not in range(1, newest + 1):
        raise Damaged(
            f"{place} is damaged: {version!r:.60} is no version of its format",
            next_step=f"Restore it{otherwise and ', or '}{otherwise}",
        )
