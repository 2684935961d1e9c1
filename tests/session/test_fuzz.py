"""Command lines and rows of a history that nobody would write: no traceback, no password, nothing in silence.

HYPOTHESIS_PROFILE=long looks much longer.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import chdir, closing, contextmanager, redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_tfperf import cli
from pytest_tfperf.cli import parser
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_INTERNAL, EXIT_REGRESSED
from pytest_tfperf.stores.history import History
from pytest_tfperf.stores.history_file import TABLES
from tests.helpers.command_lines import commands
from tests.helpers.measurements import interleaved, measurement, verdict

SECRET = "PaSsWoRd"
URL = f"postgresql://ann:{SECRET}@127.0.0.1:1/d"

# They would take seconds each; test_secrets calls them.
SLOW = ("doctor", "make-imagenet", "make-tokens", "topology")
COMMANDS = [(words, one) for words, one in commands(parser(), ()) if not words or words[0] not in SLOW]

TIMES = ["30d", "9999999d", "2026-01-01", "9999-12-31", "0001-01-01T00:00+23:59", "9999-12-31T23:59:59-23:00"]
KNOWN = ["latest", "previous", "s1", "box", "x.log", "t.py::a", ".tfperf", "HEAD..HEAD", "a..b", "1x1"]
NUMBERS = ["0", "-1", "0.02", "nan", "inf", "1e999", "٣"]
HOSTILE = [URL, f"a {URL} b", "\x1b[2J", "x" * 10_000, "=1+1", "", "--", "{}", "%s", "[1, null]", "FLAKY"]
TEXTS = st.sampled_from([*TIMES, *NUMBERS, *HOSTILE]) | st.text(max_size=20)

# Names in the folder of the test, never a path out of it, where a command could write or delete.
NAMES = st.text(st.characters(exclude_characters="/\0~"), max_size=20).filter(lambda text: text not in ("-", ".", ".."))
VALUES = st.sampled_from([*TIMES, *KNOWN, *NUMBERS, *HOSTILE, "\udcff"]) | NAMES


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of two sessions of three tests, and a log."""
    folder = tmp_path_factory.mktemp("project")
    history = History(folder / ".tfperf/history.sqlite")
    for day in (1, 2):
        of = {"session": f"s{day}", "time": f"2026-01-0{day}T03:00:00+00:00"}
        for name in "abc":
            history.append(measurement(test=f"t.py::{name}", name=name, verdict=verdict(), **of))
        history.append(interleaved(**of))
    (folder / "x.log").write_text("Step\tImg/sec\n1\timages/sec: 9 +/- 0.0 (jitter = 0.0)\ttotal images/sec: 9.00\n")
    return folder


@contextmanager
def copied(project: Path) -> Iterator[None]:
    with TemporaryDirectory() as folder, chdir(shutil.copytree(project, Path(folder) / "project")):
        yield


def call(line: Sequence[str]) -> None:
    """Call `tfperf`, and check what holds of any call."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = cli.main(line)
    files = [path for path in Path().iterdir() if path.suffix in (".html", ".json") and path.is_file()]
    written = "".join(path.read_text(errors="replace") for path in files)
    said = out.getvalue() + err.getvalue()
    assert status != EXIT_INTERNAL, said
    assert "Traceback" not in said
    assert SECRET not in said + written
    assert all(ord(c) >= 32 or c in "\n\t" for c in said.replace("\r\n", "\n"))
    assert len(err.getvalue()) < 10_000
    is_answer = status in (EXIT_GREEN, EXIT_REGRESSED)
    assert (out if is_answer else err).getvalue().strip(), status


# Command lines


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command with some of its own options and values, right and wrong."""
    words, one = draw(st.sampled_from(COMMANDS))
    option = st.sampled_from([option for action in one._actions for option in action.option_strings])
    parts = st.one_of(
        st.tuples(option, VALUES),
        st.builds(lambda option, value: (f"{option}={value}",), option, VALUES),
        st.tuples(option),
        st.tuples(VALUES),
    )
    return [*words, *(word for part in draw(st.lists(parts, max_size=4)) for word in part)]


@given(command_lines())
def test_any_command_line(project: Path, line: list[str]) -> None:
    with copied(project):
        call(line)


# Rows of a history


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
COLUMN_VALUES = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXTS | st.binary(max_size=20)
COLUMNS = st.sampled_from([(table, column) for table, columns in TABLES.items() for column in columns])
READERS = st.sampled_from(
    [
        "report -o page.html",
        "report --since=2026-01-01 --format=json -o facts.json",
        "history",
        "history --csv",
        "history --json",
        "history --export",
        "history --since=2026-01-01 --machine=box",
        "history changes",
        "compare previous latest",
        "compare s1 s2 --tolerance=0.02",
        "explain t.py::a",
        "explain a",
        "baselines stale",
    ]
)


# Each example is a command; a third of as many as elsewhere, also of HYPOTHESIS_PROFILE=long.
FEW = settings(max_examples=settings.default.max_examples // 3)


@FEW
@given(column=COLUMNS, value=COLUMN_VALUES, reader=READERS)
def test_any_value_of_any_column(project: Path, column: tuple[str, str], value: object, reader: str) -> None:
    table, name = column
    with copied(project):
        with closing(sqlite3.connect(".tfperf/history.sqlite")) as database, database:
            last = f"rowid in (select rowid from {table} order by rowid desc limit 3)"
            with suppress(sqlite3.IntegrityError):  # a number of a row that is none
                database.execute(f'update or replace {table} set "{name}" = ? where {last}', (value,))
        call(reader.split())


@FEW
@given(data=st.data(), is_interleaved=st.booleans(), value=JSON, reader=READERS)
def test_any_value_inside_of_a_row(
    project: Path, data: st.DataObject, is_interleaved: bool, value: Any, reader: str
) -> None:
    with copied(project):
        with closing(sqlite3.connect(".tfperf/history.sqlite")) as database, database:
            of_kind = "from tfperf_measurements where is_interleaved = ? order by made desc limit 1"
            ((number,),) = database.execute(f"select number {of_kind}", (is_interleaved,))
            ((packed,),) = database.execute("select whole from tfperf_details where measurement = ?", (number,))
            whole = json.loads(zlib.decompress(packed))
            inner, name = data.draw(st.sampled_from(list(places(whole))))
            if data.draw(st.booleans()):
                inner[name] = value
            elif isinstance(inner, dict):
                inner["newer"] = inner.pop(name)
            changed = zlib.compress(json.dumps(whole).encode())
            database.execute("update tfperf_details set whole = ? where measurement = ?", (changed, number))
        call(reader.split())


def places(whole: Any) -> Iterator[tuple[Any, Any]]:
    """Each place of a JSON value: what it is in, and its name or index there."""
    named = whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else ()
    for name, inner in named:
        yield whole, name
        yield from places(inner)
