"""The local history: every measurement and comparison, added to a SQLite file as soon as it is made."""

from __future__ import annotations

import itertools
import json
import math
import zlib
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past_result import PastResult
from pytest_tfperf.core.past_session import EarlierMeasurement, PastSession
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    import pandas

    from pytest_tfperf.core.baseline import Baseline

SCHEMA: Final = 1
"""The version of the tables, kept in SQLite's own `user_version`; 0 is a new file."""

_LOCK_SECONDS = 30
_READ_FOR_EACH_WANTED = 5  # some were disturbed or slowed on purpose, which only the whole measurement tells
_PROVISIONAL = " (provisional)"
_NO_REFERENCE = (Outcome.INVALID.value, Outcome.REGRESSED.value, Outcome.REGRESSED.value + _PROVISIONAL)
_LATEST = 100  # measurements: some sessions of a usual size

# A measurement is kept whole, as zlib-compressed JSON; the other columns are what queries need.
_TABLES = (
    """
    create table if not exists measurements (
        id integer primary key,
        session text not null,
        time text not null,
        test text not null,
        name text not null,
        machine text not null,
        workload text not null,
        topology text not null,
        unit text not null,
        examples_per_sec real not null,
        low real not null,  -- 95 % interval
        high real not null,
        outcome text,  -- null: not judged, or not decided yet; "PASS (provisional)": against earlier sessions
        runs integer not null,  -- that count
        workers integer not null,  -- that were started: pairs and discarded runs too
        seconds real not null,  -- of all workers
        reference real,  -- of the row it was judged against; null where later verdicts must not use it
        reference_date text,
        changes text,  -- JSON: `PastSession.changes`
        "commit" text not null,
        slowed_on_purpose integer not null,
        whole blob not null
    )
    """,
    """
    create table if not exists comparisons (
        id integer primary key,
        test text not null,
        seconds real not null,
        whole blob not null
    )
    """,
    # A year of nightly sessions has 70,000 measurements, and the queries below run in every session.
    "create index if not exists by_session on measurements (session, test)",
    "create index if not exists by_baseline on measurements (machine, workload, topology, reference, session, id)",
    "create index if not exists by_test on measurements (test, id)",
)

_OF_A_MEASUREMENT = ("session", "time", "test", "name", "machine", "topology", "commit", "seconds")
_OF_A_THROUGHPUT = ("unit", "examples_per_sec", "low", "high")
_COLUMNS = "session, time, test, machine, workload, topology, unit, examples_per_sec, outcome, runs, seconds"
_RESULT = (*_OF_A_MEASUREMENT, *_OF_A_THROUGHPUT, "workload", "outcome", "reference", "runs")


class History:
    """The history file; opened anew for each call, so that parallel sessions do not block each other.

    Every method that reads or writes raises TfperfError where the file cannot be used.

    Args:
        path: the SQLite file; its folder is made where missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self) -> None:
        """Make the file and take its write lock once, so that a fault shows before the first measurement."""
        with self._write():
            pass

    def append(self, measurement: Measurement, replaces: int | None = None) -> int:
        """Add a measurement and return its number; it is on disk when this returns.

        Args:
            measurement: whole or still undecided; an undecided one counts for no later verdict.
            replaces: number of the same test's measurement before its latest run, which is deleted.
        """
        with self._write() as database:
            database.execute("delete from measurements where id = ?", (replaces,))
            return _insert(database, "measurements", _measurement_row(measurement))

    def append_comparison(self, comparison: Comparison) -> int:
        """Add a comparison and return its number; it is on disk when this returns."""
        with self._write() as database:
            whole = _packed(comparison)
            row = {"test": comparison.test, "seconds": comparison.seconds, "whole": whole}
            return _insert(database, "comparisons", row)

    def seconds_of(self, tests: Iterable[str]) -> dict[str, float]:
        """Seconds that one run of each test's calls (or a whole comparison) took last; unknown tests are left out."""
        if not self._path.exists():
            return {}
        with self._open() as database:
            measured = database.execute(
                "select test, once, max(latest) from (select test, sum(seconds / workers) as once, max(id) as latest"
                " from measurements group by session, test) group by test"
            )
            compared = database.execute("select test, seconds, max(id) from comparisons group by test")
            known = {test: seconds for test, seconds, _ in [*compared, *measured]}
        return {test: known[test] for test in tests if test in known}

    def confirmation_runs(self, machines: Collection[str]) -> tuple[int, int]:
        """Further runs that confirmations took, and among how many of the machines' latest measurements.

        Measurements with an injected slowdown don't count.
        """
        if not self._path.exists():
            return 0, 0
        with self._open() as database:
            runs, measurements = database.execute(
                "select ifnull(sum(workers - 1), 0), count(*) from (select workers from measurements"
                f" where reference is not null and machine in ({', '.join('?' * len(machines))})"
                " order by id desc limit ?)",
                (*machines, _LATEST),
            ).fetchone()
        return int(runs), int(measurements)

    def past_sessions_of_machine(
        self, rows: Iterable[Baseline], *, before: str, least_tests: int
    ) -> dict[Key, tuple[PastSession, ...]]:
        """Earlier sessions for each of a machine's rows, oldest first; a row without any is left out.

        A session's last decided measurement counts, and only against the very row (reference and date).

        Args:
            rows: baselines of one machine.
            before: id of the current session, which is left out.
            least_tests: tests that a session must have measured, so that rerunning one test by hand does not count.
        """
        wanted = [(row.machine, *row.key, row.reference, row.date) for row in rows]
        if not wanted or not self._path.exists():
            return {}
        found: dict[Key, list[PastSession]] = {}
        with self._open() as database:
            measured = database.execute(
                "select max(id), workload, topology, session, changes, outcome from measurements"
                " where (machine, workload, topology, reference, reference_date) in"
                f" (values {', '.join(['(?, ?, ?, ?, ?)'] * len(wanted))})"
                " and session != ? and session in"
                " (select session from measurements group by session having count(distinct test) >= ?)"
                " group by workload, topology, session order by max(id)",
                (*itertools.chain.from_iterable(wanted), before, least_tests),
            )
            for _, workload, topology, session, changes, outcome in measured:
                past = PastSession(session, tuple(json.loads(changes)), Outcome(outcome))
                found.setdefault(Key(workload, topology), []).append(past)
        return {key: tuple(sessions) for key, sessions in found.items()}

    def earlier_measurements(
        self, machine: str, *, before: str, most: int
    ) -> dict[Key, tuple[EarlierMeasurement, ...]]:
        """What earlier sessions measured on a machine and could repeat: the latest of each key, oldest first.

        Left out are measurements that no reference may rest on: INVALID or REGRESSED, still undecided, with an injected
        slowdown, or without an undisturbed run.

        Args:
            machine: the machine's key.
            before: id of the current session, which is left out.
            most: measurements of each key, at most.

        Raises:
            TfperfError: also where one of these rows is damaged; names it.
        """
        if not self._path.exists():
            return {}
        found: dict[Key, list[EarlierMeasurement]] = {}
        with self._open() as database:
            rows = database.execute(
                "select id, workload, topology, whole from measurements where id in (select id from"
                " (select id, row_number() over (partition by workload, topology order by id desc) as nth"
                " from measurements where machine = ? and session != ? and ifnull(outcome, '') not in (?, ?, ?))"
                " where nth <= ?) order by id",
                (machine, before, *_NO_REFERENCE, most * _READ_FOR_EACH_WANTED),
            )
            for number, workload, topology, whole in rows:
                place = f"{self._path}: measurement {number}"
                if (one := _earlier(_unpacked(whole, place), place)) is not None:
                    found.setdefault(Key(workload, topology), []).append(one)
        return {key: tuple(measured[-most:]) for key, measured in found.items()}

    def measurements(self, session: str | None = None, test: str | None = None) -> Iterator[Measurement]:
        """The measurements of a session or a test (None: of all), whole and oldest first.

        Raises:
            TfperfError: also where a row is damaged; names it.
        """
        query = "select id, whole from measurements where ifnull(session = ?, 1) and ifnull(test = ?, 1) order by id"
        with self._open_existing() as database:
            for number, whole in database.execute(query, (session, test)):
                place = f"{self._path}: measurement {number}"
                yield build(Measurement, _unpacked(whole, place), place)

    def results(self, *, test: str | None = None, machine: str | None = None) -> list[PastResult]:
        """What the columns say of the measurements of a test or a machine (None: of all), oldest first.

        Raises:
            TfperfError: also where there is no history yet.
        """
        columns = ", ".join(f'"{name}"' for name in _RESULT)
        query = (
            f"select id, slowed_on_purpose, {columns} from measurements"
            " where ifnull(test = ?, 1) and ifnull(machine = ?, 1) order by id"
        )
        with self._open_existing() as database:
            return [
                PastResult(
                    id=str(number),
                    is_slowed_on_purpose=bool(slowed),
                    **{**dict(zip(_RESULT, values, strict=True)), "outcome": values[_RESULT.index("outcome")] or ""},
                )
                for number, slowed, *values in database.execute(query, (test, machine))
            ]

    def comparisons(self) -> Iterator[Comparison]:
        """The comparisons, oldest first.

        Raises:
            TfperfError: also where a row is damaged; names it.
        """
        with self._open_existing() as database:
            for number, whole in database.execute("select id, whole from comparisons order by id"):
                place = f"{self._path}: comparison {number}"
                yield build(Comparison, _unpacked(whole, place), place)

    def names_and_units(self) -> tuple[dict[str, str], dict[str, str]]:
        """What tests called their workloads last, and what these counted, both by the workload's id.

        Those without a name are left out of the names.

        Raises:
            TfperfError: also where there is no history yet, or a row is damaged.
        """
        query = "select workload, whole, max(id) from measurements group by workload"
        with self._open_existing() as database:
            latest = {id: _unpacked(whole, f"{self._path}: {id}") for id, whole, _ in database.execute(query)}
        wholes = {id: whole for id, whole in latest.items() if isinstance(whole, dict)}
        names = {id: str(whole["name"]) for id, whole in wholes.items() if whole.get("name")}
        return names, {id: str(whole.get("throughput", {}).get("unit", "images")) for id, whole in wholes.items()}

    def frame(self) -> pandas.DataFrame:
        """All measurements, oldest first.

        Columns: session, time, test, machine, workload, topology, unit, examples_per_sec, outcome, runs, seconds.

        Raises:
            TfperfError: also where there is no history yet.
        """
        import pandas as pd

        with self._open_existing() as database:
            return pd.read_sql_query(f"select {_COLUMNS} from measurements order by id", database)

    @contextmanager
    def _open_existing(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            raise TfperfError(f"{self._path}: no history yet; run pytest first, or name its folder: --dir DIR")
        with self._open() as database:
            yield database

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._open() as database:
            database.execute("begin immediate")
            yield database
            database.commit()

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection; SQLite's rollback journal, unlike its write-ahead log, also works on network file systems."""
        import sqlite3

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_LOCK_SECONDS, isolation_level=None)) as database:
                _check_schema(database, self._path)
                yield database
        except (OSError, sqlite3.Error) as error:  # SQLite finds a damaged page only when it reads it
            raise TfperfError(
                f"{self._path}: the history can't be used: {error}. Move the file away, or give another folder: "
                "--tfperf-dir DIR"
            ) from error


def _measurement_row(m: Measurement) -> dict[str, Any]:
    decided = m.verdict if m.verdict and m.verdict.is_decided else None
    row = {name: getattr(m, name) for name in _OF_A_MEASUREMENT} | {
        **{name: getattr(m.throughput, name) for name in _OF_A_THROUGHPUT},
        "workload": m.workload.id,
        "slowed_on_purpose": "injected_slowdown" in m.environment,
        "outcome": (decided.outcome.value + (_PROVISIONAL if decided.is_provisional else "")) if decided else None,
        "runs": len(m.runs),
        "workers": m.workers,
        "whole": _packed(m),
    }
    is_borrowed = decided is not None and (decided.is_floor or decided.is_provisional)
    if decided and decided.baseline and not is_borrowed and "injected_slowdown" not in m.environment:
        expected = math.log(decided.baseline.reference) + decided.common_drift
        row |= {
            "reference": decided.baseline.reference,
            "reference_date": decided.baseline.date,
            "changes": json.dumps([run.log_rate - expected for run in m.throughput.runs]),
        }
    return row


def _insert(database: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> int:
    places = ", ".join(f":{column}" for column in row)
    columns = ", ".join(f'"{column}"' for column in row)
    return int(database.execute(f"insert into {table} ({columns}) values ({places})", row).lastrowid or 0)


def _packed(whole: Measurement | Comparison) -> bytes:
    return zlib.compress(json.dumps(plain(whole)).encode())


def _unpacked(whole: bytes, place: str) -> object:
    try:
        return json.loads(zlib.decompress(whole))
    except (zlib.error, TypeError, ValueError) as error:
        raise TfperfError(f"{place} is damaged: {error}") from None


def _earlier(whole: Any, place: str) -> EarlierMeasurement | None:
    """The few fields that a reference needs; building whole measurements would take seconds in a large history."""
    try:
        verdict, environment = whole["verdict"], whole["environment"]
        if verdict and (verdict["waits_for_drift"] or verdict["runs_wanted"] or verdict["pairs_wanted"]):
            return None
        values = zip(whole["runs"], whole["throughput"]["runs"], strict=True)
        runs = tuple(
            RunValue(float(value["log_rate"]), float(value["error"]), int(value["windows"]))
            for run, value in values
            if run["disturbance"] is None
        )
        if not runs or "injected_slowdown" in environment:
            return None
        return EarlierMeasurement(
            session=whole["session"],
            date=whole["time"][:10],
            unit=whole["throughput"].get("unit", "images"),
            gpu=whole["gpu"],
            runs=runs,
            environment=environment,
            commit=whole["commit"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TfperfError(f"{place} is damaged: {error!r}") from None


def _check_schema(database: sqlite3.Connection, path: Path) -> None:
    (version,) = database.execute("pragma user_version").fetchone()
    if version == 0:
        _make_tables(database)
    elif version != SCHEMA:
        raise TfperfError(
            f"{path}: another version of pytest-tfperf made this history (schema {version}; this version reads schema "
            f"{SCHEMA}): move the file away, or give another folder: --tfperf-dir DIR"
        )


def _make_tables(database: sqlite3.Connection) -> None:
    """Make the tables in one transaction, unless another session has just made them."""
    database.execute("begin immediate")
    for statement in _TABLES:
        database.execute(statement)
    database.execute(f"pragma user_version = {SCHEMA}")
    database.commit()
