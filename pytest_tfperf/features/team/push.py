"""Sending a local history to a team's server: rows that the server lacks or has in an older version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from pytest_tfperf.stores.history_tables import FIGURES, HISTORY, MEASUREMENTS, PUSHED, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection, Table

    from pytest_tfperf.stores.history_database import Database

_RowStub = Any  # a row with `id`, `made` and `size` only

_COMPARED_AT_ONCE: Final = 1000  # ids
_FIGURE_BYTES: Final = 500
_BYTES_AT_ONCE: Final = 500_000  # in a transaction: a session can send so much over a slow network in its 5 s


def push(local: Database, server: Database, *, only_new: bool) -> int:
    """Send the rows that the server lacks, or has in an older version, and return the number of measurements sent.

    Rows that have arrived stay, even if a later step fails. Missing tables of the server are made. With `only_new`,
    rows that earlier pushes delivered are left out, without asking the server for them.

    Raises:
        TfperfError: there is no local history, or one of the two can't be used.
    """
    # The local file is never open while the server is waited for: a server that stalls must block no session.
    local.require()
    with server.opened(writes=True) as remote:
        server_id: str = remote.execute(select(HISTORY.c.id)).scalar_one()
        remote.commit()
        measurements = _push_table(MEASUREMENTS, local, remote, server_id, only_new=only_new)
        for table in (VERDICTS, FIGURES):
            _push_table(table, local, remote, server_id, only_new=only_new)
    return measurements


def _push_table(table: Table, local: Database, remote: Connection, server_id: str, *, only_new: bool) -> int:
    sent, mark = 0, _mark(local, server_id, table) if only_new else 0
    for rows in _row_stubs(local, table, mark):
        for portion in _portions(_lacking(table, remote, rows)):
            sent += _send(table, local, remote, portion)
        _set_mark(local, server_id, table, rows[-1].made)
    return sent


def _row_stubs(local: Database, table: Table, mark: int) -> Iterator[Sequence[_RowStub]]:
    """Yield the rows made after a mark, in order of making, some at a time."""
    while True:
        with local.opened() as connection:
            # A row of a figure has a few short columns, and no column `whole`.
            size = (func.length(table.c.whole) if "whole" in table.c else literal(_FIGURE_BYTES)).label("size")
            query = select(table.c.id, table.c.made, size).where(table.c.made > mark).order_by(table.c.made)
            rows = connection.execute(query.limit(_COMPARED_AT_ONCE)).all()
        if not rows:
            return
        yield rows
        mark = rows[-1].made


def _lacking(table: Table, remote: Connection, rows: Sequence[_RowStub]) -> list[_RowStub]:
    """Return the rows that the server does not have, or has in a version without the measurement's latest run."""
    query = select(table.c.id, table.c.made).where(table.c.id.in_([row.id for row in rows]))
    known = {row.id: row.made for row in remote.execute(query)}
    remote.commit()
    return [row for row in rows if known.get(row.id, -1) < row.made]


def _portions(rows: Sequence[_RowStub]) -> Iterator[list[str]]:
    """Yield the ids of the rows for each transaction."""
    portion: list[str] = []
    size = 0
    for row in rows:
        if portion and size + row.size > _BYTES_AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(row.id)
        size += row.size
    if portion:
        yield portion


def _send(table: Table, local: Database, remote: Connection, ids: Sequence[str]) -> int:
    with local.opened() as connection:
        rows = connection.execute(select(table).where(table.c.id.in_(ids)).order_by(table.c.made)).mappings().all()
    adding = postgresql.insert(table)
    # Another machine may send the same measurement, or an older version of it, at this moment.
    newer = adding.excluded.made > table.c.made
    others = {column.name: adding.excluded[column.name] for column in table.columns if column.name != "id"}
    remote.execute(
        adding.on_conflict_do_update(index_elements=[table.c.id], set_=others, where=newer), [dict(row) for row in rows]
    )
    remote.commit()
    return len(rows)


def _mark(local: Database, server_id: str, table: Table) -> int:
    with local.opened() as connection:
        query = select(PUSHED.c.made).where(PUSHED.c.server == server_id, PUSHED.c.kind == table.name)
        return connection.scalar(query) or 0


def _set_mark(local: Database, server_id: str, table: Table, made: int) -> None:
    adding = sqlite.insert(PUSHED).values(server=server_id, kind=table.name, made=made)
    with local.opened(writes=True) as connection:
        connection.execute(adding.on_conflict_do_update(index_elements=["server", "kind"], set_={"made": made}))
