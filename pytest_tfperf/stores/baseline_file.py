"""Baselines on disk: a CSV for each machine, read whole or not at all, written atomically under a lock.

A row is a line, so that a diff is readable and a line number identifies a row. Reading is strict, because people edit
these files: a file that is read in part would judge against wrong figures, and with an absurd number in its row a test
can never fail.
"""

from __future__ import annotations

import csv
import io
import os
import re
import time
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, final

from pytest_tfperf.core.baseline import (
    Baseline,
    BaselineUpdate,
    Key,
    Provenance,
    is_unit,
    require_plausible,
    require_topology,
)
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.topology import check_name, is_name
from pytest_tfperf.errors import BaselineError, TfperfError, known_names, unknown, worded
from pytest_tfperf.stores import files
from pytest_tfperf.stores.kept import require_version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

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

_LATER = re.compile(r"version=([0-9]{1,9})")
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


_PACKAGE: Final = Path(__file__).parents[1]
# The documents' baselines: `published/` in an installed wheel, `baselines/` in a checkout.
_PUBLISHED: Final = next((f for f in (_PACKAGE / "published", _PACKAGE.parent / "baselines") if f.is_dir()), None)

_WAY_OUT: Final = (
    "Make it writable, or name another folder with --tfperf-baselines=DIR (or the ini value tfperf_baselines)"
)


@final
class BaselineStore:
    """The user's folder of baselines, over the published ones that ship with the package.

    Args:
        folder: where `update` writes; it need not exist before.
        published: a read-only folder, whose published rows alone count; None for no such folder.
    """

    def __init__(self, folder: Path, published: Path | None = _PUBLISHED) -> None:
        self.folder = folder
        self._folders = [folder] if published is None else [published, folder]
        self._locked = False
        self._read: dict[Path, tuple[tuple[int, ...], dict[Key, Baseline]]] = {}

    def load(self, machine: str) -> dict[Key, Baseline]:
        """Return a machine's throughputs by key, none for an unknown machine; a user's row replaces the shipped row.

        Raises:
            BaselineError: a name that can't be a machine's, or a file that can't be read whole; names file and line.
        """
        return self._load(machine, of_figures=False)

    def figures(self, machine: str) -> dict[Key, Baseline]:
        """Return a machine's rows of figures beside the throughput, by key.

        Raises:
            BaselineError: as `load`.
        """
        return self._load(machine, of_figures=True)

    def _load(self, machine: str, *, of_figures: bool) -> dict[Key, Baseline]:
        rows: dict[Key, Baseline] = {}
        for folder in self._folders:
            rows |= self._rows(folder, machine)
        return {key: row for key, row in rows.items() if bool(key.figure) is of_figures}

    def machines(self) -> list[str]:
        """Return the machines that have a file, published ones included."""
        names = {file.stem for folder in self._folders for file in folder.glob("*.csv")}
        return sorted(filter(is_name, names), key=natural)

    def published(self, like: Key | None = None) -> list[Baseline]:
        """Return the published rows of all machines with a key, or all, even where a measured row has the same key.

        Files that can't be read are ignored: another machine's file must not cost this machine its verdict.
        """
        published: dict[tuple[str, Key], Baseline] = {}
        for folder in self._folders:
            for file in sorted(folder.glob("*.csv"), key=lambda file: natural(file.stem)):
                with suppress(BaselineError):
                    for row in self._rows(folder, file.stem).values():
                        if not (row.is_measured or row.key.figure) and like in (None, row.key):
                            published[row.machine, row.key] = row
        return list(published.values())

    def update(
        self, machine: str, rows: Mapping[Key, Baseline], without: Collection[Key] = ()
    ) -> tuple[BaselineUpdate, ...]:
        """Write rows into the machine's file, whose other rows stay but those `without`, and return the changes.

        Takes the lock for the moment where the session does not hold it.

        Raises:
            BaselineError: the file can't be read whole or written, or another session holds the lock; nothing is lost.
        """
        check_name(machine)
        assert all(row.key == key and row.machine == machine for key, row in rows.items())
        path = self.folder / f"{machine}.csv"
        with nullcontext() if self._locked else self.lock():
            before = self.load(machine) | self.figures(machine)
            kept = {key: row for key, row in self._rows(self.folder, machine).items() if key not in without}
            self._write(path, (kept | dict(rows)).values())
        return tuple(BaselineUpdate(before.get(key), row) for key, row in rows.items())

    def rewrite(self, machine: str, rows: Iterable[Baseline]) -> None:
        """Write a machine's file anew, whatever it holds now, with these rows alone; delete it where there are none.

        Raises:
            BaselineError: the file can't be written, or another session holds the lock; nothing is lost.
        """
        check_name(machine)
        with self.lock():
            self._write(self.folder / f"{machine}.csv", rows)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Make the folder, and keep other sessions from updating it until the block ends or the process dies.

        Raises:
            BaselineError: another session holds the lock (names it), or the folder can't be written.
        """
        path = self.folder / ".lock"
        with self._acquired(path):
            self._locked = True
            try:
                yield
            finally:
                self._locked = False
                path.unlink(missing_ok=True)

    def _acquired(self, path: Path) -> IO[str]:
        """Return the open lock file, locked."""
        while True:
            with worded(self.folder, "written", _WAY_OUT, kind=BaselineError):
                self.folder.mkdir(parents=True, exist_ok=True)
            with worded(path, "written", _WAY_OUT, kind=BaselineError):
                file = open(path, "a+", encoding="utf-8", opener=_without_links)  # noqa: SIM115  # the caller closes it
                try:
                    _acquire(file, self.folder)
                except BaseException:
                    with suppress(OSError):  # a full disk: closing tries to write the rest again
                        file.close()
                    raise
            if os.fstat(file.fileno()).st_nlink:  # else the session before has just deleted it
                return file
            file.close()

    def _write(self, path: Path, rows: Iterable[Baseline]) -> None:
        rows = list(rows)
        with worded(path, "written", _WAY_OUT, kind=BaselineError):
            if rows:
                files.replace(path, render(rows))
            else:
                path.unlink(missing_ok=True)

    def _rows(self, folder: Path, machine: str) -> dict[Key, Baseline]:
        """Return the rows of a file that count; it is parsed again only where it has changed."""
        check_name(machine)
        path = folder / f"{machine}.csv"
        with worded(path, "read", "Repair it, or name another folder", kind=BaselineError):
            try:
                status = path.stat()
            except FileNotFoundError:
                return {}
            version = (status.st_ino, status.st_size, status.st_mtime_ns)
            if path not in self._read or self._read[path][0] != version:
                self._read[path] = (version, parse(path.read_bytes(), machine, str(path)))
        rows = self._read[path][1]
        if folder == self.folder:
            return rows
        return {key: row for key, row in rows.items() if not row.is_measured}


def _acquire(file: IO[str], folder: Path) -> None:
    """Lock the open file and write the owner into it; closing the file or the end of the process releases the lock."""
    import fcntl  # not at the top: Windows has none, and tests there import our types

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
        file.write(f"pid {os.getpid()} on {os.uname().nodename} since {time.strftime('%Y-%m-%d %H:%M:%S')}")
        file.flush()
    except BlockingIOError:
        file.seek(0)
        raise BaselineError(
            f"{folder}: another session updates these baselines ({file.read()})",
            next_step="Wait for it to end, or end it: the lock goes with its process",
        ) from None


def _without_links(path: str, flags: int) -> int:
    """Open a file, but not one that a link names: its owner would be written into another file."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)
