"""The history: every measurement, written to a file as soon as it is made, and the sessions that others sent."""

from __future__ import annotations

import json
import platform
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

from pytest_tfperf.core.past import seconds_of, storable, time_of
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import one_line, shortened
from pytest_tfperf.stores.earlier_rows import EarlierRows
from pytest_tfperf.stores.history_file import (
    HistoryFile,
    environment_number,
    insert,
    last_number,
    number_of,
    series_number,
    slowly,
)
from pytest_tfperf.stores.history_rows import (
    MEASUREMENT,
    TIMES,
    VALUE_COLUMNS,
    VERDICT,
    SeriesRow,
    UnreadRows,
    measurement_row,
    packed,
    series_row,
    value_of,
    value_rows,
    verdict_row,
    whole_measurement,
    whole_verdict,
)
from pytest_tfperf.stores.kept import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime
    from sqlite3 import Connection

    import pandas

    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.past import Value
    from pytest_tfperf.core.session_verdicts import SessionVerdict

_Result = TypeVar("_Result")

COLUMNS: Final = (
    *("session", "time", "test", "machine", "workload", "topology"),
    *("unit", "examples_per_sec", "outcome", "runs", "seconds", "name", "is_slowed_on_purpose"),
)
"""The fields of a measurement for other programs, as `tfperf history --csv` prints them."""


class Filters(TypedDict, total=False):
    """Filters of measurements; a filter that is None or left out selects all.

    Sessions, tests and machines match as a whole, a commit by its first characters. `since` is the first time selected,
    `until` the first that is not; both have their zone. `is_interleaved` selects measurements beside another side, or
    those alone; `figure` one figure's values, "" for those of throughputs.
    """

    session: str | None
    test: str | None
    machine: str | None
    since: datetime | None
    until: datetime | None
    commit: str | None
    is_interleaved: bool | None
    figure: str | None


def load_history(place: str | Path = ".tfperf", **wanted: Unpack[Filters]) -> pandas.DataFrame:
    """Load a history: a row for each measurement, then a row for each further figure, both in order of time.

    Columns: `COLUMNS`, with `time` as times in UTC; `figure`, "" for the throughput; and `value`, the
    figure's in its unit or the throughput. Figures have no `examples_per_sec`. Rows that can't be read are left out,
    with a warning.

    Args:
        place: the folder of a history, as in `--tfperf-dir`.
        wanted: only this session, test, machine or commit, or only since or until a time.

    Raises:
        TfperfError: there is no history, it can't be read, or pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise TfperfError("load_history needs pandas, which is not installed", next_step="pip install pandas") from None

    history = History(Path(place) / "history.sqlite")
    values = sorted(history.values(**wanted), key=lambda value: bool(value.series.figure))
    rows = [_row(value) | {"figure": value.series.figure, "value": value.value} for value in values]
    if unread := str(history.unread):
        warnings.warn(one_line(unread), stacklevel=2)
    frame = pd.DataFrame(rows, columns=pd.Index([*COLUMNS, "figure", "value"])).astype({"outcome": object})
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True))


class History:
    """A history, opened anew for each call.

    Every method that reads or writes raises TfperfError where the file cannot be used, and, but for
    `earlier`, `values_of` and `times_of`, where there is no history yet. A row that is damaged, or that a
    newer version wrote in a format unknown here, is left out and noted in `unread`.

    Args:
        path: the SQLite file, whose folder is made where missing.

    Attributes:
        database: the file.
        moved_aside: a sentence about a damaged file that was moved; "" where none was damaged.
        unread: the rows that were left out, which every caller must report.
        earlier: what a session asks of the sessions before it.
    """

    def __init__(self, path: Path) -> None:
        self.database = HistoryFile(path)
        self.moved_aside = ""
        self.unread = UnreadRows(self._test_of)
        self.earlier = EarlierRows(self.database, self.unread)

    # Writing

    def prepare(self) -> None:
        """Make the file and write to it, so that a fault shows before the first measurement."""
        self._write(lambda connection: connection.execute("update tfperf_history set version = version"))

    def append(self, measurement: Measurement, replaces: int | None = None) -> int:
        """Add a measurement and return its number; it is on disk when this returns.

        Args:
            measurement: decided or not; an undecided measurement counts for no later verdict.
            replaces: number of the same test's measurement before its latest run, which is replaced where it is there.
        """
        m = measurement
        row, values = measurement_row(m), value_rows(m)
        facts = json.dumps({storable(name): storable(fact) for name, fact in sorted(m.environment.items())})

        def add(connection: Connection) -> int:
            ((last,),) = connection.execute("select coalesce(max(made), 0) from tfperf_measurements")
            made = max(last + 1, seconds_of(m.time) * 1_000_000)
            session = _session_number(connection, storable(m.session), storable(m.machine), began=row["time"])
            numbers = [series_number(connection, series, made) for series, _ in values]
            same = "number = ? and session = ? and series = ?"  # in a new file, the number may be another's
            is_there = _delete(connection, same, (replaces, session, numbers[0]))
            refers = {"number": replaces if is_there else None, "session": session, "series": numbers[0]}
            refers["environment"] = environment_number(connection, facts)
            insert(connection, "tfperf_measurements", [refers | {"made": made} | row])
            number = last_number(connection)
            insert(connection, "tfperf_details", [{"measurement": number, "whole": packed(m)}])
            of_values = ({"measurement": number, "series": series, "made": made} for series in numbers)
            insert(connection, "tfperf_values", [of | row for of, (_, row) in zip(of_values, values, strict=True)])
            return number

        return self._write(add)

    def append_verdict(self, verdict: SessionVerdict, *, session: str, time: str) -> None:
        """Add a verdict on a whole session; it is on disk when this returns."""
        row = verdict_row(verdict, time)

        def add(connection: Connection) -> None:
            of = _session_number(connection, storable(session), storable(verdict.machine), began=row["time"])
            insert(connection, "tfperf_session_verdicts", [{"session": of} | row])

        self._write(add)

    def end_session(self, session: str, *, time: str) -> None:
        """Note that a session has ended, so that it may be sent."""
        ended = "update tfperf_sessions set ended = ? where session = ?"
        self._write(lambda connection: connection.execute(ended, (seconds_of(time), storable(session))))

    def prune(self, before: datetime) -> int:
        """Delete all sessions and measurements from before a time, free their space, and return how many measurements.

        No import brings them back.
        """
        time = int(before.timestamp())

        def delete_old(connection: Connection) -> int:
            deleted = _delete(connection, "time < ?", (time,))
            connection.execute("delete from tfperf_session_verdicts where time < ?", (time,))
            is_empty = "number not in (select session from tfperf_measurements)"
            connection.execute(f"delete from tfperf_sessions where began < ? and {is_empty}", (time,))
            connection.execute("update tfperf_history set pruned = max(pruned, ?)", (time,))
            return deleted

        self.database.require()
        deleted = self._write(delete_old)
        self.database.compact()
        return deleted

    def _write(self, action: Callable[[Connection], _Result]) -> _Result:
        """Run an action in a transaction; a damaged file is moved aside, and a new one made."""
        try:
            with self.database.opened(writes=True) as connection:
                return action(connection)
        except Damaged:
            if aside := self.database.move_aside():
                self.moved_aside = (
                    f"{self.database} was damaged. It is now {aside.name}, and a new history has begun, "
                    "without the earlier sessions"
                )
        with self.database.opened(writes=True) as connection:
            return action(connection)

    # Values

    def values(self, **wanted: Unpack[Filters]) -> Iterator[Value]:
        """Yield values of throughputs and further figures, in the order in which they were made.

        By default all without another side, which form a series.
        """
        wanted = {"is_interleaved": False, **wanted}
        clauses, parameters = conditions(wanted, in_order=True)
        clauses.append("v.value is not null")
        if wanted.get("figure") is not None:
            clauses.append("v.series in (select number from tfperf_series where figure = ?)")
            parameters.append(wanted["figure"])
        yield from self._values(f"{_VALUES} where {' and '.join(clauses)} {_order(wanted)}", parameters)

    def latest(self, **wanted: Unpack[Filters]) -> list[Value]:
        """Return the last throughput of each machine's test, workload and topology, in the order of `values`."""
        clauses, parameters = conditions({"is_interleaved": False, **wanted})
        of_series = f"select m.number from tfperf_measurements m where m.series = s.number and {' and '.join(clauses)}"
        last = f"{of_series} order by m.made desc, m.number desc limit 1"
        query = f"{_LATEST} where s.figure = '' and v.measurement = ({last}) order by +v.made, v.measurement"
        return list(self._values(query, parameters))

    def _values(self, query: str, parameters: Iterable[object]) -> Iterator[Value]:
        self.database.require()
        with self.database.opened() as connection:
            series = self._series(connection)
            known = "select number, session from tfperf_sessions where typeof(session) = 'text'"
            sessions = dict(connection.execute(known))
            for of, number, session, *columns in slowly(connection, query, tuple(parameters)):
                if (of_series := series.get(of)) is None:
                    continue  # it was noted
                try:
                    if session not in sessions:
                        raise TfperfError(f"session is {shortened(repr(session))}")
                    yield value_of(of_series, sessions[session], number, tuple(columns))
                except TfperfError as error:
                    self.unread.note(MEASUREMENT, number, error)

    def _series(self, connection: Connection) -> Mapping[int, SeriesRow]:
        series = {}
        columns = "number, machine, test, workload, topology, figure, name, asked"
        for number, *row in connection.execute(f"select {columns} from tfperf_series"):
            with self.unread.leaving_out("series", number) as name:
                series[number] = series_row(tuple(row), name)
        return series

    def rows(self, **wanted: Unpack[Filters]) -> Iterator[dict[str, Any]]:
        """Yield measurements as `COLUMNS`, by default all without another side, in the order in which they were made.

        The outcome is the test's, the worst of its throughput's and its figures', or None.
        """
        of_rates: Filters = {**wanted, "figure": ""}
        return map(_row, self.values(**of_rates))

    # Whole measurements and verdicts

    def measurements(self, **wanted: Unpack[Filters]) -> Iterator[Measurement]:
        """Yield whole measurements, by default all, in the order in which they were made."""
        clauses, parameters = conditions(wanted, in_order=True)
        return self._wholes(f"{_MEASUREMENTS} where {' and '.join(clauses)} {_order(wanted)}", parameters)

    def measurements_of(self, numbers: Collection[int]) -> list[Measurement]:
        """Return whole measurements by their numbers, latest first; those that can't be read are left out."""
        query = f"{_MEASUREMENTS} where m.number in ({', '.join('?' * len(numbers))}) order by m.made desc"
        return list(self._wholes(query, numbers))

    def comparisons(self, **wanted: Unpack[Filters]) -> Iterator[Measurement]:
        """Yield whole measurements beside another side, in order, without those whose details were dropped."""
        clauses, parameters = conditions({**wanted, "is_interleaved": True}, in_order=True)
        query = f"{_MEASUREMENTS} where {' and '.join(clauses)} and d.whole is not null {_order(wanted)}"
        return self._wholes(query, parameters)

    def _wholes(self, query: str, parameters: Iterable[object]) -> Iterator[Measurement]:
        self.database.require()
        with self.database.opened() as connection:
            for whole, number in slowly(connection, query, tuple(parameters)):
                with self.unread.leaving_out(MEASUREMENT, number) as name:
                    if whole is None:
                        self.unread.add_dropped(name)
                    else:
                        yield whole_measurement(whole, name)

    def verdicts(self, *, session: str, machine: str) -> list[SessionVerdict]:
        """Return the verdicts on a session as a whole."""
        query = (
            "select d.whole, d.rowid from tfperf_session_verdicts d join tfperf_sessions t on t.number = d.session "
            "where t.session = ? and t.machine = ? order by d.rowid"
        )
        found = []
        self.database.require()
        for whole, number in self._rows(query, (storable(session), storable(machine))):
            with self.unread.leaving_out(VERDICT, number) as name:
                found.append(whole_verdict(whole, name))
        return found

    # Names and times

    def newest_sessions(self, machine: str | None = None, *, alone_only: bool = False) -> Iterator[tuple[str, str]]:
        """Yield each session's id with each of its machines, the one that measured last first.

        With `alone_only` sessions that only measured beside another side are left out.
        """
        alone = " and m.is_interleaved = 0" if alone_only else ""
        last = f"select max(m.made) from tfperf_measurements m where m.session = t.number{alone}"
        query = (
            f"select session, machine from (select t.session, t.machine, ({last}) as made from tfperf_sessions t "
            f"{'' if machine is None else 'where t.machine = ?'}) where made is not null "
            "and typeof(session) = 'text' order by made desc"  # `values` notes what is damaged
        )
        self.database.require()
        yield from self._rows(query, () if machine is None else (storable(machine),))

    def has(self, **wanted: Unpack[Filters]) -> bool:
        """Whether there is any such measurement."""
        clauses, parameters = conditions(wanted)
        self.database.require()
        return any(self._rows(f"select 1 {_FROM} where {' and '.join(clauses)} limit 1", parameters))

    def values_of(self, name: str, **wanted: Unpack[Filters]) -> list[str]:
        """Return the different sessions, tests, machines or commits, the one that was measured last first."""
        clauses, parameters = conditions(wanted)
        column = {"session": "t.session", "commit": 'm."commit"'}.get(name, f"s.{name}")
        query = f"select {column} {_FROM} where {' and '.join(clauses)} group by {column} order by max(m.made) desc"
        return [str(value) for (value,) in self._rows(query, parameters)]

    def times_of(self, **wanted: Unpack[Filters]) -> tuple[str, str]:
        """Return the times of the first and the last measurement; there must be one."""
        clauses, parameters = conditions(wanted)
        clauses.append(f"m.time between {TIMES.start} and {TIMES.stop - 1}")
        query = f"select min(m.time), max(m.time) {_FROM} where {' and '.join(clauses)}"
        ((first, last),) = self._rows(query, parameters)
        return time_of(first or 0), time_of(last or 0)

    def _rows(self, query: str, parameters: Iterable[object]) -> list[Any]:
        """Return a query's rows; none where there is no history yet."""
        if not self.database.exists:
            return []
        with self.database.opened() as connection:
            return connection.execute(query, tuple(parameters)).fetchall()

    def _test_of(self, number: object) -> str:
        """Name the test and session of a measurement that can't be read."""
        for test, session in self._rows(f"select s.test, t.session {_FROM} where m.number = ?", (number,)):
            return f"{shortened(test)} in session {shortened(session)}"
        return ""


def _row(value: Value) -> dict[str, Any]:
    own = {
        "examples_per_sec": float("nan") if value.series.figure else value.value,
        "outcome": (value.outcome_word if value.series.figure else value.test_outcome) or None,
    }
    return {name: own[name] if name in own else getattr(value, name) for name in COLUMNS}


_COLUMNS: Final = f"select v.series, v.measurement, m.session, {', '.join(VALUE_COLUMNS)}"
_LATEST: Final = (  # a cross join, because SQLite would look at all values rather than at all series first
    f"{_COLUMNS} from tfperf_series s cross join tfperf_values v on v.series = s.number "
    "join tfperf_measurements m on m.number = v.measurement"
)
_VALUES: Final = (  # and here at the measurements first
    f"{_COLUMNS} from tfperf_measurements m cross join tfperf_values v on v.measurement = m.number"
)
_FROM: Final = (
    "from tfperf_measurements m join tfperf_series s on s.number = m.series join tfperf_sessions t on "
    "t.number = m.session"
)
_MEASUREMENTS: Final = (
    "select d.whole, m.number from tfperf_measurements m left join tfperf_details d on d.measurement = m.number"
)


def conditions(wanted: Filters, *, in_order: bool = False) -> tuple[list[str], list[object]]:
    """Return the conditions for the measurements m that are wanted, at least one, and their parameters.

    With `in_order` a machine's measurements are found among all, in the order of making, and need not be sorted.
    """
    clauses, parameters = ["true"], list[object]()
    of_series = {name: storable(str(wanted[name])) for name in ("test", "machine") if wanted.get(name) is not None}
    if of_series:
        equal = " and ".join(f"{name} = ?" for name in of_series)
        # With a plus, SQLite looks for another index: a machine has more measurements than a session or a commit.
        is_many = "test" not in of_series and (in_order or wanted.get("session") or wanted.get("commit"))
        clauses.append(f"{'+' if is_many else ''}m.series in (select number from tfperf_series where {equal})")
        parameters += of_series.values()
    if (session := wanted.get("session")) is not None:
        clauses.append("m.session in (select number from tfperf_sessions where session = ?)")
        parameters.append(storable(session))
    if (commit := wanted.get("commit")) is not None:  # a range and not LIKE, for which SQLite uses no index
        first = storable(commit)
        clauses.append('m."commit" >= ? and m."commit" < ?')
        parameters += (first, first + "\U0010ffff")
    if (is_interleaved := wanted.get("is_interleaved")) is not None:
        clauses.append(f"m.is_interleaved = {int(is_interleaved)}")
    if (since := wanted.get("since")) is not None:
        # `made` is never before `time`, and has an index.
        clauses.append("m.time >= ? and m.made >= ?")
        parameters += (int(since.timestamp()), int(since.timestamp()) * 1_000_000)
    if (until := wanted.get("until")) is not None:
        clauses.append("m.time < ?")
        parameters.append(int(until.timestamp()))
    return clauses, parameters


def _order(wanted: Filters) -> str:
    """Return the order of making: along its index for most of a history, sorted for what another index finds."""
    is_small = any(wanted.get(name) is not None for name in ("session", "test", "commit"))
    return "order by +m.made, m.number" if is_small else "order by m.made, m.number"


def _session_number(connection: Connection, session: str, machine: str, *, began: int) -> int:
    """Return the number of a session on a machine, which is added where it is new."""
    facts = {"session": session, "machine": machine, "host": platform.node(), "began": began}
    return number_of(connection, "tfperf_sessions", facts, "session", "machine")


def _delete(connection: Connection, which: str, parameters: tuple[object, ...]) -> int:
    """Delete measurements with their values and details, and return how many."""
    for table in ("tfperf_values", "tfperf_details"):
        of = f"delete from {table} where measurement in (select number from tfperf_measurements where {which})"
        connection.execute(of, parameters)
    return connection.execute(f"delete from tfperf_measurements where {which}", parameters).rowcount
