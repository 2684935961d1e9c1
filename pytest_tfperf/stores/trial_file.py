"""Recordings on disk: one JSON file for each test, written in one step, read whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import atomic, baseline_file
from pytest_tfperf.stores.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.run import Run

FORMAT: Final = 3
"""1 had neither `conditions` nor `parts`, 2 no `fetches`; both are read all the same."""

KIND: Final = "tfperf trial"
_ROWS = ("baseline", "document")
_NEXT = "record the trial anew with --tfperf-save-trials DIR"


def name_of(recording: Recording, place: int = 0) -> str:
    """The file's name: workload, topology and test, to be read; and eight digits, for no two to be the same.

    Args:
        recording: what it holds.
        place: which of the test's checks it is, from 0.
    """
    test = recording.test.rpartition("::")[2]
    told_apart = f"{recording.machine}\n{recording.test}\n{recording.workload}\n{recording.topology}\n{place}"
    digits = hashlib.sha256(told_apart.encode("utf-8", "replace")).hexdigest()[:8]
    words = [_slug(str(recording.workload), 80), recording.topology, _slug(test, 80), digits]
    return "-".join(word for word in words if word) + ".json"


def check_writable(folder: Path) -> None:
    """Make the folder and write to it once, so that a night does not find out after it has measured.

    Raises:
        TfperfError: it can't be made or written.
    """
    probe = folder / f".probe-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.replace(probe, b"\n")
        probe.unlink()
    except OSError as error:
        raise _unwritable(folder, error) from None


def write(folder: Path, recording: Recording, place: int = 0) -> Path:
    """Put the recording into the folder, in the place of an earlier one of the same check.

    Raises:
        TfperfError: it can't be written.
    """
    path = folder / name_of(recording, place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        atomic.replace(path, render(recording))
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


def render(recording: Recording) -> bytes:
    """The file's bytes; of log files only the names are kept. `parse` gives the recording back."""
    trial = {
        name: [_attempt(attempt) for attempt in attempts]
        for name, attempts in (("attempts", recording.trial.attempts), ("set_aside", recording.trial.set_aside))
    }
    facts = {name: value for name, value in asdict(recording).items() if name not in ("trial", *_ROWS)}
    facts["workload"] = recording.workload.id
    rows = {name: _cells(getattr(recording, name)) for name in _ROWS}
    head = {"kind": KIND, "format": FORMAT} | facts | rows
    lines = [f"{json.dumps(name)}: {json.dumps(plain(value))}" for name, value in head.items()]
    return ("{\n" + ",\n".join([*lines, f'"trial": {_lines_of(trial)}']) + "\n}\n").encode()


def parse(data: bytes, name: str) -> Recording:
    """The recording of a file's bytes.

    Raises:
        TfperfError: cut off, another program's, a newer version's, a field that is missing, unknown or of the wrong
            type, a figure that no measurement gives. Names file, place and next step.
    """
    value = _json(data, name)
    number = value.pop("format", None)
    if value.pop("kind", None) != KIND or type(number) is not int:
        raise TfperfError(f"{name}: no trial of pytest-tfperf: it lacks kind {KIND!r} and a format; {_NEXT}")
    if number > FORMAT:
        raise TfperfError(
            f"{name}: format {number} comes from a newer pytest-tfperf; this one reads formats up to {FORMAT}: "
            "upgrade it"
        )
    if number < 1:
        raise TfperfError(f"{name}: format {number} never was; {_NEXT}")
    try:
        return build(Recording, value | {row: _row(value.get(row), row) for row in _ROWS}, name)
    except TfperfError as error:
        text = str(error)
        raise TfperfError(f"{text if text.startswith(name) else f'{name}: {text}'}; {_NEXT}") from None


def read(path: Path) -> Recording:
    """`parse` a file; raises TfperfError where it can't be read, too."""
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise TfperfError(f"{path} can't be read: {error.strerror}. Give the path of a trial's file") from None


def is_trial(path: Path) -> bool:
    """Whether a file is JSON by its first character, and so no log; False for what can't be read."""
    try:
        with path.open("rb") as file:
            return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
    except OSError:
        return False


def _json(data: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except json.JSONDecodeError as error:
        raise TfperfError(
            f"{name}, line {error.lineno}: cut off or damaged ({error.msg}): restore the file, or {_NEXT}"
        ) from None
    except (ValueError, RecursionError):  # not UTF-8; a number of a million digits; brackets without end
        raise TfperfError(f"{name}: not JSON: restore the file, or {_NEXT}") from None
    if not isinstance(value, dict):
        raise TfperfError(f"{name}: no trial of pytest-tfperf, but a JSON {type(value).__name__}; {_NEXT}")
    return value


def _attempt(attempt: Run) -> Mapping[str, Any]:
    return asdict(attempt) | {"log": Path(attempt.log).name}  # its folder is no one else's business


def _cells(row: Baseline | None) -> dict[str, str] | None:
    return None if row is None else {"machine": row.machine} | baseline_file.to_cells(row)


def _row(cells: object, where: str) -> Baseline | None:
    if cells is None:
        return None
    if not isinstance(cells, dict) or not all(isinstance(cell, str) for cell in cells.values()):
        raise TfperfError(f"{where}: expected a row of baselines, its columns as texts, found {cells!r:.60}")
    if "machine" not in cells:
        raise TfperfError(f"{where}: the field 'machine' is missing")
    try:
        return baseline_file.from_cells({k: v for k, v in cells.items() if k != "machine"}, cells["machine"])
    except TfperfError as error:
        raise TfperfError(f"{where}: {error}") from None


def _lines_of(trial: Mapping[str, list[Mapping[str, Any]]]) -> str:
    """One line for each attempt, so that a diff shows which one differs."""
    parts = []
    for name, attempts in trial.items():
        lines = ",\n".join(json.dumps(plain(attempt)) for attempt in attempts)
        parts.append(f'"{name}": [\n{lines}\n]' if attempts else f'"{name}": []')
    return "{" + ", ".join(parts) + "}"


def _slug(text: str, most: int) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.")[:most].strip("-.")


def _unwritable(path: Path, error: OSError) -> TfperfError:
    return TfperfError(
        f"{path} can't be written: {error.strerror}. Make room or make it writable, or name another folder: "
        "--tfperf-save-trials DIR"
    )
