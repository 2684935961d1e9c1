"""Measurements and a session's verdicts as rows of a history, and back.

Whatever reads a row raises TfperfError where a value is damaged, or has a word of a newer version. `row` is the row's
name, for the message.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from sys import intern
from typing import Any, Final, NamedTuple

from pytest_tfperf.core import plain_json
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import (
    PROVISIONAL,
    EarlierMeasurement,
    Series,
    SessionChanges,
    Value,
    not_provisional,
    seconds_of,
    storable,
    time_of,
)
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import Outcome, Verdict
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.measurement_file import IMPOSSIBLE, is_possible

MEASUREMENT, VERDICT = "measurement", "session verdict"
"""What rows are called in messages."""


class SeriesRow(NamedTuple):
    """A series, with what its test said of it last."""

    series: Series
    name: str  # the workload's in the test
    figure: Figure | None  # None for the throughput


def measurement_row(m: Measurement) -> dict[str, Any]:
    """Return the columns of a measurement except those that refer to other rows, and `made`."""
    value = Value.of(m)
    return {
        "time": value.at,
        "commit": storable(m.commit),
        "outcome": value.test_outcome,
        "workers": m.workers,
        "seconds": m.seconds,
        "gpu": storable(m.gpu),
        "is_slowed_on_purpose": int(value.is_slowed_on_purpose),
        "is_interleaved": int(m.other is not None),
    }


def value_rows(m: Measurement) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the columns of each figure's series and of its value, the throughput first.

    The values lack `measurement`, `series` and `made`.
    """
    of_rate = Value.of(m)
    series = {**of_rate.series._asdict(), "name": storable(m.name), "asked": ""}
    rows = [(series, _of_rate(m, of_rate))]
    for verdict in m.figures:
        name = verdict.figure.name
        row = _of_verdict(verdict, verdict.compared_with) | {
            "value": verdict.value,
            "low": verdict.value,
            "high": verdict.value,
            "unit": storable(verdict.figure.unit or ""),
            "outcome": verdict.outcome.value if verdict.outcome is not None and verdict.is_decided else "",
            "runs": of_rate.runs,
            "of_runs": json.dumps([plain(run.figures[name]) for run in m.runs if name in run.figures]),
        }
        rows.append((series | {"figure": name, "asked": json.dumps(plain(verdict.figure))}, row))
    return rows


def _of_rate(m: Measurement, value: Value) -> dict[str, Any]:
    summary = m.throughput.runs
    disturbed = [run.disturbance is not None for run in m.runs] or [False] * len(summary)
    counts = len(disturbed) == len(summary)
    runs = [(run.log_rate, plain(run.error), run.windows) for run in summary]
    row = {
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "unit": storable(value.unit),
        "outcome": value.outcome_word,
        "runs": value.runs,
        "of_runs": json.dumps([(*run, int(bad)) for run, bad in zip(runs, disturbed, strict=True)] if counts else runs),
        "serves": int(counts and not_provisional(m) is None),
    }
    return (_of_verdict(m.verdict, value.baseline) if m.verdict else _of_verdict(Verdict(), None)) | row


def _of_verdict(verdict: Verdict, baseline: float | None) -> dict[str, Any]:
    row, tolerance = verdict.baseline, verdict.tolerance
    return {
        "change": verdict.change,
        "lower": tolerance.lower if tolerance else None,
        "upper": tolerance.upper if tolerance else None,
        "baseline": baseline,
        "baseline_date": row.date if row is not None and baseline is not None else "",
        "drift": verdict.common_drift,
        "rank": storable(verdict.rank),
        "place": storable(" and ".join(verdict.places)),
        "serves": 0,
    }


def series_row(columns: tuple[Any, ...], row: str) -> SeriesRow:
    """Make the series from machine, test, workload, topology, figure, name and what is asked."""
    *identity, name, figure = columns
    if not all(isinstance(column, str) for column in columns):
        raise TfperfError(f"{row} is damaged: {shortened(repr(columns))}")
    try:
        what = build(Figure, plain_json.from_json(figure), row, newer=True) if figure else None
    except (TypeError, ValueError) as error:
        raise TfperfError(f"{row} is damaged: {error}") from None
    return SeriesRow(Series(*map(intern, identity)), intern(name), what)


# Checked here and not by `plain_json.build`, which is too slow for hundreds of thousands of values.
_TEXT, _NUMBER, _COUNT = (str,), (float, int), (int,)
VALUE_COLUMNS: Final[Mapping[str, tuple[type, ...]]] = {
    "m.time": _COUNT,
    "v.unit": _TEXT,
    "v.value": _NUMBER,
    "v.low": _NUMBER,
    "v.high": _NUMBER,
    "v.outcome": _TEXT,
    "v.runs": _COUNT,
    "m.seconds": _NUMBER,
    "m.outcome": _TEXT,
    "v.baseline": (*_NUMBER, type(None)),
    'm."commit"': _TEXT,
    "m.is_slowed_on_purpose": _COUNT,
    "v.place": _TEXT,
}
"""The columns of a `Value` beside measurement, series and session, and the types that they may have."""

TIMES: Final = range(-62135596800, 253402300800)
"""The seconds of the years 1 to 9999."""


def value_of(of: SeriesRow, session: str, number: int, columns: tuple[Any, ...]) -> Value:
    """Make a Value from its `VALUE_COLUMNS`.

    Raises:
        TfperfError: a value has another type than its column, which SQLite does not check, or is out of range.
    """
    if (wrong := _column_of_another_type(tuple(map(type, columns)))) is not None:
        name = list(VALUE_COLUMNS)[wrong].partition(".")[2].strip('"')
        raise TfperfError(f"{name} is {shortened(repr(columns[wrong]))}")
    at, unit, value, low, high, word, runs, seconds, of_test, baseline, commit, is_slowed, place = columns
    outcome, is_provisional = outcome_of(word)
    outcome_of(of_test)
    if not (-math.inf if of.figure else 0) < value < math.inf:
        raise TfperfError(f"value is {value}")
    if at not in TIMES:
        raise TfperfError(f"time is {at}")
    return Value(
        of.series,
        session,
        at,
        intern(unit),
        value,
        low,
        high,
        outcome,
        runs,
        seconds,
        intern(of_test),
        baseline,
        intern(commit),
        bool(is_slowed),
        is_provisional,
        intern(place),
        of.name,
        of.figure,
        number,
    )


@cache
def _column_of_another_type(types: tuple[type, ...]) -> int | None:
    """Return the number of the first column whose type is not its own; None for none."""
    pairs = zip(types, VALUE_COLUMNS.values(), strict=True)
    return next((index for index, (kind, kinds) in enumerate(pairs) if kind not in kinds), None)


@cache
def outcome_of(text: object) -> tuple[Outcome | None, bool]:
    """Return the outcome in a column, None for "", and whether it is provisional."""
    word = str(text).removesuffix(PROVISIONAL)
    try:
        return Outcome(word) if word else None, word != text
    except ValueError:
        raise TfperfError(f"outcome is {shortened(repr(text))}") from None


def verdict_row(verdict: SessionVerdict, time: str) -> dict[str, Any]:
    """Return the columns of a session's verdict except `session`."""
    texts = {name: storable(getattr(verdict, name)) for name in ("kind", "outcome")}
    return texts | {"time": seconds_of(time), "whole": packed(verdict)}


def unpacked(whole: object, row: str) -> Any:
    """Return the JSON that a row keeps."""
    try:
        if not isinstance(whole, bytes):
            raise TypeError(f"its details are {shortened(repr(whole))}")
        if len(whole) > plain_json.MOST_ZIPPED_BYTES:
            raise ValueError(f"it has more than {plain_json.MOST_ZIPPED_BYTES / 2**20:g} MiB, compressed")
        return plain_json.from_json(plain_json.unzipped(whole))
    except (TypeError, ValueError) as error:
        raise TfperfError(f"{row} is damaged: {error}") from None


def whole_measurement(whole: object, row: str) -> Measurement:
    """Return the measurement that a row keeps; a field that only a newer version knows is left out."""
    measurement = build(Measurement, unpacked(whole, row), row, newer=True)
    if not is_possible(measurement):
        raise TfperfError(f"{row}: {IMPOSSIBLE}")
    return measurement


def whole_verdict(whole: object, row: str) -> SessionVerdict:
    """Return the verdict on a session that a row keeps; a field that only a newer version knows is left out."""
    return build(SessionVerdict, unpacked(whole, row), row, newer=True)


def profile_of(recorded: Any, date: str, row: str) -> Profile | None:
    """Return the profile of a measurement that was made on this date; None where there is none."""
    if not isinstance(recorded, dict) or not isinstance(recorded.get("time"), str):
        raise TfperfError(f"{row} is damaged: it has no time")
    profile = recorded.get("profile") if recorded["time"].startswith(date) else None
    return build(Profile, profile, row, newer=True) if profile else None


def session_changes(
    session: str, of_runs: object, baseline: float, drift: object, outcome: object, code: str
) -> SessionChanges:
    """Make a `SessionChanges` from a row's columns, of a measurement that was judged against this baseline."""
    found, _ = outcome_of(outcome)
    if found is None or not isinstance(drift, float):
        raise TfperfError(f"outcome and drift can't be read: {shortened(repr((outcome, drift)))}")
    expected = math.log(baseline) + drift
    return SessionChanges(session, tuple(run.log_rate - expected for run, _ in _runs(of_runs)), found, code)


def earlier_measurement(
    session: str, time: int, unit: str, commit: str, gpu: str, of_runs: object, environment: object
) -> EarlierMeasurement:
    """Make the value from a row's columns, of the runs that were not disturbed."""
    runs = tuple(run for run, is_disturbed in _runs(of_runs) if not is_disturbed)
    try:
        facts = plain_json.from_json(str(environment))
    except ValueError as error:
        raise TfperfError(f"environment can't be read: {error}") from None
    if not isinstance(time, int) or time not in TIMES:
        raise TfperfError(f"time is {shortened(repr(time))}")
    if not isinstance(facts, dict) or not runs:
        raise TfperfError(f"of_runs or environment can't be read: {shortened(repr((of_runs, environment)))}")
    return EarlierMeasurement(
        session=session, unit=unit, gpu=gpu, commit=commit, date=time_of(time)[:10], runs=runs, environment=facts
    )


def _runs(of_runs: object) -> list[tuple[RunValue, bool]]:
    try:
        rows = plain_json.from_json(str(of_runs))
        runs = [(RunValue(float(run[0]), float(run[1]), int(run[2])), bool(run[3:] and run[3])) for run in rows]
        if not all(math.isfinite(run.log_rate) for run, _ in runs):
            raise ValueError("a rate is not finite")
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        raise TfperfError(f"of_runs can't be read: {error}") from None
    return runs


def packed(whole: Measurement | SessionVerdict) -> bytes:
    """Return a measurement or a verdict as compressed JSON, without the telemetry of each second if it is too long."""
    text = json.dumps(plain(whole, brief=True)).encode()
    if len(text) > plain_json.MOST_BYTES and isinstance(whole, Measurement):
        text = json.dumps(plain(_without_polls(whole), brief=True)).encode()
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


_MOST_NAMED: Final = 3


class UnreadRows:
    """The rows that a reader left out so far, and why; a row that is read several times counts once.

    As text it is a sentence that names their number, the first rows and the reasons; "" without any.

    Args:
        test_of: names the test and session of a measurement by its number; "" where they are not known.
    """

    def __init__(self, test_of: Callable[[object], str] = lambda _: "") -> None:
        self._test_of = test_of
        self._why: dict[str, str] = {}
        self._dropped: set[str] = set()

    def add_dropped(self, row: str) -> None:
        """Note a row without its whole measurement, which is too old to be kept."""
        self._dropped.add(row)

    @contextmanager
    def leaving_out(self, kind: str, number: object) -> Iterator[str]:
        """Note an error that the reading of a row raises, and go on; gives the row's name for messages."""
        try:
            yield f"{kind} {number}"
        except TfperfError as error:
            self.note(kind, number, error)

    def note(self, kind: str, number: object, error: TfperfError) -> None:
        """Note the error that the reading of a row raised."""
        row, why = f"{kind} {number}", str(error)
        if row in self._why:
            return
        why = why if why.startswith(row) else f"{row}: {why}"
        is_named = kind == MEASUREMENT and len(self._why) < _MOST_NAMED
        self._why[row] = f"{why} ({test})" if is_named and (test := self._test_of(number)) else why

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
