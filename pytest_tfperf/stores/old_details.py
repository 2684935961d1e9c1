"""Dropping the whole measurements of long ago, most of a history; all columns stay.

Kept are those that a later verdict, report or session may still need: the last ones of each workload (a provisional
baseline's environment), the last one of each figure (how it is judged), and those with a profile (of a baseline).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Select, bindparam, exists, func, select, update

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history_queries import as_it_is
from pytest_tfperf.stores.history_rows import DROPPED, unpacked
from pytest_tfperf.stores.history_tables import FIGURES, HISTORY, MEASUREMENTS

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from pytest_tfperf.stores.history_database import Database

_AT_ONCE: Final = 2000  # in a transaction, which other sessions wait for: a fraction of a second
_KEPT_OF_EACH_KEY: Final = 10
_M: Final = MEASUREMENTS.c
_Key: TypeAlias = tuple[str, str, str, bool]
_KEY: Final = ("machine", "workload", "topology", "is_interleaved")


def drop_details(database: Database, before: datetime, *, most: int | None = None) -> tuple[int, int]:
    """Drop the whole measurements from before a time, oldest first, in several transactions.

    A file notes how far it has got, so that no session looks at a measurement twice. At most `most` are looked at.
    Returns the number of measurements that lost their details, and of those that are old enough and were not looked at.

    Raises:
        TfperfError: the history can't be written; what was dropped before stays dropped.
    """
    end, looked_at, dropped = round(before.timestamp() * 1e6), 0, 0
    after: int | None = None
    last: Mapping[_Key, int] | None = None
    while most is None or looked_at < most:
        with database.opened(writes=True) as connection:
            if after is None:
                noted = connection.scalar(select(HISTORY.c.details_from)) if database.path is not None else None
                after = noted or 0  # a server is looked at from its beginning
            rows = connection.execute(_old(after, end).order_by(_M.made).limit(_AT_ONCE)).all()
            if not rows:
                return dropped, 0
            if last is None or database.path is not None:
                last = _last_to_drop(connection, rows, in_file=database.path is not None)
            ids = list(_droppable(connection, rows, last))
            connection.execute(update(MEASUREMENTS).where(_M.id.in_(ids)).values(whole=DROPPED))
            after = rows[-1].made
            if database.path is not None:
                connection.execute(update(HISTORY).values(details_from=after))
        looked_at, dropped = looked_at + len(rows), dropped + len(ids)
    with database.opened() as connection:
        left = connection.scalar(select(func.count()).select_from(_old(after or 0, end).subquery()))
    return dropped, left or 0


def _old(after: int, end: int) -> Select[Any]:
    """Select the measurements made between two times that still are whole."""
    columns = select(_M.id, _M.made, _M.outcome, _M.machine, _M.workload, _M.topology, _M.is_interleaved)
    return columns.where(_M.made > after, _M.made < end, func.length(_M.whole) > len(DROPPED))


def _droppable(connection: Connection, rows: Sequence[Row[Any]], last: Mapping[_Key, int]) -> Iterator[str]:
    """Yield the ids of measurements that nothing needs any more; `last` has `made` of the last to drop of each key."""
    of_figures = set(connection.scalars(_last_of_a_figure([row.id for row in rows])))
    for row in rows:
        is_last = row.made > last.get(_key_of(row), 0)
        if not (is_last or row.id in of_figures or (row.outcome is None and _has_profile(connection, row.id))):
            yield row.id


def _key_of(row: Row[Any]) -> _Key:
    return row.machine, row.workload, row.topology, row.is_interleaved


def _last_to_drop(connection: Connection, rows: Iterable[Row[Any]], *, in_file: bool) -> dict[_Key, int]:
    """Return `made` of the last measurement of each key that has enough later ones to be dropped."""
    columns = [_M[name] for name in _KEY]
    if not in_file:  # a server has no index for this, and looks at all of its measurements at once
        nth = func.row_number().over(partition_by=columns, order_by=_M.made.desc()).label("nth")
        ranked = select(*columns, _M.made, nth).subquery()
        of_server = connection.execute(select(ranked).where(ranked.c.nth == _KEPT_OF_EACH_KEY + 1))
        return {_key_of(row): row.made for row in of_server}
    of_key = select(_M.made).where(*(_M[name] == bindparam(name) for name in _KEY))
    query = of_key.order_by(_M.made.desc()).offset(_KEPT_OF_EACH_KEY).limit(1)
    keys = set(map(_key_of, rows))
    found = {key: connection.scalar(query, dict(zip(_KEY, key, strict=True))) for key in keys}
    return {key: made for key, made in found.items() if made is not None}


def _last_of_a_figure(ids: Sequence[str]) -> Select[Any]:
    """Select those of the measurements that are the last with one of their figures."""
    later = FIGURES.alias()
    series = [later.c[name] == FIGURES.c[name] for name in ("test", "figure", "machine", "workload", "topology")]
    is_last = ~exists().where(*series, later.c.made > FIGURES.c.made)
    return select(FIGURES.c.measurement).where(FIGURES.c.measurement.in_(ids), is_last)


def _has_profile(connection: Connection, id: str) -> bool:
    """Whether a measurement has the profile of a baseline, or can't be read, and then stays as it is."""
    whole = connection.execute(select(as_it_is(_M.whole)).where(_M.id == id)).scalar_one()
    try:
        return unpacked(whole, id).get("profile") is not None
    except (TfperfError, AttributeError):
        return True
