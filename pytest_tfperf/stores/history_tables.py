"""The tables of a history, the same in SQLite and PostgreSQL."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    DDL,
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    event,
    true,
)

TABLES: Final = MetaData()

# Sorted by bytes everywhere: the collation of a server's language ignores the signs in a time.
_TEXT = String().with_variant(String(collation="C"), "postgresql")


def _text(name: str) -> Column[str]:
    return Column(name, _TEXT, nullable=False)


def _number(name: str, *, is_optional: bool = False) -> Column[float]:
    return Column(name, Double, nullable=is_optional)


def _identity() -> tuple[Column[str], Column[int], Column[str]]:
    """Return the columns that identify and order a row.

    `id` is the same in every history that holds the row. `made` is its time in microseconds since 1970, in UTC. In the
    history where the row is first written, it is increased to exceed all earlier rows', so that a clock that jumps back
    changes no order.
    """
    return Column("id", _TEXT, primary_key=True), Column("made", BigInteger, nullable=False), _text("time")


HISTORY: Final = Table(
    "tfperf_history",
    TABLES,
    Column("version", Integer, nullable=False),
    _text("id"),
    Column("details_from", BigInteger),  # `made` of the last row whose age was checked; null: none was
)
"""One row: the version of the tables, the history's id, and how far old measurements lost their details."""

# `whole` is the whole measurement as zlib-compressed JSON, b"" where it was dropped for its age; queries need the other
# columns.
MEASUREMENTS: Final = Table(
    "tfperf_measurements",
    TABLES,
    *_identity(),
    *map(_text, ("session", "test", "name", "machine", "workload", "topology", "unit")),
    _number("examples_per_sec"),
    _number("low"),  # 95 % interval
    _number("high"),
    # The worst outcome of the test's figures; null: not judged, or not decided yet; "PASS (provisional)": against
    # earlier sessions.
    Column("outcome", _TEXT),
    Column("throughput_outcome", _TEXT),  # of the throughput alone
    Column("runs", Integer, nullable=False),  # runs or pairs that count
    Column("workers", Integer, nullable=False),  # workers started, for discarded runs and pairs too
    _number("seconds"),  # of all workers
    _number("baseline", is_optional=True),  # of the row that it was judged against; null: no later verdict may use it
    Column("baseline_date", _TEXT),
    Column("changes", _TEXT),  # JSON: `SessionChanges.changes`
    Column("code", _TEXT),  # `SessionChanges.code`
    _text("commit"),
    Column("is_slowed_on_purpose", Boolean, nullable=False),
    Column("is_interleaved", Boolean, nullable=False),  # beside another side: no later session is judged by it
    _text("gpu"),
    _text("run_values"),  # JSON: [log rate, error, windows] of each run that a provisional baseline may rest on
    Column("whole", LargeBinary, nullable=False),
)

FIGURES: Final = Table(
    "tfperf_figures",
    TABLES,
    *_identity(),  # the id is the measurement's and the figure's name
    *map(_text, ("measurement", "session", "test", "machine", "workload", "topology", "figure", "unit")),
    _number("value", is_optional=True),  # the median of the runs; null: not measured
    Column("outcome", _TEXT),  # null: not judged, or not decided yet
    _number("baseline", is_optional=True),  # of its baseline, or of the other side
    _text("place"),  # where a program printed it
)
"""The figures of measurements beside the throughput."""

VERDICTS: Final = Table(
    "tfperf_session_verdicts",
    TABLES,
    *_identity(),
    _text("session"),
    _text("machine"),
    _text("kind"),  # "software", "machine", "together" or "drift"
    _text("outcome"),
    Column("whole", LargeBinary, nullable=False),
)
"""The verdicts on whole sessions."""

PUSHED: Final = Table(
    "tfperf_pushed",
    TABLES,
    _text("server"),  # the server's `HISTORY.id`
    _text("kind"),  # the table's name
    Column("made", BigInteger, nullable=False),  # the server has all rows up to this one
    PrimaryKeyConstraint("server", "kind"),
)
"""The rows of a local history that each server has."""

# Two years of five machines have 730,000 measurements. What concerns one test, session, machine or commit is found by
# an index, in the order of making. `test` is in them to be counted.
Index("tfperf_measurements_made", MEASUREMENTS.c.made)
Index("tfperf_session_verdicts_made", VERDICTS.c.made)
Index("tfperf_figures_made", FIGURES.c.made)
Index("tfperf_figures_of", FIGURES.c.measurement)
for _name, _columns in (
    ("tfperf_of_test", ("test", "is_interleaved", "made")),
    ("tfperf_of_session", ("session", "made", "test")),
    ("tfperf_of_machine", ("machine", "made", "session")),
    ("tfperf_of_commit", ("commit", "made")),
    ("tfperf_of_key", ("machine", "workload", "topology", "is_interleaved", "made", "test")),
):
    Index(_name, *(MEASUREMENTS.c[name] for name in _columns)).ddl_if(dialect="sqlite")
Index("tfperf_comparisons", MEASUREMENTS.c.made, sqlite_where=MEASUREMENTS.c.is_interleaved == true()).ddl_if(
    dialect="sqlite"
)
Index("tfperf_of_figure", *(FIGURES.c[name] for name in ("test", "figure", "made"))).ddl_if(dialect="sqlite")
Index("tfperf_verdicts_of", VERDICTS.c.session).ddl_if(dialect="sqlite")

# PostgreSQL refuses a row whose indexed text has more than 2,700 bytes, except in a hash index. This is DDL, because an
# `Index` with an option of PostgreSQL's imports all of its drivers, which few sessions need.
for _name in ("session", "test", "machine"):
    _hashed = DDL(f'CREATE INDEX tfperf_hash_{_name} ON {MEASUREMENTS.name} USING hash ("{_name}")')  # type: ignore[no-untyped-call]
    event.listen(MEASUREMENTS, "after_create", _hashed.execute_if(dialect="postgresql"))
