"""A history as a pandas DataFrame, for users."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pytest_tfperf.core.history_url import HistoryUrl, is_url
from pytest_tfperf.stores.history import History

if TYPE_CHECKING:
    import pandas

    from pytest_tfperf.stores.history_queries import Filters


def load_history(place: str | Path = ".tfperf", **wanted: Unpack[Filters]) -> pandas.DataFrame:
    """What was measured, a row for each measurement, in the order in which they were made.

    Columns: as `History.frame`, with `time` as times in UTC. Rows that can't be read are left out, with a warning.

    Args:
        place: the folder of a history, as in `--tfperf-dir`, or the URL of a team's server.
        wanted: only this session, test, machine or commit, or what was made since or until a time.

    Raises:
        TfperfError: there is no history, or it can't be read.
    """
    import pandas as pd

    text = str(place)
    history = History(HistoryUrl(text) if is_url(text) else Path(place) / "history.sqlite")
    frame = history.frame(**wanted)
    if unread := str(history.unread):
        warnings.warn(unread, stacklevel=2)
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True, format="ISO8601", errors="coerce"))
