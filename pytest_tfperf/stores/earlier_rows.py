"""What a session asks of the sessions before it. Each answer is found along an index, and costs what its test has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import EarlierMeasurement, JudgedBefore, SessionChanges
from pytest_tfperf.stores import history_queries as queries
from pytest_tfperf.stores.history_rows import (
    DROPPED,
    UnreadRows,
    earlier_of_columns,
    environment_of,
    outcome_of,
    session_changes,
    storable,
    unpacked,
)
from pytest_tfperf.stores.history_tables import MEASUREMENTS

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.stores.history_database import Database

_SESSIONS_TIMED: Final = 10  # a test's earlier sessions that tell how long it takes
MOST_PAST_SESSIONS: Final = 40
"""Sessions of a row that are learnt from: its first 20, which refine the baseline, and its last 20."""

_Ask: TypeAlias = Callable[..., Iterator[Any]]


class EarlierRows:
    """The rows of earlier sessions that a session needs.

    Args:
        database: the local history.
        unread: notes the rows that were left out.
    """

    def __init__(self, database: Database, unread: UnreadRows) -> None:
        self._database = database
        self._unread = unread

    @contextmanager
    def _asking(self) -> Iterator[_Ask]:
        """Give a function that runs a query with its parameters; without a history it finds no rows.

        The results are closed at the end, because SQLite holds its lock for one that was not read to its own.
        """
        with ExitStack() as opened:
            if self._database.exists:
                connection = opened.enter_context(self._database.opened())
                yield lambda *query: iter(opened.enter_context(closing(connection.execute(*query))))
            else:
                yield lambda *_: iter(())

    def run_seconds(self, tests: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """Return the seconds of a run of all of a test's calls in its last sessions, the latest first.

        Tests that never ran are left out.
        """
        seconds = {}
        with self._asking() as ask:
            for test in tests:
                of_sessions: dict[str, float] = {}
                for session, taken, workers in ask(queries.SECONDS_OF, _of_test(test)):
                    if session not in of_sessions and len(of_sessions) == _SESSIONS_TIMED:
                        break
                    of_sessions[session] = of_sessions.get(session, 0.0) + taken / max(workers, 1)
                if of_sessions:
                    seconds[test] = tuple(of_sessions.values())
        return seconds

    def seconds_of_interleaved(self, tests: Iterable[str]) -> dict[str, float]:
        """Return the seconds of a run of a test beside another side, when it last ran so; others are left out."""
        seconds = {}
        with self._asking() as ask:
            for test in tests:
                for row in islice(ask(queries.SECONDS_OF, _of_test(test, beside=True)), 1):
                    seconds[test] = row.seconds / max(row.workers, 1)
        return seconds

    def confirmation_runs(self, machines: Collection[str]) -> tuple[int, int]:
        """Return how many confirmation runs the machines' latest measurements took, and the number of measurements.

        Measurements with an injected slowdown don't count.
        """
        known: list[tuple[int, int]] = []
        with self._asking() as ask:
            for machine in machines:
                known += ask(queries.JUDGED_RUNS, {"machine": machine})
        latest = sorted(known)[-queries.LATEST :]
        return sum(workers for _, workers in latest) - len(latest), len(latest)

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
        by_key: dict[Key, tuple[SessionChanges, ...]] = {}
        with self._asking() as ask:

            @cache
            def counts(machine: str, session: str) -> bool:
                ((tests,),) = ask(queries.TESTS_OF, {"session": session})
                if tests < least_tests:
                    return False
                ((losses,),) = ask(queries.LOST_AS_A_WHOLE, {"session": session, "machine": machine})
                return not losses

            for row in rows:
                sessions: dict[str, Any] = {}
                for query in (queries.PAST_OLDEST_FIRST, queries.PAST_NEWEST_FIRST):
                    past = ask(query, queries.of_row(row, before))
                    sessions |= _by_session(past, most // 2, partial(counts, row.machine))
                for past in sorted(sessions.values(), key=lambda past: past.made):
                    with self._unread.leaving_out(MEASUREMENTS, past.id):
                        changes = session_changes(past.session, past.changes, past.outcome, past.code)
                        by_key[row.key] = (*by_key.get(row.key, ()), changes)
        return by_key

    def judged_against(self, rows: Iterable[Baseline], *, most: int) -> dict[Baseline, list[JudgedBefore]]:
        """Return the latest measurements that were judged against each row (value and date), latest first.

        Measurements with an injected slowdown don't count; of a further figure, the date is not compared.
        """
        by_row: dict[Baseline, list[JudgedBefore]] = {}
        with self._asking() as ask:
            for row in rows:
                query = queries.FIGURE_AGAINST_NEWEST_FIRST if row.key.figure else queries.AGAINST_NEWEST_FIRST
                for past in islice(ask(query, queries.of_row(row, before="")), most):
                    with self._unread.leaving_out(MEASUREMENTS, past.id):
                        outcome, _ = outcome_of(past.outcome)
                        by_row.setdefault(row, []).append(JudgedBefore(past.id, past.session, outcome))
        return by_row

    def measured_since(self, tests: Iterable[str], machines: Collection[str], since: datetime) -> set[str]:
        """Return the tests that one of the machines has measured since a time, not only beside another side."""
        measured = set()
        of_time = {"since": round(since.timestamp() * 1e6), "time": queries.as_stored(since)}
        with self._asking() as ask:
            for test in tests:
                if any(row.machine in machines for row in ask(queries.MEASURED_SINCE, _of_test(test) | of_time)):
                    measured.add(test)
        return measured

    def earlier_measurements(
        self, machine: str, *, before: str, most: int
    ) -> dict[Key, tuple[EarlierMeasurement, ...]]:
        """Return a machine's latest measurements of each key that a provisional baseline may rest on, oldest first.

        `core.past.not_provisional` says which; it was asked when the measurement was appended.

        Args:
            machine: the machine's key.
            before: id of the current session, which is left out.
            most: the most measurements of a key.
        """
        by_key = {}
        with self._asking() as ask:
            for workload, topology in list(ask(queries.keys_of(machine))):
                key = {"machine": machine, "workload": workload, "topology": topology, "before": before}
                serving = list(islice(self._serving(ask, key), most))
                if serving:
                    by_key[Key(workload, topology)] = tuple(reversed(serving))
        return by_key

    def _serving(self, ask: _Ask, key: dict[str, str]) -> Iterator[EarlierMeasurement]:
        """Yield the measurements of a key that serve, latest first; the latest of each GPU has its environment."""
        gpus = set[str]()
        for row in ask(queries.FOR_PROVISIONAL, key):
            with self._unread.leaving_out(MEASUREMENTS, row.id) as name:
                earlier = earlier_of_columns(row)
                if earlier.gpu not in gpus:
                    ((whole,),) = ask(queries.WHOLE_OF, {"id": row.id})
                    if whole != DROPPED:
                        earlier = replace(earlier, environment=environment_of(unpacked(whole, name), name))
                gpus.add(earlier.gpu)
                yield earlier


def _of_test(test: str, *, beside: bool = False) -> dict[str, object]:
    return {"test": storable(test), "is_interleaved": beside}


def _by_session(rows: Iterable[Any], most: int, counts: Callable[[str], bool]) -> dict[str, Any]:
    """Return the last row of each of the first `most` sessions that count."""
    taken: dict[str, Any] = {}
    for row in rows:
        if row.session in taken:
            taken[row.session] = max(taken[row.session], row, key=lambda either: either.made)
        elif len(taken) == most:
            break
        elif counts(row.session):
            taken[row.session] = row
    return taken
