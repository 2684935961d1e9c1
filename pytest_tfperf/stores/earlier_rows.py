"""What a session asks of the sessions before it. Each answer is found along an index, and costs what its test has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past import EarlierMeasurement, SessionChanges, storable
from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.core.verdict import LOSSES, Outcome
from pytest_tfperf.stores.history_rows import (
    MEASUREMENT,
    UnreadRows,
    earlier_measurement,
    outcome_of,
    profile_of,
    session_changes,
    unpacked,
)

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.profile import Profile
    from pytest_tfperf.stores.history_file import HistoryFile

_SESSIONS_TIMED: Final = 10  # a test's earlier sessions that tell how long it takes
MOST_PAST_SESSIONS: Final = 40
"""Sessions of a row that are learnt from: its first 20, which refine the baseline, and its last 20."""

_LATEST: Final = 100  # measurements whose confirmation runs count: a few sessions of a usual size

# The series are found first, mostly one; each is read row by row along an index, and no further than is wanted.

_OF_TEST: Final = "select number from tfperf_series where test = :test and figure = ''"
_SECONDS_OF: Final = (
    "select cast(made as integer), (select session from tfperf_sessions where number = m.session), "
    "seconds / max(workers, 1) from tfperf_measurements m where series = :series and is_interleaved = :is_interleaved "
    "and typeof(seconds) = 'real' and typeof(workers) = 'integer' order by made desc"
)
"""Session and seconds of a run of measurements, beside another side or not, latest first."""

_MEASURED_SINCE: Final = (
    "select s.machine from tfperf_series s where s.test = :test and s.figure = '' and exists (select 1 from "
    "tfperf_measurements m where m.series = s.number and m.is_interleaved = 0 and m.made >= :since * 1000000 "
    "and m.time >= :since)"
)
"""The machines that measured `test` since a time, not only beside another side.

Both columns are compared: a session whose clock was ahead puts `made` ahead for all that follow.
"""

_OF_SESSION: Final = (
    "select count(distinct s.test), (select count(*) from tfperf_session_verdicts where session = "
    "(select number from tfperf_sessions where session = :session and machine = :machine) "
    f"and kind != '{VerdictOn.DRIFT}' and outcome in ({', '.join(map(repr, map(str, LOSSES)))})) "
    "from tfperf_measurements m join tfperf_series s on s.number = m.series "
    "where m.session in (select number from tfperf_sessions where session = :session)"
)
"""The tests of `session`, and its verdicts that the software, or `machine` as a whole, is or may be slower: counts."""

_JUDGED_RUNS: Final = (  # with a plus, SQLite looks for the values of a measurement, not of a series
    "select cast(m.made as integer), m.workers from tfperf_sessions t join tfperf_measurements m on "
    "m.session = t.number join tfperf_values v on v.measurement = m.number and +v.series = m.series where "
    "t.machine = :machine and m.is_interleaved = 0 and m.is_slowed_on_purpose = 0 and typeof(m.workers) = 'integer' "
    f"and v.outcome not in ('', '{Outcome.NO_BASELINE}') order by t.began desc, t.number desc, m.made desc "
    f"limit {_LATEST}"
)
"""`made` and workers of judged measurements in the latest sessions of `machine`."""

_OF_KEY: Final = (
    "select number from tfperf_series where machine = :machine and workload = :workload and topology = :topology "
    "and figure = :figure"
)
_OF_SERIES: Final = (
    "from tfperf_values v join tfperf_measurements m on m.number = v.measurement join tfperf_sessions t "
    "on t.number = m.session where v.series = :series and m.is_interleaved = 0 and t.session is not :before"
)
_FOR_PROVISIONAL: Final = (
    'select cast(v.made as integer), v.measurement, t.session, m.time, v.unit, m."commit", m.gpu, v.of_runs, (select '
    f"facts from tfperf_environments where number = m.environment) {_OF_SERIES} and v.serves = 1 order by v.made desc"
)
"""The columns that a provisional baseline rests on, without those of the session `before`, latest first."""

_AGAINST: Final = (
    "select cast(v.made as integer), v.measurement, t.session, v.of_runs, v.drift, v.outcome, "
    "case when m.\"commit\" in ('', 'unknown') or m.\"commit\" like '%-dirty' then '' "
    f"else m.\"commit\" || ' ' || m.environment end as code {_OF_SERIES} and v.made >= :since "
    "and v.baseline = :baseline and (v.baseline_date = :date or :figure != '') and m.is_slowed_on_purpose = 0 "
    "and v.outcome != ''"
)
_OLDEST_FIRST: Final = f"{_AGAINST} order by v.made"
_NEWEST_FIRST: Final = f"{_AGAINST} order by v.made desc"
"""The measurements that were judged against a row; see `_of_row`."""

_KEYS_OF: Final = (
    "select distinct workload, topology from tfperf_series where machine = :machine and figure = '' "
    "order by workload, topology"
)
"""Each workload and topology that a machine measured."""

_RECORDED: Final = (
    "select cast(v.made as integer), m.number, (select whole from tfperf_details where measurement = m.number) "
    f"{_OF_SERIES} and v.outcome = '' and m.outcome = '' and v.made >= :since and m.time between :first and :last "
    "order by v.made desc"
)
"""Number and whole of measurements of a baseline's key and date that were not judged, latest first.

The measurement that recorded it is among them.
"""


def _of_row(row: Baseline, before: str | None = None) -> dict[str, object]:
    """Return the parameters of the queries for a row, without the session `before`; None for none."""
    key = {"machine": row.machine, "before": before, **row.key._asdict()}
    since = int((_day(row) - timedelta(days=1)).timestamp()) * 1_000_000
    return key | {"baseline": row.value, "date": row.date, "since": since}


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

    def __init__(self, database: HistoryFile, unread: UnreadRows) -> None:
        self._database = database
        self._unread = unread

    @contextmanager
    def _asking(self) -> Iterator[_Ask]:
        """Give a function that runs a query with its parameters; without a history it finds no rows."""
        if not self._database.exists:
            yield lambda *_: iter(())
            return
        with self._database.opened() as connection:
            yield connection.execute

    def run_seconds(self, tests: Iterable[str]) -> dict[str, tuple[float, ...]]:
        """Return the seconds of a run of all of a test's calls in its last sessions, the latest first.

        Tests that never ran are left out.
        """
        seconds = {}
        with self._asking() as ask:
            for test in tests:
                of_sessions: dict[str, float] = {}
                for _, session, taken in _by_made(ask, _OF_TEST, _SECONDS_OF, _of_test(test)):
                    if session not in of_sessions and len(of_sessions) == _SESSIONS_TIMED:
                        break
                    of_sessions[session] = of_sessions.get(session, 0.0) + taken
                if of_sessions:
                    seconds[test] = tuple(of_sessions.values())
        return seconds

    def seconds_of_interleaved(self, tests: Iterable[str]) -> dict[str, float]:
        """Return the seconds of a run of a test beside another side, when it last ran so; others are left out."""
        seconds = {}
        with self._asking() as ask:
            for test in tests:
                for *_, taken in islice(_by_made(ask, _OF_TEST, _SECONDS_OF, _of_test(test, beside=True)), 1):
                    seconds[test] = taken
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
                ((tests, losses),) = ask(_OF_SESSION, {"session": session, "machine": machine})
                return tests >= least_tests and not losses

            for row in rows:
                sessions: dict[str, _Against] = {}
                for query in (_OLDEST_FIRST, _NEWEST_FIRST):
                    past = _by_made(ask, _OF_KEY, query, _of_row(row, before), reverse=query is _NEWEST_FIRST)
                    sessions |= _by_session(map(_Against._make, past), most // 2, partial(counts, row.machine))
                for one in sorted(sessions.values(), key=lambda one: one.made):
                    with self._unread.leaving_out(MEASUREMENT, one.measurement):
                        changes = session_changes(one.session, one.of_runs, row.value, one.drift, one.outcome, one.code)
                        by_key[row.key] = (*by_key.get(row.key, ()), changes)
        return by_key

    def judged_against(
        self, rows: Iterable[Baseline], *, most: int
    ) -> dict[Baseline, list[tuple[int, str, Outcome | None]]]:
        """Return number, session and outcome of each row's latest measurements against it, latest first.

        The row is known by value and date. Measurements with an injected slowdown don't count; of a further figure, the
        date is not compared.
        """
        by_row: dict[Baseline, list[tuple[int, str, Outcome | None]]] = {}
        with self._asking() as ask:
            for row in rows:
                latest = islice(_by_made(ask, _OF_KEY, _NEWEST_FIRST, _of_row(row)), most)
                for past in map(_Against._make, latest):
                    with self._unread.leaving_out(MEASUREMENT, past.measurement):
                        outcome, _ = outcome_of(past.outcome)
                        by_row.setdefault(row, []).append((past.measurement, past.session, outcome))
        return by_row

    def profile_of(self, row: Baseline) -> Profile | None:
        """Return the profile that was taken when a baseline was recorded; None where none was."""
        if not row.date:
            return None
        first, last = (int((_day(row) + timedelta(days=days)).timestamp()) for days in (-1, 2))  # in any zone
        of_key = _of_row(row) | {"figure": "", "first": first, "last": last}
        with self._asking() as ask:
            for _, number, whole in _by_made(ask, _OF_KEY, _RECORDED, of_key):
                with self._unread.leaving_out(MEASUREMENT, number) as name:
                    if whole and (profile := profile_of(unpacked(whole, name), row.date, name)) is not None:
                        return profile
        return None

    def measured_since(self, tests: Iterable[str], machines: Collection[str], since: datetime) -> set[str]:
        """Return the tests that one of the machines has measured since a time, not only beside another side."""
        with self._asking() as ask:
            of_tests = {
                test: ask(_MEASURED_SINCE, _of_test(test) | {"since": int(since.timestamp())}) for test in tests
            }
            return {test for test, found in of_tests.items() if any(machine in machines for (machine,) in found)}

    def earlier_measurements(
        self, machine: str, *, before: str, most: int
    ) -> dict[Key, tuple[EarlierMeasurement, ...]]:
        """Return a machine's latest measurements of each key that a provisional baseline may rest on, oldest first.

        `core.past.not_provisional` says which; it was asked when the measurement was appended. The current session,
        whose id is `before`, is left out.
        """
        by_key = {}
        with self._asking() as ask:
            for workload, topology in list(ask(_KEYS_OF, {"machine": machine})):
                key = {"machine": machine, "workload": workload, "topology": topology, "figure": "", "before": before}
                serving = list(islice(self._serving(_by_made(ask, _OF_KEY, _FOR_PROVISIONAL, key)), most))
                if serving:
                    by_key[Key(workload, topology)] = tuple(reversed(serving))
        return by_key

    def _serving(self, rows: Iterator[Any]) -> Iterator[EarlierMeasurement]:
        for _, number, *columns in rows:
            with self._unread.leaving_out(MEASUREMENT, number):
                yield earlier_measurement(*columns)


class _Against(NamedTuple):
    """A measurement that was judged against a row."""

    made: int
    measurement: int
    session: str
    of_runs: str
    drift: float
    outcome: str
    code: str


def _of_test(test: str, *, beside: bool = False) -> dict[str, object]:
    return {"test": storable(test), "is_interleaved": int(beside)}


def _by_made(ask: _Ask, series: str, query: str, of: dict[str, object], *, reverse: bool = True) -> Iterator[Any]:
    """Merge what a query finds for each series by its first column, `made`, read row by row as far as is wanted."""
    numbers = [number for (number,) in ask(series, of)]
    # As tuples, because `merge` would close a cursor, whose connection may be closed already.
    found = (map(tuple, ask(query, of | {"series": number})) for number in numbers)
    return merge(*found, key=itemgetter(0), reverse=reverse)


def _by_session(rows: Iterable[_Against], most: int, counts: Callable[[str], bool]) -> dict[str, _Against]:
    """Return the last row of each of the first `most` sessions that count."""
    taken: dict[str, _Against] = {}
    for row in rows:
        if row.session in taken:
            taken[row.session] = max(taken[row.session], row, key=lambda either: either.made)
        elif len(taken) == most:
            break
        elif counts(row.session):
            taken[row.session] = row
    return taken
