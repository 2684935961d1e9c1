"""The document of a session: one immutable file, by which histories exchange what they measured.

It is JSON, compressed by gzip where it travels: the rows of the session as columns, and its measurements, without their
windows and telemetry where it travels. It comes from others: it is read in bounded memory, and checked before a row of
it is added.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from gzip import compress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.past import storable
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.history_file import (
    TABLES,
    environment_number,
    insert,
    last_number,
    rows,
    series_number,
)
from pytest_tfperf.stores.history_rows import MEASUREMENT, VERDICT, UnreadRows, unpacked
from pytest_tfperf.stores.kept import NewerFormat, require_version

if TYPE_CHECKING:
    from sqlite3 import Connection

    from pytest_tfperf.stores.history_file import HistoryFile

VERSION: Final = 1
"""The version of the form; added columns that have a default don't change it."""

ROOT: Final = "v1/"
"""What all names begin with: the version of the names' own form."""

LEFT_OUT: Final = " is left out: "
"""In the line about each document that is refused, between its name and the reason."""

_MOST_BYTES: Final = 16 * 2**20  # a session of 5,000 tests has half of it
_MOST_ROWS: Final = 100_000
_MOST_NAME: Final = 150  # characters of a name's part; a file's name may have 255 bytes
_DAYS_AHEAD: Final = 2
_AT_ONCE: Final = 20  # documents in a transaction
_FACTS: Final = ("session", "machine", "host", "began")
_KINDS: Final = {"integer": (int,), "real": (float, int), "text": (str,)}


def prefix_of(machine: str) -> str:
    """Return what the names of a machine's documents begin with."""
    return f"{ROOT}{_part(machine)}/"


def name_of(session: str, machine: str, began: int) -> str:
    """Return the name of a session's document, "v1/MACHINE/2026-11/SESSION.json.gz"."""
    return f"{prefix_of(machine)}{datetime.fromtimestamp(began, UTC):%Y-%m}/{_part(session)}.json.gz"


def _part(text: str) -> str:
    """Return a text as a part of a path that is the same everywhere, and different for different texts."""
    quoted = quote(text, safe=" ").replace(" ", "%20")
    if quoted.startswith((".", "-")) or not quoted:
        quoted = f"%{ord(quoted[0]):02X}{quoted[1:]}" if quoted else "%"
    if len(quoted) <= _MOST_NAME:
        return quoted
    return f"{quoted[:_MOST_NAME]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def sessions_of(database: HistoryFile, machines: Collection[str] = ()) -> dict[str, int]:
    """Return the names of the sessions' documents, oldest first, and the numbers of the sessions.

    Sessions that have not ended may still be measured, and are left out; after a day they were killed.

    Args:
        machines: only those of these machines; all where it is empty.
    """
    query = (
        "select number, session, machine, began from tfperf_sessions s where (ended is not null or began < ?) "
        "and exists (select 1 from tfperf_measurements m where m.session = s.number) order by began"
    )
    with database.opened() as connection:
        found = connection.execute(query, (int(time.time()) - 86400,)).fetchall()
    return {
        name_of(session, machine, began): number
        for number, session, machine, began in found
        if not machines or machine in machines
    }


def known_names(database: HistoryFile) -> set[str]:
    """Return the names of documents that need not be fetched: of all sessions that are here, and of refused ones."""
    if not database.exists:
        return set()
    with database.opened() as connection:
        sessions = connection.execute("select session, machine, began from tfperf_sessions").fetchall()
        refused = connection.execute("select name from tfperf_left_out").fetchall()
    return {*(name_of(*session) for session in sessions), *(name for (name,) in refused)}


def numbers_of(database: HistoryFile, session: str | None, machine: str | None) -> list[int]:
    """Return the numbers of a session's parts, one for each machine that it measured."""
    query = "select number from tfperf_sessions where session = ? and (? is null or machine = ?)"
    with database.opened() as connection:
        return [number for (number,) in connection.execute(query, (session, machine, machine))]


# Writing


def encoded(database: HistoryFile, number: int) -> bytes:
    """Return a session's document as it travels, without windows and telemetry."""
    with database.opened() as connection:
        return compress(_rendered(connection, number, brief, UnreadRows()).encode(), 9, mtime=0)


def exported(database: HistoryFile, number: int, unread: UnreadRows) -> str:
    """Return a session's document with whole measurements, as text; `unread` notes those that can't be read."""
    with database.opened() as connection:
        return _rendered(connection, number, lambda whole: whole, unread)


def _rendered(connection: Connection, number: int, shown: Callable[[Any], Any], unread: UnreadRows) -> str:
    (session,) = rows(connection, "tfperf_sessions", "number = ?", number)
    measured = rows(connection, "tfperf_measurements", "session = ? order by made", number)
    of_session = "measurement in (select number from tfperf_measurements where session = ?)"
    values = rows(connection, "tfperf_values", f"{of_session} order by measurement, rowid", number)
    verdicts = rows(connection, "tfperf_session_verdicts", "session = ? order by rowid", number)
    # In a document a row is referred to by its place in it.
    measurements, series, environments = (
        {of: place for place, of in enumerate(dict.fromkeys(row[name] for row in of_rows))}
        for name, of_rows in (("number", measured), ("series", values), ("environment", measured))
    )
    details = {row["measurement"]: row["whole"] for row in rows(connection, "tfperf_details", of_session, number)}
    wholes = []
    for row in measured:
        row |= {"series": series[row["series"]], "environment": environments[row["environment"]], "is_whole": 0}
        if row["number"] in details:
            with unread.leaving_out(MEASUREMENT, row["number"]) as name:
                wholes.append(json.dumps(shown(unpacked(details[row["number"]], name))))
                row["is_whole"] = 1
    for row in values:
        row |= {"series": series[row["series"]], "measurement": measurements[row["measurement"]]}
    readable = []
    for nth, row in enumerate(verdicts):
        with unread.leaving_out(VERDICT, nth) as name:
            readable.append(row | {"whole": json.dumps(unpacked(row["whole"], name))})
    tables = {
        "series": _columns([_of_number(connection, "tfperf_series", of) for of in series], "number", "machine"),
        "environments": _columns([_of_number(connection, "tfperf_environments", of) for of in environments], "number"),
        "columns": _columns(measured, "number", "session"),
        "values": _columns(values, "made"),
        "verdicts": _columns(readable, "session"),
    }
    head = json.dumps({"version": VERSION, **{name: session[name] for name in _FACTS}})[:-1]
    lines = ",\n".join(wholes)
    return f'{head}, "measurements": [\n{lines}\n], {json.dumps(tables)[1:]}\n'


def _of_number(connection: Connection, table: str, number: int) -> dict[str, Any]:
    (row,) = rows(connection, table, "number = ?", number)
    return row


def _columns(of_rows: Sequence[Mapping[str, Any]], *left_out: str) -> dict[str, list[Any]]:
    names = [name for name in (of_rows[0] if of_rows else ()) if name not in left_out]
    return {name: [row[name] for row in of_rows] for name in names}


_DIGITS: Final = 9  # no figure is measured so well
_NOT_SENT: Final = ("windows", "warmup", "polls", "telemetry", "log")


def brief(whole: Any) -> Any:
    """Return a measurement's JSON with each run's rate in place of its windows and telemetry, and nine digits.

    Raises:
        TfperfError: a run has a damaged window.
    """
    if isinstance(whole, dict):
        is_run = "windows" in whole and "examples_per_step" in whole
        kept = {name: brief(value) for name, value in whole.items() if not (is_run and name in _NOT_SENT)}
        if is_run and whole["windows"]:
            kept["stated_examples_per_sec"] = brief(_rate_of(whole))
        return kept | ({"windows": []} if is_run else {})
    if isinstance(whole, list):
        return [brief(value) for value in whole]
    return float(f"{whole:.{_DIGITS}g}") if isinstance(whole, float) and math.isfinite(whole) else whole


def _rate_of(run: dict[str, Any]) -> float:
    """Return the value of a run's JSON, in units per second."""
    try:
        windows = tuple(Window(w["steps"], w["seconds"], examples=w.get("examples")) for w in run["windows"])
        stated, fetches = run.get("stated_examples_per_sec"), run.get("fetches", False)
        whole = Run(windows, run["examples_per_step"], stated_examples_per_sec=stated, fetches=fetches)
        return run_value(whole).examples_per_sec
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TfperfError(f"a run's windows can't be read: {error!r}") from None


# Reading


def add(
    database: HistoryFile,
    documents: Iterable[tuple[str, bytes]],
    *,
    whole_since: float = 0.0,
    most_bytes: int = _MOST_BYTES,
) -> Iterator[tuple[int, list[str]]]:
    """Add the sessions that the history lacks.

    Yields, after each part that has been written, the number of sessions that were added so far, and why others were
    refused. A document that is refused costs no other, and its name is noted, so that it is not fetched again.

    Args:
        documents: names and what is under them; a name that is none of `name_of` is a file's.
        whole_since: the time, in seconds since 1970, of the oldest measurements that are kept whole.
        most_bytes: of a document, decompressed.

    Raises:
        TfperfError: the history can't be written.
    """
    added, refused, rest = 0, list[str](), iter(documents)
    while portion := list(islice(rest, _AT_ONCE)):  # the file is never open while a place is waited for
        with database.opened(writes=True) as connection:
            for name, data in portion:
                connection.execute("savepoint document")
                try:
                    is_new = _insert(connection, _read(name, data, most_bytes), whole_since)
                    added += is_new
                except (TfperfError, sqlite3.IntegrityError, ValueError, OverflowError, RecursionError) as error:
                    connection.execute("rollback to document")
                    why = str(error) if LEFT_OUT in str(error) else f"{name}{LEFT_OUT}{shortened(str(error))}"
                    refused.append(why)
                    is_new = isinstance(error, NewerFormat)  # an upgrade reads it
                if name.startswith(ROOT) and not is_new:
                    connection.execute("insert or ignore into tfperf_left_out values (?)", (name,))
                connection.execute("release document")
        yield added, refused


def _read(name: str, data: bytes, most_bytes: int) -> dict[str, Any]:
    """Return a document whose columns have their types and lengths, and refer to rows that it has."""
    try:
        text = plain_json.unzipped(data, most_bytes) if data.startswith(b"\x1f\x8b") else data
        if len(text) > most_bytes:
            raise ValueError(f"it has more than {most_bytes / 2**20:g} MiB")
        document = plain_json.from_json(text)
        if not isinstance(document, dict) or "session" not in document:
            raise ValueError("it is no document of a session")
        require_version(document.get("version"), "it", newest=VERSION)
        _check(document)
        own = name_of(*(document[fact] for fact in ("session", "machine", "began")))
    except (ValueError, TypeError, LookupError, AttributeError, OSError, OverflowError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise TfperfError(f"{name}{LEFT_OUT}{shortened(why)}") from None
    if name.startswith(ROOT) and name != own:
        raise TfperfError(f"{name}{LEFT_OUT}it is the document of another session, {shortened(own)}")
    return document


def _check(document: dict[str, Any]) -> None:
    """Raise ValueError, TypeError or KeyError where a document is not as `_rendered` writes it."""
    _require(TABLES["tfperf_sessions"], {name: [document[name]] for name in _FACTS}, "ended")
    series = _require(TABLES["tfperf_series"], document["series"], "machine")
    environments = _require(TABLES["tfperf_environments"], document["environments"])
    of = {"series": series, "environment": environments, "is_whole": 2}
    table = TABLES["tfperf_measurements"] | {"is_whole": "integer not null"}
    measured = _require(table, document["columns"], "session", **of)
    _require(TABLES["tfperf_values"], document["values"], "made", series=series, measurement=measured)
    _require(TABLES["tfperf_session_verdicts"] | {"whole": "text not null"}, document["verdicts"], "session")
    latest, columns = (time.time() + _DAYS_AHEAD * 86400) * 1e6, document["columns"]
    in_time = (at * 1_000_000 <= made < latest for made, at in zip(columns["made"], columns["time"], strict=True))
    if not measured or not all(in_time):
        raise ValueError("it has no measurements, or a time that has not come yet")
    for verdict in document["verdicts"].get("whole", ()):
        plain_json.from_json(verdict)
    wholes = document["measurements"]
    if not isinstance(wholes, list) or len(wholes) != sum(document["columns"]["is_whole"]):
        raise ValueError("its measurements are not those of its columns")


def _require(table: Mapping[str, str], columns: dict[str, list[Any]], *left_out: str, **ends: int) -> int:
    """Check the columns of a table, drop unknown ones, and return their length; `ends` are above all references."""
    lengths = set(map(len, columns.values())) or {0}
    if len(lengths) > 1 or max(lengths) > _MOST_ROWS:
        raise ValueError(f"columns have different lengths, or more than {_MOST_ROWS:,} rows")
    (length,) = lengths
    for name in [name for name in columns if name not in table or name in ("number", *left_out)]:
        del columns[name]
    for name, declared in table.items():
        if name in ("number", *left_out) or not length:
            continue
        kinds = _KINDS[declared.split()[0]] + (() if "not null" in declared else (type(None),))
        for value in columns[name]:
            is_of_kind = type(value) in kinds and value == value and (not isinstance(value, int) or abs(value) < 2**63)
            if not is_of_kind or (isinstance(value, str) and storable(value) != value):
                raise ValueError(f"{name} is {value!r:.60}")
            if name in ends and not 0 <= value < ends[name]:
                raise ValueError(f"{name} refers to nothing")
    return length


def _insert(connection: Connection, document: Mapping[str, Any], whole_since: float) -> bool:
    """Add a document's rows; False where the session is known, or is older than what a user deleted."""
    ((pruned,),) = connection.execute("select pruned from tfperf_history")
    columns, facts = document["columns"], {name: document[name] for name in _FACTS}
    if facts["began"] < pruned or not insert(
        connection, "tfperf_sessions", [facts | {"ended": max(columns["time"])}], otherwise="or ignore"
    ):
        return False
    session, made = last_number(connection), max(columns["made"])
    series = [series_number(connection, row | {"machine": facts["machine"]}, made) for row in _rows(document["series"])]
    environments = [environment_number(connection, row["facts"]) for row in _rows(document["environments"])]
    ((last,),) = connection.execute("select coalesce(max(number), 0) from tfperf_measurements")
    measured, wholes = _rows(columns), iter(document["measurements"])
    details = []
    for number, row in enumerate(measured, start=last + 1):
        whole = next(wholes) if row.pop("is_whole") else None
        if whole is not None and row["time"] >= whole_since:
            details.append({"measurement": number, "whole": zlib.compress(json.dumps(whole).encode())})
        row |= {"number": number, "session": session, "series": series[row["series"]]}
        row["environment"] = environments[row["environment"]]
    values, verdicts = _rows(document["values"]), _rows(document["verdicts"])
    for row in values:
        row |= {"made": columns["made"][row["measurement"]], "series": series[row["series"]]}
        row["measurement"] += last + 1
    for row in verdicts:
        row |= {"session": session, "whole": zlib.compress(row["whole"].encode())}
    insert(connection, "tfperf_measurements", measured)
    insert(connection, "tfperf_details", details)
    insert(connection, "tfperf_values", values)
    insert(connection, "tfperf_session_verdicts", verdicts)
    if details:  # their age is to be checked, too
        connection.execute("update tfperf_history set checked = min(checked, ?)", (min(columns["made"]) - 1,))
    return True


def _rows(columns: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
