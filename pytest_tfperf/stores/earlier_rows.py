"""What a session asks of the sessions before it. Each answer is found along an index, and costs what its test has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Select, bindparam, distinct, false, func, select, type_coerce
from sqlalchemy.sql.functions import coalesce
from sqlalchemy.types import NullType

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import EarlierMeasurement, SessionChanges
from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.core.verdict import LOSSES, Outcome
from pytest_tfperf.stores import history_queries as queries
from pytest_tfperf.stores.history_rows import (
    DROPPED,
    UnreadRows,
    earlier_of_columns,
    environment_of,
    outcome_of,
    profile_of,
    session_changes,
    storable,
    unpacked,
    utc,
)
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS, VERDICTS

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.profile import Profile
    from pytest_tfperf.stores.history_database import Database

_SESSIONS_TIMED: Final = 10  # a test's earlier sessions that tell how long it takes
MOST_PAST_SESSIONS: Final = 40
"""Sessions of a row that are learnt from: its first 20, which refine the baseline, and its last 20."""

_LATEST: Final = 100  # measurements whose confirmation runs count: a few sessions of a usual size

# With bound parameters, because building a statement takes longer than running it. Each is read row by row along an
# index, and no further than is wanted.

_M: Final = MEASUREMENTS.c
_KEY: Final = (
    *(_M[name] == bindparam(name) for name in ("machine", "workload", "topology")),
    _M.is_interleaved == false(),
)
_NOT_TODAY: Final = _M.session != bindparam("before")
_LATEST_OF_TEST: Final = _M.test == bindparam("test"), _M.is_interleaved == bindparam("is_interleaved")

_SECONDS_OF: Final = select(_M.session, _M.seconds, _M.workers).where(*_LATEST_OF_TEST).order_by(_M.made.desc())
"""Session, seconds and workers of the measurements of `test`, beside another side or not, latest first."""

_MEASURED_SINCE: Final = (
    select(_M.machine)
    .where(*_LATEST_OF_TEST, _M.made >= bindparam("since"), _M.time >= bindparam("time"))
    .order_by(_M.made.desc())
)
"""The machines of the measurements of `test` since a time, beside another side or not, latest first.

Both columns are compared: a session whose clock was ahead puts `made` ahead for all that follow.
"""

_TESTS_OF: Final = select(func.count(distinct(_M.test))).where(_M.session == bindparam("session"))
"""The number of tests of `session`."""

_LOST_AS_A_WHOLE: Final = select(func.count()).where(
    VERDICTS.c.session == bindparam("session"),
    VERDICTS.c.machine == bindparam("machine"),
    VERDICTS.c.kind != VerdictOn.DRIFT.value,
    VERDICTS.c.outcome.in_([outcome.value for outcome in LOSSES]),
)
"""The number of verdicts of `session` by which the software, or `machine` as a whole, is or may be slower."""

_JUDGED_RUNS: Final = (
    select(_M.made, _M.workers)
    .where(_M.machine == bindparam("machine"), ~_M.is_interleaved, ~_M.is_slowed_on_purpose)
    .where(coalesce(_M.throughput_outcome, Outcome.NO_BASELINE.value) != Outcome.NO_BASELINE.value)
    .order_by(_M.made.desc())
    .limit(_LATEST)
)
"""`made` and workers of the latest judged measurements of `machine`."""

_FOR_PROVISIONAL: Final = (
    select(_M.id, _M.session, _M.time, _M.unit, _M.commit, _M.gpu, _M.run_values)
    .where(*_KEY, _NOT_TODAY, _M.run_values != "[]")
    .order_by(_M.made.desc())
)
"""The columns that a provisional baseline of a key rests on, without those of the session `before`, latest first."""

_WHOLE_OF: Final = select(type_coerce(_M.whole, NullType())).where(_M.id == bindparam("id"))
"""The whole of the measurement `id`."""

_SINCE_THE_ROW: Final = *_KEY, _NOT_TODAY, _M.made >= bindparam("since")
_AGAINST: Final = select(_M.id, _M.session, _M.changes, _M.throughput_outcome.label("outcome"), _M.code, _M.made).where(
    *_SINCE_THE_ROW, _M.baseline == bindparam("baseline"), _M.baseline_date == bindparam("date")
)
_OLDEST_FIRST: Final = _AGAINST.order_by(_M.made)
_NEWEST_FIRST: Final = _AGAINST.order_by(_M.made.desc())
"""The measurements that were judged against a row; see `_of_row`."""
_FIGURE_NEWEST_FIRST: Final = (
    select(_M.id, _M.session, FIGURES.c.outcome)
    .select_from(queries.WITH_FIGURES)
    .where(
        *_SINCE_THE_ROW,
        _M.is_slowed_on_purpose == false(),
        FIGURES.c.figure == bindparam("figure"),
        FIGURES.c.baseline == bindparam("baseline"),
        FIGURES.c.outcome.is_not(None),
    )
    .order_by(_M.made.desc())
)
"""Id, session and outcome of a further figure's measurements that were judged against its row."""


def _of_row(row: Baseline, before: str) -> dict[str, object]:
    """Return the parameters of the queries for a row, without the session `before`."""
    key = {"machine": row.machine, **row.key._asdict()}
    since = round((_day(row) - timedelta(days=1)).timestamp() * 1e6)
    return key | {"baseline": row.value, "date": row.date, "before": before, "since": since}


def _keys_of(machine: str) -> Select[Any]:
    """Select each workload and topology that a machine measured without another side."""
    return select(_M.workload, _M.topology).where(_M.machine == machine, _M.is_interleaved == false()).distinct()


def _recorded(row: Baseline) -> Select[Any]:
    """Select id and whole of measurements of a baseline's key and date that were not judged, latest first.

    The measurement that recorded it is among them.
    """
    key = _M.machine == row.machine, _M.workload == row.key.workload, _M.topology == row.key.topology
    first, last = (utc(_day(row) + timedelta(days=days)) for days in (-1, 2))  # in any zone
    not_judged = _M.outcome.is_(None), _M.is_interleaved == false(), _M.time.between(first, last)
    return select(_M.id, queries.as_it_is(_M.whole)).where(*key, *not_judged).order_by(_M.made.desc())


def _day(row: Baseline) -> datetime:
    """Return a row's date, in the zone of the machine that recorded it; the oldest one for any other text."""
    try:
        return datetime.fromisoformat(row.date[:10]).replace(tzinfo=UTC)
    except ValueError:
        return datetime(1970, 1, 2, tzinfo=UTC)


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

        A result is closed when its reader drops it, because SQLite holds its lock for one that was not read to its end.
        """
        if not self._database.exists:
            yield lambda *_: iter(())
            return
        with self._database.opened() as connection:

            def ask(*query: Any) -> Iterator[Any]:
                with closing(connection.execute(*query)) as rows:
                    yield from rows

            yield ask

    def run_seconds(self, tests: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """Return the seconds of a run of all of a test's calls in its last sessions, the latest first.

        Tests that never ran are left out.
        """
        seconds = {}
        with self._asking() as ask:
            for test in tests:
                of_sessions: dict[str, float] = {}
                for session, taken, workers in ask(_SECONDS_OF, _of_test(test)):
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
                for row in islice(ask(_SECONDS_OF, _of_test(test, beside=True)), 1):
                    seconds[test] = row.seconds / max(row.workers, 1)
        return seconds

    def confirmation_runs(self, machines: Collection[str]) -> tuple[int, int]:
        """Return how many confirmation runs the machines' latest measurements took, and the number of measurements.

        Measurements with an injected slowdown don't count.
        """
        known: list[tuple[int, int]] = []
        with self._asking() as ask:
            for machine in machines:
                known += ask(_JUDGED_RUNS, {"machine": machine})
        latest = sorted(known)[-_LATEST:]
        return sum(workers for _, workers in latest) - len(latest), len(latest)

    def past_sessions_of_machine(
        self, rows: Iterable[Baseline], *, before: str, least_tests: int, most: int = MOST_PAST_SESSIONS
    ) -> dict[Key, tuple[SessionChanges, ...]]:
        """Return earlier sessions of each of a machine's rows, oldest first; rows without any are left out.

        Only the last decided measurement of a session counts, and only against the same row (value and date). Sessions
        in which the software or the machine as a whole was, or may have been, slower say nothing about the noise of
        tests, and are left out.

        Args:
            before: id of the current session, which is left out.
            least_tests: the least tests of a session that counts, so that rerunning a test by hand does not.
            most: the most sessions of a row, one half of them its first ones and the other its last ones.
        """
        by_key: dict[Key, tuple[SessionChanges, ...]] = {}
        with self._asking() as ask:

            @cache
            def counts(machine: str, session: str) -> bool:
                ((tests,),) = ask(_TESTS_OF, {"session": session})
                if tests < least_tests:
                    return False
                ((losses,),) = ask(_LOST_AS_A_WHOLE, {"session": session, "machine": machine})
                return not losses

            for row in rows:
                sessions: dict[str, Any] = {}
                for query in (_OLDEST_FIRST, _NEWEST_FIRST):
                    past = ask(query, _of_row(row, before))
                    sessions |= _by_session(past, most // 2, partial(counts, row.machine))
                for past in sorted(sessions.values(), key=lambda past: past.made):
                    with self._unread.leaving_out(MEASUREMENTS, past.id):
                        changes = session_changes(past.session, past.changes, past.outcome, past.code)
                        by_key[row.key] = (*by_key.get(row.key, ()), changes)
        return by_key

    def judged_against(
        self, rows: Iterable[Baseline], *, most: int
    ) -> dict[Baseline, list[tuple[str, str, Outcome | None]]]:
        """Return id, session and outcome of each row's latest measurements against it (value and date), latest first.

        Measurements with an injected slowdown don't count; of a further figure, the date is not compared.
        """
        by_row: dict[Baseline, list[tuple[str, str, Outcome | None]]] = {}
        with self._asking() as ask:
            for row in rows:
                query = _FIGURE_NEWEST_FIRST if row.key.figure else _NEWEST_FIRST
                for past in islice(ask(query, _of_row(row, before="")), most):
                    with self._unread.leaving_out(MEASUREMENTS, past.id):
                        outcome, _ = outcome_of(past.outcome)
                        by_row.setdefault(row, []).append((past.id, past.session, outcome))
        return by_row

    def profile_of(self, row: Baseline) -> Profile | None:
        """Return the profile that was taken when a baseline was recorded; None where none was."""
        if not row.date:
            return None
        with self._asking() as ask:
            for id, whole in ask(_recorded(row)):
                with self._unread.leaving_out(MEASUREMENTS, id) as name:
                    if whole != DROPPED and (profile := profile_of(unpacked(whole, name), row.date, name)) is not None:
                        return profile
        return None

    def measured_since(self, tests: Iterable[str], machines: Collection[str], since: datetime) -> set[str]:
        """Return the tests that one of the machines has measured since a time, not only beside another side."""
        measured = set()
        of_time = {"since": round(since.timestamp() * 1e6), "time": utc(since)}
        with self._asking() as ask:
            for test in tests:
                if any(row.machine in machines for row in ask(_MEASURED_SINCE, _of_test(test) | of_time)):
                    measured.add(test)
        return measured

    def earlier_measurements(
        self, machine: str, *, before: str, most: int
    ) -> dict[Key, tuple[EarlierMeasurement, ...]]:
        """Return a machine's latest measurements of each key that a provisional baseline may rest on, oldest first.

        `core.past.not_provisional` says which; it was asked when the measurement was appended. The current session,
        whose id is `before`, is left out.
        """
        by_key = {}
        with self._asking() as ask:
            for workload, topology in list(ask(_keys_of(machine))):
                key = {"machine": machine, "workload": workload, "topology": topology, "before": before}
                serving = list(islice(self._serving(ask, key), most))
                if serving:
                    by_key[Key(workload, topology)] = tuple(reversed(serving))
        return by_key

    def _serving(self, ask: _Ask, key: dict[str, str]) -> Iterator[EarlierMeasurement]:
        """Yield the measurements of a key that serve, latest first; the latest of each GPU has its environment."""
        gpus = set[str]()
        for row in ask(_FOR_PROVISIONAL, key):
            with self._unread.leaving_out(MEASUREMENTS, row.id) as name:
                earlier = earlier_of_columns(row)
                if earlier.gpu not in gpus:
                    ((whole,),) = ask(_WHOLE_OF, {"id": row.id})
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
