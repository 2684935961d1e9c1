"""`acknowledged.toml`, beside the baselines: the losses that the team knows of, each until a date."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.acknowledgement import Acknowledgement
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import files
from pytest_tfperf.stores.baseline_file import has_marker
from pytest_tfperf.stores.format_version import require_version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME: Final = "acknowledged.toml"

VERSION: Final = 1
"""Of a file that does not say it; a later one begins with `version = 2`."""

_TABLE: Final = "acknowledged"
_HEADER: Final = (
    "# Known losses, which fail nothing until their end. `tfperf ack` writes this file; it keeps no comments.\n"
)
_BEGIN = re.compile(rf"^[ \t]*\[\[\s*{_TABLE}\s*\]\]", re.MULTILINE)


def read(folder: Path) -> tuple[Acknowledgement, ...]:
    """Return the acknowledgements beside the baselines of a folder, in the file's order; none without a file.

    Raises:
        TfperfError: the file can't be read whole, or has two entries for a figure of a test on a machine; names file
            and line.
    """
    path = folder / NAME
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise TfperfError(f"{path} can't be read: {error.strerror}", next_step="Correct its permissions") from None
    if has_marker(data):
        line = next(n for n, each in enumerate(data.splitlines(), start=1) if has_marker(each))
        raise TfperfError(
            f"{path}, line {line}: git's merge of this file is unfinished",
            next_step="Keep the entries of both sides, and delete the lines that git added",
        )
    try:
        text = data.decode("utf-8-sig")
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TfperfError(f"{path}: no TOML: {error}", next_step="Correct it, or restore it with git") from None
    require_version(tables.pop("version", VERSION), path, newest=VERSION)
    entries = tables.pop(_TABLE, [])
    begins = [text.count("\n", 0, begin.start()) + 1 for begin in _BEGIN.finditer(text)]
    if tables or not isinstance(entries, list) or len(begins) != len(entries):
        raise TfperfError(f"{path}: it has something else than tables [[{_TABLE}]]", next_step="Delete that")
    line_of: dict[tuple[str, str, str], int] = {}
    found = []
    for line, entry in zip(begins, entries, strict=True):
        one = build(Acknowledgement, entry, f"{path}, line {line}: {_TABLE}")
        if one.key in line_of:
            raise TfperfError(
                f"{path}, line {line}: {' '.join(one.key)} is acknowledged on line {line_of[one.key]} already",
                next_step="Keep one of the two",
            )
        line_of[one.key] = line
        found.append(one)
    return tuple(found)


def write(folder: Path, acknowledgements: Iterable[Acknowledgement]) -> Path:
    """Replace the file atomically, delete it where nothing is acknowledged, and return its path.

    Raises:
        TfperfError: it can't be written; an earlier file is untouched.
    """
    path, text = folder / NAME, render(acknowledgements)
    try:
        if text:
            folder.mkdir(parents=True, exist_ok=True)
            files.replace(path, text.encode())
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise TfperfError(f"{path} can't be written: {error.strerror}", next_step="Make it writable") from None
    return path


def render(acknowledgements: Iterable[Acknowledgement]) -> str:
    """Return the file's text, sorted by test, figure and machine; "" for none."""
    text = ""
    for one in sorted(acknowledgements, key=lambda one: one.key):
        values = [f"{field.name} = {_value(getattr(one, field.name))}" for field in fields(one)]
        text += "\n".join(["", f"[[{_TABLE}]]", *values, ""])
    return _HEADER + text if text else ""


def _value(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.6g}"
    # A basic string of TOML is one of JSON, except that TOML wants this character escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
