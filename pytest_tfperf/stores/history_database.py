"""A history's database, an SQLite file or a PostgreSQL server: connections, version, and the words of errors."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import cached_property
from operator import methodcaller
from pathlib import Path
from typing import Any, Final

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history_tables import HISTORY, TABLES
from pytest_tfperf.stores.kept import Damaged, require_version
from pytest_tfperf.stores.measurement_file import VERSION

_LOCK_SECONDS = 30
_CONNECT_SECONDS = 10
_SILENT_SECONDS = 60
_MAKES_TABLES = 0x7466_7065_7266  # the number of an advisory lock of PostgreSQL

# The statements that begin a transaction in SQLite: to write, it takes its lock before it reads.
_READS, _WRITES = "begin", "begin immediate"

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


class Database:
    """A history's database; each connection is new, so that parallel sessions do not block each other.

    The driver's errors are raised as TfperfError, a damaged file as Damaged.

    Args:
        place: the SQLite file, whose folder is made where missing; or a server.

    Attributes:
        path: the file; None for a server.
    """

    def __init__(self, place: Path | HistoryUrl) -> None:
        self._place = place
        self.path = place if isinstance(place, Path) else None

    def __str__(self) -> str:
        return str(self._place)

    @property
    def exists(self) -> bool:
        """Whether the file exists; a server is assumed to."""
        return self.path is None or self.path.exists()

    def require(self) -> None:
        """Check that there is a history to read.

        Raises:
            TfperfError: there is no file.
        """
        if not self.exists:
            raise TfperfError(f"{self}: no history yet; run pytest first, or name its folder: --history DIR")

    @contextmanager
    def opened(self, *, writes: bool = False) -> Iterator[Connection]:
        """Open a connection that reads, or one whose writes are on disk when the block ends, or undone where it raises.

        A reader makes no tables on a server, where that may be forbidden.

        Raises:
            TfperfError: also where a server has no history yet.
        """
        with self._worded():
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._engine.connect() as connection:
                # A reader may take any time between two rows.
                waits = writes and self.path is None
                with ended_by_silence(connection, _SILENT_SECONDS) if waits else nullcontext():
                    self._require_tables(connection, writes=writes)
                    connection.rollback()  # the check's own transaction does not write
                    yield connection.execution_options(tfperf_begin=_WRITES if writes else _READS)
                    if writes:
                        connection.commit()

    def compact(self) -> None:
        """Return an SQLite file's free space to the system; a server does so by itself."""
        if self.path is not None:
            with self._worded(), self._engine.connect() as connection:
                connection.execution_options(tfperf_begin="").execute(text("vacuum"))

    def move_aside(self) -> Path | None:
        """Move a damaged file away and return its new path; None where another session has moved it.

        Its journal is moved first, because SQLite would apply it to the next file of that name.
        """
        path = self.path
        if path is None or not self._is_damaged():
            return None
        aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}")
        with suppress(FileNotFoundError):
            path.with_name(f"{path.name}-journal").rename(aside.with_name(f"{aside.name}-journal"))
        try:
            path.rename(aside)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._fault(f"it is damaged and can't be moved: {error.strerror}", "Move it away") from error
        return aside

    def _is_damaged(self) -> bool:
        try:
            with self._worded(), self._engine.connect() as connection:
                return bool(connection.scalar(text("pragma quick_check(1)")) != "ok")
        except Damaged:
            return True

    @cached_property
    def _engine(self) -> Engine:
        if isinstance(self._place, HistoryUrl):
            return _server_engine(self._place)
        engine = create_engine(
            URL.create("sqlite", database=str(self._place)),
            poolclass=NullPool,
            connect_args={"timeout": _LOCK_SECONDS, "isolation_level": None},
        )
        # The driver itself would begin a transaction late, and none for reads. SQLite keeps its default journal, which
        # also works on network file systems, unlike the write-ahead log.
        event.listen(engine, "begin", _begin)
        event.listen(engine, "connect", _decode_any_text)
        return engine

    def _require_tables(self, connection: Connection, *, writes: bool) -> None:
        if inspect(connection).has_table(HISTORY.name):
            version = connection.scalar(select(HISTORY.c.version))
        elif self.path is not None and inspect(connection).get_table_names():
            raise self._fault("its tables are another program's")
        elif writes or self.path is not None:
            version = self._make_tables(connection)
        else:
            raise TfperfError(f"{self}: no history yet; send one: tfperf history push")
        if version != VERSION:
            instead = "another folder: --tfperf-dir DIR, or --history DIR for tfperf" if self.path else "another server"
            require_version(version, self, newest=VERSION, otherwise=f"name {instead}")

    def _make_tables(self, connection: Connection) -> int | None:
        """Make the missing tables in a transaction of its own, and return their version.

        The caller's transaction ends, because it holds no write lock.
        """
        connection.rollback()
        connection = connection.execution_options(tfperf_begin=_WRITES)
        if self.path is None:
            connection.execute(text(f"select pg_advisory_xact_lock({_MAKES_TABLES})"))
        is_new = not inspect(connection).has_table(HISTORY.name)  # another session may have just made it
        TABLES.create_all(connection)
        if is_new:
            connection.execute(HISTORY.insert().values(version=VERSION, id=secrets.token_hex(16)))
        version = connection.scalar(select(HISTORY.c.version))
        connection.commit()
        return version

    @contextmanager
    def _worded(self) -> Iterator[None]:
        """Raise a driver's error as ours, around all use: SQLite notices a damaged page when it reads it."""
        try:
            yield
        except (OSError, SQLAlchemyError) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            if isinstance(self._place, HistoryUrl):
                lines = self._place.without_secrets(str(cause)).splitlines()
                why = "; ".join(" ".join(line.split()).rstrip(".?") for line in lines if line.strip())
                raise TfperfError(
                    f"{self}: the history can't be used: {why}", next_step="Check the server and the URL"
                ) from None
            code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
            if code in (_CORRUPT, _NOT_A_DATABASE):
                raise Damaged(str(self._fault(str(cause)))) from error
            if isinstance(cause, OSError):  # its folder can't be made
                is_file = isinstance(cause, FileExistsError | NotADirectoryError)
                why = (
                    "a file is in the place of its folder" if is_file else f"its folder can't be made: {cause.strerror}"
                )
                raise self._fault(why, "Move that file away" if is_file else "Make the place writable") from error
            raise self._fault(*_REASONS.get(code, (str(cause),))) from error

    def _fault(self, why: str, next_step: str = "Move the file away") -> TfperfError:
        return TfperfError(
            f"{self}: the history can't be used: {why}",
            next_step=f"{next_step}, or give another folder: --tfperf-dir DIR",
        )


def _decode_any_text(connection: Any, _: object) -> None:
    # A text that is not UTF-8 would end the query of all rows.
    connection.text_factory = methodcaller("decode", "utf-8", "backslashreplace")


def _begin(connection: Connection) -> None:
    if statement := connection.get_execution_options().get("tfperf_begin", _READS):
        connection.exec_driver_sql(statement)


def _server_engine(url: HistoryUrl) -> Engine:
    target = make_url(url.secret).set(drivername="postgresql+psycopg")
    try:
        return create_engine(
            target.difference_update_query(()).update_query_dict(
                {"connect_timeout": str(_CONNECT_SECONDS), "application_name": "pytest-tfperf", **target.query}
            ),
            poolclass=NullPool,
            connect_args={"prepare_threshold": None},  # a connection pooler may lose prepared statements
        )
    except ModuleNotFoundError as error:
        raise TfperfError(f"{url}: PostgreSQL's driver is not installed: pip install 'psycopg[binary]'") from error


@contextmanager
def ended_by_silence(connection: Connection, seconds: float) -> Iterator[None]:
    """Shut a PostgreSQL connection down when no further statement begins for this many seconds.

    The driver itself waits forever for an answer over a stalled network. It raises its usual error when the socket is
    shut down.
    """
    driver: Any = connection.connection.driver_connection
    timers: list[threading.Timer] = []
    with socket.socket(fileno=os.dup(driver.pgconn.socket)) as own:

        def end() -> None:
            with suppress(OSError):  # the connection has ended by itself
                own.shutdown(socket.SHUT_RDWR)

        def restart(*_: object) -> None:
            while timers:
                timers.pop().cancel()
            timers.append(threading.Timer(seconds, end))
            timers[0].daemon = True
            timers[0].start()

        event.listen(connection, "before_cursor_execute", restart)
        restart()
        try:
            yield
        finally:
            timers.pop().cancel()
