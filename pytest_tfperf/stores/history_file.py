"""A history's file: an SQLite database, its tables, and the words of its faults."""

from __future__ import annotations

import os
import secrets
import sqlite3
import sys
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.kept import Damaged, require_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

VERSION: Final = 1
"""The version of the tables; added columns that have a default don't change it."""

TABLES: Final = {
    # One row: the version; the `made` of the last measurement whose age was checked (stores/old_details.py); and the
    # time before which a user deleted everything, so that no pull brings it back.
    "tfperf_history": {
        "version": "integer not null",
        "checked": "integer not null default 0",
        "pruned": "integer not null default 0",
    },
    "tfperf_sessions": {
        "number": "integer primary key",
        "session": "text not null",
        "machine": "text not null",
        "host": "text not null",
        "began": "integer not null",
        "ended": "integer",
    },
    "tfperf_left_out": {"name": "text primary key"},
    "tfperf_environments": {"number": "integer primary key", "facts": "text not null unique"},
    "tfperf_series": {
        "number": "integer primary key",
        "machine": "text not null",
        "test": "text not null",
        "workload": "text not null",
        "topology": "text not null",
        "figure": "text not null",
        "name": "text not null",
        "asked": "text not null",
    },
    "tfperf_measurements": {
        "number": "integer primary key",
        "session": "integer not null",
        "series": "integer not null",
        "environment": "integer not null",
        "made": "integer not null",
        "time": "integer not null",
        "commit": "text not null",
        "outcome": "text not null",
        "workers": "integer not null",
        "seconds": "real not null",
        "gpu": "text not null",
        "is_slowed_on_purpose": "integer not null",
        "is_interleaved": "integer not null",
    },
    # A table of its own: the others would be read through its megabytes.
    "tfperf_details": {"measurement": "integer primary key", "whole": "blob not null"},
    "tfperf_values": {
        "measurement": "integer not null",
        "series": "integer not null",
        "made": "integer not null",
        "value": "real",
        "low": "real",
        "high": "real",
        "unit": "text not null",
        "outcome": "text not null",
        "change": "real",
        "lower": "real",
        "upper": "real",
        "baseline": "real",
        "baseline_date": "text not null",
        "drift": "real not null",
        "rank": "text not null",
        "place": "text not null",
        "runs": "integer not null",
        "of_runs": "text not null",
        "serves": "integer not null",
    },
    "tfperf_session_verdicts": {
        "session": "integer not null",
        "time": "integer not null",
        "kind": "text not null",
        "outcome": "text not null",
        "whole": "blob not null",
    },
}
"""Columns of each table, with their SQLite types; docs/formats.md has the meaning, unit and source of each."""

# Two years of five machines have 730,000 measurements. What concerns one test, session, machine or commit is found by
# an index, in the order of making.
_KEYS: Final = (
    "create unique index tfperf_session on tfperf_sessions (session, machine)",
    "create index tfperf_sessions_of_machine on tfperf_sessions (machine, began)",
    "create unique index tfperf_one_series on tfperf_series (test, machine, workload, topology, figure)",
    "create index tfperf_series_of_machine on tfperf_series (machine, workload, topology, figure)",
    "create index tfperf_made on tfperf_measurements (made)",
    "create index tfperf_of_session on tfperf_measurements (session, made)",
    "create index tfperf_of_test on tfperf_measurements (series, is_interleaved, made)",
    'create index tfperf_of_commit on tfperf_measurements ("commit", made)',
    "create index tfperf_compared on tfperf_measurements (made) where is_interleaved = 1",
    "create index tfperf_values_of on tfperf_values (measurement)",
    "create index tfperf_of_series on tfperf_values (series, made)",
    "create index tfperf_verdicts_of on tfperf_session_verdicts (session)",
)

_VIEW: Final = """
create view tfperf_results as
select datetime(m.time, 'unixepoch') as time, t.session, s.machine, t.host, s.test, s.name, s.workload, s.topology,
  s.figure, v.value, v.low, v.high, v.unit, v.outcome, v.change, v.lower, v.upper, v.baseline, v.runs, v.rank, v.place,
  m."commit", m.is_interleaved
from tfperf_values v join tfperf_measurements m on m.number = v.measurement join tfperf_series s on s.number = v.series
  join tfperf_sessions t on t.number = m.session
"""
"""For people who read the file with SQL: a row for each figure of each measurement."""

_LOCK_SECONDS = 30

# SQLite's primary result codes, which its documentation numbers.
_BUSY, _LOCKED, _READ_ONLY, _DISK, _CORRUPT, _FULL, _NO_ACCESS, _NOT_A_DATABASE = 5, 6, 8, 10, 11, 13, 14, 26
_REASONS: Final = {
    _BUSY: (
        f"another process has held its lock for {_LOCK_SECONDS} s",
        "Wait until that process has ended, or end it",
    ),
    _FULL: ("the disk is full", "Free some space"),
    _READ_ONLY: ("it is read-only for this user", "Correct the permissions of the file and its folder"),
    _NO_ACCESS: ("it can't be opened", "Check that it is a file, and the permissions of its folder"),
    _DISK: ("the disk reports an error", "Check the disk"),
}
_REASONS[_LOCKED] = _REASONS[_BUSY]

# SQLite's write-ahead log, by which no reader waits for a writer, needs memory that all processes share.
_LOCAL_DISKS: Final = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "tmpfs", "ramfs", "overlay")
)


class HistoryFile:
    """A history's file; each connection is new, so that parallel sessions do not block each other.

    SQLite's errors are raised as TfperfError, a damaged file as Damaged.

    Args:
        path: the file, whose folder is made where missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def exists(self) -> bool:
        """Whether the file exists."""
        return self.path.exists()

    def require(self) -> None:
        """Check that there is a history to read.

        Raises:
            TfperfError: there is no file.
        """
        if not self.exists:
            raise TfperfError(f"{self}: no history yet; run pytest first, or name its folder: --history DIR")

    @contextmanager
    def opened(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """Open a connection that reads one state, or one whose writes are on disk when the block ends.

        Where the block raises, its writes are undone.
        """
        with self._worded():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self._connection()) as connection:
                has_tables = self._has_tables(connection)  # first, because another version's file stays as it is
                if writes:
                    _set_journal(connection, self.path)
                if not has_tables:
                    connection.execute("begin immediate")
                    if not self._has_tables(connection):  # another session may have just made them
                        _make_tables(connection)
                    connection.execute("commit")
                connection.execute("begin immediate" if writes else "begin")
                yield connection
                if writes:
                    connection.execute("commit")

    def compact(self) -> None:
        """Return the file's free space to the system."""
        with self._worded(), closing(self._connection()) as connection:
            connection.execute("vacuum")

    def move_aside(self) -> Path | None:
        """Move a damaged file away and return its new path; None where another session has moved it.

        Its journals are moved first, because SQLite would apply them to the next file of that name.
        """
        with suppress(Damaged), self._worded(), closing(self._connection()) as connection:
            if connection.execute("pragma quick_check(1)").fetchone() == ("ok",):
                return None
        end = f".damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        aside = self.path.with_name(f"{self.path.name}{end}")
        for journal in ("-journal", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self.path}{journal}").rename(f"{aside}{journal}")
        try:
            self.path.rename(aside)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._fault(f"it is damaged and can't be moved: {error.strerror}", "Move it away") from error
        return aside

    def _connection(self) -> sqlite3.Connection:
        # In a folder where nothing can be written, SQLite can't make the files by which processes share a log.
        can_share = os.access(self.path.parent, os.W_OK) or Path(f"{self.path}-wal").exists()
        is_fixed = self.exists and not can_share
        address = f"{self.path.absolute().as_uri()}{'?immutable=1' if is_fixed else ''}"
        connection = sqlite3.connect(address, uri=True, timeout=_LOCK_SECONDS, isolation_level=None)
        # A text that is not UTF-8 would end the query of all rows.
        connection.text_factory = lambda text: text.decode("utf-8", "backslashreplace")
        return connection

    def _has_tables(self, connection: sqlite3.Connection) -> bool:
        """Whether the tables exist, in a version that is read here; raises TfperfError for other tables."""
        names = [name for (name,) in connection.execute("select name from sqlite_schema where type = 'table'")]
        if "tfperf_history" not in names:
            if names:
                raise self._fault("its tables are another program's")
            return False
        version = next((version for (version,) in connection.execute("select version from tfperf_history")), None)
        if "tfperf_values" not in names:
            raise self._fault("an unreleased pytest-tfperf wrote it, in a form that is not read any more")
        if version != VERSION:
            otherwise = "name another folder: --tfperf-dir DIR, or --history DIR for tfperf"
            require_version(version, self, newest=VERSION, otherwise=otherwise)
        return True

    @contextmanager
    def _worded(self) -> Iterator[None]:
        """Raise SQLite's error as ours, around all use: it notices a damaged page when it reads it."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (_CORRUPT, _NOT_A_DATABASE):
                raise Damaged(str(self._fault(str(error)))) from error
            raise self._fault(*_REASONS.get(code, (str(error),))) from error
        except OSError as error:  # its folder can't be made
            is_file = isinstance(error, FileExistsError | NotADirectoryError)
            why = "a file is in the place of its folder" if is_file else f"its folder can't be made: {error.strerror}"
            raise self._fault(why, "Move that file away" if is_file else "Make the place writable") from error

    def _fault(self, why: str, next_step: str = "Move the file away") -> TfperfError:
        return TfperfError(
            f"{self}: the history can't be used: {why}",
            next_step=f"{next_step}, or give another folder: --tfperf-dir DIR",
        )


# Rows


def slowly(connection: sqlite3.Connection, query: str, parameters: Sequence[object]) -> Iterator[Any]:
    """Run a query whose rows are used for as long as their reader likes, and keep no session from writing.

    Without a write-ahead log the rows are copied first. The connection can then read another state.
    """
    if connection.execute("pragma journal_mode").fetchone() != ("wal",):
        connection.execute(f"create temp table found as {query}", parameters)
        connection.execute("commit")
        query, parameters = "select * from found", ()
    return connection.execute(query, parameters)


def rows(connection: sqlite3.Connection, table: str, which: str, *parameters: object) -> list[dict[str, Any]]:
    """Return rows of a table by the names of its columns."""
    names = ", ".join(f'"{name}"' for name in TABLES[table])
    found = connection.execute(f"select {names} from {table} where {which}", parameters)
    return [dict(zip(TABLES[table], row, strict=True)) for row in found]


def insert(connection: sqlite3.Connection, table: str, new: Sequence[Mapping[str, Any]], *, otherwise: str = "") -> int:
    """Add rows, which have the same columns, and return how many were added."""
    if not new:
        return 0
    names = ", ".join(f'"{name}"' for name in new[0])
    statement = f"insert {otherwise} into {table} ({names}) values ({', '.join('?' * len(new[0]))})"
    return connection.executemany(statement, [tuple(row.values()) for row in new]).rowcount


def last_number(connection: sqlite3.Connection) -> int:
    """Return the number of the row that was added last."""
    ((number,),) = connection.execute("select last_insert_rowid()")
    return int(number)


def number_of(connection: sqlite3.Connection, table: str, row: Mapping[str, Any], *identity: str) -> int:
    """Return the number of the row that is the same in some columns, which is added where it is new."""
    which = " and ".join(f"{name} = ?" for name in identity)
    for known in rows(connection, table, which, *(row[name] for name in identity)):
        return int(known["number"])
    insert(connection, table, [row])
    return last_number(connection)


def series_number(connection: sqlite3.Connection, row: Mapping[str, Any], made: int) -> int:
    """Return the number of a series, which is added where it is new.

    What its test says of it, its name and what is asked, is that of its latest measurement; `made` is of the one here.
    """
    number = number_of(connection, "tfperf_series", row, "machine", "test", "workload", "topology", "figure")
    said = {"number": number, "name": row["name"], "asked": row["asked"], "made": made}
    latest = "select coalesce(max(made), 0) from tfperf_values where series = :number"
    which = f"number = :number and (name, asked) is not (:name, :asked) and ({latest}) < :made"
    connection.execute(f"update tfperf_series set name = :name, asked = :asked where {which}", said)
    return number


def environment_number(connection: sqlite3.Connection, facts: str) -> int:
    """Return the number of an environment, which is added where it is new."""
    return number_of(connection, "tfperf_environments", {"facts": facts}, "facts")


def _make_tables(connection: sqlite3.Connection) -> None:
    for table, columns in TABLES.items():
        listed = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
        connection.execute(f"create table {table} ({listed})")
    for key in (*_KEYS, _VIEW):
        connection.execute(key)
    connection.execute("insert into tfperf_history (version) values (?)", (VERSION,))


def _set_journal(connection: sqlite3.Connection, path: Path) -> None:
    """Use the write-ahead log on a local disk, and SQLite's older journal where several hosts may share the file."""
    wanted = "wal" if _is_on_a_local_disk(path) else "delete"
    if connection.execute("pragma journal_mode").fetchone() != (wanted,):
        with suppress(sqlite3.OperationalError):  # somebody uses it now; the next writer changes it
            connection.execute(f"pragma journal_mode = {wanted}")


def _is_on_a_local_disk(path: Path) -> bool:
    if not sys.platform.startswith("linux"):
        return True
    try:
        lines = Path("/proc/self/mounts").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    mounts = [line.split()[1:3] for line in lines]
    place = path.parent.resolve()
    under = [(place_of, kind) for place_of, kind in mounts if place.is_relative_to(place_of.replace("\\040", " "))]
    return bool(under) and max(reversed(under), key=lambda mount: len(mount[0]))[1] in _LOCAL_DISKS
