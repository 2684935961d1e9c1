"""The history: every measurement, written to a file as soon as it is made, or sent to a team's server."""

from __future__ import annotations

import secrets
from contextlib import closing, contextmanager, suppress
from functools import cache
from itertools import islice
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
    DROPPED,
    UnreadRows,
    earlier_of_columns,
    figure_rows,
    figures_in,
    measurement_row,
    profile_of,
    session_changes,
    storable,
    unpacked,
    verdict_row,
    whole_measurement,
    whole_verdict,
    with_details,
)
from pytest_tfperf.stores.history_tables import FIGURES, HISTORY, MEASUREMENTS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    import pandas
    from sqlalchemy import Connection, CursorResult, Select

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
_ROWS_AT_ONCE: Final = 5000
_SESSIONS_AT_ONCE: Final = 500  # rows, of which most are of one session
_LARGE: Final = 100_000_000  # bytes
_SESSIONS_TIMED: Final = 10  # a test's earlier sessions that tell how long it takes
_READ_FOR_EACH_WANTED: Final = 5  # some were disturbed or slowed on purpose, which is no column's condition
MOST_PAST_SESSIONS: Final = 40
"""Sessions of a row that are learnt from: its first 20, which refine the baseline, and its last 20."""
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

    def prepare(self, say: Callable[[str], None] = lambda _: None) -> None:
        """Make the file and write to it, so that a fault shows before the first measurement.

        Args:
            say: shows a line at once, where a large file of an earlier version gets what it lacks.
        """
        with suppress(TfperfError):  # the write below says it, or moves a damaged file aside
            if self.database.size > _LARGE and self.database.is_incomplete:
                say(f"{self.database}: adding this version's indexes, once; it takes a few seconds for each GB")

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

    def run_seconds(self, tests: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """Return the seconds of a run of all of a test's calls in its last sessions, the latest first.

        Tests that never ran are left out.
        """
        seconds = {}
        with self._if_exists() as connection:
            for test in tests if connection else ():
                of_sessions: dict[str, float] = {}
                with closing(connection.execute(queries.SECONDS_OF, _of_test(test, beside=False))) as rows:
                    for session, taken, workers in rows:
                        if session not in of_sessions and len(of_sessions) == _SESSIONS_TIMED:
                            break
                        of_sessions[session] = of_sessions.get(session, 0.0) + taken / max(workers, 1)
                if of_sessions:
                    seconds[test] = tuple(of_sessions.values())
        return seconds

    def seconds_of_interleaved(self, tests: Iterable[str]) -> dict[str, float]:
        """Return the seconds that a test took last beside another side; tests that never ran so are left out."""
        with self._if_exists() as connection:
            known = tests if connection else ()
            last = {test: connection.execute(queries.SECONDS_OF, _of_test(test, beside=True)).first() for test in known}
            return {test: row.seconds for test, row in last.items() if row is not None}

    def last_sessions(self, tests: Iterable[str]) -> set[str]:
        """Return the last session of each test without an injected slowdown; unknown tests have none."""
        sessions = set()
        with self._if_exists() as connection:
            for test in tests if connection else ():
                both = (
                    connection.execute(queries.LAST_SESSION, _of_test(test, beside=b)).first() for b in (False, True)
                )
                sessions |= {row.session for row in sorted(filter(None, both))[-1:]}
        return sessions

    def confirmation_runs(self, machines: Collection[str]) -> tuple[int, int]:
        """Return how many confirmation runs the machines' latest measurements took, and the number of measurements.

        Measurements with an injected slowdown don't count.
        """
        known = (row for machine in machines for row in self._rows(queries.judged_runs(machine)))
        workers = [row.workers for row in sorted(known, key=lambda row: row.made)[-queries.LATEST :]]
        return sum(workers) - len(workers), len(workers)

    def past_sessions_of_machine(
        self, rows: Iterable[Baseline], *, before: str, least_tests: int, most: int = MOST_PAST_SESSIONS
    ) -> dict[Key, tuple[SessionChanges, ...]]:
        """Return earlier sessions of each of a machine's rows, oldest first; rows without any are left out.

        Only the last decided measurement of a session counts, and only against the same row (value and date).

        Args:
            rows: baselines of one machine.
            before: id of the current session, which is left out.
            least_tests: the least tests of a session that counts, so that rerunning a test by hand does not.
            most: the most sessions of a row, one half of them its first ones and the other its last ones.
        """
        by_key: dict[Key, list[SessionChanges]] = {}
        with self._if_exists() as connection:

            @cache
            def counts(session: str) -> bool:
                return bool(connection.scalar(queries.TESTS_OF, {"session": session}) >= least_tests)

            for row in rows if connection else ():
                first, last = (
                    _by_session(connection.execute(query, queries.of_row(row, before)), most // 2, counts)
                    for query in (queries.AGAINST_OLDEST_FIRST, queries.AGAINST_NEWEST_FIRST)
                )
                for one in sorted((first | last).values(), key=lambda one: one.made):
                    with self._leaving_out(MEASUREMENTS, one.id):
                        changes = session_changes(one.session, one.changes, one.outcome)
                        by_key.setdefault(row.key, []).append(changes)
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
        by_key = {}
        completed: dict[str, EarlierMeasurement | None] = {}
        with self._if_exists() as connection:
            for workload, topology in connection.execute(queries.keys_of(machine)).all() if connection else ():
                key = {"machine": machine, "workload": workload, "topology": topology, "before": before}
                with closing(connection.execute(queries.FOR_PROVISIONAL, key)) as rows:
                    serving = list(islice(self._serving(connection, rows, most, completed), most))
                if serving:
                    by_key[Key(workload, topology)] = tuple(reversed(serving))
        if completed:
            columns = [queries.values_for_provisional(id, one) for id, one in completed.items()]
            self._write(lambda connection: connection.execute(queries.COMPLETE, columns))
        return by_key

    def _serving(
        self, connection: Connection, rows: Iterable[Any], most: int, completed: dict[str, EarlierMeasurement | None]
    ) -> Iterator[EarlierMeasurement]:
        """Yield the measurements that serve; the latest of each GPU has its environment.

        Rows of an earlier version lack the columns, and are read from the whole; they are added to `completed`.
        """
        gpus = set[str]()
        for row in islice(rows, most * _READ_FOR_EACH_WANTED):
            with self._leaving_out(MEASUREMENTS, row.id) as name:
                one = None if row.run_values is None else earlier_of_columns(row)
                if row.run_values is None or (one is not None and one.gpu not in gpus):
                    whole: Any = connection.scalar(queries.WHOLE_OF, {"id": row.id})
                    if whole != DROPPED:
                        one = with_details(one, unpacked(whole, name), name)
                        if row.run_values is None:
                            completed[row.id] = one
                if one is not None:
                    gpus.add(one.gpu)
                    yield one

    def profile_of(self, row: Baseline) -> Profile | None:
        """Return the profile that was taken when a baseline was recorded; None where none was."""
        for id, whole in self._rows(queries.recorded(row)) if row.date else ():
            with self._leaving_out(MEASUREMENTS, id) as name:
                if whole != DROPPED and (profile := profile_of(unpacked(whole, name), row.date, name)) is not None:
                    return profile
        return None

    def measurements(self, **wanted: Unpack[Filters]) -> Iterator[Measurement]:
        """Return whole measurements, by default all, in the order in which they were made.

        Raises:
            TfperfError: also where there is no history yet.
        """
        return self._wholes(MEASUREMENTS, wanted, whole_measurement)

    def newest_sessions(self, machine: str | None = None, *, alone_only: bool = False) -> Iterator[tuple[str, str]]:
        """Yield each session's id with each of its machines, the one that measured last first.

        Args:
            machine: the only machine; None for all.
            alone_only: whether sessions that only measured beside another side are left out.

        Raises:
            TfperfError: also where there is no history yet.
        """
        query = queries.sessions(machine, alone_only=alone_only)
        known = set[tuple[str, str]]()
        for session, name, *_ in self._portions(query, MEASUREMENTS, _SESSIONS_AT_ONCE, newest_first=True):
            if (session, name) not in known:
                known.add((session, name))
                yield session, name

    def has(self, **wanted: Unpack[Filters]) -> bool:
        """Whether there is any such measurement.

        Raises:
            TfperfError: also where there is no history yet.
        """
        self.database.require()
        return any(self._rows(queries.any_of(wanted)))

    def values_of(self, name: str, **wanted: Unpack[Filters]) -> list[str]:
        """Return the values of a column, the one that was measured last first."""
        return [str(value) for (value,) in self._rows(queries.values_of(name, wanted))]

    def times_of(self, **wanted: Unpack[Filters]) -> tuple[str, str]:
        """Return the times of the first and the last measurement; there must be one."""
        first, last = next(self._rows(queries.times_of(wanted)))
        return str(first), str(last)

    def verdicts(self, *, session: str, machine: str) -> list[SessionVerdict]:
        """Return the verdicts on a session as a whole.

        Raises:
            TfperfError: also where there is no history yet.
        """
        self.database.require()
        return list(self._wholes(VERDICTS, {"session": session, "machine": machine}, whole_verdict))

    def results(self, **wanted: Unpack[Filters]) -> Iterator[PastResult]:
        """Yield results of throughputs, by default all without another side, in the order in which they were made.

        Raises:
            TfperfError: also where there is no history yet.
        """
        for row in self._portions(queries.results(wanted), MEASUREMENTS, _ROWS_AT_ONCE):
            with self._leaving_out(MEASUREMENTS, row.id):
                yield queries.as_result(row)

    def latest(self, **wanted: Unpack[Filters]) -> list[PastResult]:
        """Return the last result of each machine's test, workload and topology, in the order of `results`.

        Raises:
            TfperfError: also where there is no history yet.
        """
        results = []
        for row in self._portions(queries.latest(wanted), MEASUREMENTS, _ROWS_AT_ONCE):
            with self._leaving_out(MEASUREMENTS, row.id):
                results.append(queries.as_result(row))
        return results

    def figure_results(self, **wanted: Unpack[Filters]) -> Iterator[PastResult]:
        """Yield results of further figures, by default all without another side, in the order in which they were made.

        Each has the `Figure` of its test's latest measurement.

        Raises:
            TfperfError: also where there is no history yet.
        """
        self.database.require()
        last = {tuple(series): id for *series, id in self._rows(queries.latest_figures(wanted))}
        asked: dict[tuple[str, str], Figure] = {}
        ids = sorted(set(last.values()))
        for start in range(0, len(ids), _AT_ONCE):
            for id, whole in list(self._rows(queries.wholes_of(ids[start : start + _AT_ONCE]))):
                with self._leaving_out(MEASUREMENTS, id) as name:
                    if whole != DROPPED:
                        asked |= {(id, figure.name): figure for figure in figures_in(unpacked(whole, name), name)}
        for row in self._portions(queries.figure_results(wanted), FIGURES, _ROWS_AT_ONCE):
            series = row.machine, row.test, row.workload, row.topology, row.figure
            with self._leaving_out(FIGURES, f"{row.id}-{row.figure}"):
                if (figure := asked.get((last.get(series, ""), row.figure))) is not None:
                    yield queries.as_result(row, figure)

    def frame(self, **wanted: Unpack[Filters]) -> pandas.DataFrame:
        """Return measurements, by default all without another side, in the order in which they were made.

        Columns: session, time, test, machine, workload, topology, unit, examples_per_sec, outcome, runs, seconds, name,
        is_slowed_on_purpose. The outcome is the test's, the worst of its throughput's and its figures'.

        Raises:
            TfperfError: also where there is no history yet.
        """
        import pandas as pd

        fields = ["value" if column == "examples_per_sec" else column for column in _FRAME]
        rows, outcomes = [], []
        for result in self.results(**wanted):
            rows.append([getattr(result, field) for field in fields])
            outcomes.append(result.test_outcome or None)
        return pd.DataFrame(rows, columns=pd.Index(_FRAME)).assign(outcome=pd.Series(outcomes, dtype=object))

    def _rows(self, query: Select[Any]) -> Iterator[Any]:
        """Yield a query's rows; none where there is no history yet."""
        if self.database.exists:
            with self.database.reading() as connection:
                yield from connection.execute(query)

    @contextmanager
    def _if_exists(self) -> Iterator[Any]:
        """Open a connection that reads; None where there is no history yet.

        A result that is not read to its end must be closed: SQLite holds its lock until then.
        """
        if self.database.exists:
            with self.database.reading() as connection:
                yield connection
        else:
            yield None

    def _portions(self, query: Select[Any], table: Table, at_once: int, *, newest_first: bool = False) -> Iterator[Any]:
        """Yield a query's rows in the order of making, some at a time.

        While its caller works on a row nothing is open, so no slow reader locks a session out.
        """
        self.database.require()
        rows: Sequence[Any] = ()
        while not rows or len(rows) == at_once:
            part = queries.portion(query, table, rows[-1] if rows else None, at_once, newest_first=newest_first)
            with self.database.reading() as connection:
                rows = connection.execute(part).all()
            if not rows:
                return
            yield from rows

    def _wholes(self, table: Table, wanted: Filters, read: Callable[[bytes, str], _Result]) -> Iterator[_Result]:
        for whole, _, id in self._portions(queries.wholes(table, wanted), table, _AT_ONCE):
            with self._leaving_out(table, id) as name:
                if whole == DROPPED:
                    self.unread.add_dropped(name)
                else:
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


def _of_test(test: str, *, beside: bool) -> dict[str, object]:
    return {"test": storable(test), "is_interleaved": beside}


def _by_session(result: CursorResult[Any], most: int, counts: Callable[[str], bool]) -> dict[str, Any]:
    """Return the last row of each of the first `most` sessions that count."""
    taken: dict[str, Any] = {}
    with closing(result) as rows:
        for row in rows:
            if row.session in taken:
                taken[row.session] = max(taken[row.session], row, key=lambda either: either.made)
            elif len(taken) == most:
                break
            elif counts(row.session):
                taken[row.session] = row
    return taken
