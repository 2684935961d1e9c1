"""Every finished measurement, appended at once to a local SQLite file: a kill loses none that finished."""

from __future__ import annotations

import json
import math
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from pytest_tfperf.baseline import Baseline
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.night import Night

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pandas

    from pytest_tfperf.record import Record

_SCHEMA = """
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


class History:
    """The history file; opened for each call, so that sessions side by side don't hold each other up.

    Args:
        path: the SQLite file; its folder is made where missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, record: Record) -> None:
        """Add a record; it is on disk when this returns.

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
            record.verdict.outcome.value if record.verdict else None,
            len(record.throughput.runs),
            record.seconds,
            *_drops(record),
            json.dumps(record.to_json()),
        )
        with self._open() as database, database:
            database.execute(
                "insert into records"
                " (time, test, machine, workload, topology, images_per_sec, outcome, runs, seconds, reference, drops,"
                " record) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def nights(self, baseline: Baseline) -> tuple[Night, ...]:
        """The days before today on which this baseline's workload was judged against this very reference, oldest first.

        The last measurement of a day counts for it. Raises TfperfError where the file is no history.
        """
        if not self._path.exists():
            return ()
        with self._open() as database:
            found = database.execute(
                "select drops, outcome from records"
                " where machine = ? and workload = ? and topology = ? and reference = ?"
                " and date(time, 'localtime') < date('now', 'localtime')"
                " group by date(time, 'localtime') having id = max(id) order by id",
                (baseline.machine, *baseline.key, baseline.reference),
            )
            return tuple(
                Night(tuple(json.loads(drops)), doubtful=outcome == "INCONCLUSIVE", good=outcome == "PASS")
                for drops, outcome in found
            )

    def seconds_of(self, tests: Iterable[str]) -> dict[str, float]:
        """How long one run of each test took when it last finished; tests never seen are left out."""
        if not self._path.exists():
            return {}
        with self._open() as database:
            found = database.execute("select test, seconds / runs from records group by test having id = max(id)")
            known = dict(found.fetchall())
        return {test: known[test] for test in tests if test in known}

    def frame(self) -> pandas.DataFrame:
        """All measurements, oldest first, as a pandas DataFrame.

        Columns: time, test, machine, workload, topology, images_per_sec, outcome, runs, seconds.

        Raises:
            TfperfError: there is no history yet, or the file is none.
        """
        import pandas as pd

        if not self._path.exists():
            raise TfperfError(f"{self._path}: no history yet; run the suite first, or name its folder: --dir DIR")
        columns = "time, test, machine, workload, topology, images_per_sec, outcome, runs, seconds"
        with self._open() as database:
            return pd.read_sql_query(f"select {columns} from records order by id", database)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        import sqlite3

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=30)) as database:
                _set_up(database)
                yield database
        except (OSError, sqlite3.Error) as error:  # a damaged page shows only when it is read
            raise TfperfError(
                f"{self._path}: the history can't be used: {error}. Move the file away, or give another folder: "
                "--tfperf-dir DIR"
            ) from error


def _set_up(database: sqlite3.Connection) -> None:
    """Write-ahead log and table; SQLite's time-out does not cover the change of mode, for which new sessions race."""
    import sqlite3

    deadline = time.monotonic() + 30
    while True:
        try:
            database.execute("pragma journal_mode = wal")
            database.execute(_SCHEMA)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _drops(record: Record) -> tuple[float | None, str | None]:
    """Reference and drops; nothing where it was not judged, or lost throughput on purpose."""
    verdict = record.verdict
    if verdict is None or verdict.baseline is None or "injected_slowdown" in record.environment:
        return None, None
    reference = verdict.baseline.reference
    return reference, json.dumps([r.log_rate - math.log(reference) - verdict.credited for r in record.throughput.runs])
