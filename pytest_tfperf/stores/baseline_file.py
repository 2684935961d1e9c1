"""The form of a baselines file: rows to text, and text to rows or an error that names the line.

One row is one line, so that a diff reads well and a line number says which row is meant. Reading is strict: a file that
was half read would gate against wrong figures, or against none.
"""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.canary import Canaries
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineError, WorkloadError, one_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UNIT: Final = "images/s"
COLUMNS: Final = (
    "workload",
    "topology",
    "reference",
    "lower",
    "upper",
    "unit",
    "runs",
    "spread",
    "prefix",
    "provenance",
    "source",
    "date",
    "gpu",
    "gpu_fp32_tflops",
    "canaries",
    "environment",
    "note",
)
_LATER: Final = ("prefix",)
"""Columns that the rows of older recorded trials lack; a file has all."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_TOPOLOGY = re.compile(r"[1-9]\d{0,5}x[1-9]\d{0,5}", re.ASCII)
_EXAMPLES = {
    "reference": "1612 or 789.51",
    "lower": "-0.05 for 5 %",
    "upper": "0.05 for 5 %",
    "spread": "0.013 for 1.3 %",
    "prefix": "0.004 for 0.4 %",
    "gpu_fp32_tflops": "10.6",
}
_CONFLICT = ("<<<<<<<", "|||||||", "=======", ">>>>>>>")


def parse(data: bytes, machine: str, name: str) -> dict[Key, Baseline]:
    """The rows of a file's bytes.

    Args:
        data: the whole file; a byte order mark and Windows line ends, which spreadsheets add, are accepted.
        machine: whose baselines these are.
        name: the file, for messages.

    Raises:
        BaselineError: anything that is not a whole and unambiguous file; names file and line.
    """
    lines = _lines(data, name)
    rows: dict[Key, Baseline] = {}
    line_of: dict[Key, int] = {}
    header: list[str] = []
    for number, line in enumerate(lines, start=1):
        try:
            if number == 1:
                header = _header(line)
                continue
            row = _row(_cells(line, header), machine)
            if row.key in rows:
                raise BaselineError(
                    f"{row.key.workload} on {row.key.topology} stands on line {line_of[row.key]} already: keep one"
                )
        except (BaselineError, WorkloadError) as error:
            raise BaselineError(f"{name}, line {number}: {error}") from None
        rows[row.key] = row
        line_of[row.key] = number
    return rows


def render(rows: Iterable[Baseline]) -> bytes:
    """The file's bytes for these rows, sorted; `parse` gives the rows back.

    Line breaks within a text become spaces, because one row is one line.

    Raises:
        BaselineError: a row that `parse` would refuse.
    """
    rows = sorted(rows, key=lambda row: (natural(row.key.workload), natural(row.key.topology)))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(to_cells(row).values() for row in rows)
    data = text.getvalue().encode("utf-8", errors="replace")
    for machine in {row.machine for row in rows}:
        parse(data, machine, f"new {machine}.csv")
    return data


def to_cells(row: Baseline) -> dict[str, str]:
    """A row as its columns' texts."""
    return {column: _text(row, column) for column in COLUMNS}


def from_cells(cells: Mapping[str, str], machine: str) -> Baseline:
    """The row that has these columns.

    Raises:
        BaselineError, WorkloadError: a column that is missing or unknown, or a text that can't be its value.
    """
    cells = dict.fromkeys(_LATER, "") | dict(cells)
    _check_columns(list(cells))
    return _row(cells, machine)


def natural(text: str) -> tuple[tuple[str | int, ...], str]:
    """Sorts b64 before b128 and 1x2 before 1x10."""
    parts = re.split(r"([0-9]+)", text)
    return tuple(int(part) if i % 2 else part for i, part in enumerate(parts)), text


def plain(number: float | None) -> str:
    """The shortest text that reads as the same number: 1612, 789.51, -0.05; "" for None."""
    return "" if number is None else repr(number).removesuffix(".0")


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
    if not line.strip():
        raise BaselineError("an empty line: delete it")
    if line.lstrip().startswith("#"):
        raise BaselineError("a comment: delete it; what a reader must know of a row stands in its column note")
    if line.startswith(_CONFLICT):
        raise BaselineError(f"an unfinished merge ({line[:7]}): keep one side of the conflict")
    try:
        cells = next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise BaselineError(f"not a CSV line ({error}): mend its quotes") from None
    if len(cells) == 1 and (separator := next((c for c in ";\t|" if c in line), "")):
        raise BaselineError(f"separator {separator!r}: it is ',': save the file with commas, or restore it with git")
    return cells


def _header(line: str) -> list[str]:
    header = _split(line)
    if not set(header) & set(COLUMNS):
        raise BaselineError(f"no header: the first line must be {','.join(COLUMNS)}")
    _check_columns(header)
    return header


def _check_columns(header: list[str]) -> None:
    missing = [column for column in COLUMNS if column not in header]
    unknown = [column for column in header if column not in COLUMNS]
    if missing:
        raise BaselineError(f"no column {', '.join(missing)}: the first line must name {','.join(COLUMNS)}")
    if unknown:
        raise BaselineError(one_of("column", unknown[0], COLUMNS))
    if len(header) != len(COLUMNS):
        twice = next(column for column in COLUMNS if header.count(column) > 1)
        raise BaselineError(f"column {twice} is there twice: keep one")


def _cells(line: str, header: list[str]) -> Mapping[str, str]:
    cells = _split(line)
    if len(cells) != len(header):
        raise BaselineError(
            f"{len(cells)} fields where the first line names {len(header)}: the line is cut off, "
            "or a text with a comma lacks its quotes"
        )
    return dict(zip(header, cells, strict=True))


def _row(cell: Mapping[str, str], machine: str) -> Baseline:
    if cell["unit"] != UNIT:
        raise BaselineError(f"unit {cell['unit']!r}: a reference is in {UNIT}")
    if cell["provenance"] not in list(Provenance):
        raise BaselineError(one_of("provenance", cell["provenance"], Provenance))
    reference = _number(cell, "reference")
    if reference is None:
        raise BaselineError(f"no reference: write {UNIT}, or delete the row where nothing was measured")
    if not 0 < reference < float("inf"):
        raise BaselineError(
            f"reference {cell['reference']} is no throughput, which is above 0: delete the row, or record it anew with "
            "--update-baselines"
        )
    peak = _number(cell, "gpu_fp32_tflops")
    if peak is not None and not 0 < peak < float("inf"):
        raise BaselineError(f"gpu_fp32_tflops {cell['gpu_fp32_tflops']} is not a rate: leave it empty if not known")
    return Baseline(
        machine=machine,
        key=_key(cell["workload"], cell["topology"]),
        reference=reference,
        lower=_number(cell, "lower"),
        upper=_number(cell, "upper"),
        provenance=Provenance(cell["provenance"]),
        source=cell["source"],
        date=cell["date"],
        runs=_count(cell["runs"]),
        spread=_number(cell, "spread"),
        prefix=_number(cell, "prefix") or 0.0,
        gpu=cell["gpu"],
        gpu_fp32_tflops=peak,
        canaries=Canaries.parse(cell["canaries"]) if cell["canaries"] else None,
        environment=cell["environment"],
        note=cell["note"],
    )


def _key(workload: str, topology: str) -> Key:
    Workload.parse(workload)
    if not _TOPOLOGY.fullmatch(topology):
        raise BaselineError(f"topology {topology!r}: write nodes x devices per node, as in '2x4'")
    return Key(workload, topology)


def _number(cell: Mapping[str, str], column: str) -> float | None:
    text = cell[column]
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise BaselineError(f"{column} {text!r} is not a number: write it plainly, as {_EXAMPLES[column]}")
    return float(text)


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise BaselineError(f"runs {text!r} is not a count: write how many runs the reference rests on")
    return int(text)


def _text(row: Baseline, column: str) -> str:
    match column:
        case "workload" | "topology":
            return str(getattr(row.key, column))
        case "unit":
            return UNIT
        case "reference" | "lower" | "upper" | "runs" | "spread" | "gpu_fp32_tflops":
            return plain(getattr(row, column))
        case "prefix":
            return plain(row.prefix or None)
        case "canaries":
            return str(row.canaries or "")
        case _:
            return re.sub(r"[\r\n]+", " ", str(getattr(row, column)))
