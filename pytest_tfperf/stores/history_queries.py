"""The queries of a history, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypedDict, get_args, get_type_hints

from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    Table,
    case,
    distinct,
    func,
    literal,
    select,
    tuple_,
    type_coerce,
)
from sqlalchemy.sql.functions import coalesce
from sqlalchemy.types import NullType

from pytest_tfperf.core.bounded_decoding import MOST_ZIPPED_BYTES
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.history_rows import NO_TARGET, outcome_of, storable
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS, PUSHED

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.figure import Figure

_READ_FOR_EACH_WANTED = 5  # some were disturbed or slowed on purpose, which only the whole measurement shows
_LATEST = 100  # measurements: a few sessions of a usual size
_M: Final = MEASUREMENTS.c

# Checked here and not by `plain_json.build`, which is too slow for the 70,000 results of a year.
_KINDS: Final = {name: get_args(hint) or hint for name, hint in get_type_hints(PastResult).items()}
_RESULT: Final = tuple(f.name for f in fields(PastResult) if f.name not in ("is_provisional", "figure"))
_TEST_OUTCOME: Final = {"test_outcome": coalesce(_M.outcome, "")}
_OF_A_THROUGHPUT: Final = _TEST_OUTCOME | {
    "value": _M.examples_per_sec,
    "outcome": coalesce(_M.throughput_outcome, ""),
    "place": literal(""),
}
_OF_A_FIGURE: Final = (
    _TEST_OUTCOME
    | {name: FIGURES.c[name] for name in ("unit", "baseline")}
    | {
        **dict.fromkeys(("value", "low", "high"), FIGURES.c.value),
        "outcome": coalesce(FIGURES.c.outcome, ""),
        "place": FIGURES.c.place,
    }
)


class Filters(TypedDict, total=False):
    """Filters of measurements; a filter that is None or left out selects all.

    Sessions, tests and machines match as a whole, a commit by its first characters. `since` is the first time selected,
    `until` the first that is not; both have their zone. `is_interleaved` selects measurements beside another side, or
    those alone.
    """

    session: str | None
    test: str | None
    machine: str | None
    since: datetime | None
    until: datetime | None
    commit: str | None
    is_interleaved: bool | None


def in_order(query: Select[Any], table: Table) -> Select[Any]:
    """Order the rows as they were written; rows of several machines by their clocks."""
    return query.order_by(table.c.made, table.c.id)


def last_made(table: Table) -> Select[Any]:
    """Select the greatest `made` that a table ever had, because a row that was pushed may have been deleted since."""
    pushed = select(func.max(PUSHED.c.made)).where(PUSHED.c.kind == table.name).scalar_subquery()
    kept = select(func.max(table.c.made)).scalar_subquery()
    return select(case((coalesce(pushed, 0) > coalesce(kept, 0), pushed), else_=coalesce(kept, 0)))


def conditions(table: Table, wanted: Filters) -> list[ColumnElement[bool]]:
    """Return the conditions for the rows that are wanted."""
    column = table.c
    whole = {name: wanted.get(name) for name in ("session", "test", "machine")}
    clauses = [column[name] == storable(str(value)) for name, value in whole.items() if value is not None]
    if (commit := wanted.get("commit")) is not None:
        clauses.append(column["commit"].startswith(commit, autoescape=True))
    if (is_interleaved := wanted.get("is_interleaved")) is not None:
        clauses.append(column["is_interleaved"] == is_interleaved)
    if (since := wanted.get("since")) is not None:
        clauses.append(column["time"] >= _as_stored(since))
    if (until := wanted.get("until")) is not None:
        clauses.append(column["time"] < _as_stored(until))
    return clauses


def wholes(table: Table, wanted: Filters) -> Select[Any]:
    """Select id and whole of the rows that are wanted, in order."""
    return in_order(select(table.c.id, as_it_is(table.c.whole)).where(*conditions(table, wanted)), table)


def as_it_is(whole: ColumnElement[bytes]) -> ColumnElement[Any]:
    """Return the column without SQLAlchemy's conversion, which a damaged row would make fail for the whole query.

    NULL where it is too long for a measurement: a server keeps gigabytes of zeros in a few bytes, too.
    """
    return case((func.length(whole) <= MOST_ZIPPED_BYTES, type_coerce(whole, NullType())))


def recorded(row: Baseline) -> Select[Any]:
    """Select id and whole of measurements of a baseline's key that were not judged, latest first.

    The measurement that recorded it is among them.
    """
    of_row = _M.machine == row.machine, _M.workload == row.key.workload, _M.topology == row.key.topology
    return select(_M.id, as_it_is(_M.whole)).where(*of_row, _M.outcome.is_(None)).order_by(_M.made.desc())


def sessions(machine: str | None, *, alone_only: bool) -> Select[Any]:
    """Select session and machine of each session, in the order of their last measurement."""
    wanted: Filters = {"machine": machine, "is_interleaved": False if alone_only else None}
    rows = select(_M.session, _M.machine).where(*conditions(MEASUREMENTS, wanted))
    return rows.group_by(_M.session, _M.machine).order_by(func.max(_M.made), func.max(_M.id))


def results(wanted: Filters) -> Select[Any]:
    """Select the fields of a PastResult; by default of measurements without another side, which form a series."""
    wanted = {"is_interleaved": False, **wanted}
    columns = ((_OF_A_THROUGHPUT[name] if name in _OF_A_THROUGHPUT else _M[name]).label(name) for name in _RESULT)
    return in_order(select(*columns).where(*conditions(MEASUREMENTS, wanted)), MEASUREMENTS)


def figure_results(wanted: Filters) -> Select[Any]:
    """Select the fields of a PastResult of each further figure of `results`, and the figure's name."""
    wanted = {"is_interleaved": False, **wanted}
    columns = ((_OF_A_FIGURE[name] if name in _OF_A_FIGURE else _M[name]).label(name) for name in _RESULT)
    rows = select(*columns, FIGURES.c.figure).join_from(FIGURES, MEASUREMENTS, FIGURES.c.measurement == _M.id)
    return in_order(rows.where(FIGURES.c.value.is_not(None), *conditions(MEASUREMENTS, wanted)), FIGURES)


def wholes_of(ids: Collection[str]) -> Select[Any]:
    """Select id and whole of these measurements."""
    return select(_M.id, as_it_is(_M.whole)).where(_M.id.in_(ids))


def test_of(id: object) -> Select[Any]:
    """Select test and session of a measurement."""
    return select(_M.test, _M.session).where(_M.id == id)


def as_result(row: Iterable[Any], figure: Figure | None = None) -> PastResult:
    """Make a PastResult from a row of `results`, or of `figure_results` without the figure's name.

    Raises:
        TfperfError: a value has another type than its column, which SQLite does not check, or is out of range.
    """
    values = dict(zip(_RESULT, row, strict=True))
    values["outcome"], values["is_provisional"] = outcome_of(values["outcome"])
    outcome_of(values["test_outcome"])
    for name, value in values.items():
        if not isinstance(value, _KINDS[name]):
            raise TfperfError(f"{name} is {shortened(repr(value))}")
    if not (-math.inf if figure else 0) < values["value"] < math.inf:
        raise TfperfError(f"value is {values['value']}")
    return PastResult(**values, figure=figure)


def seconds_of_runs() -> Select[Any]:
    """Select each test and the seconds that a run of all of its calls took last."""
    sessions = _seconds_of_sessions()
    return _latest_of_each_test(sessions, sessions.c.once)


def longest_seconds_of_runs() -> Select[Any]:
    """Select each test and the most seconds that a run of all of its calls took."""
    sessions = _seconds_of_sessions()
    return select(sessions.c.test, func.max(sessions.c.once)).group_by(sessions.c.test)


def _seconds_of_sessions() -> Subquery:
    """Select for each test and session the seconds of a run of all of its calls, and when it was made."""
    once = func.sum(_M.seconds / func.nullif(_M.workers, 0)).label("once")
    sessions = select(_M.test, once, func.max(_M.made).label("made")).where(~_M.is_interleaved)
    return sessions.group_by(_M.session, _M.test).subquery()


def seconds_of_interleaved() -> Select[Any]:
    """Select each test and the seconds that its last measurement beside another side took."""
    interleaved = select(_M.test, _M.seconds, _M.made).where(_M.is_interleaved).subquery()
    return _latest_of_each_test(interleaved, interleaved.c.seconds)


def _latest_of_each_test(rows: Subquery, seconds: ColumnElement[float]) -> Select[Any]:
    nth = func.row_number().over(partition_by=rows.c.test, order_by=rows.c.made.desc()).label("nth")
    ranked = select(rows.c.test, seconds.label("seconds"), nth).subquery()
    return select(ranked.c.test, ranked.c.seconds).where(ranked.c.nth == 1)


def confirmation_runs(machines: Collection[str]) -> Select[Any]:
    """Select the sum of confirmation runs of the machines' latest judged measurements, and their number."""
    judged = coalesce(_M.throughput_outcome, Outcome.NO_BASELINE.value) != Outcome.NO_BASELINE.value
    known = select(_M.workers).where(judged, ~_M.is_interleaved, ~_M.is_slowed_on_purpose, _M.machine.in_(machines))
    latest = known.order_by(_M.made.desc()).limit(_LATEST).subquery()
    return select(coalesce(func.sum(latest.c.workers - 1), 0), func.count()).select_from(latest)


def past_sessions(rows: Collection[Baseline], before: str, least_tests: int) -> Select[Any]:
    """Select each session's last measurement against each row: id, workload, topology, session, changes, outcome."""
    columns_of_row = tuple_(_M.machine, _M.workload, _M.topology, _M.baseline, _M.baseline_date)
    values_of_rows = [(row.machine, row.key.workload, row.key.topology, row.value, row.date) for row in rows]
    whole_sessions = select(_M.session).group_by(_M.session).having(func.count(distinct(_M.test)) >= least_tests)
    columns = (_M.workload, _M.topology, _M.session)
    latest = func.row_number().over(partition_by=columns, order_by=_M.made.desc()).label("nth")
    ranked = (
        select(_M.id, *columns, _M.changes, _M.throughput_outcome.label("outcome"), _M.made, latest)
        .where(columns_of_row.in_(values_of_rows), _M.session != before, _M.session.in_(whole_sessions))
        .subquery()
    )
    wanted = (ranked.c[name] for name in ("id", "workload", "topology", "session", "changes", "outcome"))
    return select(*wanted).where(ranked.c.nth == 1).order_by(ranked.c.made)


def earlier_measurements(machine: str, before: str, most: int) -> Select[Any]:
    """Select id, workload, topology and whole of measurements for provisional baselines, more than are wanted."""
    nth = func.row_number().over(partition_by=(_M.workload, _M.topology), order_by=_M.made.desc()).label("nth")
    candidates = (
        select(_M.id, nth)
        .where(
            _M.machine == machine,
            _M.session != before,
            ~_M.is_interleaved,
            coalesce(_M.throughput_outcome, "").not_in(NO_TARGET),
        )
        .subquery()
    )
    serving = select(candidates.c.id).where(candidates.c.nth <= most * _READ_FOR_EACH_WANTED)
    return in_order(select(_M.id, _M.workload, _M.topology, as_it_is(_M.whole)).where(_M.id.in_(serving)), MEASUREMENTS)


def _as_stored(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")
