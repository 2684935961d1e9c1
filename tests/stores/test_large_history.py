"""A history of years: what concerns one test is found by an index, and no reader keeps a session from writing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.stores import history_file
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import KEY, TEST, baseline, interleaved, measurement, throughput, verdict

DAYS = 30


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A month of one test, and of a comparison."""
    history = History(tmp_path_factory.mktemp("large") / "history.sqlite")
    for day in range(1, DAYS + 1):
        of_day = {"session": f"s{day:02}", "time": f"2026-03-{day:02}T03:00:00+00:00", "commit": f"{day:02}abc"}
        history.append(measurement(throughput(1000.0 + day), verdict=verdict(baseline=ROW), seconds=day, **of_day))
        history.append(interleaved(**{**of_day, "session": f"c{day:02}"}))
    return history.database.path


ROW = baseline(date="2026-03-01")
FIGURE_ROW = baseline(2.0, key=KEY._replace(figure="loss"), unit="", date="2026-03-01")


@pytest.fixture
def history(path: Path) -> History:
    return History(path)


def past(history: History, most: int = 40) -> list[str]:
    found = history.earlier.past_sessions_of_machine([ROW], before="today", least_tests=1, most=most)
    return [one.session for one in found.get(KEY, ())]


def _begun(answers: Iterator[Any]) -> Iterator[Any]:
    next(answers)
    return answers


ASKED: dict[str, Callable[[History], Any]] = {
    "seconds": lambda history: history.earlier.run_seconds([TEST]),
    "seconds beside another side": lambda history: history.earlier.seconds_of_interleaved([TEST]),
    "confirmations": lambda history: history.earlier.confirmation_runs(["box"]),
    "past sessions": past,
    "earlier measurements": lambda history: history.earlier.earlier_measurements("box", before="today", most=3),
    "judged before": lambda history: history.earlier.judged_against([ROW, FIGURE_ROW], most=5),
    "measured since": lambda history: history.earlier.measured_since([TEST], {"box"}, datetime(2026, 3, 5, tzinfo=UTC)),
    "whole measurements": lambda history: history.measurements_of([1, 2]),
    "profile": lambda history: history.earlier.profile_of(ROW),
    "a test": lambda history: _begun(history.values(figure="", test=TEST)),
    "a session": lambda history: list(history.measurements(session="s03")),
    "a commit": lambda history: history.has(commit="nothing"),
    "a machine": lambda history: history.has(machine="nothing"),
    "the last session": lambda history: _begun(history.newest_sessions("box")),
    "the last result of a test": lambda history: history.latest(test=TEST),
    "a session's verdicts": lambda history: history.verdicts(session="s03", machine="box"),
}


@pytest.fixture
def plans(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How SQLite ran each statement, a line for each table."""
    found: list[str] = []

    def explain(statement: str) -> None:
        if statement.startswith("select") and "tfperf_" in statement:
            with closing(sqlite3.connect(path)) as database:
                found.extend(row[-1] for row in database.execute(f"explain query plan {statement}"))

    connect = sqlite3.connect

    def connect_and_trace(*given: Any, **more: Any) -> sqlite3.Connection:
        connection = connect(*given, **more)
        if more.get("uri"):  # it is the history's
            connection.set_trace_callback(explain)
        return connection

    monkeypatch.setattr(history_file.sqlite3, "connect", connect_and_trace)
    return found


# A few rows for each test or session, which are read once for all values; s stands for the series.
SMALL = tuple(f"SCAN {table}" for table in ("tfperf_history", "tfperf_sessions", "tfperf_series", "s "))


@pytest.mark.parametrize("asked", ASKED)
def test_no_table_is_read_from_end_to_end(asked: str, history: History, plans: list[str]) -> None:
    ASKED[asked](history)
    assert any("USING" in plan for plan in plans)
    assert [plan for plan in plans if plan.startswith("SCAN") and not plan.startswith(SMALL)] == []


LATEST = (
    *("seconds", "seconds beside another side", "confirmations", "past sessions", "earlier measurements"),
    *("judged before", "measured since", "profile"),
)


@pytest.mark.parametrize("asked", LATEST)
def test_what_a_session_asks_when_it_begins_is_found_in_order(asked: str, history: History, plans: list[str]) -> None:
    ASKED[asked](history)
    assert [plan for plan in plans if "TEMP B-TREE" in plan and "ORDER BY" in plan] == []


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"session": "s03", "machine": "box"}, "tfperf_of_session"),
        ({"commit": "03", "machine": "box"}, "tfperf_of_commit"),
        ({"test": TEST, "machine": "box"}, "tfperf_of_test"),
        ({"machine": "box"}, "tfperf_made"),
        ({"machine": "box", "figure": None}, "tfperf_made"),
        ({"since": datetime(2026, 3, 5, tzinfo=UTC)}, "tfperf_made"),
    ],
)
def test_the_filter_that_leaves_least_is_the_one_that_is_looked_up(
    wanted: Any, index: str, history: History, plans: list[str]
) -> None:
    assert next(history.values(**{"figure": "", **wanted})).test == TEST
    assert any(plan.startswith(("SEARCH m", "SCAN m")) and index in plan.split() for plan in plans)


@pytest.mark.parametrize("asked", ASKED)
def test_a_session_can_write_while_the_answer_is_used(
    asked: str, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_file, "_LOCK_SECONDS", 0)
    answer = ASKED[asked](history)
    history.prepare()  # raises where anything still holds the file
    del answer


def test_sessions_come_newest_first(history: History) -> None:
    sessions = [session for session, _ in history.newest_sessions(alone_only=True)]
    assert sessions == [f"s{day:02}" for day in range(DAYS, 0, -1)]


def test_the_first_and_the_last_sessions_of_a_row_are_learnt_from(history: History) -> None:
    assert past(history, most=6) == ["s01", "s02", "s03", "s28", "s29", "s30"]
    assert past(history) == [f"s{day:02}" for day in range(1, DAYS + 1)]


def test_a_test_takes_as_long_as_in_its_last_sessions(history: History) -> None:
    assert history.earlier.run_seconds([TEST]) == {TEST: tuple(map(float, range(DAYS, DAYS - 10, -1)))}


def test_a_test_of_several_series_takes_as_long_as_in_its_last_sessions_on_any_machine(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    for day in range(DAYS):
        history.append(measurement(session=f"s{day}", machine=f"box{day % 3}", seconds=day))
    assert history.earlier.run_seconds([TEST]) == {TEST: tuple(map(float, range(DAYS - 1, DAYS - 11, -1)))}


def test_the_sessions_of_a_workload_that_several_tests_measure_are_learnt_from_in_order(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    for day in range(1, 7):
        of_day = {"session": f"s{day}", "test": f"t{day % 2}", "time": f"2026-03-{day:02}T03:00:00+00:00"}
        history.append(measurement(verdict=verdict(baseline=ROW), **of_day))
    assert past(history, most=4) == ["s1", "s2", "s5", "s6"]


def test_a_machine_has_one_last_result_of_a_test_where_two_hosts_finished_in_the_same_second(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    for session in ("first", "second"):
        history.append(measurement(session=session))
    with closing(sqlite3.connect(history.database.path)) as database, database:
        for table in ("tfperf_measurements", "tfperf_values"):
            database.execute(f"update {table} set made = 1")
    assert [one.session for one in history.latest()] == ["second"]


def test_the_last_result_of_each_series_is_found(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite")
    for session, test in (("s1", "a"), ("s1", "b"), ("s2", "b")):
        history.append(measurement(session=session, test=test, verdict=verdict(Outcome.PASS)))
    assert [(one.session, one.test) for one in history.latest()] == [("s1", "a"), ("s2", "b")]
