"""The history: every measurement, written to a file as soon as it is made, or sent to a team's server."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from sqlalchemy import Table, delete, insert

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import EarlierMeasurement, SessionChanges, moment
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores import history_queries as queries
from pytest_tfperf.stores.history_database import DamagedHistory, Database
from pytest_tfperf.stores.history_rows import (
    UnreadRows,
    earlier,
    figure_rows,
    figures_in,
    measurement_row,
    profile_of,
    session_changes,
    unpacked,
    verdict_row,
    whole_measurement,
    whole_verdict,
)
from pytest_tfperf.stores.history_tables import FIGURES, HISTORY, MEASUREMENTS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pandas
    from sqlalchemy import Connection, Select

    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.history_url import HistoryUrl
    from pytest_tfperf.core.past import PastResult
    from pytest_tfperf.stores.history_queries import Filters

    _Row = Mapping[str, Any]

_Result = TypeVar("_Result")

_ROW_OF: Final = {
    MEASUREMENTS: "measurement",
    VERDICTS: "session verdict",
    FIGURES: "figure",
}
_TRIAL: Final = "trial"  # a row that is deleted again: rewriting an existing row would write nothing to the disk
_AT_ONCE: Final = 200  # whole measurements that are in memory together
_FRAME: Final = (
    *("session", "time", "test", "machine", "workload", "topology"),
    *("unit", "examples_per_sec", "outcome", "runs", "seconds", "name", "is_slowed_on_purpose"),
)


class History:
    """A history, opened anew for each call.

    Every method that reads or writes raises TfperfError where the file or the server cannot be used. A row that is
    damaged, or that a newer version wrote in a format unknown here, is left out and noted in `unread`.

    Args:
        place: the SQLite file, whose folder is made where missing; or the URL of a team's server.

    Attributes:
        database: the file or the server.
        moved_aside: a sentence about a damaged file that was moved; "" where none was damaged.
        unread: the rows that were left out, which every caller must report.
    """

    def __init__(self, place: Path | HistoryUrl) -> None:
        self.database = Database(place)
        self.moved_aside = ""
        self.unread = UnreadRows()

    def prepare(self) -> None:
        """Make the file and write to it, so that a fault shows before the first measurement."""

        def write_and_take_back(connection: Connection) -> None:
            connection.execute(HISTORY.insert().values(version=0, id=_TRIAL))
            connection.execute(delete(HISTORY).where(HISTORY.c.id == _TRIAL))

        self._write(write_and_take_back)

    def append(self, measurement: Measurement, replaces: str | None = None) -> str:
        """Add a measurement and return its id; it is on disk when this returns.

        Args:
            measurement: decided or not; an undecided measurement counts for no later verdict.
            replaces: id of the same test's measurement before its latest run, which is replaced.
        """
        row, figures = measurement_row(measurement), figure_rows(measurement)
        return self._add(MEASUREMENTS, row, measurement.time, replaces, figures)

    def append_verdict(self, verdict: SessionVerdict, *, session: str, time: str) -> None:
        """Add a verdict on a whole session; it is on disk when this returns."""
        self._add(VERDICTS, verdict_row(verdict, session=session, time=time), time)

    def prune(self, before: datetime) -> int:
        """Delete all rows from before a time, free their space, and return the number of measurements deleted."""

        def delete_old(connection: Connection) -> int:
            measurements, *_ = (
                connection.execute(delete(table).where(*queries.conditions(table, {"until": before}))).rowcount
                for table in (MEASUREMENTS, VERDICTS, FIGURES)
            )
            return measurements

        self.database.require()
        deleted = self._write(delete_old)
        self.database.compact()
        return deleted

    def seconds_of(self, tests: Iterable[str]) -> dict[str, float]:
        """Return the seconds that a run of all of a test's calls, or its pairs beside another side, took last.

        Tests that never ran are left out.
        """
        wanted = list(tests)
        return self.seconds_of_interleaved(wanted) | self._seconds(queries.seconds_of_runs(), wanted)

    def seconds_of_interleaved(self, tests: Iterable[str]) -> dict[str, float]:
        """Return the seconds that a test took last beside another side; tests that never ran so are left out."""
        return self._seconds(queries.seconds_of_interleaved(), tests)

    def longest_seconds_of(self, tests: Iterable[str]) -> dict[str, float]:
        """Return the most seconds that a run of all of a test's calls took; unknown tests are left out."""
        return self._seconds(queries.longest_seconds_of_runs(), tests)

    def confirmation_runs(self, machines: Collection[str]) -> tuple[int, int]:
        """Return how many confirmation runs the machines' latest measurements took, and the number of measurements.

        Measurements with an injected slowdown don't count.
        """
        runs, measurements = next(self._rows(queries.confirmation_runs(machines)), (0, 0))
        return int(runs), int(measurements)

    def past_sessions_of_machine(
        self, rows: Iterable[Baseline], *, before: str, least_tests: int
    ) -> dict[Key, tuple[SessionChanges, ...]]:
        """Return the earlier sessions of each of a machine's rows, oldest first; rows without any are left out.

        Only the last decided measurement of a session counts, and only against the same row (value and date).

        Args:
            rows: baselines of one machine.
            before: id of the current session, which is left out.
            least_tests: the least tests of a session that counts, so that rerunning a test by hand does not.
        """
        wanted = list(rows)
        if not wanted or not self.database.exists:
            return {}
        by_key: dict[Key, list[SessionChanges]] = {}
        for id, workload, topology, *columns in self._rows(queries.past_sessions(wanted, before, least_tests)):
            with self._leaving_out(MEASUREMENTS, id):
                by_key.setdefault(Key(workload, topology), []).append(session_changes(*columns))
        return {key: tuple(sessions) for key, sessions in by_key.items()}

    def earlier_measurements(
        self, machine: str, *, before: str, most: int
    ) -> dict[Key, tuple[EarlierMeasurement, ...]]:
        """Return a machine's latest measurements of each key that a provisional baseline may rest on, oldest first.

        Left out are measurements that are INVALID or REGRESSED, undecided, with an injected slowdown, or without an
        undisturbed run.

        Args:
            machine: the machine's key.
            before: id of the current session, which is left out.
            most: the most measurements of a key.
        """
        by_key: dict[Key, list[EarlierMeasurement]] = {}
        for id, workload, topology, whole in self._rows(queries.earlier_measurements(machine, before, most)):
            with self._leaving_out(MEASUREMENTS, id) as row:
                if (measurement := earlier(unpacked(whole, row), row)) is not None:
                    by_key.setdefault(Key(workload, topology), []).append(measurement)
        return {key: tuple(measurements[-most:]) for key, measurements in by_key.items()}

    def profile_of(self, row: Baseline) -> Profile | None:
        """Return the profile that was taken when a baseline was recorded; None where none was."""
        for id, whole in self._rows(queries.recorded(row)) if row.date else ():
            with self._leaving_out(MEASUREMENTS, id) as name:
                if (profile := profile_of(unpacked(whole, name), row.date, name)) is not None:
                    return profile
        return None

    def measurements(self, **wanted: Unpack[Filters]) -> Iterator[Measurement]:
        """Return whole measurements, by default all, in the order in which they were made.

        Raises:
            TfperfError: also where there is no history yet.
        """
        return self._wholes(MEASUREMENTS, wanted, whole_measurement)

    def sessions(self, machine: str | None = None, *, alone_only: bool = False) -> list[tuple[str, str]]:
        """Return each session's id with each of its machines, in the order in which they were made.

        Args:
            machine: the only machine to list; None for all.
            alone_only: whether sessions that only measured beside another side are left out.

        Raises:
            TfperfError: also where there is no history yet.
        """
        self.database.require()
        return [(session, name) for session, name in self._rows(queries.sessions(machine, alone_only=alone_only))]

    def verdicts(self, *, session: str, machine: str) -> list[SessionVerdict]:
        """Return the verdicts on a session as a whole.

        Raises:
            TfperfError: also where there is no history yet.
        """
        self.database.require()
        return list(self._wholes(VERDICTS, {"session": session, "machine": machine}, whole_verdict))

    def results(self, **wanted: Unpack[Filters]) -> list[PastResult]:
        """Return results of throughputs, by default all without another side, in the order in which they were made.

        Raises:
            TfperfError: also where there is no history yet.
        """
        self.database.require()
        results = []
        with self.database.reading() as connection:
            for row in connection.execute(queries.results(wanted)):
                with self._leaving_out(MEASUREMENTS, row.id):
                    results.append(queries.as_result(row))
        return results

    def figure_results(self, **wanted: Unpack[Filters]) -> list[PastResult]:
        """Return results of further figures, by default all without another side, in the order in which they were made.

        Each has the `Figure` of its test's latest measurement.

        Raises:
            TfperfError: also where there is no history yet.
        """
        self.database.require()
        rows = list(self._rows(queries.figure_results(wanted)))

        def series(row: Any) -> tuple[str, ...]:
            return row.machine, row.test, row.workload, row.topology, row.figure

        last = {series(row): row.id for row in rows}
        asked: dict[tuple[str, str], Figure] = {}
        for id, whole in self._rows(queries.wholes_of(set(last.values()))):
            with self._leaving_out(MEASUREMENTS, id) as name:
                asked |= {(id, figure.name): figure for figure in figures_in(unpacked(whole, name), name)}
        results = []
        for row in rows:
            with self._leaving_out(FIGURES, f"{row.id}-{row.figure}"):
                if (figure := asked.get((last[series(row)], row.figure))) is not None:
                    results.append(queries.as_result(row[:-1], figure))
        return results

    def frame(self, **wanted: Unpack[Filters]) -> pandas.DataFrame:
        """Return measurements, by default all without another side, in the order in which they were made.

        Columns: session, time, test, machine, workload, topology, unit, examples_per_sec, outcome, runs, seconds, name,
        is_slowed_on_purpose. The outcome is the test's, the worst of its throughput's and its figures'.

        Raises:
            TfperfError: also where there is no history yet.
        """
        import pandas as pd

        results = self.results(**wanted)
        fields = ["value" if column == "examples_per_sec" else column for column in _FRAME]
        rows = [[getattr(result, field) for field in fields] for result in results]
        frame = pd.DataFrame(rows, columns=pd.Index(_FRAME))
        return frame.assign(outcome=pd.Series([result.test_outcome or None for result in results], dtype=object))

    def _rows(self, query: Select[Any]) -> Iterator[Any]:
        """Yield a query's rows; none where there is no history yet."""
        if self.database.exists:
            with self.database.reading() as connection:
                yield from connection.execute(query)

    def _seconds(self, query: Select[Any], tests: Iterable[str]) -> dict[str, float]:
        known: dict[str, float] = dict(self._rows(query))
        return {test: known[test] for test in tests if test in known}

    def _wholes(self, table: Table, wanted: Filters, read: Callable[[bytes, str], _Result]) -> Iterator[_Result]:
        self.database.require()
        with self.database.reading() as connection:
            rows = connection.execution_options(yield_per=_AT_ONCE).execute(queries.wholes(table, wanted))
            for id, whole in rows:
                with self._leaving_out(table, id) as name:
                    yield read(whole, name)

    @contextmanager
    def _leaving_out(self, table: Table, id: object) -> Iterator[str]:
        """Note an error that the reading of a row raises, and go on; gives the row's name for messages."""
        row = f"{_ROW_OF[table]} {id}"
        try:
            yield row
        except TfperfError as error:
            why = str(error)
            why = why if why.startswith(row) else f"{row}: {why}"
            self.unread.add(row, why, lambda: self._test_of(id) if table is MEASUREMENTS else "")

    def _test_of(self, id: object) -> str:
        """Name the test and session of a measurement that can't be read."""
        row = next(self._rows(queries.test_of(id)), None)
        return f"{shortened(row.test)} in session {shortened(row.session)}" if row else ""

    def _add(
        self, table: Table, row: _Row, when: str, replaces: str | None = None, figures: Sequence[_Row] = ()
    ) -> str:
        id = replaces or secrets.token_hex(16)

        def add(connection: Connection) -> None:
            made = max(connection.scalar(queries.last_made(table)) + 1, round(moment(when).timestamp() * 1e6))
            connection.execute(delete(table).where(table.c.id == replaces))
            connection.execute(insert(table).values(**row, id=id, made=made))
            if table is MEASUREMENTS:
                connection.execute(delete(FIGURES).where(FIGURES.c.measurement == id))
            first = max(connection.scalar(queries.last_made(FIGURES)) + 1, made) if figures else 0
            for number, figure in enumerate(figures):
                own = {"id": f"{id}-{figure['figure']}", "made": first + number, "measurement": id}
                connection.execute(insert(FIGURES).values(**figure, **own))

        self._write(add)
        return id

    def _write(self, action: Callable[[Connection], _Result]) -> _Result:
        """Run an action in a transaction; a damaged file is moved aside, and a new one made."""
        try:
            with self.database.writing() as connection:
                return action(connection)
        except DamagedHistory:
            if aside := self.database.move_aside():
                self.moved_aside = (
                    f"{self.database} was damaged. It is now {aside.name}, and a new history has begun, "
                    "without the earlier sessions"
                )
        with self.database.writing() as connection:
            return action(connection)
