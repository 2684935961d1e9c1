"""The history: every measurement, written to a file as soon as it is made, or sent to a team's server."""

from __future__ import annotations

import math
import secrets
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack

from sqlalchemy import Table, case, delete, func, insert, or_, select
from sqlalchemy.sql.functions import coalesce

from pytest_tfperf.core.history_url import place_of
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import moment
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import one_line, shortened
from pytest_tfperf.stores import history_queries as queries
from pytest_tfperf.stores.earlier_rows import EarlierRows
from pytest_tfperf.stores.history_database import Database
from pytest_tfperf.stores.history_rows import (
    DROPPED,
    UnreadRows,
    figure_rows,
    figures_in,
    measurement_row,
    unpacked,
    verdict_row,
    whole_measurement,
    whole_verdict,
)
from pytest_tfperf.stores.history_tables import FIGURES, HISTORY, MEASUREMENTS, PUSHED, VERDICTS
from pytest_tfperf.stores.kept import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    import pandas
    from sqlalchemy import Connection, Select

    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.history_url import HistoryUrl
    from pytest_tfperf.core.past import PastResult
    from pytest_tfperf.stores.history_queries import Filters

    _Row = Mapping[str, Any]

_Result = TypeVar("_Result")

_M: Final = MEASUREMENTS.c
_TRIAL: Final = "trial"  # a row that is deleted again: rewriting an existing row would write nothing to the disk
_AT_ONCE: Final = 200  # whole measurements that are in memory together
_ROWS_AT_ONCE: Final = 5000
_SESSIONS_AT_ONCE: Final = 500  # rows, of which most are of one session
COLUMNS: Final = (
    *("session", "time", "test", "machine", "workload", "topology"),
    *("unit", "examples_per_sec", "outcome", "runs", "seconds", "name", "is_slowed_on_purpose"),
)
"""The fields of a measurement for other programs, as `tfperf history --csv` prints them."""


def load_history(place: str | Path = ".tfperf", **wanted: Unpack[Filters]) -> pandas.DataFrame:
    """Load a history: a row for each measurement, then a row for each further figure, both in order of time.

    Columns: `COLUMNS`, with `time` as times in UTC; `figure`, "" for the throughput; and `value`, the
    figure's in its unit or the throughput. Figures have no `examples_per_sec`. Rows that can't be read are left out,
    with a warning.

    Args:
        place: the folder of a history, as in `--tfperf-dir`, or the URL of a team's server.
        wanted: only this session, test, machine or commit, or only since or until a time.

    Raises:
        TfperfError: there is no history, it can't be read, or pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise TfperfError("load_history needs pandas, which is not installed", next_step="pip install pandas") from None

    history = History(place_of(place))
    rates, figures = history.frame(**wanted), history.figure_results(**wanted)
    rows = [
        {name: getattr(result, name) for name in rates.columns if name != "examples_per_sec"}
        | {"examples_per_sec": math.nan, "outcome": result.outcome_word or None}
        | {"figure": result.key.figure, "value": result.value}
        for result in figures
    ]
    frame = rates.assign(figure="", value=rates["examples_per_sec"])
    if rows:
        frame = pd.concat([frame, pd.DataFrame(rows)], ignore_index=True)
    if unread := str(history.unread):
        warnings.warn(one_line(unread), stacklevel=2)
    return frame.assign(time=pd.to_datetime(frame["time"], utc=True, format="ISO8601", errors="coerce"))


class History:
    """A history, opened anew for each call.

    Every method that reads or writes raises TfperfError where the file or the server cannot be used, and, but for
    `earlier`, `values_of` and `times_of`, where there is no history yet. A row that is damaged, or that a
    newer version wrote in a format unknown here, is left out and noted in `unread`.

    Args:
        place: the SQLite file, whose folder is made where missing; or the URL of a team's server.

    Attributes:
        database: the file or the server.
        moved_aside: a sentence about a damaged file that was moved; "" where none was damaged.
        unread: the rows that were left out, which every caller must report.
        earlier: what a session asks of the sessions before it.
    """

    def __init__(self, place: Path | HistoryUrl) -> None:
        self.database = Database(place)
        self.moved_aside = ""
        self.unread = UnreadRows(self._test_of)
        self.earlier = EarlierRows(self.database, self.unread)

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
        figures = figure_rows(measurement)
        return self._add(MEASUREMENTS, measurement_row(measurement), measurement.time, replaces, figures)

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

    def measurements(self, **wanted: Unpack[Filters]) -> Iterator[Measurement]:
        """Return whole measurements, by default all, in the order in which they were made."""
        return self._wholes(MEASUREMENTS, queries.wholes(MEASUREMENTS, wanted), whole_measurement)

    def measurements_of(self, ids: Collection[str]) -> list[Measurement]:
        """Return whole measurements by their ids, latest first; those that can't be read are left out."""
        wholes = queries.wholes(MEASUREMENTS, {}).where(_M.id.in_(ids))
        return list(self._wholes(MEASUREMENTS, wholes, whole_measurement))[::-1]

    def comparisons(self, **wanted: Unpack[Filters]) -> Iterator[Measurement]:
        """Return whole measurements beside another side, in order, without those whose details were dropped."""
        kept = queries.wholes(MEASUREMENTS, {**wanted, "is_interleaved": True}, with_details=True)
        return self._wholes(MEASUREMENTS, kept, whole_measurement)

    def newest_sessions(self, machine: str | None = None, *, alone_only: bool = False) -> Iterator[tuple[str, str]]:
        """Yield each session's id with each of its machines, the one that measured last first.

        With `alone_only` sessions that only measured beside another side are left out.
        """
        wanted: Filters = {"machine": machine, "is_interleaved": False if alone_only else None}
        query = select(_M.session, _M.machine).where(*queries.conditions(MEASUREMENTS, wanted))
        known = set[tuple[str, str]]()
        for session, name, *_ in self._portions(query, MEASUREMENTS, _SESSIONS_AT_ONCE, newest_first=True):
            if (session, name) not in known:
                known.add((session, name))
                yield session, name

    def has(self, **wanted: Unpack[Filters]) -> bool:
        """Whether there is any such measurement."""
        self.database.require()
        found = select(_M.id).where(*queries.conditions(MEASUREMENTS, wanted)).limit(1)
        return any(self._rows(found))

    def values_of(self, name: str, **wanted: Unpack[Filters]) -> list[str]:
        """Return the values of a column, the one that was measured last first."""
        rows = select(_M[name]).where(*queries.conditions(MEASUREMENTS, wanted))
        newest_first = rows.group_by(_M[name]).order_by(func.max(_M.made).desc())
        return [str(value) for (value,) in self._rows(newest_first)]

    def times_of(self, **wanted: Unpack[Filters]) -> tuple[str, str]:
        """Return the times of the first and the last measurement; there must be one."""
        times = select(func.min(_M.time), func.max(_M.time)).where(*queries.conditions(MEASUREMENTS, wanted))
        first, last = next(self._rows(times))
        return str(first), str(last)

    def verdicts(self, *, session: str, machine: str) -> list[SessionVerdict]:
        """Return the verdicts on a session as a whole."""
        self.database.require()
        return list(
            self._wholes(VERDICTS, queries.wholes(VERDICTS, {"session": session, "machine": machine}), whole_verdict)
        )

    def results(self, **wanted: Unpack[Filters]) -> Iterator[PastResult]:
        """Yield results of throughputs, by default all without another side, in the order in which they were made."""
        yield from self._results(queries.results(wanted))

    def points(self, **wanted: Unpack[Filters]) -> Iterator[PastResult]:
        """Yield `results` without interval, runs, seconds, baseline and place, in a third of the time."""
        yield from self._results(queries.results(wanted, queries.POINT), queries.POINT)

    def latest(self, **wanted: Unpack[Filters]) -> list[PastResult]:
        """Return the last result of each machine's test, workload and topology, in the order of `results`."""
        return list(self._results(queries.latest(wanted)))

    def figure_results(self, **wanted: Unpack[Filters]) -> Iterator[PastResult]:
        """Yield results of further figures, by default all without another side, in the order in which they were made.

        Each has the `Figure` of its test's latest measurement.
        """
        self.database.require()
        last = {tuple(series): id for *series, id in self._rows(queries.latest_figures(wanted))}
        asked: dict[tuple[str, str], Figure] = {}
        ids = sorted(set(last.values()))
        for start in range(0, len(ids), _AT_ONCE):
            of_ids = queries.wholes(MEASUREMENTS, {}).add_columns(_M.id)
            portion = of_ids.where(_M.id.in_(ids[start : start + _AT_ONCE]))
            for whole, id in list(self._rows(portion)):
                with self.unread.leaving_out(MEASUREMENTS, id) as name:
                    if whole != DROPPED:
                        asked |= {(id, figure.name): figure for figure in figures_in(unpacked(whole, name), name)}
        for row in self._portions(queries.figure_results(wanted), FIGURES, _ROWS_AT_ONCE):
            series = row.machine, row.test, row.workload, row.topology, row.figure
            with self.unread.leaving_out(FIGURES, f"{row.id}-{row.figure}"):
                if (figure := asked.get((last.get(series, ""), row.figure))) is not None:
                    yield queries.as_result(row, figure=figure)

    def rows(self, **wanted: Unpack[Filters]) -> Iterator[dict[str, Any]]:
        """Yield measurements as `COLUMNS`, by default all without another side, in the order in which they were made.

        The outcome is the test's, the worst of its throughput's and its figures', or None.
        """
        for result in self.results(**wanted):
            row = {name: getattr(result, "value" if name == "examples_per_sec" else name) for name in COLUMNS}
            yield row | {"outcome": result.test_outcome or None}

    def frame(self, **wanted: Unpack[Filters]) -> pandas.DataFrame:
        """Return `rows` as a pandas DataFrame, with `COLUMNS` even if there are none."""
        import pandas as pd

        rows = [tuple(row.values()) for row in self.rows(**wanted)]
        return pd.DataFrame(rows, columns=pd.Index(COLUMNS)).astype({"outcome": object})

    def _results(self, query: Select[Any], names: Sequence[str] = queries.RESULT) -> Iterator[PastResult]:
        for row in self._portions(query, MEASUREMENTS, _ROWS_AT_ONCE):
            try:
                result = queries.as_result(row, names)
            except TfperfError as error:
                self.unread.note(MEASUREMENTS, row.id, error)
            else:
                yield result

    def _rows(self, query: Select[Any]) -> Iterator[Any]:
        """Yield a query's rows; none where there is no history yet."""
        if self.database.exists:
            with self.database.opened() as connection:
                yield from connection.execute(query)

    def _portions(self, query: Select[Any], table: Table, at_once: int, *, newest_first: bool = False) -> Iterator[Any]:
        """Yield a query's rows in the order of making, some at a time, each with its `made` and `id` at the end.

        While its caller works on a row nothing is open, so no slow reader locks a session out.
        """
        self.database.require()
        made, id = table.c.made, table.c.id
        query = query.add_columns(made, id).limit(at_once)
        query = query.order_by(made.desc(), id.desc()) if newest_first else query.order_by(made, id)
        part = query
        while True:
            with self.database.opened() as connection:
                rows = connection.execute(part).all()
            yield from rows
            if len(rows) < at_once:
                return
            *_, last_made, last_id = rows[-1]
            later = id < last_id if newest_first else id > last_id
            part = query.where(made <= last_made if newest_first else made >= last_made, or_(made != last_made, later))

    def _wholes(self, table: Table, query: Select[Any], read: Callable[[bytes, str], _Result]) -> Iterator[_Result]:
        for whole, _, id in self._portions(query, table, _AT_ONCE):
            with self.unread.leaving_out(table, id) as name:
                if whole == DROPPED:
                    self.unread.add_dropped(name)
                else:
                    yield read(whole, name)

    def _test_of(self, id: object) -> str:
        """Name the test and session of a measurement that can't be read."""
        row = next(self._rows(select(_M.test, _M.session).where(_M.id == id)), None)
        return f"{shortened(row.test)} in session {shortened(row.session)}" if row else ""

    def _add(
        self, table: Table, row: _Row, when: str, replaces: str | None = None, figures: Sequence[_Row] = ()
    ) -> str:
        id = replaces or secrets.token_hex(16)

        def add(connection: Connection) -> None:
            made = max(connection.scalar(_last_made(table)) + 1, round(moment(when).timestamp() * 1e6))
            connection.execute(delete(table).where(table.c.id == replaces))
            connection.execute(insert(table).values(**row, id=id, made=made))
            if table is MEASUREMENTS:
                connection.execute(delete(FIGURES).where(FIGURES.c.measurement == id))
            first = max(connection.scalar(_last_made(FIGURES)) + 1, made) if figures else 0
            for number, figure in enumerate(figures):
                own = {"id": f"{id}-{figure['figure']}", "made": first + number, "measurement": id}
                connection.execute(insert(FIGURES).values(**figure, **own))

        self._write(add)
        return id

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


def _last_made(table: Table) -> Select[Any]:
    """Select the greatest `made` that a table ever had, because a row that was pushed may have been deleted since."""
    pushed = select(func.max(PUSHED.c.made)).where(PUSHED.c.kind == table.name).scalar_subquery()
    kept = select(func.max(table.c.made)).scalar_subquery()
    return select(case((coalesce(pushed, 0) > coalesce(kept, 0), pushed), else_=coalesce(kept, 0)))
