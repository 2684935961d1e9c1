"""`acknowledged.toml`, beside the baselines: the losses that the team knows of, each until a date."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.acknowledgement import MOST_DAYS, Acknowledgement
from pytest_tfperf.core.baseline import require_topology
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.figure import BUILT_IN, RATE, Figure, is_figure_name
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.errors import TfperfError, one_of, worded
from pytest_tfperf.stores import files
from pytest_tfperf.stores.baseline_file import merge_line
from pytest_tfperf.stores.kept import require_version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

NAME: Final = "acknowledged.toml"

VERSION: Final = 1

_MOST_WORST: Final = 2
"""How many times the change its worse end may be: of a loss that was confirmed, it is always less."""

_MEANING: Final = {
    "machine": "the name of its baselines file, without .csv",
    "test": "pytest's node id",
    "why": "the reason, for others",
}

_TABLE: Final = "acknowledged"
_HEADER: Final = (
    "# Known losses, which fail nothing until their end. `tfperf ack` writes this file; it keeps no comments.\n"
    f"version = {VERSION}\n"
)
_BEGIN = re.compile(rf"^[ \t]*\[\[\s*{_TABLE}\s*\]\]", re.MULTILINE)


def read(folder: Path) -> tuple[Acknowledgement, ...]:
    """Return the acknowledgements beside the baselines of a folder, in the file's order; none without a file.

    Raises:
        TfperfError: the file can't be read whole, has two entries for a figure of a call, or an entry that means
            nothing or could hide any loss; names file and line.
    """
    path = folder / NAME
    with worded(path, "read", "Correct its permissions"):
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return ()
    if line := merge_line(data):
        raise TfperfError(
            f"{path}, line {line}: git's merge of this file is unfinished",
            next_step="Keep the entries of both sides, and delete the lines that git added",
        )
    try:
        text = data.decode("utf-8-sig")
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TfperfError(f"{path}: no TOML: {error}", next_step="Correct it, or restore it with git") from None
    require_version(tables.pop("version", 1), path, newest=VERSION)
    entries = tables.pop(_TABLE, [])
    begins = [text.count("\n", 0, begin.start()) + 1 for begin in _BEGIN.finditer(text)]
    if tables or not isinstance(entries, list) or len(begins) != len(entries):
        raise TfperfError(f"{path}: it has something else than tables [[{_TABLE}]]", next_step="Delete that")
    line_of: dict[tuple[str, ...], int] = {}
    found = []
    for line, entry in zip(begins, entries, strict=True):
        where = f"{path}, line {line}: {_TABLE}"
        try:
            entry = build(Acknowledgement, entry, where)
        except TfperfError as error:
            if error.next_step:
                raise
            raise TfperfError(error.headline, next_step="Correct it, or write it anew with `tfperf ack`") from None
        try:
            require_plausible(entry)
        except TfperfError as error:
            raise error.at(where) from None
        if entry.key in line_of:
            raise TfperfError(
                f"{path}, line {line}: {' '.join(filter(None, entry.key))} is acknowledged on line "
                f"{line_of[entry.key]} already",
                next_step="Keep one of the two",
            )
        line_of[entry.key] = line
        found.append(entry)
    return tuple(found)


def require_plausible(entry: Acknowledgement) -> None:
    """Check that an entry that was read or will be written makes sense, and covers no more than the loss that it names.

    Those of old sessions in a history are taken as they are.

    Raises:
        TfperfError: a value makes no sense; says what to write.
    """
    for name, meaning in _MEANING.items():
        if not getattr(entry, name).strip():
            raise TfperfError(f"{name} is empty: write {meaning}")
    parse_subject(entry.workload)
    require_topology(entry.topology)
    _require_loss(entry)
    if abs(entry.worst) > _MOST_WORST * abs(entry.change):
        raise TfperfError(
            f"worst {entry.worst:g} is more than {_MOST_WORST} times change {entry.change:g}, so that a further loss "
            "of that size would pass: write the worse end of the change's 95 % interval"
        )
    today = datetime.now(UTC).date()
    if entry.days_left(today) > MOST_DAYS:
        raise TfperfError(
            f"until {entry.until} is more than a year away (today is {today}), and a loss without an end is a lower "
            f"baseline: write an earlier day, or record the loss with {recording_option()}"
        )


def _require_loss(entry: Acknowledgement) -> None:
    """Check that the change is a loss of its figure, and of a throughput a fraction."""
    if not is_figure_name(entry.figure):
        raise TfperfError(one_of("figure", entry.figure, (RATE, *BUILT_IN)))
    figure = Figure(entry.figure)  # of a user's own, the file does not say which direction is better
    if figure.is_built_in and not any(sign * entry.change < 0 for sign in figure.signs):
        loss = -figure.signs[0] * abs(entry.change)
        raise TfperfError(f"change {entry.change:g} is no loss of {entry.figure}: write {loss:g}")
    if entry.figure == RATE:
        for name in ("change", "worst"):
            if (change := getattr(entry, name)) <= -1:
                raise TfperfError(f"{name} {change:g}: write a fraction, {change / 100:g} for {-change:g} % slower")


def write(folder: Path, acknowledgements: Iterable[Acknowledgement]) -> Path:
    """Replace the file atomically, delete it where nothing is acknowledged, and return its path.

    Raises:
        TfperfError: it can't be written; an earlier file is untouched.
    """
    path, text = folder / NAME, render(acknowledgements)
    with worded(path, "written", "Make it writable"):
        if text:
            folder.mkdir(parents=True, exist_ok=True)
            files.replace(path, text.encode())
        else:
            path.unlink(missing_ok=True)
    return path


def render(acknowledgements: Iterable[Acknowledgement]) -> str:
    """Return the file's text, sorted by test, figure, machine and call; "" for none."""
    text = ""
    for entry in sorted(acknowledgements, key=lambda entry: entry.key):
        given = {field.name: getattr(entry, field.name) for field in fields(entry)}
        values = [f"{name} = {_value(value)}" for name, value in given.items() if value != ""]
        text += "\n".join(["", f"[[{_TABLE}]]", *values, ""])
    return _HEADER + text if text else ""


def _value(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return f"{value:.6g}"
    # A basic string of TOML is one of JSON, except that TOML wants this character escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
