"""Documents in one table of a PostgreSQL server."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.sharing.destination import is_name, portions, require_storable

if TYPE_CHECKING:
    from psycopg import Connection

_HAS_TABLE: Final = "select to_regclass('tfperf_documents')"
# By bytes, so that a prefix is a range of the index, whatever the database's language.
_MAKE_TABLE: Final = """
create table if not exists tfperf_documents (
    name text collate "C" primary key, document bytea not null, added timestamptz not null default now()
)
"""
_LIST: Final = r"select name from tfperf_documents where name like %s"
_SIZES: Final = "select name, octet_length(document) from tfperf_documents where name = any(%b::text[])"
_GET: Final = "select name, document from tfperf_documents where name = any(%b::text[])"
_PUT: Final = """
insert into tfperf_documents (name, document) select * from unnest(%b::text[], %b::bytea[])
on conflict (name) do nothing
"""
_NAMES_AT_ONCE: Final = 1000
_CONNECT_SECONDS: Final = 10
_SILENT_SECONDS = 60.0


class PostgresqlTable:
    """Documents in a table, which the first put makes; a reader may have no right to."""

    def __init__(self, url: HistoryUrl) -> None:
        self._url = url

    def list(self, prefix: str = "v1/") -> Sequence[str]:
        """Return the names that begin with the prefix."""
        from psycopg.errors import UndefinedTable

        pattern = prefix.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") + "%"
        with self._connected() as connection, suppress(UndefinedTable):
            return [name for (name,) in _answer(connection, _LIST, pattern)]
        return []

    def get(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield names and documents in this order, some at a time."""
        from psycopg.errors import UndefinedTable

        with self._connected() as connection, suppress(UndefinedTable):
            for start in range(0, len(names), _NAMES_AT_ONCE):
                asked = [*filter(is_name, names[start : start + _NAMES_AT_ONCE])]
                sizes: dict[str, int] = dict(_answer(connection, _SIZES, asked))
                for portion in portions((name, sizes[name]) for name in asked if name in sizes):
                    documents = dict(_answer(connection, _GET, portion))
                    yield from ((name, documents[name]) for name in portion if name in documents)

    def put(self, documents: Mapping[str, bytes]) -> None:
        """Store the documents, some in a transaction."""
        from psycopg.errors import DuplicateObject, DuplicateTable, UniqueViolation

        require_storable(documents)
        with self._connected() as connection:
            if _answer(connection, _HAS_TABLE) == [(None,)]:
                # Another session makes it at this moment, and PostgreSQL finds out in one of three ways.
                with suppress(DuplicateObject, DuplicateTable, UniqueViolation):
                    _answer(connection, _MAKE_TABLE)
            for portion in portions((name, len(data)) for name, data in documents.items()):
                _answer(connection, _PUT, portion, [documents[name] for name in portion])

    @contextmanager
    def _connected(self) -> Iterator[Connection[Any]]:
        """Open a connection whose statements are a transaction each."""
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError:  # also where psycopg has no libpq
            raise TfperfError(
                f"{self._url}: PostgreSQL's driver is not installed", next_step="pip install 'pytest-tfperf[postgres]'"
            ) from None
        try:
            options: dict[str, Any] = {"connect_timeout": _CONNECT_SECONDS, "application_name": "pytest-tfperf"}
            options |= conninfo_to_dict(self._url.address)
            # A connection pooler may lose prepared statements.
            with psycopg.connect(**options, autocommit=True, prepare_threshold=None) as connection:
                yield connection
        except psycopg.Error as error:
            lines = self._url.without_secrets(str(error)).splitlines()
            why = "; ".join(" ".join(line.split()).rstrip(".?") for line in lines if line.strip())
            raise TfperfError(
                f"{self._url}: the history can't be used: {why}", next_step="Check the server and the URL"
            ) from None


def _answer(connection: Connection[Any], statement: str, *values: object) -> Sequence[tuple[Any, ...]]:
    """Execute a statement and return its rows; a connection that is silent for too long is shut down.

    The driver itself waits forever for an answer over a stalled network. It raises its usual error when the socket is
    shut down.
    """
    with socket.socket(fileno=os.dup(connection.fileno())) as own:

        def end() -> None:
            with suppress(OSError):  # the connection has ended by itself
                own.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(_SILENT_SECONDS, end)
        timer.daemon = True
        timer.start()
        try:
            cursor = connection.cursor(binary=True)
            cursor.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []
        finally:
            timer.cancel()
