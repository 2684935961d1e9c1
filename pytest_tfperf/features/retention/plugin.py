"""Dropping what is too old at the end of a session."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core.setting import Setting

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.session_verdicts import SessionResult

_ALL: Final = "all"


def _days(text: str) -> float:
    if text == _ALL:
        return math.inf
    with suppress(ValueError):
        if (days := int(text)) >= 1:
            return days
    raise ValueError(f"must be a whole number of days, 1 or more, or {_ALL}")


DETAILS_DAYS: Final[Setting[float]] = Setting(
    name="details_days",
    default=90,
    parse=_days,
    help=f"days that the history keeps whole measurements, whose figures stay until pruned; {_ALL} keeps all of them",
    is_option=False,
)

MOST_IN_A_SESSION: Final = 10_000
"""Measurements whose details a session drops, in a second or two, so that the first of a large history is not slow."""


def session_ended(session: Session, result: SessionResult) -> list[str]:
    """Drop the details of some measurements that are old enough."""
    days = session.settings.of(DETAILS_DAYS)
    if not result.keeps_history or not result.results or math.isinf(days):
        return []
    from pytest_tfperf.reports.numbers import counted
    from pytest_tfperf.stores.old_details import drop_details

    database = session.history.database
    dropped, left = drop_details(database, datetime.now(UTC) - timedelta(days=days), most=MOST_IN_A_SESSION)
    if not dropped:
        return []
    rest = f"; {left:,} are left to the next sessions, or to tfperf history prune --details {days}d" if left else ""
    return [
        f"history: dropped the details of {counted(dropped, 'measurement')} older than {days} days, whose "
        f"figures stay (tfperf_details_days){rest}"
    ]


FEATURE: Final = Feature(
    settings=(DETAILS_DAYS,),
    asked=lambda _: True,  # a history grows without being asked
    session_ended=session_ended,
)
