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

from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.history_rows import NO_REFERENCE, outcome_of, storable
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS, PUSHED

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.figure import Figure

_READ_FOR_EACH_WANTED = 5  # some were disturbed or slowed on purpose, which only the whole measurement tells
_LATEST = 100  # measurements: some sessions of a usual size
_M: Final = MEASUREMENTS.c

# Not `plain_json.build`: a year has 70,000 results.
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
    | {name: FIGURES.c[name] for name in ("unit", "reference")}
    | {
        **dict.fromkeys(("value", "low", "high"), FIGURES.c.value),
        "outcome": coalesce(FIGURES.c.outcome, ""),
        "place": FIGURES.c.place,
    }
)


class Filters(TypedDict, total=False):
    """The measurements that are wanted; a filter that is None or left out selects all.

    A session, a test and a machine are named whole, a commit by its first characters. Of a time `since` is the first
    and `until` the first that is left out; both know their zone. `is_interleaved` selects those beside another side, or
    those by themselves.
    """

    session: str | None
    test: str | None
    machine: str | None
    since: datetime | None
    until: datetime | None
    commit: str | None
    is_interleaved: bool | None


def in_order(query: Select[Any], table: Table) -> Select[Any]:
    """As they were made; those of several machines by their clocks."""
    return query.order_by(table.c.made, table.c.id)


def last_made(table: Table) -> Select[Any]:
    """The greatest `made` that a table has had: that of a row which was pushed may have been deleted since."""
    pushed = select(func.max(PUSHED.c.made)).where(PUSHED.c.kind == table.name).scalar_subquery()
    kept = select(func.max(table.c.made)).scalar_subquery()
    return select(case((coalesce(pushed, 0) > coalesce(kept, 0), pushed), else_=coalesce(kept, 0)))


def conditions(table: Table, wanted: Filters) -> list[ColumnElement[bool]]:
    """What a row of a table must meet."""
    column = table.c
    whole = {name: wanted.get(name) for name in ("session", "test", "machine")}
    met = [column[name] == storable(str(value)) for name, value in whole.items() if value is not None]
    if (commit := wanted.get("commit")) is not None:
        met.append(column["commit"].startswith(commit, autoescape=True))
    if (is_interleaved := wanted.get("is_interleaved")) is not None:
        met.append(column["is_interleaved"] == is_interleaved)
    if (since := wanted.get("since")) is not None:
        met.append(column["time"] >= _as_stored(since))
    if (until := wanted.get("until")) is not None:
        met.append(column["time"] < _as_stored(until))
    return met


def wholes(table: Table, wanted: Filters) -> Select[Any]:
    """Id and whole of each row, in their order."""
    return in_order(select(table.c.id, as_it_is(table.c.whole)).where(*conditions(table, wanted)), table)


def as_it_is(whole: ColumnElement[bytes]) -> ColumnElement[Any]:
    """The column without SQLAlchemy's conversion, which raises on a damaged row and would end the whole query."""
    return type_coerce(whole, NullType())


def recorded(row: Baseline) -> Select[Any]:
    """Id and whole of what was measured for this baseline, or not judged for another reason; the latest first."""
    of_row = _M.machine == row.machine, _M.workload == row.key.workload, _M.topology == row.key.topology
    return select(_M.id, as_it_is(_M.whole)).where(*of_row, _M.outcome.is_(None)).order_by(_M.made.desc())


def sessions(machine: str | None, *, alone_only: bool) -> Select[Any]:
    """Session and machine of each session, in the order of their last measurement."""
    wanted: Filters = {"machine": machine, "is_interleaved": False if alone_only else None}
    found = select(_M.session, _M.machine).where(*conditions(MEASUREMENTS, wanted))
    return found.group_by(_M.session, _M.machine).order_by(func.max(_M.made), func.max(_M.id))


def results(wanted: Filters) -> Select[Any]:
    """The fields of a PastResult, by default of measurements without another side: these are a series over sessions."""
    wanted = {"is_interleaved": False, **wanted}
    columns = ((_OF_A_THROUGHPUT[name] if name in _OF_A_THROUGHPUT else _M[name]).label(name) for name in _RESULT)
    return in_order(select(*columns).where(*conditions(MEASUREMENTS, wanted)), MEASUREMENTS)


def figure_results(wanted: Filters) -> Select[Any]:
    """The fields of a PastResult of each figure of `results`, and the figure's name."""
    wanted = {"is_interleaved": False, **wanted}
    columns = ((_OF_A_FIGURE[name] if name in _OF_A_FIGURE else _M[name]).label(name) for name in _RESULT)
    found = select(*columns, FIGURES.c.figure).join_from(FIGURES, MEASUREMENTS, FIGURES.c.measurement == _M.id)
    return in_order(found.where(FIGURES.c.value.is_not(None), *conditions(MEASUREMENTS, wanted)), FIGURES)


def wholes_of(ids: Collection[str]) -> Select[Any]:
    """Id and whole of these measurements."""
    return select(_M.id, as_it_is(_M.whole)).where(_M.id.in_(ids))


def as_result(row: Iterable[Any], figure: Figure | None = None) -> PastResult:
    """A row of `results`, or of `figure_results` less the name.

    Raises:
        TfperfError: a value is of another type than its column, which SQLite does not check, or no throughput.
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
    """Of each test the seconds that one run of all its calls took last."""
    sessions = _seconds_of_sessions()
    return _latest_of_each_test(sessions, sessions.c.once)


def longest_seconds_of_runs() -> Select[Any]:
    """Of each test the most seconds that one run of all its calls took."""
    sessions = _seconds_of_sessions()
    return select(sessions.c.test, func.max(sessions.c.once)).group_by(sessions.c.test)


def _seconds_of_sessions() -> Subquery:
    """Of each test and session the seconds of one run of all its calls, and when it was made."""
    once = func.sum(_M.seconds / func.nullif(_M.workers, 0)).label("once")
    sessions = select(_M.test, once, func.max(_M.made).label("made")).where(~_M.is_interleaved)
    return sessions.group_by(_M.session, _M.test).subquery()


def seconds_of_interleaved() -> Select[Any]:
    """Of each test the seconds that its last measurement beside another side took."""
    interleaved = select(_M.test, _M.seconds, _M.made).where(_M.is_interleaved).subquery()
    return _latest_of_each_test(interleaved, interleaved.c.seconds)


def _latest_of_each_test(rows: Subquery, seconds: ColumnElement[float]) -> Select[Any]:
    nth = func.row_number().over(partition_by=rows.c.test, order_by=rows.c.made.desc()).label("nth")
    ranked = select(rows.c.test, seconds.label("seconds"), nth).subquery()
    return select(ranked.c.test, ranked.c.seconds).where(ranked.c.nth == 1)


def confirmation_runs(machines: Collection[str]) -> Select[Any]:
    """Sum of further runs, and number, of the machines' latest measurements that were judged."""
    judged = coalesce(_M.throughput_outcome, Outcome.NO_BASELINE.value) != Outcome.NO_BASELINE.value
    known = select(_M.workers).where(judged, ~_M.is_interleaved, ~_M.is_slowed_on_purpose, _M.machine.in_(machines))
    latest = known.order_by(_M.made.desc()).limit(_LATEST).subquery()
    return select(coalesce(func.sum(latest.c.workers - 1), 0), func.count()).select_from(latest)


def past_sessions(rows: Collection[Baseline], before: str, least_tests: int) -> Select[Any]:
    """Id, workload, topology, session, changes, outcome of each session's last measurement against one of the rows."""
    row = tuple_(_M.machine, _M.workload, _M.topology, _M.reference, _M.reference_date)
    whole_sessions = select(_M.session).group_by(_M.session).having(func.count(distinct(_M.test)) >= least_tests)
    columns = (_M.workload, _M.topology, _M.session)
    latest = func.row_number().over(partition_by=columns, order_by=_M.made.desc()).label("nth")
    found = (
        select(_M.id, *columns, _M.changes, _M.throughput_outcome.label("outcome"), _M.made, latest)
        .where(
            row.in_([(each.machine, each.key.workload, each.key.topology, each.reference, each.date) for each in rows])
        )
        .where(_M.session != before, _M.session.in_(whole_sessions))
        .subquery()
    )
    wanted = (found.c.id, *(found.c[name] for name in ("workload", "topology", "session", "changes", "outcome")))
    return select(*wanted).where(found.c.nth == 1).order_by(found.c.made)


def earlier_measurements(machine: str, before: str, most: int) -> Select[Any]:
    """Id, workload, topology and whole of measurements that may serve as a reference, more than the wanted ones."""
    nth = func.row_number().over(partition_by=(_M.workload, _M.topology), order_by=_M.made.desc()).label("nth")
    candidates = (
        select(_M.id, nth)
        .where(
            _M.machine == machine,
            _M.session != before,
            ~_M.is_interleaved,
            coalesce(_M.throughput_outcome, "").not_in(NO_REFERENCE),
        )
        .subquery()
    )
    serving = select(candidates.c.id).where(candidates.c.nth <= most * _READ_FOR_EACH_WANTED)
    return in_order(select(_M.id, _M.workload, _M.topology, as_it_is(_M.whole)).where(_M.id.in_(serving)), MEASUREMENTS)


def _as_stored(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="seconds")
