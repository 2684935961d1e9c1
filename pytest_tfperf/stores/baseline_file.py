"""The format of a baselines file: rows to text, and text to rows or an error that names the line.

One row is one line, so that a diff is readable and a line number identifies a row. Reading is strict, because a file
that is read in part would judge against wrong figures.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.baseline import Baseline, Key, Provenance, is_unit, require_topology
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.errors import BaselineError, TfperfError, known_names, unknown
from pytest_tfperf.stores.committed_row import require_plausible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIGURE: Final = "figure"
"""A column that only files with rows of figures have, so that all others are what they were before figures came."""

COLUMNS: Final = (
    *("workload", "topology", "reference", "lower", "upper", "unit", "runs", "between_runs", "provenance", "source"),
    *("date", "gpu", "gpu_fp32_tflops", "lock", "commit", "environment", "note"),
)
_WITH_FIGURES: Final = (*COLUMNS[:2], FIGURE, *COLUMNS[2:])
_NUMBERS: Final = ("reference", "lower", "upper", "runs", "between_runs", "gpu_fp32_tflops")
_TEXTS: Final = ("source", "date", "gpu", "lock", "commit", "environment", "note")

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_WRITTEN: Final = (Provenance.PUBLISHED, Provenance.MEASURED)


def parse(data: bytes, machine: str, name: str) -> dict[Key, Baseline]:
    """The rows of a file's bytes.

    Args:
        data: the whole file; a byte order mark and Windows line ends, which spreadsheets add, are accepted.
        machine: whose baselines these are.
        name: the file, for messages.

    Raises:
        BaselineError: anything that is not a whole and unambiguous file; names file and line.
    """
    rows: dict[Key, Baseline] = {}
    line_of: dict[Key, int] = {}
    header: list[str] = []
    for number, line in enumerate(_lines(data, name), start=1):
        try:
            cells = _split(line)
            if number == 1:
                header = _checked_header(cells)
                continue
            if len(cells) != len(header):
                raise BaselineError(
                    f"{len(cells)} fields where the first line names {len(header)}: the line is cut off, a text with a "
                    "comma lacks its quotes, or a merge is unfinished"
                )
            row = _row(dict(zip(header, cells, strict=True)), machine)
            if row.key in rows:
                raise BaselineError(
                    f"{' '.join(filter(None, row.key))} is on line {line_of[row.key]} already: keep one"
                )
        except TfperfError as error:
            raise error.of_type(BaselineError).at(f"{name}, line {number}") from None
        rows[row.key] = row
        line_of[row.key] = number
    return rows


def render(rows: Iterable[Baseline]) -> bytes:
    """The file's bytes for these rows, sorted; line breaks within a text become spaces, so that a row is a line."""
    rows = sorted(rows, key=lambda row: tuple(map(natural, row.key)))
    columns = _WITH_FIGURES if any(row.key.figure for row in rows) else COLUMNS
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(row, column) for column in columns] for row in rows)
    return text.getvalue().encode("utf-8", errors="replace")


def natural(text: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key that puts b64 before b128 and 1x2 before 1x10."""
    parts = re.split(r"([0-9]+)", text)
    return tuple(int(part) if i % 2 else part for i, part in enumerate(parts)), text


def _lines(data: bytes, name: str) -> list[str]:
    if not data.strip():
        raise BaselineError(f"{name}, line 1: the file is empty: delete it, or restore it with git")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BaselineError(f"{name}, line {line}: not UTF-8: save the file as UTF-8, or restore it with git") from None
    *lines, rest = text.split("\n")
    if rest:
        raise BaselineError(
            f"{name}, line {len(lines) + 1}: the last line is cut off (no line end): restore the file with git, "
            "or complete the line"
        )
    return [line.removesuffix("\r") for line in lines]


def _split(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise BaselineError(f"not a CSV line ({error}): correct its quotes") from None


def _checked_header(header: list[str]) -> list[str]:
    if others := [column for column in header if column not in _WITH_FIGURES]:
        raise BaselineError(unknown("column", others[0]), next_step=known_names(others[0], _WITH_FIGURES))
    if sorted(header) not in (sorted(COLUMNS), sorted(_WITH_FIGURES)):
        raise BaselineError(f"the first line must name each of these columns once: {','.join(COLUMNS)}")
    return header


def _row(cell: Mapping[str, str], machine: str) -> Baseline:
    figure = cell.get(FIGURE, "")
    unit, per_second = (cell["unit"], "/s") if figure else (cell["unit"][:-2], cell["unit"][-2:])
    if not figure and (per_second != "/s" or not is_unit(unit)):
        raise BaselineError(f"unit {cell['unit']!r}: write what is counted in a second, as in images/s or tokens/s")
    if cell["provenance"] not in _WRITTEN:
        given = cell["provenance"]
        raise BaselineError(unknown("provenance", given), next_step=known_names(given, _WRITTEN))
    if not cell["reference"]:
        what = figure or cell["unit"]
        raise BaselineError(f"no reference: write {what}, or delete the row where nothing was measured")
    if not re.fullmatch(r"[0-9]{1,9}", cell["runs"]):
        raise BaselineError(f"runs {cell['runs']!r} is not a count: write how many runs the reference rests on")
    numbers = {column: _number(cell, column) for column in _NUMBERS}
    parse_subject(cell["workload"])
    require_topology(cell["topology"])
    values: dict[str, Any] = numbers | {column: cell[column] for column in _TEXTS}
    row = Baseline(
        machine=machine,
        key=Key(cell["workload"], cell["topology"], figure),
        provenance=Provenance(cell["provenance"]),
        **values | {"runs": int(cell["runs"]), "unit": unit},
    )
    require_plausible(row)
    return row


def _number(cell: Mapping[str, str], column: str) -> float | None:
    text = cell[column]
    if text and not _NUMBER.fullmatch(text):
        raise BaselineError(f"{column} {text!r} is not a number: write digits only, as in 789.51 (0.05 for 5 %)")
    return float(text) if text else None


def _text(row: Baseline, column: str) -> str:
    if column == "unit" and not row.key.figure:
        return f"{row.unit}/s"
    value = getattr(row.key if column in Key._fields else row, column)
    if column in _NUMBERS:  # the shortest text that reads as the same number: 1612, 789.51, -0.05
        return "" if value is None else repr(value).removesuffix(".0")
    return re.sub(r"[\r\n]+", " ", str(value))
