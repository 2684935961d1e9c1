"""Dropping the whole measurements of long ago, most of a history; all columns stay.

Kept are the last ones of each test, so that one that has not run for months can still be explained, and those with a
profile, which belong to a baseline. Later verdicts need the columns alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history_rows import MEASUREMENT, unpacked

if TYPE_CHECKING:
    from pytest_tfperf.stores.history_file import HistoryFile

_AT_ONCE: Final = 2000  # in a transaction, which other sessions wait for: a fraction of a second
_KEPT_OF_EACH: Final = 10

_OLD: Final = (
    "from tfperf_measurements m join tfperf_details d on d.measurement = m.number "
    "where made > (select checked from tfperf_history) and made < ? "
    "and exists (select 1 from tfperf_measurements l where l.series = m.series "
    f"and l.is_interleaved = m.is_interleaved and l.made > m.made limit 1 offset {_KEPT_OF_EACH - 1})"
)
"""The whole measurements from before a time that have enough later ones."""


def drop_details(database: HistoryFile, before: datetime, *, most: int | None = None) -> tuple[int, int]:
    """Drop the whole measurements from before a time, oldest first, in several transactions.

    The file notes how far it has got, so that no session looks at a measurement twice. At most `most` are looked at.
    Returns the number of measurements that lost their details, and of those that are old enough and were not looked at.

    Raises:
        TfperfError: the history can't be written; what was dropped before stays dropped.
    """
    end, looked_at, dropped = int(before.timestamp()) * 1_000_000, 0, 0
    while most is None or looked_at < most:
        with database.opened(writes=True) as connection:
            rows = connection.execute(
                f"select number, made, outcome, iif(outcome = '', whole, null) {_OLD} order by made limit {_AT_ONCE}",
                (end,),
            ).fetchall()
            if not rows:
                return dropped, 0
            old = [(number,) for number, _, outcome, whole in rows if outcome or not _has_profile(whole, number)]
            connection.executemany("delete from tfperf_details where measurement = ?", old)
            connection.execute("update tfperf_history set checked = ?", (rows[-1][1],))
        looked_at, dropped = looked_at + len(rows), dropped + len(old)
    with database.opened() as connection:
        ((left,),) = connection.execute(f"select count(*) {_OLD}", (end,))
    return dropped, left


def _has_profile(whole: object, number: int) -> bool:
    """Whether a measurement has the profile of a baseline, or can't be read, and then stays as it is."""
    try:
        return unpacked(whole, f"{MEASUREMENT} {number}").get("profile") is not None
    except (TfperfError, AttributeError):
        return True
