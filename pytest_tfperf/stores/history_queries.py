"""The queries of a history, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import cache
from sys import intern
from typing import TYPE_CHECKING, Any, Final, TypedDict, get_args, get_type_hints

from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    and_,
    bindparam,
    case,
    distinct,
    false,
    func,
    literal,
    or_,
    select,
    type_coerce,
)
from sqlalchemy.sql.functions import coalesce
from sqlalchemy.types import NullType

from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.plain_json import MOST_ZIPPED_BYTES
from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.core.verdict import LOSSES, Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.history_rows import DROPPED, outcome_of, storable
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS, PUSHED, VERDICTS

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.core.figure import Figure

LATEST: Final = 100
"""Measurements whose confirmation runs count: a few sessions of a usual size."""

_M: Final = MEASUREMENTS.c
_AFTER_ANY_TEXT = "\U0010ffff"

# Checked here and not by `plain_json.build`, which is too slow for hundreds of thousands of results.
_KINDS: Final = {name: get_args(hint) or hint for name, hint in get_type_hints(PastResult).items()}
RESULT: Final = tuple(f.name for f in fields(PastResult) if f.name not in ("is_provisional", "figure"))
POINT: Final = (
    *("id", "session", "time", "test", "name", "machine", "workload", "topology"),
    *("unit", "value", "outcome", "test_outcome", "commit", "is_slowed_on_purpose"),
)
"""The fields of tables and lasting changes, for readers of all results."""

_SHARED: Final = (
    "session",
    "test",
    "name",
    "machine",
    "workload",
    "topology",
    "unit",
    "commit",
    "test_outcome",
    "place",
)
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


def last_made(table: Table) -> Select[Any]:
    """Select the greatest `made` that a table ever had, because a row that was pushed may have been deleted since."""
    pushed = select(func.max(PUSHED.c.made)).where(PUSHED.c.kind == table.name).scalar_subquery()
    kept = select(func.max(table.c.made)).scalar_subquery()
    return select(case((coalesce(pushed, 0) > coalesce(kept, 0), pushed), else_=coalesce(kept, 0)))


def conditions(table: Table, wanted: Filters) -> list[ColumnElement[bool]]:
    """Return the conditions for the rows that are wanted."""
    return _conditions(dict(table.c.items()), wanted)


def _conditions(column: Mapping[str, ColumnElement[Any]], wanted: Filters) -> list[ColumnElement[bool]]:
    given = {name: wanted.get(name) for name in ("session", "test", "machine")}
    whole = {name: storable(str(value)) for name, value in given.items() if value is not None}
    if len(whole) > 1 or wanted.get("commit") is not None:
        # SQLite must not look for all measurements of the machine, which are more than a session's or a test's.
        column = {**column, "machine": coalesce(column["machine"], "")}
    clauses = [column[name] == value for name, value in whole.items()]
    if (commit := wanted.get("commit")) is not None:  # a range and not LIKE, for which SQLite uses no index
        first = storable(str(commit))
        clauses += [column["commit"] >= first, column["commit"] < first + _AFTER_ANY_TEXT]
    if (is_interleaved := wanted.get("is_interleaved")) is not None:
        clauses.append(column["is_interleaved"] == is_interleaved)
    if (since := wanted.get("since")) is not None:
        # `made` is never before `time`, and has an index.
        clauses += [column["time"] >= as_stored(since), column["made"] >= int(since.timestamp()) * 1_000_000]
    if (until := wanted.get("until")) is not None:
        clauses.append(column["time"] < as_stored(until))
    return clauses


def wholes(table: Table, wanted: Filters, *, with_details: bool = False) -> Select[Any]:
    """Select the whole of the rows that are wanted; with `with_details` not of those that lost theirs for their age."""
    rows = select(as_it_is(table.c.whole)).where(*conditions(table, wanted))
    return rows.where(func.length(table.c.whole) > len(DROPPED)) if with_details else rows


def as_it_is(whole: ColumnElement[bytes]) -> ColumnElement[Any]:
    """Return the column without SQLAlchemy's conversion, which a damaged row would make fail for the whole query.

    NULL where it is too long for a measurement: a server keeps gigabytes of zeros in a few bytes, too.
    """
    return case((func.length(whole) <= MOST_ZIPPED_BYTES, type_coerce(whole, NullType())))


def portion(query: Select[Any], table: Table, after: Any, most: int, *, newest_first: bool = False) -> Select[Any]:
    """Select the next rows of a query in the order of making, each with its `made` and `id` at the end.

    Args:
        query: selects from the table.
        table: the one whose order counts.
        after: the last row of the portion before; None for the first portion.
        most: the most rows.
        newest_first: reverse the order.
    """
    made, id = table.c.made, table.c.id
    if after is not None:
        *_, last_made, last_id = after
        later = id < last_id if newest_first else id > last_id
        query = query.where(made <= last_made if newest_first else made >= last_made, or_(made != last_made, later))
    order = (made.desc(), id.desc()) if newest_first else (made, id)
    return query.add_columns(made, id).order_by(*order).limit(most)


def recorded(row: Baseline) -> Select[Any]:
    """Select id and whole of measurements of a baseline's key and date that were not judged, latest first.

    The measurement that recorded it is among them.
    """
    key = _M.machine == row.machine, _M.workload == row.key.workload, _M.topology == row.key.topology
    first, last = (as_stored(_day(row) + timedelta(days=days)) for days in (-1, 2))  # in any zone
    not_judged = _M.outcome.is_(None), _M.is_interleaved == false(), _M.time.between(first, last)
    return select(_M.id, as_it_is(_M.whole)).where(*key, *not_judged).order_by(_M.made.desc())


def _day(row: Baseline) -> datetime:
    """Return a row's date, in the zone of the machine that recorded it; the oldest one for any other text."""
    try:
        return datetime.fromisoformat(row.date[:10]).replace(tzinfo=UTC)
    except ValueError:
        return datetime(1970, 1, 2, tzinfo=UTC)


def sessions(machine: str | None, *, alone_only: bool) -> Select[Any]:
    """Select session and machine of each measurement."""
    wanted: Filters = {"machine": machine, "is_interleaved": False if alone_only else None}
    return select(_M.session, _M.machine).where(*conditions(MEASUREMENTS, wanted))


def values_of(name: str, wanted: Filters) -> Select[Any]:
    """Select the values of a column, the value that was measured last first."""
    rows = select(_M[name]).where(*conditions(MEASUREMENTS, wanted))
    return rows.group_by(_M[name]).order_by(func.max(_M.made).desc())


def times_of(wanted: Filters) -> Select[Any]:
    """Select the first and the last time."""
    return select(func.min(_M.time), func.max(_M.time)).where(*conditions(MEASUREMENTS, wanted))


def results(wanted: Filters, names: Sequence[str] = RESULT) -> Select[Any]:
    """Select fields of a PastResult; by default of measurements without another side, which form a series."""
    wanted = {"is_interleaved": False, **wanted}
    columns = ((_OF_A_THROUGHPUT[name] if name in _OF_A_THROUGHPUT else _M[name]).label(name) for name in names)
    return select(*columns).where(*conditions(MEASUREMENTS, wanted))


def latest(wanted: Filters) -> Select[Any]:
    """Select the last of the `results` of each series."""
    series = _M.machine, _M.workload, _M.topology, _M.test
    wanted = {"is_interleaved": False, **wanted}
    rows = select(*series, func.max(_M.made).label("made")).where(*conditions(MEASUREMENTS, wanted))
    last = rows.group_by(*series).subquery()
    same = and_(*(_M[name] == last.c[name] for name in ("machine", "workload", "topology", "test", "made")))
    return results(wanted).join_from(MEASUREMENTS, last, same)


def figure_results(wanted: Filters) -> Select[Any]:
    """Select the fields of a PastResult of each further figure of `results`, and the figure's name."""
    columns = ((_OF_A_FIGURE[name] if name in _OF_A_FIGURE else _M[name]).label(name) for name in RESULT)
    return select(*columns, FIGURES.c.figure).select_from(_WITH_FIGURES).where(*_of_figures(wanted))


def latest_figures(wanted: Filters) -> Select[Any]:
    """Select machine, test, workload, topology and figure of each series of `figure_results`, and its last id."""
    of_series = [FIGURES.c[name] for name in ("machine", "test", "workload", "topology", "figure")]
    rows = select(*of_series, func.max(FIGURES.c.made).label("made")).select_from(_WITH_FIGURES)
    last = rows.where(*_of_figures(wanted)).group_by(*of_series).subquery()
    same = and_(*(FIGURES.c[column.name] == column for column in last.c))
    return select(*of_series, FIGURES.c.measurement).join_from(FIGURES, last, same)


_WITH_FIGURES: Final = FIGURES.join(MEASUREMENTS, FIGURES.c.measurement == _M.id)


def _of_figures(wanted: Filters) -> list[ColumnElement[bool]]:
    columns = {**dict(MEASUREMENTS.c.items()), **{name: FIGURES.c[name] for name in ("test", "machine", "made")}}
    return [FIGURES.c.value.is_not(None), *_conditions(columns, {"is_interleaved": False, **wanted})]


def as_result(row: Sequence[Any], names: Sequence[str] = RESULT, *, figure: Figure | None = None) -> PastResult:
    """Make a PastResult from the first columns of a row, which have these names; other fields are empty.

    Raises:
        TfperfError: a value has another type than its column, which SQLite does not check, or is out of range.
    """
    columns = row[: len(names)]
    if (wrong := _column_of_another_type(names, tuple(map(type, columns)))) is not None:
        raise TfperfError(f"{wrong} is {shortened(repr(columns[names.index(wrong)]))}")
    values: dict[str, Any] = dict(zip(names, columns, strict=True))
    values["outcome"], values["is_provisional"] = outcome_of(values["outcome"])
    value = values["value"]
    if not (-math.inf if figure else 0) < value < math.inf:
        raise TfperfError(f"value is {value}")
    outcome_of(values["test_outcome"])
    if names is not RESULT:
        return PastResult(**values, low=value, high=value, runs=0, seconds=0.0)
    for name in _SHARED:  # by the results of a test, which are hundreds of thousands in a history
        values[name] = intern(values[name])
    return PastResult(**values, figure=figure)


@cache
def _column_of_another_type(names: Sequence[str], types: tuple[type, ...]) -> str | None:
    """Return the first column whose type is not its field's; None for none."""
    kinds = {**_KINDS, "outcome": str}
    return next((name for name, kind in zip(names, types, strict=True) if not issubclass(kind, kinds[name])), None)


# For the start of a session, with bound parameters, because building a statement takes longer than running it. Each is
# read row by row along an index, and no further than is wanted.

_TEST: Final = _M.test == bindparam("test")
_KEY: Final = (
    *(_M[name] == bindparam(name) for name in ("machine", "workload", "topology")),
    _M.is_interleaved == false(),
)
_NOT_TODAY: Final = _M.session != bindparam("before")

_LATEST_OF_TEST: Final = _TEST, _M.is_interleaved == bindparam("is_interleaved")

SECONDS_OF: Final = select(_M.session, _M.seconds, _M.workers).where(*_LATEST_OF_TEST).order_by(_M.made.desc())
"""Session, seconds and workers of the measurements of `test`, beside another side or not, latest first."""

MEASURED_SINCE: Final = (
    select(_M.machine)
    .where(*_LATEST_OF_TEST, _M.made >= bindparam("since"), _M.time >= bindparam("time"))
    .order_by(_M.made.desc())
)
"""The machines of the measurements of `test` since a time, beside another side or not, latest first.

Both columns are compared: a session whose clock was ahead puts `made` ahead for all that follow.
"""

TESTS_OF: Final = select(func.count(distinct(_M.test))).where(_M.session == bindparam("session"))
"""The number of tests of `session`."""

LOST_AS_A_WHOLE: Final = select(func.count()).where(
    VERDICTS.c.session == bindparam("session"),
    VERDICTS.c.machine == bindparam("machine"),
    VERDICTS.c.kind != VerdictOn.DRIFT.value,
    VERDICTS.c.outcome.in_([outcome.value for outcome in LOSSES]),
)
"""The number of verdicts of `session` by which the software, or `machine` as a whole, is or may be slower."""

JUDGED_RUNS: Final = (
    select(_M.made, _M.workers)
    .where(_M.machine == bindparam("machine"), ~_M.is_interleaved, ~_M.is_slowed_on_purpose)
    .where(coalesce(_M.throughput_outcome, Outcome.NO_BASELINE.value) != Outcome.NO_BASELINE.value)
    .order_by(_M.made.desc())
    .limit(LATEST)
)
"""`made` and workers of the latest judged measurements of `machine`."""

FOR_PROVISIONAL: Final = (
    select(_M.id, _M.session, _M.time, _M.unit, _M.commit, _M.gpu, _M.run_values)
    .where(*_KEY, _NOT_TODAY, _M.run_values != "[]")
    .order_by(_M.made.desc())
)
"""The columns that a provisional baseline of a key rests on, without those of the session `before`, latest first."""

WHOLE_OF: Final = select(type_coerce(_M.whole, NullType())).where(_M.id == bindparam("id"))
"""The whole of the measurement `id`."""

_SINCE_THE_ROW: Final = *_KEY, _NOT_TODAY, _M.made >= bindparam("since")
_AGAINST: Final = select(_M.id, _M.session, _M.changes, _M.throughput_outcome.label("outcome"), _M.made).where(
    *_SINCE_THE_ROW, _M.baseline == bindparam("baseline"), _M.baseline_date == bindparam("date")
)
AGAINST_NEWEST_FIRST: Final = _AGAINST.order_by(_M.made.desc())
"""Id, session, changes, outcome and `made` of the measurements that were judged against a row; see `of_row`."""
PAST_OLDEST_FIRST: Final = _AGAINST.add_columns(_M.code).order_by(_M.made)
"""The same with the code that was measured."""
PAST_NEWEST_FIRST: Final = _AGAINST.add_columns(_M.code).order_by(_M.made.desc())
FIGURE_AGAINST_NEWEST_FIRST: Final = (
    select(_M.id, _M.session, FIGURES.c.outcome)
    .select_from(_WITH_FIGURES)
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


def of_row(row: Baseline, before: str) -> dict[str, object]:
    """Return the parameters of AGAINST_... for a row, without the session `before`."""
    key = {"machine": row.machine, **row.key._asdict()}
    since = _micros(_day(row) - timedelta(days=1))
    return key | {"baseline": row.value, "date": row.date, "before": before, "since": since}


def keys_of(machine: str) -> Select[Any]:
    """Select each workload and topology that a machine measured without another side."""
    return select(_M.workload, _M.topology).where(_M.machine == machine, _M.is_interleaved == false()).distinct()


def _micros(time: datetime) -> int:
    return round(time.timestamp() * 1e6)


def as_stored(time: datetime) -> str:
    """Return a time as the column `time` has it."""
    return time.astimezone(UTC).isoformat(timespec="seconds")
