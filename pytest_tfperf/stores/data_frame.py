"""A history as a pandas DataFrame, for users."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from pytest_tfperf.core.history_url import place_of
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import one_line
from pytest_tfperf.stores.history import History

if TYPE_CHECKING:
    import pandas

    from pytest_tfperf.stores.history_queries import Filters


def load_history(place: str | Path = ".tfperf", **wanted: Unpack[Filters]) -> pandas.DataFrame:
    """Load a history: a row for each measurement, then a row for each further figure, both in order of time.

    Columns: as `History.frame`, with `time` as times in UTC; `figure`, "" for the throughput; and `value`, the
    figure's in its unit or the throughput. Figures have no `examples_per_sec`. Rows that can't be read are left out,
    with a warning.

    Args:
        place: the folder of a history, as in `--tfperf-dir`, or the URL of a team's server.
        wanted: only this session, test, machine or commit, or only since or until a time.

    Raises:
        TfperfError: there is no history, it can't be read, or pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise TfperfError("load_history needs pandas, which is not installed", next_step="pip install pandas") from None

    history = History(place_of(place))
    rates, figures = history.frame(**wanted), history.figure_results(**wanted)
    rows = [
        {name: getattr(result, name) for name in rates.columns if name != "examples_per_sec"}
        | {"examples_per_sec": math.nan, "outcome": result.outcome_word or None}
        | {"figure": result.key.figure, "value": result.value}
        for result in figures
    ]
    frame = rates.assign(figure="", value=rates["examples_per_sec"])
    if rows:
        frame = pd.concat([frame, pd.DataFrame(rows)], ignore_index=True)
    if unread := str(history.unread):
        warnings.warn(one_line(unread), stacklevel=2)
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True, format="ISO8601", errors="coerce"))
