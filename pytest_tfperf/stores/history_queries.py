"""The queries of a history, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from sys import intern
from typing import TYPE_CHECKING, Any, Final, TypedDict, get_args, get_type_hints

from sqlalchemy import ColumnElement, Select, Table, and_, case, func, literal, select, type_coerce
from sqlalchemy.sql.functions import coalesce
from sqlalchemy.types import NullType

from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.plain_json import MOST_ZIPPED_BYTES
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.history_rows import DROPPED, outcome_of, storable, utc
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS

if TYPE_CHECKING:
    from pytest_tfperf.core.figure import Figure

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


def conditions(table: Table, wanted: Filters, **instead: ColumnElement[Any]) -> list[ColumnElement[bool]]:
    """Return the conditions for the rows that are wanted; `instead` are another table's columns by these names."""
    column: dict[str, ColumnElement[Any]] = {**dict(table.c.items()), **instead}
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
        clauses += [column["time"] >= utc(since), column["made"] >= int(since.timestamp()) * 1_000_000]
    if (until := wanted.get("until")) is not None:
        clauses.append(column["time"] < utc(until))
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
    return select(*columns, FIGURES.c.figure).select_from(WITH_FIGURES).where(*_of_figures(wanted))


def latest_figures(wanted: Filters) -> Select[Any]:
    """Select machine, test, workload, topology and figure of each series of `figure_results`, and its last id."""
    of_series = [FIGURES.c[name] for name in ("machine", "test", "workload", "topology", "figure")]
    rows = select(*of_series, func.max(FIGURES.c.made).label("made")).select_from(WITH_FIGURES)
    last = rows.where(*_of_figures(wanted)).group_by(*of_series).subquery()
    same = and_(*(FIGURES.c[column.name] == column for column in last.c))
    return select(*of_series, FIGURES.c.measurement).join_from(FIGURES, last, same)


WITH_FIGURES: Final = FIGURES.join(MEASUREMENTS, FIGURES.c.measurement == _M.id)


def _of_figures(wanted: Filters) -> list[ColumnElement[bool]]:
    of_figures = {name: FIGURES.c[name] for name in ("test", "machine", "made")}
    return [FIGURES.c.value.is_not(None), *conditions(MEASUREMENTS, {"is_interleaved": False, **wanted}, **of_figures)]


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
