"""Measurements and a session's verdicts as rows of a history, and back.

Whatever reads a row raises TfperfError where a value is damaged, or has a word of a newer version. `row` is the row's
name, for the message.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import EarlierMeasurement, PastResult, SessionChanges, moment, not_provisional
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.history_tables import FIGURES, MEASUREMENTS, VERDICTS
from pytest_tfperf.stores.measurement_file import IMPOSSIBLE, is_possible

if TYPE_CHECKING:
    from sqlalchemy import Table

_PROVISIONAL = " (provisional)"

DROPPED: Final = b"dropped"
"""In place of a whole measurement that is older than those which the history keeps."""

_TEXTS = ("session", "test", "name", "machine", "topology", "commit")


def measurement_row(m: Measurement) -> dict[str, Any]:
    """Return the columns of a measurement except `id` and `made`."""
    result = PastResult.of(m)
    serving = []
    if not_provisional(m) is None and len(m.runs) == len(m.throughput.runs):
        values = zip(m.runs, m.throughput.runs, strict=True)
        serving = [(value.log_rate, value.error, value.windows) for run, value in values if run.disturbance is None]
    row = {name: storable(getattr(m, name)) for name in _TEXTS} | {
        "unit": result.unit,
        "examples_per_sec": result.value,
        "low": result.low,
        "high": result.high,
        "time": utc(moment(m.time)),
        "workload": storable(m.workload.id),
        "is_slowed_on_purpose": result.is_slowed_on_purpose,
        "is_interleaved": m.other is not None,
        "outcome": result.test_outcome or None,
        "throughput_outcome": result.outcome_word or None,
        "runs": result.runs,
        "workers": m.workers,
        "seconds": m.seconds,
        "baseline": result.baseline,
        "gpu": storable(m.gpu),
        "run_values": json.dumps(serving),
        "whole": _packed(m),
    }
    if result.baseline is not None and m.verdict and m.verdict.baseline:
        expected = math.log(result.baseline) + m.verdict.common_drift
        code = ""  # of a changed work tree, or outside of a repository, it is not known
        if m.commit and not m.commit.endswith("-dirty"):
            code = hashlib.sha256(json.dumps([m.commit, sorted(m.environment.items())]).encode()).hexdigest()[:16]
        row |= {
            "baseline_date": m.verdict.baseline.date,
            "changes": json.dumps([run.log_rate - expected for run in m.throughput.runs]),
            "code": code,
        }
    return row


def figure_rows(m: Measurement) -> list[dict[str, Any]]:
    """Return the columns of its further figures except `id`, `made` and `measurement`."""
    rows = []
    for verdict in m.figures:
        row = {name: storable(getattr(m, name)) for name in ("session", "test", "machine", "topology")} | {
            "time": utc(moment(m.time)),
            "workload": storable(m.workload.id),
            "figure": verdict.figure.name,
            "unit": storable(verdict.figure.unit or ""),
            "value": verdict.value,
            "outcome": verdict.outcome.value if verdict.outcome is not None and verdict.is_decided else None,
            "baseline": verdict.compared_with,
            "place": " and ".join(verdict.places),
        }
        rows.append(row)
    return rows


def figures_in(whole: Any, row: str) -> list[Figure]:
    """Return the figures that a measurement's test asked for, from the JSON that a row keeps."""
    try:
        return [build(Figure, verdict["figure"], row, newer=True) for verdict in whole["verdicts"][1:]]
    except (KeyError, TypeError) as error:
        raise TfperfError(f"{row} is damaged: {error!r}") from None


@cache
def outcome_of(text: object) -> tuple[Outcome | None, bool]:
    """Return the outcome in a column, None for "", and whether it is provisional."""
    word = str(text).removesuffix(_PROVISIONAL)
    try:
        return Outcome(word) if word else None, word != text
    except ValueError:
        raise TfperfError(f"outcome is {shortened(repr(text))}") from None


def verdict_row(verdict: SessionVerdict, *, session: str, time: str) -> dict[str, Any]:
    """Return the columns of a session's verdict except `id` and `made`."""
    texts = {name: storable(getattr(verdict, name)) for name in ("machine", "kind", "outcome")}
    return texts | {"session": storable(session), "time": utc(moment(time)), "whole": _packed(verdict)}


def storable(text: str) -> str:
    r"""Return a text that both databases accept: NUL (for PostgreSQL) and lone surrogates are escaped as `\x00`."""
    return text.encode(errors="backslashreplace").decode().replace("\0", r"\x00")


def as_stored(m: Measurement) -> Measurement:
    """Return the measurement with its texts as the columns store them, so that the two can be matched."""
    texts: dict[str, Any] = {name: storable(getattr(m, name)) for name in _TEXTS}
    return replace(m, **texts)


def utc(time: datetime) -> str:
    """Return a time as the column `time` has it: ISO 8601, in UTC, to the second."""
    return time.astimezone(UTC).isoformat(timespec="seconds")


def unpacked(whole: bytes | None, row: str) -> Any:
    """Return the JSON that a row keeps; None stands for one that is too long to be read."""
    if whole is None:
        most = plain_json.MOST_ZIPPED_BYTES / 2**20
        raise TfperfError(f"{row} is damaged: it has more than {most:g} MiB, compressed")
    try:
        return plain_json.from_json(plain_json.unzipped(whole))
    except (TypeError, ValueError) as error:
        raise TfperfError(f"{row} is damaged: {error}") from None


def whole_measurement(whole: bytes, row: str) -> Measurement:
    """Return the measurement that a row keeps; a field that only a newer version knows is left out."""
    measurement = build(Measurement, unpacked(whole, row), row, newer=True)
    if not is_possible(measurement):
        raise TfperfError(f"{row}: {IMPOSSIBLE}")
    return measurement


def whole_verdict(whole: bytes, row: str) -> SessionVerdict:
    """Return the verdict on a session that a row keeps; a field that only a newer version knows is left out."""
    return build(SessionVerdict, unpacked(whole, row), row, newer=True)


def profile_of(recorded: Any, date: str, row: str) -> Profile | None:
    """Return the profile of a measurement that was made on this date; None where there is none."""
    if not isinstance(recorded, dict) or not isinstance(recorded.get("time"), str):
        raise TfperfError(f"{row} is damaged: it has no time")
    profile = recorded.get("profile") if recorded["time"].startswith(date) else None
    return build(Profile, profile, row, newer=True) if profile else None


def session_changes(session: object, changes: object, outcome: str, code: object) -> SessionChanges:
    """Make a `SessionChanges` from a row's columns."""
    try:
        of_runs = tuple(map(float, plain_json.from_json(changes)))  # type: ignore[arg-type]
        if not all(map(math.isfinite, of_runs)):
            raise ValueError("a change is not finite")
        return SessionChanges(str(session), of_runs, Outcome(outcome), str(code or ""))
    except (TypeError, ValueError, AttributeError) as error:
        raise TfperfError(f"changes and outcome can't be read: {error}") from None


def earlier_of_columns(row: Any) -> EarlierMeasurement:
    """Make the value from a row's columns, without an environment."""
    try:
        values = plain_json.from_json(row.run_values)
        runs = tuple(RunValue(float(rate), float(error), int(count)) for rate, error, count in values)
        if not runs or not all(math.isfinite(run.log_rate) for run in runs):
            raise ValueError("no runs, or a rate that is not finite")
        columns = {name: row._mapping[name] for name in ("session", "unit", "gpu", "commit")}
        return EarlierMeasurement(**columns, date=row.time[:10], runs=runs, environment={})
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TfperfError(f"run_values can't be read: {error}") from None


def environment_of(whole: Any, row: str) -> dict[str, str]:
    """Return a measurement's environment, from the JSON that a row keeps."""
    try:
        return dict(whole["environment"])
    except (KeyError, TypeError, ValueError) as error:
        raise TfperfError(f"{row} is damaged: {error!r}") from None


def _packed(whole: Measurement | SessionVerdict) -> bytes:
    text = json.dumps(plain(whole)).encode()
    if len(text) > plain_json.MOST_BYTES and isinstance(whole, Measurement):
        text = json.dumps(plain(_without_polls(whole))).encode()
    return zlib.compress(text)


def _without_polls(m: Measurement) -> Measurement:
    """Leave out the telemetry of each second, which only curves show."""
    parts: dict[str, Any] = {}
    for name in ("runs", "discarded"):
        parts[name] = tuple(replace(run, polls=()) for run in getattr(m, name))
    for name in ("pairs", "discarded_pairs"):
        pairs = [(pair, replace(pair.a, polls=()), replace(pair.b, polls=())) for pair in getattr(m, name)]
        parts[name] = tuple(replace(pair, a=a, b=b) for pair, a, b in pairs)
    return replace(m, **parts)


_ROW_OF: Final = {MEASUREMENTS: "measurement", VERDICTS: "session verdict", FIGURES: "figure"}
_MOST_NAMED: Final = 3


class UnreadRows:
    """The rows that a reader left out so far, and why; a row that is read several times counts once.

    As text it is a sentence that names their number, the first rows and the reasons; "" without any.

    Args:
        test_of: names the test and session of a measurement by its id; "" where they are not known.
    """

    def __init__(self, test_of: Callable[[object], str] = lambda _: "") -> None:
        self._test_of = test_of
        self._why: dict[str, str] = {}
        self._dropped: set[str] = set()

    def add_dropped(self, row: str) -> None:
        """Note a row without its whole measurement, which is too old to be kept."""
        self._dropped.add(row)

    @contextmanager
    def leaving_out(self, table: Table, id: object) -> Iterator[str]:
        """Note an error that the reading of a row raises, and go on; gives the row's name for messages."""
        row = f"{_ROW_OF[table]} {id}"
        try:
            yield row
        except TfperfError as error:
            self.note(table, id, error)

    def note(self, table: Table, id: object, error: TfperfError) -> None:
        """Note the error that the reading of a row raised."""
        row, why = f"{_ROW_OF[table]} {id}", str(error)
        if row in self._why:
            return
        why = why if why.startswith(row) else f"{row}: {why}"
        is_named = table is MEASUREMENTS and len(self._why) < _MOST_NAMED
        self._why[row] = f"{why} ({test})" if is_named and (test := self._test_of(id)) else why

    def __str__(self) -> str:
        sentences = []
        if self._why:
            rows = "1 row" if len(self._why) == 1 else f"{len(self._why)} rows"
            why = "; ".join(shortened(reason, 400) for reason in list(self._why.values())[:_MOST_NAMED])
            more = f"; and {len(self._why) - _MOST_NAMED} more" if len(self._why) > _MOST_NAMED else ""
            sentences.append(
                f"{rows} of the history can't be read and left out, damaged or of a newer pytest-tfperf: {why}{more}"
            )
        if self._dropped:
            rows = "1 measurement is" if len(self._dropped) == 1 else f"{len(self._dropped)} measurements are"
            sentences.append(
                f"{rows} left out, whose details were dropped for their age (tfperf_details_days): `tfperf history "
                "--csv` has the figures"
            )
        return ". ".join(sentences)
