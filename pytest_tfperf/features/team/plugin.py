"""The push of a session's history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.features import hookimpl
from pytest_tfperf.core.history_url import HistoryUrl
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_tfperf.core.session_verdicts import SessionRecord

HISTORY_URL: Final[Setting[HistoryUrl | None]] = Setting(
    name="history_url",
    default=None,
    parse=HistoryUrl,
    help="a team's PostgreSQL server, to which each session sends its history",
    is_option=False,
    is_secret=True,
)
SETTINGS: Final = (HISTORY_URL,)


@hookimpl
def session_ended(settings: Settings, record: SessionRecord) -> list[str]:
    """Send what earlier pushes did not deliver."""
    from pytest_tfperf.features.team.push import push_new

    url = settings.of(HISTORY_URL)
    said = push_new(settings.dir, url) if url is not None and record.keeps_history else ""
    return [said] if said else []
