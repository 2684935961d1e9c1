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
from pytest_tfperf.core.past_session import PastSession
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pandas

    from pytest_tfperf.core.baseline import Baseline

SCHEMA: Final = 1
"""The version of the tables, kept in SQLite's own `user_version`; 0 is a new file."""

_LOCK_SECONDS = 30

# A measurement is kept whole, as zlib-compressed JSON; the other columns are what queries need.
_TABLES = (
    """
    create table if not exists measurements (
        id integer primary key,
        session text not null,
        time text not null,
        test text not null,
        machine text not null,
        workload text not null,
        topology text not null,
        examples_per_sec real not null,
        outcome text,  -- null: not judged, or not decided yet
        runs integer not null,  -- that count
        workers integer not null,  -- that were started: pairs and discarded runs too
        seconds real not null,  -- of all workers
        reference real,  -- of the row it was judged against; null where later verdicts must not use it
        reference_date text,
        changes text,  -- JSON: `PastSession.changes`
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

_COLUMNS = "session, time, test, machine, workload, topology, examples_per_sec, outcome, runs, seconds"


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
        """Seconds that one worker (or a whole comparison) of each test took last; unknown tests are left out."""
        if not self._path.exists():
            return {}
        with self._open() as database:
            measured = database.execute("select test, seconds / workers, max(id) from measurements group by test")
            compared = database.execute("select test, seconds, max(id) from comparisons group by test")
            known = {test: seconds for test, seconds, _ in [*compared, *measured]}
        return {test: known[test] for test in tests if test in known}

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

    def comparisons(self) -> Iterator[Comparison]:
        """The comparisons, oldest first.

        Raises:
            TfperfError: also where a row is damaged; names it.
        """
        with self._open_existing() as database:
            for number, whole in database.execute("select id, whole from comparisons order by id"):
                place = f"{self._path}: comparison {number}"
                yield build(Comparison, _unpacked(whole, place), place)

    def names(self) -> dict[str, str]:
        """What tests called their workloads last, by the workload's id; those without a name are left out.

        Raises:
            TfperfError: also where there is no history yet, or a row is damaged.
        """
        query = "select workload, whole, max(id) from measurements group by workload"
        with self._open_existing() as database:
            latest = {id: _unpacked(whole, f"{self._path}: {id}") for id, whole, _ in database.execute(query)}
        found = {id: whole.get("name") for id, whole in latest.items() if isinstance(whole, dict)}
        return {id: str(name) for id, name in found.items() if name}

    def frame(self) -> pandas.DataFrame:
        """All measurements, oldest first.

        Columns: session, time, test, machine, workload, topology, examples_per_sec, outcome, runs, seconds.

        Raises:
            TfperfError: also where there is no history yet.
        """
        import pandas as pd

        with self._open_existing() as database:
            return pd.read_sql_query(f"select {_COLUMNS} from measurements order by id", database)

    @contextmanager
    def _open_existing(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            raise TfperfError(f"{self._path}: no history yet; run the suite first, or name its folder: --dir DIR")
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
    row = {name: getattr(m, name) for name in ("session", "time", "test", "machine", "topology", "seconds")} | {
        "workload": m.workload.id,
        "examples_per_sec": m.throughput.examples_per_sec,
        "outcome": decided.outcome.value if decided else None,
        "runs": len(m.runs),
        "workers": max(1, len(m.runs) + len(m.discarded) + 2 * (len(m.pairs) + len(m.discarded_pairs))),
        "whole": _packed(m),
    }
    if decided and decided.baseline and not decided.is_floor and "injected_slowdown" not in m.environment:
        expected = math.log(decided.baseline.reference) + decided.common_drift
        row |= {
            "reference": decided.baseline.reference,
            "reference_date": decided.baseline.date,
            "changes": json.dumps([run.log_rate - expected for run in m.throughput.runs]),
        }
    return row


def _insert(database: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> int:
    places = ", ".join(f":{column}" for column in row)
    return int(database.execute(f"insert into {table} ({', '.join(row)}) values ({places})", row).lastrowid or 0)


def _packed(whole: Measurement | Comparison) -> bytes:
    return zlib.compress(json.dumps(plain(whole)).encode())


def _unpacked(whole: bytes, place: str) -> object:
    try:
        return json.loads(zlib.decompress(whole))
    except (zlib.error, TypeError, ValueError) as error:
        raise TfperfError(f"{place} is damaged: {error}") from None


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
