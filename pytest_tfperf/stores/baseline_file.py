"""The format of a baselines file: rows to text, and text to rows or an error that names the line.

A row is a line, so that a diff is readable and a line number identifies a row. Reading is strict, because people edit
these files: a file that is read in part would judge against wrong figures, and with an absurd number in its row a test
can never fail. `core/baseline.py` refuses what no row can be, provisional baselines included, and `require_plausible`
what a committed row can't be.
"""

from __future__ import annotations

import csv
import io
import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.baseline import Baseline, Key, Provenance, is_unit, require_topology
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.errors import BaselineError, TfperfError, known_names, unknown
from pytest_tfperf.stores.kept import require_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION: Final = 1
"""Of a file that does not say it; a later one has a further, empty column, named `version=2`."""

FIGURE: Final = "figure"
"""A column that only files with rows of other figures than throughputs have."""

COLUMNS: Final = (
    *("workload", "topology", "value", "lower", "upper", "unit", "runs", "between_runs", "provenance", "source"),
    *("date", "gpu", "gpu_fp32_tflops", "lock", "commit", "environment", "note"),
)
_WITH_FIGURES: Final = (*COLUMNS[:2], FIGURE, *COLUMNS[2:])
_NUMBERS: Final = ("value", "lower", "upper", "runs", "between_runs", "gpu_fp32_tflops")
_TEXTS: Final = ("source", "date", "gpu", "lock", "commit", "environment", "note")

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf", re.ASCII)
_WRITTEN: Final = (Provenance.PUBLISHED, Provenance.MEASURED)


MOST_BETWEEN_RUNS: Final = 0.1
"""The largest standard deviation between the runs of a throughput's row; recording refuses from 0.08 on."""

_MOST_OF_A_FIGURE: Final = 1.0
"""The largest of any other figure's row, as a fraction of its value, where this is a time, a rate or memory."""

_MOST_NEAR_ZERO: Final = 1e6
"""The largest where the figure may have any sign, so that its mean may be near 0."""

_MOST_RUNS: Final = 9999
_RATES: Final = (1e-6, 1e21)
_TFLOPS: Final = (0.01, 1000.0)
_FIRST_YEAR: Final = 2000

_LATER = re.compile(r"version=([0-9]{1,9})")
_DATE = re.compile(r"\d{4}(-\d{2})?(-\d{2})?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{7,64}(-dirty)?", re.ASCII)
_LOCK = re.compile(r"[^/]+\.lock\.txt")
_FACT = re.compile(r"[^\s=]+=\S+")
_MARKER = re.compile(rb"^(<{7}|\|{7}|={7}|>{7})( [^\r\n]*)?\r?$", re.MULTILINE)


def parse(data: bytes, machine: str, name: str) -> dict[Key, Baseline]:
    """Parse a file's bytes into its rows.

    Args:
        data: the whole file; a byte order mark and Windows line ends, which spreadsheets add, are accepted.
        machine: the machine of the baselines.
        name: the file, for messages.

    Raises:
        BaselineError: the file is incomplete, ambiguous or implausible; names file and line.
    """
    if merged := merge_line(data):
        raise BaselineError(
            f"{name}, line {merged}: git's merge of this file is unfinished",
            next_step="`tfperf baselines merge` finishes it, with the newer row of each workload",
        )
    rows: dict[Key, Baseline] = {}
    line_of: dict[Key, int] = {}
    header: list[str] = []
    for number, line in enumerate(_lines(data, name), start=1):
        try:
            try:
                cells = next(csv.reader([line], strict=True), [])
            except csv.Error as error:
                raise BaselineError(f"not a CSV line ({error}): correct its quotes") from None
            if number == 1:
                header = _checked_header(cells)
                continue
            if len(cells) != len(header):
                raise BaselineError(
                    f"{len(cells)} fields where the first line names {len(header)}: the line is cut off, or a text "
                    "with a comma lacks its quotes"
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
    """Return a file's bytes for the rows, sorted; line breaks within a text become spaces, so that a row is a line."""
    rows = sorted(rows, key=lambda row: tuple(map(natural, row.key)))
    columns = _WITH_FIGURES if any(row.key.figure for row in rows) else COLUMNS
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(row, column) for column in columns] for row in rows)
    return text.getvalue().encode("utf-8", errors="replace")


def merge_line(data: bytes) -> int:
    """Return the number of the first line with which git marks an unfinished merge; 0 for none."""
    mark = _MARKER.search(data)
    return data.count(b"\n", 0, mark.start()) + 1 if mark else 0


def natural(text: str) -> tuple[tuple[str | int, ...], str]:
    """Return a sort key that puts b64 before b128 and 1x2 before 1x10."""
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
    *lines, rest = text.replace("\r\n", "\n").split("\n")
    if rest:
        raise BaselineError(
            f"{name}, line {len(lines) + 1}: the last line is cut off (no line end): restore the file with git, "
            "or complete the line"
        )
    return lines


def _checked_header(header: list[str]) -> list[str]:
    if unknown_columns := set(header).difference(_WITH_FIGURES):
        for mark in filter(None, map(_LATER.fullmatch, unknown_columns)):
            require_version(int(mark[1]), "this file", newest=VERSION)
        name = min(unknown_columns, key=header.index)
        raise BaselineError(unknown("column", name), next_step=known_names(name, _WITH_FIGURES))
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
    if not cell["value"]:
        what = figure or cell["unit"]
        raise BaselineError(f"no value: write {what}, or delete the row where nothing was measured")
    if not re.fullmatch(r"[0-9]{1,9}", cell["runs"]):
        raise BaselineError(f"runs {cell['runs']!r} is not a count: write how many runs the value rests on")
    parse_subject(cell["workload"])
    require_topology(cell["topology"])
    values: dict[str, Any] = {}
    for column in _NUMBERS:
        text = cell[column]
        if text and not _NUMBER.fullmatch(text):
            raise BaselineError(f"{column} {text!r} is not a number: write digits only, as in 789.51 (0.05 for 5 %)")
        values[column] = float(text) if text else None
    for column in _TEXTS:
        values[column] = cell[column]
    row = Baseline(
        machine=machine,
        key=Key(cell["workload"], cell["topology"], figure),
        provenance=Provenance(cell["provenance"]),
        **values | {"runs": int(cell["runs"]), "unit": unit},
    )
    require_plausible(row)
    return row


def _text(row: Baseline, column: str) -> str:
    if column == "unit" and not row.key.figure:
        return f"{row.unit}/s"
    value = getattr(row.key if column in Key._fields else row, column)
    if column in _NUMBERS:  # the shortest text that reads as the same number: 1612, 789.51, -0.05
        return "" if value is None else repr(value).removesuffix(".0")
    return re.sub(r"[\r\n]+", " ", str(value))


def require_plausible(row: Baseline, today: date | None = None) -> None:
    """Check that the numbers and texts of a committed row make sense, alone and together.

    Args:
        row: a row that is read from a file or will be written.
        today: the date; None for the system's.

    Raises:
        BaselineError: a number or text makes no sense; says what to write.
    """
    _require_reference(row)
    _require_runs(row)
    _require_date(row.date, today or date.today())
    _require_gpu(row)
    if row.provenance is Provenance.PUBLISHED and (row.lock or row.commit or not row.source):
        raise BaselineError("provenance published: name the document in source, and leave lock and commit empty")
    if row.lock and not _LOCK.fullmatch(row.lock):
        raise BaselineError(f"lock {row.lock!r}: write the name of a file beside this one, as in box-1e520b95.lock.txt")
    if row.commit and not _COMMIT.fullmatch(row.commit):
        raise BaselineError(f"commit {row.commit!r}: write the hash that git shows, or nothing; a branch would move")
    _require_environment(row.environment)


def _require_reference(row: Baseline) -> None:
    low, high = _RATES
    size = abs(row.value)
    if size > high or (not row.key.figure and size < low):
        raise BaselineError(f"value {row.value:g} is none that can be measured: correct it, or delete the row")
    if not row.key.figure:
        if not any(map(str.isalpha, row.unit)):
            raise BaselineError(f"unit {row.unit}/s: write the word for what is counted, as in images/s")
        return
    if (figure := Figure(row.key.figure)).is_measured:
        if row.unit != (unit := figure.unit):
            raise BaselineError(f"unit {row.unit!r}: {row.key.figure} is in {unit or 'no unit'}")
        if row.value <= 0:
            raise BaselineError(f"value {row.value:g}: {row.key.figure} is above 0 {unit}".rstrip())


def _require_runs(row: Baseline) -> None:
    if row.runs > _MOST_RUNS:
        raise BaselineError(f"runs {row.runs}: write how many runs the value rests on, {_MOST_RUNS} at most")
    if row.between_runs is None:
        return
    if row.runs == 1:
        raise BaselineError(f"between_runs {row.between_runs:g} of a single run: leave it empty, or correct runs")
    most = MOST_BETWEEN_RUNS
    if row.key.figure:
        is_positive = row.unit == "bytes" or Figure(row.key.figure, unit=row.unit).with_speed
        most = _MOST_OF_A_FIGURE if is_positive and row.value > 0 else _MOST_NEAR_ZERO
    if row.between_runs > most:
        raise BaselineError(
            f"between_runs {row.between_runs:g} is above {most:g}: write the standard deviation between the runs as a "
            "fraction, 0.02 for 2 %"
        )


def _require_date(text: str, today: date) -> None:
    if not text:
        return
    try:
        day = date.fromisoformat((text + "-01-01")[:10]) if _DATE.fullmatch(text) else None
    except ValueError:  # no such day
        day = None
    if day is None or day.year < _FIRST_YEAR:
        raise BaselineError(f"date {text!r}: write the day of the measurement, as in 2026-01-31")
    if day > today + timedelta(days=1):  # in another time zone it may be tomorrow
        raise BaselineError(f"date {text} is in the future: today is {today}")


def _require_gpu(row: Baseline) -> None:
    rate, (low, high) = row.gpu_fp32_tflops, _TFLOPS
    if rate is None:
        return
    if not low <= rate <= high:
        raise BaselineError(f"gpu_fp32_tflops {rate:g}: write one GPU's rate in TFLOP/s, as in 10.6, or nothing")
    if not row.gpu:
        raise BaselineError(f"gpu_fp32_tflops {rate:g} without a gpu: write the GPU's name, or leave both empty")


def _require_environment(text: str) -> None:
    names = set()
    for fact in text.split():
        name = fact.partition("=")[0]
        if not _FACT.fullmatch(fact):
            raise BaselineError(f"environment: {fact!r} must be NAME=VERSION, as in tensorflow=2.21.0 keras=3.15.1")
        if name in names:
            raise BaselineError(f"environment: {name} is given twice: keep one")
        names.add(name)
