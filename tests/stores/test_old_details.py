"""The whole measurements of long ago are dropped, and nothing that a later verdict or report needs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.verdict import NOTHING, Verdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import history_file, old_details
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.old_details import drop_details
from tests.helpers.measurements import KEY, baseline, interleaved, measurement, throughput, verdict

START = datetime(2026, 1, 1, 3, tzinfo=UTC)
DAYS = 30
KEPT = 10  # of each test


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def history(path: Path) -> History:
    """A month of one test."""
    made = History(path)
    for day in range(DAYS):
        append(made, day)
    return made


def append(history: History, day: int, **more: Any) -> None:
    when = (START + timedelta(days=day)).isoformat()
    history.append(
        measurement(throughput(1000.0 + day), **{"session": f"s{day}", "time": when, "verdict": verdict()} | more)
    )


def drop(history: History, *, before: int, most: int | None = None) -> tuple[int, int]:
    return drop_details(history.database, START + timedelta(days=before), most=most)


def whole(history: History) -> list[str]:
    return [m.session for m in history.measurements()]


def test_details_are_dropped_and_all_columns_stay(history: History) -> None:
    values, rows = list(history.values()), list(history.rows())
    assert drop(history, before=15) == (15, 0)
    assert whole(history) == [f"s{day}" for day in range(15, DAYS)]
    assert (list(history.values()), list(history.rows())) == (values, rows)


def test_readers_of_whole_measurements_say_what_they_lack(history: History) -> None:
    drop(history, before=15)
    assert str(history.unread) == ""
    whole(history)
    assert str(history.unread).startswith("15 measurements are left out, whose details were dropped for their age")


def test_nothing_is_dropped_twice(history: History) -> None:
    drop(history, before=10)
    assert drop(history, before=10) == (0, 0)
    assert drop(history, before=15) == (5, 0)


def test_a_part_is_dropped_at_a_time_oldest_first(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_details, "_AT_ONCE", 4)
    assert drop(history, before=15, most=8) == (8, 7)
    assert whole(history)[0] == "s8"
    assert drop(history, before=15, most=8) == (7, 0)


def test_the_last_measurements_of_each_test_keep_theirs(history: History) -> None:
    append(history, DAYS, test="t.py::other", topology="1x1")
    history.append(interleaved(session="compared"))
    drop(history, before=1000)
    assert whole(history) == [*(f"s{day}" for day in range(DAYS - KEPT, DAYS + 1)), "compared"]


def test_a_figure_needs_no_details(history: History) -> None:
    asked = Figure("loss", absolute=0.5)
    append(history, 40, figures=[Verdict(figure=asked, value=2.5)])
    for day in range(50, 50 + DAYS):
        append(history, day)
    drop(history, before=1000)
    assert [(one.session, one.figure) for one in history.values() if one.figure] == [("s40", asked)]


def test_the_profile_of_a_baseline_stays(history: History) -> None:
    profile = Profile(steps=20)
    append(history, 40, verdict=None, profile=profile, recording=NOTHING)
    for day in range(41, 41 + DAYS):
        append(history, day)
    drop(history, before=1000)
    assert history.earlier.profile_of(baseline(date=f"{START + timedelta(days=40):%Y-%m-%d}")) == profile


def test_a_provisional_baseline_needs_no_details(history: History) -> None:
    def earlier() -> list[tuple[str, float]]:
        found = history.earlier.earlier_measurements("box", before="today", most=20)[Key(*KEY)]
        return [(one.session, one.runs[0].log_rate) for one in found]

    before = earlier()
    drop(history, before=1000)
    assert (earlier(), len(before)) == (before, 20)


def test_a_damaged_measurement_stays_as_it_is(history: History, path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("update tfperf_measurements set outcome = '' where session = 4")
        of_session = "measurement in (select number from tfperf_measurements where session = 4)"
        database.execute(f"update tfperf_details set whole = x'78' where {of_session}")
    assert drop(history, before=5) == (4, 0)


@pytest.mark.usefixtures("history")
def test_a_locked_file_is_an_error_and_the_next_session_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_file, "_LOCK_SECONDS", 0)
    history = History(path)  # a connection keeps the time that it waits
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(TfperfError, match="another process has held its lock"):
            drop(history, before=15)
    assert drop(history, before=15) == (15, 0)
