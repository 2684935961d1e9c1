"""Every finished measurement, appended at once to a local SQLite file: a kill loses none that finished."""

from __future__ import annotations

import json
import math
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.judging.common_drift import Night

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pandas

    from pytest_tfperf.core.comparison import Comparison
    from pytest_tfperf.core.measurement import Measurement

SCHEMA: Final = 3
"""The form of the file, in SQLite's own `user_version`; 1 is what had none, up to the first release; 2 no indices."""

_RECORDS = """
create table if not exists records (
    id integer primary key,
    time text not null,
    test text not null,
    machine text not null,
    workload text not null,
    topology text not null,
    images_per_sec real not null,
    outcome text,
    runs integer not null,
    seconds real not null,  -- of all runs
    reference real,  -- of the baseline that it was judged against
    drops text,  -- JSON: each run's log throughput less the reference's and what was credited
    record text not null  -- the whole record, JSON
)
"""

_COMPARISONS = """
create table if not exists comparisons (
    id integer primary key,
    time text not null,
    test text not null,
    machine text not null,
    topology text not null,
    workload_a text not null,
    workload_b text not null,
    tensorflow_a text,
    tensorflow_b text,
    images_per_sec_a real not null,
    images_per_sec_b real not null,
    ratio real not null,  -- b / a
    low real not null,  -- its 95 % interval
    high real,  -- null: not known
    outcome text,
    pairs integer not null,
    seconds real not null,
    comparison text not null  -- the whole comparison, JSON
)
"""

# Each verdict asks for its nights, and a year of them has 70,000 records, of which few fit on a page.
_INDICES = (
    "create index if not exists records_by_baseline on records (machine, workload, topology, reference, id)",
    "create index if not exists records_by_test on records (test, id)",
    "create index if not exists comparisons_by_test on comparisons (test, id)",
)

# Columns that files from before `user_version` may lack, and what stands in them for older rows.
_LATER_COLUMNS = {
    "runs": (
        "integer not null default 1",
        "update records set runs = max(1, ifnull(json_array_length(record, '$.throughput.runs'), 1))",
    ),
    "reference": ("real", ""),
    "drops": ("text", ""),
}


_RECORD_COLUMNS = (
    *("time", "test", "machine", "workload", "topology", "images_per_sec", "outcome", "runs", "seconds"),
    *("reference", "drops", "record"),
)
_COMPARISON_COLUMNS = (
    "time, test, machine, topology, workload_a, workload_b, tensorflow_a, tensorflow_b, images_per_sec_a,"
    " images_per_sec_b, ratio, low, high, outcome, pairs, seconds"
)


class History:
    """The history file; opened for each call, so that sessions side by side don't hold each other up.

    Args:
        path: the SQLite file; its folder is made where missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def prepare(self) -> None:
        """Make the file, or find out before the first measurement that it can't be used.

        Raises:
            TfperfError: the file can't be written, or is no history.
        """
        with self._open() as database:
            database.execute("begin immediate")  # takes the lock that writing takes
            database.rollback()

    def append(self, record: Measurement, *, replaces: int | None = None) -> int:
        """Add a record; it is on disk when this returns. Returns its number.

        Args:
            record: of a test that is decided, or of one that waits for more runs or for what the night's tests have in
                common; what waits for these counts for no later night.
            replaces: the number of the same test's record before it had its latest run; that one goes.

        Raises:
            TfperfError: the file can't be written, or is no history.
        """
        row = (
            record.time,
            record.test,
            record.machine,
            record.workload.id,
            record.topology,
            record.throughput.images_per_sec,
            record.verdict.outcome.value if record.verdict and not record.verdict.waits else None,
            len(record.throughput.runs),
            record.seconds,
            *_drops(record),
            json.dumps(record.to_json()),
        )
        with self._open() as database, database:
            database.execute("delete from records where id = ?", (replaces,))
            added = database.execute(
                f"insert into records ({', '.join(_RECORD_COLUMNS)}) values ({', '.join('?' * len(row))})",
                row,
            )
        return int(added.lastrowid or 0)

    def append_comparison(self, comparison: Comparison) -> None:
        """Add a comparison; as `append`."""
        c = comparison
        row = (
            c.time,
            c.test,
            c.machine,
            c.topology,
            c.a.workload.id,
            c.b.workload.id,
            c.a.environment.get("tensorflow"),
            c.b.environment.get("tensorflow"),
            c.a.throughput.images_per_sec,
            c.b.throughput.images_per_sec,
            c.ratio,
            c.low,
            c.high if math.isfinite(c.high) else None,
            c.outcome.value if c.outcome else None,
            len(c.log_ratios),
            c.seconds,
            json.dumps(c.to_json()),
        )
        columns = f"{_COMPARISON_COLUMNS}, comparison"
        with self._open() as database, database:
            database.execute(
                f"insert into comparisons ({columns}) values ({', '.join('?' * len(row))})",
                row,
            )

    def nights(self, baseline: Baseline) -> tuple[Night, ...]:
        """The nights before this one in which this baseline's workload was judged against this very reference.

        Oldest first; the last measurement of a night counts for it. A night lasts from noon to noon: one that begins at
        23:00 and decides its doubts at 01:00 is one. Raises TfperfError where the file is no history.
        """
        if not self._path.exists():
            return ()
        night, tonight = _night("time"), _night("'now'")
        with self._open() as database:
            found = database.execute(
                "select drops, outcome from records"
                " where machine = ? and workload = ? and topology = ? and reference = ?"
                f" and {night} < {tonight}"
                f" group by {night} having id = max(id) order by id",
                (baseline.machine, *baseline.key, baseline.reference),
            )
            return tuple(
                Night(tuple(json.loads(drops)), doubtful=outcome == "INCONCLUSIVE", good=outcome == "PASS")
                for drops, outcome in found
            )

    def seconds_of(self, tests: Iterable[str]) -> dict[str, float]:
        """How long one run (or comparison) of each test took when it last finished; tests never seen are left out."""
        if not self._path.exists():
            return {}
        with self._open() as database:
            measured = database.execute("select test, seconds / runs from records group by test having id = max(id)")
            compared = database.execute("select test, seconds from comparisons group by test having id = max(id)")
            known = dict(compared.fetchall()) | dict(measured.fetchall())
        return {test: known[test] for test in tests if test in known}

    def frame(self) -> pandas.DataFrame:
        """All measurements, oldest first, as a pandas DataFrame.

        Columns: time, test, machine, workload, topology, images_per_sec, outcome, runs, seconds.

        Raises:
            TfperfError: there is no history yet, or the file is none.
        """
        columns = "time, test, machine, workload, topology, images_per_sec, outcome, runs, seconds"
        return self._read(f"select {columns} from records order by id")

    def comparisons(self) -> pandas.DataFrame:
        """All comparisons, oldest first, as a pandas DataFrame.

        Columns: time, test, machine, topology, then workload, tensorflow and images_per_sec of a and of b (workload_a,
        ...), ratio (b / a), low, high, outcome, pairs, seconds.

        Raises:
            TfperfError: as `frame`.
        """
        return self._read(f"select {_COMPARISON_COLUMNS} from comparisons order by id")

    def _read(self, query: str) -> pandas.DataFrame:
        import pandas as pd

        if not self._path.exists():
            raise TfperfError(f"{self._path}: no history yet; run the suite first, or name its folder: --dir DIR")
        with self._open() as database:
            return pd.read_sql_query(query, database)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=30)) as database:
                _set_up(database, self._path)
                yield database
        except (OSError, sqlite3.Error) as error:  # a damaged page shows only when it is read
            raise TfperfError(
                f"{self._path}: the history can't be used: {error}. Move the file away, or give another folder: "
                "--tfperf-dir DIR"
            ) from error


def _set_up(database: sqlite3.Connection, path: Path) -> None:
    """Write-ahead log and tables; SQLite's time-out does not cover the change of mode, for which new sessions race."""
    import sqlite3

    deadline = time.monotonic() + 30
    while True:
        try:
            database.execute("pragma journal_mode = wal")
            if _schema(database) != SCHEMA:
                _migrate(database, path)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _schema(database: sqlite3.Connection) -> int:
    (version,) = database.execute("pragma user_version").fetchone()
    return int(version)


def _migrate(database: sqlite3.Connection, path: Path) -> None:
    """Give the file today's form in one transaction: a kill leaves the old form or the new one."""
    database.execute("begin immediate")
    try:
        found = _schema(database)  # another session may have been faster
        if found > SCHEMA:
            raise TfperfError(
                f"{path}: a newer pytest-tfperf made this history (form {found}; this one knows up to {SCHEMA}): "
                "upgrade pytest-tfperf, or give another folder: --tfperf-dir DIR"
            )
        if found < SCHEMA:
            database.execute(_RECORDS)
            database.execute(_COMPARISONS)
            _add_columns(database)
            for index in _INDICES:
                database.execute(index)
            database.execute(f"pragma user_version = {SCHEMA}")
    except BaseException:
        database.rollback()
        raise
    database.commit()


def _add_columns(database: sqlite3.Connection) -> None:
    there = {name for _, name, *_ in database.execute("pragma table_info(records)")}
    for name, (kind, fill) in _LATER_COLUMNS.items():
        if name not in there:
            database.execute(f"alter table records add column {name} {kind}")
            if fill:
                database.execute(fill)
    # A table of another program, which only has our table's name, shows here and not in the middle of the night.
    database.execute(f"select {', '.join(_RECORD_COLUMNS)} from records limit 0")


def _night(time: str) -> str:
    """SQL: the date on which the night of a time began."""
    return f"date({time}, 'localtime', '-12 hours')"


def _drops(record: Measurement) -> tuple[float | None, str | None]:
    """Reference and drops; nothing where it was not judged, waits to be, or lost throughput on purpose."""
    verdict = record.verdict
    if verdict is None or verdict.waits or verdict.baseline is None or "injected_slowdown" in record.environment:
        return None, None
    reference = verdict.baseline.reference
    return reference, json.dumps([r.log_rate - math.log(reference) - verdict.credited for r in record.throughput.runs])
