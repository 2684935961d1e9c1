"""What a session asks of the sessions before it. Each answer is found along an index, and costs what its test has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import EarlierMeasurement, JudgedBefore, SessionChanges
from pytest_tfperf.stores import history_queries as queries
from pytest_tfperf.stores.history_rows import (
    DROPPED,
    earlier_of_columns,
    outcome_of,
    session_changes,
    storable,
    unpacked,
    with_details,
)
from pytest_tfperf.stores.history_tables import MEASUREMENTS

if TYPE_CHECKING:
    from sqlalchemy import Connection, CursorResult

    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.stores.history_database import Database
    from pytest_tfperf.stores.unread_rows import UnreadRows

_SESSIONS_TIMED: Final = 10  # a test's earlier sessions that tell how long it takes
_READ_FOR_EACH_WANTED: Final = 5  # some were disturbed or slowed on purpose, which is no column's condition
MOST_PAST_SESSIONS: Final = 40
"""Sessions of a row that are learnt from: its first 20, which refine the baseline, and its last 20."""


class EarlierRows:
    """The rows of earlier sessions that a session needs.

    A result that is not read to its end is closed: SQLite would hold its lock until then.

    Args:
        database: the local history.
        unread: notes the rows that were left out.
    """

    def __init__(self, database: Database, unread: UnreadRows) -> None:
        self._database = database
        self._unread = unread

    def run_seconds(self, tests: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """Return the seconds of a run of all of a test's calls in its last sessions, the latest first.

        Tests that never ran are left out.
        """
        seconds = {}
        with self._database.reading_if_exists() as connection:
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
        """Return the seconds of a run of a test beside another side, when it last ran so; others are left out."""
        with self._database.reading_if_exists() as connection:
            known = tests if connection else ()
            last = {test: connection.execute(queries.SECONDS_OF, _of_test(test, beside=True)).first() for test in known}
            return {test: row.seconds / max(row.workers, 1) for test, row in last.items() if row is not None}

    def confirmation_runs(self, machines: Collection[str]) -> tuple[int, int]:
        """Return how many confirmation runs the machines' latest measurements took, and the number of measurements.

        Measurements with an injected slowdown don't count.
        """
        with self._database.reading_if_exists() as connection:
            asked = machines if connection else ()
            known = [row for machine in asked for row in connection.execute(queries.judged_runs(machine))]
        workers = [row.workers for row in sorted(known, key=lambda row: row.made)[-queries.LATEST :]]
        return sum(workers) - len(workers), len(workers)

    def past_sessions_of_machine(
        self, rows: Iterable[Baseline], *, before: str, least_tests: int, most: int = MOST_PAST_SESSIONS
    ) -> dict[Key, tuple[SessionChanges, ...]]:
        """Return earlier sessions of each of a machine's rows, oldest first; rows without any are left out.

        Only the last decided measurement of a session counts, and only against the same row (value and date). Sessions
        in which the software or the machine as a whole was, or may have been, slower say nothing about the noise of
        tests, and are left out.

        Args:
            rows: baselines of one machine.
            before: id of the current session, which is left out.
            least_tests: the least tests of a session that counts, so that rerunning a test by hand does not.
            most: the most sessions of a row, one half of them its first ones and the other its last ones.
        """
        by_key: dict[Key, list[SessionChanges]] = {}
        with self._database.reading_if_exists() as connection:

            @cache
            def counts(machine: str, session: str) -> bool:
                if connection.scalar(queries.TESTS_OF, {"session": session}) < least_tests:
                    return False
                return not connection.scalar(queries.LOST_AS_A_WHOLE, {"session": session, "machine": machine})

            for row in rows if connection else ():
                of_machine = partial(counts, row.machine)
                first, last = (
                    _by_session(connection.execute(query, queries.of_row(row, before)), most // 2, of_machine)
                    for query in (queries.PAST_OLDEST_FIRST, queries.PAST_NEWEST_FIRST)
                )
                for one in sorted((first | last).values(), key=lambda one: one.made):
                    with self._unread.leaving_out(MEASUREMENTS, one.id):
                        changes = session_changes(one.session, one.changes, one.outcome, one.code)
                        by_key.setdefault(row.key, []).append(changes)
        return {key: tuple(sessions) for key, sessions in by_key.items()}

    def judged_against(self, rows: Iterable[Baseline], *, most: int) -> dict[Baseline, list[JudgedBefore]]:
        """Return the latest measurements that were judged against each row (value and date), latest first.

        Measurements with an injected slowdown don't count; of a further figure, the date is not compared.
        """
        by_row: dict[Baseline, list[JudgedBefore]] = {}
        with self._database.reading_if_exists() as connection:
            for row in rows if connection else ():
                query = queries.FIGURE_AGAINST_NEWEST_FIRST if row.key.figure else queries.AGAINST_NEWEST_FIRST
                with closing(connection.execute(query, queries.of_row(row, before=""))) as found:
                    for one in islice(found, most):
                        with self._unread.leaving_out(MEASUREMENTS, one.id):
                            outcome, _ = outcome_of(one.outcome)
                            by_row.setdefault(row, []).append(JudgedBefore(one.id, one.session, outcome))
        return by_row

    def measured_since(self, tests: Iterable[str], machines: Collection[str], since: datetime) -> set[str]:
        """Return the tests that one of the machines has measured since a time, not only beside another side."""
        measured = set()
        of_time = {"since": round(since.timestamp() * 1e6), "time": queries.as_stored(since)}
        with self._database.reading_if_exists() as connection:
            for test in tests if connection else ():
                wanted = _of_test(test, beside=False) | of_time
                with closing(connection.execute(queries.MEASURED_SINCE, wanted)) as rows:
                    if any(row.machine in machines for row in rows):
                        measured.add(test)
        return measured

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
        with self._database.reading_if_exists() as connection:
            for workload, topology in connection.execute(queries.keys_of(machine)).all() if connection else ():
                key = {"machine": machine, "workload": workload, "topology": topology, "before": before}
                with closing(connection.execute(queries.FOR_PROVISIONAL, key)) as rows:
                    serving = list(islice(self._serving(connection, rows, most, completed), most))
                if serving:
                    by_key[Key(workload, topology)] = tuple(reversed(serving))
        if completed:
            self._complete(completed)
        return by_key

    def _serving(
        self, connection: Connection, rows: Iterable[Any], most: int, completed: dict[str, EarlierMeasurement | None]
    ) -> Iterator[EarlierMeasurement]:
        """Yield the measurements that serve; the latest of each GPU has its environment.

        Rows of an earlier version lack the columns, and are read from the whole; they are added to `completed`.
        """
        gpus = set[str]()
        for row in islice(rows, most * _READ_FOR_EACH_WANTED):
            with self._unread.leaving_out(MEASUREMENTS, row.id) as name:
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

    def _complete(self, rows: Mapping[str, EarlierMeasurement | None]) -> None:
        """Add the columns that rows of an earlier version lack, so that no later session reads them whole."""
        with self._database.writing() as connection:
            columns = [queries.values_for_provisional(id, one) for id, one in rows.items()]
            connection.execute(queries.COMPLETE, columns)


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
