"""Parts of a history, its order, and what is pruned."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.console.arguments import date_or_age, end
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import interleaved, measurement, session_verdict


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "history.sqlite")


def names(history: History, **wanted: Any) -> list[str]:
    return [one.test for one in history.values(figure="", **wanted)]


# Parts


@pytest.fixture
def days(history: History) -> History:
    """On each of three days one measurement, of three commits, machines and sessions, and one beside another side."""
    for day, test in enumerate("abc", start=1):
        when = f"2026-01-0{day}T12:00:00+00:00"
        more = {"commit": f"{day}00ff", "machine": f"box-{day}", "session": f"session-{day}"}
        history.append(measurement(test=test, time=when, **more))
        history.append(interleaved(test=test, time=when, machine=f"box-{day}", session=f"session-{day}"))
    return history


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, "abc"),
        ({"since": NOON}, "bc"),
        ({"until": NOON}, "a"),
        ({"since": NOON, "until": NOON + timedelta(seconds=1)}, "b"),
        ({"since": NOON.astimezone(timezone(timedelta(hours=9)))}, "bc"),
        ({"commit": "30"}, "c"),
        ({"commit": "%"}, ""),
        ({"session": "session-2"}, "b"),
        ({"machine": "box-3", "since": NOON}, "c"),
        ({"machine": "box-1", "since": NOON}, ""),
    ],
    ids=str,
)
def test_a_part_is_the_same_in_every_form(days: History, wanted: Any, found: str) -> None:
    assert names(days, **wanted) == list(found)
    assert [one.test for one in days.measurements(**wanted, is_interleaved=False)] == list(found)
    assert [row["test"] for row in days.rows(**wanted)] == list(found)


def test_measurements_beside_another_side_are_a_part_of_their_own(days: History) -> None:
    beside = list(days.measurements(since=NOON, is_interleaved=True))
    assert [(one.test, one.other is not None) for one in beside] == [("b", True), ("c", True)]


def test_the_command_takes_dates_of_which_the_last_counts_whole(
    days: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ["--history", str(tmp_path)]
    assert cli.main(["history", "--csv", "--since=2026-01-02T00:00Z", "--until=2026-01-02", *folder]) == 0
    assert [line.split(",")[2] for line in capsys.readouterr().out.splitlines()[1:]] == ["b"]


def test_json_has_the_fields_of_csv(days: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of = [f"--history={tmp_path}", "--test=b"]
    assert cli.main(["history", "--csv", *of]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert cli.main(["history", "--json", *of]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert {name: "" if value is None else str(value) for name, value in found.items()} == row


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_it_is_exported_without_pandas(
    days: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert cli.main(["history", form, f"--history={tmp_path}"]) == 0
    assert "session-3" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["history"], ["history", "--export"]])
@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (["--machine=bx-1"], "--machine: unknown machine 'bx-1'. Did you mean 'box-1'? Known: box-1, box-2, box-3."),
        (["--machine=box-1", "--test=b"], "--test (with --machine): unknown test 'b'. Known: a."),
        (["--session=x"], "--session: unknown session 'x'. Known: session-1, session-2, session-3."),
        (["--commit=zz"], "--commit: unknown commit 'zz'. Known: 100ff, 200ff, 300ff."),
        (
            ["--since=2026-02-01"],
            "--since: nothing was measured since 2026-02-01 00:00; the last is of 2026-01-03T12:0",
        ),
        (
            ["--since=2026-01-03", "--until=2026-01-01"],
            "--until (with --since): nothing was measured before 2026-01-02 00:00; the first is of 2026-01-03T12:00",
        ),
    ],
    ids=lambda given: given[-1] if isinstance(given, list) else "",
)
def test_the_first_filter_that_leaves_nothing_is_named(
    command: list[str], filters: list[str], said: str, days: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*command, f"--history={tmp_path}", *filters]) == 4
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("given", ["--test=nosuch", "--machine=nosuch"])
def test_changes_of_what_was_never_measured_are_an_error(
    given: str, days: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", "changes", f"--history={tmp_path}", given]) == 4
    assert "'nosuch'. Known: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("filters", "test"),
    [(["--session=latest"], "c"), (["--session=previous"], "a"), (["--session=latest", "--machine=box-2"], "b")],
    ids=str,
)
def test_the_last_sessions_need_no_id(
    filters: list[str], test: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], history: History
) -> None:
    for name, machine in (("a", "box-3"), ("b", "box-2"), ("c", "box-3")):
        history.append(measurement(test=name, machine=machine, session=f"session-{name}"))
    assert cli.main(["history", "--csv", f"--history={tmp_path}", *filters]) == 0
    assert [line.split(",")[2] for line in capsys.readouterr().out.splitlines()[1:]] == [test]


def test_a_session_before_the_only_one_is_refused(
    days: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["history", f"--history={tmp_path}", "--session=previous", "--machine=box-2"]) == 4
    assert "previous: the history has 1 session of box-2" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "9" * 30 + "d", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"is no time: write 2026-01-31, .* or 30d for 30 days ago"):
        date_or_age(text)


def test_an_age_is_counted_from_now() -> None:
    week = timedelta(days=7)
    assert abs(date_or_age("7d") - date_or_age("1w")) < week < date_or_age("167h") - date_or_age("15d")
    assert end("2026-01-31") - date_or_age("2026-01-31") == timedelta(days=1)


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_a_day_on_which_clocks_change_is_whole(day: str, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    try:
        assert end(day) - date_or_age(day) == timedelta(hours=hours)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_day_after_the_last_one_is_refused() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no time"):
        end("9999-12-31")


# Order


@settings(max_examples=15)  # each makes a database
@given(st.lists(st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)), max_size=6))
def test_a_clock_that_jumps_changes_no_order(tmp_path_factory: pytest.TempPathFactory, clock: list[datetime]) -> None:
    history = History(tmp_path_factory.mktemp("history") / "history.sqlite")
    history.prepare()
    for number, now in enumerate(clock):
        history.append(measurement(test=str(number), time=now.replace(tzinfo=UTC).isoformat()))
    assert names(history) == [str(number) for number in range(len(clock))]


def test_times_are_kept_in_utc(history: History) -> None:
    history.append(measurement(time="2026-01-02T03:04:05+05:30"))
    assert [one.time for one in history.values(figure="")] == ["2026-01-01T21:34:05+00:00"]


def test_what_replaces_keeps_its_number_and_comes_last(history: History) -> None:
    first = history.append(measurement(test="a"))
    history.append(measurement(test="b"))
    assert history.append(measurement(test="a"), replaces=first) == first
    assert names(history) == ["b", "a"]


# Pruning


def test_what_is_older_is_pruned_and_the_file_shrinks(days: History, tmp_path: Path) -> None:
    for number in range(60):
        days.append(measurement(test=f"old-{number}", time="2025-01-01T00:00:00+00:00"))
    before = (tmp_path / "history.sqlite").stat().st_size
    assert days.prune(NOON) == 62
    assert [one.test for one in days.measurements()] == ["b", "b", "c", "c"]
    assert (tmp_path / "history.sqlite").stat().st_size < before


def test_the_verdicts_on_old_sessions_are_pruned(history: History) -> None:
    for day in (1, 3):
        history.append_verdict(session_verdict(), session=f"s{day}", time=f"2026-01-0{day}T00:00:00+00:00")
    history.prune(NOON)
    assert [history.verdicts(session=f"s{day}", machine="box") for day in (1, 3)] == [[], [session_verdict()]]


def test_a_command_of_the_command_has_the_same_history(days: History, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.delenv("TFPERF_HISTORY_URL", raising=False)
    assert cli.main(["history", "--history", str(tmp_path), "push"]) == 4
