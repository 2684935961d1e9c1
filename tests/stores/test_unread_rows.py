"""A row that is damaged, or that a newer version wrote, costs its own measurement and nothing else."""

from __future__ import annotations

import json
import sqlite3
import zlib
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_tfperf import cli
from pytest_tfperf.core import plain_json
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_USAGE
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.history_rows import profile_of, unpacked, whole_measurement
from tests.helpers.measurements import KEY, baseline, measurement, run, verdict

DAY = "2026-01-0{}T03:00:00+00:00"
OF_B = 5  # the number of b's measurement in the last session, and of its values


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    """Two sessions of three tests."""
    monkeypatch.chdir(tmp_path)
    made = History(Path(".tfperf/history.sqlite"))
    for day in (1, 2):
        for name in "abc":
            of = {"session": f"s{day}", "time": DAY.format(day), "test": f"t.py::{name}", "verdict": verdict()}
            made.append(measurement(name=name, **of))
    return made


def execute(statement: str, *values: object) -> None:
    with closing(sqlite3.connect(".tfperf/history.sqlite")) as database, database:
        database.execute(statement, values)


def rewrite(**changes: Any) -> None:
    """Change fields of the verdict of b's measurement in the last session."""
    of_b = f"where measurement = {OF_B}"
    with closing(sqlite3.connect(".tfperf/history.sqlite")) as database, database:
        ((packed,),) = database.execute(f"select whole from tfperf_details {of_b}")
        whole = json.loads(zlib.decompress(packed))
        whole["verdicts"][0] |= changes
        database.execute(f"update tfperf_details set whole = ? {of_b}", (zlib.compress(json.dumps(whole).encode()),))


def damage(column: str, value: object) -> None:
    """Write another value where b's measurement in the last session has this one."""
    table, _, name = column.rpartition(".")
    number = "measurement" if table in ("tfperf_values", "tfperf_details") else "number"
    execute(f"update {table or 'tfperf_measurements'} set {name} = ? where {number} = {OF_B}", value)


COMMANDS = (
    "report",
    "report --format=json",
    "report --since=2026-01-01",
    "history --export",
    "compare s1 s2",
    "compare previous latest --tolerance=0.02",
    "explain t.py::a",
)


@pytest.mark.parametrize(("column", "value"), [("seconds", "long"), ("workers", b"2")])
def test_a_damaged_row_tells_nothing_of_how_long_a_test_takes(column: str, value: object, history: History) -> None:
    damage(column, value)
    assert history.earlier.run_seconds(["t.py::a", "t.py::b"]) == {"t.py::a": (12.0, 12.0), "t.py::b": (12.0,)}


def test_a_damaged_row_is_no_confirmation(history: History) -> None:
    damage("workers", "many")
    assert history.earlier.confirmation_runs(["box"]) == (0, 5)


@pytest.mark.parametrize("number", [77, "s2"])
def test_a_row_of_no_session_is_left_out_and_said(number: object, history: History) -> None:
    damage("session", number)
    assert [(one.session, one.name) for one in history.values()][3:] == [("s2", "a"), ("s2", "c")]
    assert f"measurement {OF_B}: session is {number!r}" in str(history.unread)


def test_a_session_whose_id_is_no_text_is_left_out_and_said(history: History) -> None:
    execute("update tfperf_sessions set session = x'00' where session = 's2'")
    assert [session for session, _ in history.newest_sessions()] == ["s1"]
    assert {one.session for one in history.values()} == {"s1"}
    assert "3 rows of the history can't be read" in str(history.unread)


BOMB = zlib.compress(b'{"runs": [' + b"[]," * 400_000 + b"[]]}")
HUGE = zlib.compress(b" " * (plain_json.MOST_BYTES + 1))
DAMAGED = [
    b"x",
    "x",
    b"",
    zlib.compress(b"{}"),
    zlib.compress(b"[" * 100_000),
    BOMB,
    HUGE,
    bytes(plain_json.MOST_ZIPPED_BYTES + 1),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("whole", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_row_is_left_out_and_said(
    command: str, whole: object, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    damage("tfperf_details.whole", whole)
    assert cli.main(command.split()) == EXIT_GREEN
    said = capsys.readouterr()
    assert said.out.strip()
    is_read = not command.startswith("explain")  # of another test
    assert ("tfperf: 1 row of the history can't be read" in said.err) == is_read


@pytest.mark.parametrize("command", COMMANDS)
def test_an_outcome_of_a_newer_version_costs_its_own_row(
    command: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    damage("outcome", "FLAKY")
    rewrite(outcome="FLAKY")
    assert cli.main(command.split()) == EXIT_GREEN
    if not command.startswith("explain"):
        assert "1 row of the history can't be read" in capsys.readouterr().err


def test_a_bomb_is_named_with_its_test_and_session(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    damage("tfperf_details.whole", HUGE)
    assert cli.main(["history", "--export"]) == EXIT_GREEN
    said = capsys.readouterr().err
    assert said.endswith(" is damaged: it decompresses to more than 32 MiB (t.py::b in session s2)\n"), said


@pytest.mark.parametrize("value", [10**40, 10**400, -1, "9" * 5000, None, [], {}, [[]] * 9000, True], ids=range(9))
def test_no_value_of_a_row_makes_a_command_crash(
    value: object, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = history.measurements(session="s2", test="t.py::b")
    whole = json.loads(json.dumps(plain(one)))
    places = [(whole, name) for name in whole]
    places += [(part, name) for part in (whole["throughput"], whole["verdicts"][0], whole["runs"][0]) for name in part]
    places += [(whole["throughput"]["runs"][0], name) for name in ("log_rate", "error", "windows")]
    for part, name in places:
        before, part[name] = part[name], value
        packed = zlib.compress(json.dumps(whole).encode())
        with suppress(TfperfError):
            whole_measurement(packed, "it")
        with suppress(TfperfError):
            profile_of(unpacked(packed, "it"), "2026-01-02", "it")
        part[name] = before


def test_telemetry_that_would_make_a_row_too_large_to_read_is_left_out(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_json, "MOST_BYTES", 4_000)
    several = tuple(run(polls=(Telemetry(seconds=1.0),) * 60) for _ in range(3))
    history.append(measurement(session="s3", runs=several))
    (kept,) = history.measurements(session="s3")
    assert kept.runs == tuple(replace(one, polls=()) for one in several)
    assert str(history.unread) == ""


def test_a_field_of_a_newer_version_costs_nothing(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(certainty=0.9)
    assert cli.main(["history", "--export", "--session=s2"]) == EXIT_GREEN
    said = capsys.readouterr()
    assert len(json.loads(said.out)["measurements"]) == 3
    assert said.err == ""


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tfperf_values.value", "fast"),
        ("tfperf_values.value", 0.0),
        ("tfperf_values.value", 9e999),
        ("tfperf_values.low", b"x"),
        ("tfperf_values.runs", "many"),
        ("tfperf_values.baseline", "x"),
        ("tfperf_values.outcome", "FLAKY"),
        ("time", b"x"),
        ("time", 10**15),
        ("outcome", "FLAKY"),
        ('"commit"', b"\xff"),
    ],
)
@pytest.mark.parametrize("command", ["report", "history", "history --csv", "history changes"])
def test_a_damaged_column_costs_its_own_row(
    column: str, value: object, command: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(column, value)
    assert cli.main(command.split()) == EXIT_GREEN
    assert "1 row of the history can't be read" in capsys.readouterr().err


def test_a_text_that_is_no_utf_8_costs_nothing(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    execute("update tfperf_series set machine = cast(x'ff61' as text) where test = 't.py::b'")
    assert cli.main(["history"]) == EXIT_GREEN
    assert r"\xffa" in capsys.readouterr().out


def test_the_page_says_what_it_lacks(history: History) -> None:
    damage("tfperf_details.whole", b"x")
    assert cli.main(["report", "-o", "page.html"]) == EXIT_GREEN
    assert '<li class="INVALID">1 row of the history can&#39;t be read' in Path("page.html").read_text()


def test_all_rows_that_can_not_be_read_are_no_report(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    execute("update tfperf_details set whole = x'00'")
    for command in ("report -o page.html", "explain t.py::b", "compare s1 s2", "history --export"):
        assert cli.main(command.split()) == EXIT_USAGE
        assert "can't be read" in capsys.readouterr().err
    assert not Path("page.html").exists()


def test_many_rows_are_counted_and_three_of_them_named(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    execute("update tfperf_details set whole = x'00' where measurement not in (1, 4)")
    assert cli.main(["history", "--export"]) == EXIT_GREEN
    said = capsys.readouterr().err
    assert said.startswith("tfperf: 4 rows of the history can't be read")
    assert (said.count("measurement "), said.endswith("; and 1 more\n")) == (3, True)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("outcome", "FLAKY"),
        ("drift", "x"),
        ("of_runs", "[[1, null, 1]]"),
        ("of_runs", "[[1e999, 0, 1]]"),
        ("of_runs", "[[NaN, 0, 1]]"),
        ("of_runs", "[1]"),
        ("of_runs", "x"),
        ("of_runs", b"\xff"),
    ],
)
def test_no_verdict_rests_on_a_row_that_can_not_be_read(column: str, value: str, history: History) -> None:
    execute(f"update tfperf_values set {column} = ? where measurement > 3", value)
    found = history.earlier.past_sessions_of_machine([baseline()], before="today", least_tests=1)
    assert [one.session for one in found[KEY]] == ["s1"]
    assert str(history.unread).startswith("1 row of the history can't be read")


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("update tfperf_values set of_runs = ? where measurement = 3", "[[1, 1, 1, 1]]"),
        ("update tfperf_values set of_runs = ? where measurement = 3", "[1]"),
        ("update tfperf_measurements set time = ? where number = 3", "x"),
        ("update tfperf_measurements set time = ? where number = 3", 2**62),
        ("update tfperf_measurements set environment = ? where number = 3", 99),
    ],
)
def test_no_provisional_baseline_rests_on_a_row_that_can_not_be_read(
    statement: str, value: object, history: History
) -> None:
    execute("insert into tfperf_environments values (99, 'x')")
    execute(statement, value)
    found = history.earlier.earlier_measurements("box", before="today", most=10)
    assert len(found[KEY]) == 5
    assert str(history.unread).startswith("1 row of the history can't be read")
