"""Names in a shared history that are made to harm whoever reads them, or whatever obeys a log."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from contextlib import chdir, closing, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.lines import csv_cell
from pytest_tfperf.stores import measurement_file
from pytest_tfperf.stores.history import History
from tests.helpers.measurements import baseline, interleaved, measurement, throughput, verdict

# Clears the screen, and sets the title of a terminal; both in the forms of seven and of eight bits.
ESCAPES = "\x1b[2J\x1b]0;pwned\x07\x9b2J\rPASS"
FORMULA = "=cmd|' /C calc'!A0"

# What begins a line for some reader, what a CI system obeys at a line's begin or anywhere, and what a terminal obeys.
PIECES = (
    *("\n::error::x", "::error::x", "\r::stop-commands::x", "##[error]x", "##vso[task.x]", "\x1b[31m", "\x9b2J", "\t"),
    *("\u2028::error::x", "\u2029", "\x85", "\v", "%0A::error::x", "\nPASS  forged", "a.py::t", "x"),
)
NAMES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
FIELDS = ("test", "name", "machine", "unit", "commit", "gpu", "devices", "version", "note")
COMMANDS = (
    *("history", "history --csv", "history --json", "history --export", "history --session=latest"),
    *("history --machine=unknown", "history --session=unknown", "history --commit=unknown", "history --test=unknown"),
    *("history changes", "explain ::t", "explain x", "explain x::b", "explain unknown"),
    *("report", "report --format=json", "report --since=2020-01-01", "report --machine=unknown"),
    *("compare s1 s2", "compare s1 s2 --json", "compare s1 unknown", "compare s1 export.json"),
    *("replay export.json", "replay damaged.json", "baselines stale"),
)
OF_A_CI_SYSTEM = re.compile(r"^\s*::|##(vso|teamcity)?\[")


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    monkeypatch.chdir(tmp_path)
    made = History(Path(".tfperf/history.sqlite"))
    for session in ("s1", "s2"):
        for number, name in enumerate((ESCAPES, FORMULA)):
            of = {"session": session, "test": f"{name}::t", "machine": name, "name": name}
            rate = throughput(1000.0, unit=name)
            made.append(measurement(rate, verdict=verdict(), time=f"2026-01-0{number + 1}T03:00:00+00:00", **of))
    return made


@pytest.mark.parametrize(
    "command",
    [
        "history",
        "history --csv",
        "history --json",
        "history --export",
        "history --machine=unknown",
        "report",
        "report --format=json",
        "compare s1 s2",
        "explain t",
        "explain \x1b[2J",
        "explain =cmd",
        "\x1b[2J",
        "report --since=\x1b[2J",
    ],
    ids=ascii,
)
def test_no_command_sends_a_terminal_what_it_obeys(
    command: str, history: History, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(command.split())
    said = "".join(capsys.readouterr())
    assert said
    assert all(c.isprintable() or c == "\n" for c in said)


@settings(max_examples=4, deadline=None)  # each of them calls all commands
@given(st.fixed_dictionaries(dict.fromkeys(FIELDS, NAMES)))
def test_no_name_begins_a_line_or_is_obeyed(names: dict[str, str]) -> None:
    with TemporaryDirectory() as folder, chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "parser", cache(cli.parser))  # it takes longer to build than most commands take
        _write_history(names)
        for command in COMMANDS:
            with redirect_stdout(io.StringIO()) as said, redirect_stderr(said):
                cli.main(command.split())
            assert said.getvalue(), command
            for line in said.getvalue().split("\n"):
                assert not OF_A_CI_SYSTEM.search(line), (command, line)
                assert not line.startswith("PASS  forged"), (command, line)
                assert all(c.isprintable() or c == "\t" for c in line), (command, line)


def _write_history(names: dict[str, str]) -> None:
    """Two sessions of three tests with these names, of which a row is damaged; and two exports, one damaged."""
    history, rate = History(Path(".tfperf/history.sqlite")), throughput(1000.0, unit=names["unit"])
    row = baseline(source=names["note"], note=names["note"], environment="a=1", commit=names["commit"])
    for number, session in enumerate(("s1", "s2"), start=1):
        of = {name: names[name] for name in ("name", "machine", "commit", "gpu", "devices")}
        of |= {"environment": {"a": names["version"]}, "time": f"2026-01-0{number}T03:00:00+00:00", "session": session}
        found = verdict(Outcome.REGRESSED, -0.2, baseline=row)
        for test in (names["test"], f"{names['test']}::t", "x::b"):
            last = history.append(measurement(rate, verdict=found, **of | {"test": test}))
        history.append(interleaved(**of | {"test": names["test"]}))
    export = measurement_file.render(history.measurements(is_interleaved=False))
    Path("export.json").write_text(export)
    Path("damaged.json").write_text(export.replace('"images"', "1").replace('"topology": "1x8"', '"topology": 7'))
    with closing(sqlite3.connect(".tfperf/history.sqlite")) as database, database:
        database.execute("update tfperf_details set whole = x'00' where measurement = ?", (last,))


def test_a_name_stays_in_its_line_of_a_table(capsys: pytest.CaptureFixture[str], history: History) -> None:
    history.append(measurement(machine="box\nPASS  forged", verdict=verdict()))
    cli.main(["history"])
    assert not any(line.startswith("PASS  forged") for line in capsys.readouterr().out.splitlines())


def test_a_csv_holds_no_formula_and_numbers_stay(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["history", "--csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["machine"][:5] for row in rows} == {"'=cmd", r"\x1b["}
    assert all(float(row["examples_per_sec"]) > 0 for row in rows)
    assert not any(value.startswith(("=", "+", "-", "@")) for row in rows for value in row.values())


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_text_that_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    assert csv_cell(text).startswith("'")


@pytest.mark.parametrize("value", ["-2.5", "+3", "-inf", -1.5, 7, None, True, "box", "a=b", ""])
def test_numbers_and_plain_texts_stay(value: object) -> None:
    assert csv_cell(value) == value


def test_an_error_does_not_repeat_a_long_value(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 10_000
    lines = [
        *(["history", f"--{name}={long}"] for name in ("machine", "test", "session", "since", "commit")),
        ["explain", long],
        ["compare", long, long],
        ["init", "--tests", long],
        ["replay", long],
        ["baselines", "show", long],
        ["report", "--format", long],
        ["report", long],
        [long],
    ]
    for line in lines:
        assert cli.main(line) not in (0, 3)
        assert 0 < len(capsys.readouterr().err) < 5000, line


def test_a_page_of_hostile_names_is_whole(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "-o", "page.html"]) == 0
    text = Path("page.html").read_text()
    assert all(c.isprintable() or c in "\n\t" for c in text if c not in "\u2028\u2029\ufeff")
    facts = text.partition('id="facts">')[2].partition("</script>")[0]
    assert json.loads(facts)["tests"]
