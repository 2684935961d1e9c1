"""Measurements and a session's verdicts as rows of a history, and back."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from pytest_tfperf.core import bounded_decoding
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.past import EarlierMeasurement, PastResult, SessionChanges, moment
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.throughput import RunValue
from pytest_tfperf.core.verdict import NOTHING, Outcome, Verdict, Wants
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.stores.measurement_file import IMPOSSIBLE, is_possible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_tfperf.core.run import Pair, Run

_PROVISIONAL = " (provisional)"
NO_TARGET = (Outcome.INVALID.value, Outcome.REGRESSED.value, Outcome.REGRESSED.value + _PROVISIONAL)

DROPPED: Final = b"dropped"
"""In place of a whole measurement that is older than those which the history keeps."""

_TEXTS = ("session", "test", "name", "machine", "topology", "commit")
_OF_A_THROUGHPUT = ("unit", "examples_per_sec", "low", "high")


def measurement_row(m: Measurement) -> dict[str, Any]:
    """Return the columns of a measurement except `id` and `made`."""
    result = PastResult.of(m)
    row = {name: storable(getattr(m, name)) for name in _TEXTS} | {
        **{name: getattr(m.throughput, name) for name in _OF_A_THROUGHPUT},
        "time": utc(m.time),
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
        "run_values": run_values(_serving_runs(m)),
        "whole": _packed(m),
    }
    if result.baseline is not None and m.verdict and m.verdict.baseline:
        expected = math.log(result.baseline) + m.verdict.common_drift
        row |= {
            "baseline_date": m.verdict.baseline.date,
            "changes": json.dumps([run.log_rate - expected for run in m.throughput.runs]),
            "code": _code(m),
        }
    return row


def _code(m: Measurement) -> str:
    """Return a digest of commit and environment; "" where the code that ran is in no commit."""
    if not m.commit or m.commit.endswith("-dirty"):
        return ""
    return hashlib.sha256(json.dumps([m.commit, sorted(m.environment.items())]).encode()).hexdigest()[:16]


def run_values(runs: Sequence[RunValue]) -> str:
    """Return the column of runs that a provisional baseline may rest on."""
    return json.dumps([(value.log_rate, value.error, value.windows) for value in runs])


def _serving_runs(m: Measurement) -> Sequence[RunValue]:
    """Return the runs that a provisional baseline may rest on: undisturbed ones of a decided measurement."""
    serves = m.is_decided and not m.is_refused and "injected_slowdown" not in m.environment
    return EarlierMeasurement.of(m).runs if serves and len(m.runs) == len(m.throughput.runs) else ()


def figure_rows(m: Measurement) -> list[dict[str, Any]]:
    """Return the columns of its further figures except `id`, `made` and `measurement`."""
    texts = {name: storable(getattr(m, name)) for name in ("session", "test", "machine", "topology")}
    return [
        texts
        | {
            "time": utc(m.time),
            "workload": storable(m.workload.id),
            "figure": verdict.figure.name,
            "unit": storable(verdict.figure.unit or ""),
            "value": verdict.value,
            "outcome": verdict.outcome.value if verdict.outcome is not None and verdict.is_decided else None,
            "baseline": verdict.compared_with,
            "place": " and ".join(verdict.places),
        }
        for verdict in m.figures
    ]


def figures_in(whole: Any, row: str) -> list[Figure]:
    """Return the figures that a measurement's test asked for, from the JSON that a row keeps.

    Raises:
        TfperfError: it can't be read; names `row`.
    """
    try:
        return [build(Figure, verdict["figure"], row, newer=True) for verdict in whole["verdicts"][1:]]
    except (KeyError, TypeError) as error:
        raise TfperfError(f"{row} is damaged: {error!r}") from None


@cache
def outcome_of(text: object) -> tuple[Outcome | None, bool]:
    """Return the outcome in a column, None for "", and whether it is provisional.

    Raises:
        TfperfError: it is no outcome, or a newer version's.
    """
    word = str(text).removesuffix(_PROVISIONAL)
    try:
        return Outcome(word) if word else None, word != text
    except ValueError:
        raise TfperfError(f"outcome is {shortened(repr(text))}") from None


def verdict_row(verdict: SessionVerdict, *, session: str, time: str) -> dict[str, Any]:
    """Return the columns of a session's verdict except `id` and `made`."""
    texts = {name: storable(getattr(verdict, name)) for name in ("machine", "kind", "outcome")}
    return texts | {"session": storable(session), "time": utc(time), "whole": _packed(verdict)}


def storable(text: str) -> str:
    r"""Return a text that both databases accept: NUL (for PostgreSQL) and lone surrogates are escaped as `\x00`."""
    return text.encode(errors="backslashreplace").decode().replace("\0", r"\x00")


def as_stored(m: Measurement) -> Measurement:
    """Return the measurement with its texts as the columns store them, so that the two can be matched."""
    texts: dict[str, Any] = {name: storable(getattr(m, name)) for name in _TEXTS}
    return replace(m, **texts)


def utc(when: str) -> str:
    """Return an ISO 8601 time in UTC, to the second."""
    return moment(when).astimezone(UTC).isoformat(timespec="seconds")


def unpacked(whole: bytes | None, row: str) -> Any:
    """Return the JSON that a row keeps; None stands for one that is too long to be read.

    Raises:
        TfperfError: it is damaged; names `row`.
    """
    if whole is None:
        most = bounded_decoding.MOST_ZIPPED_BYTES / 2**20
        raise TfperfError(f"{row} is damaged: it has more than {most:g} MiB, compressed")
    try:
        return bounded_decoding.from_json(bounded_decoding.unzipped(whole))
    except (TypeError, ValueError) as error:
        raise TfperfError(f"{row} is damaged: {error}") from None


def whole_measurement(whole: bytes, row: str) -> Measurement:
    """Return the measurement that a row keeps; a field that only a newer version knows is left out.

    Raises:
        TfperfError: it can't be read; names `row`.
    """
    measurement = build(Measurement, unpacked(whole, row), row, newer=True)
    if not is_possible(measurement):
        raise TfperfError(f"{row}: {IMPOSSIBLE}")
    return measurement


def whole_verdict(whole: bytes, row: str) -> SessionVerdict:
    """Return the verdict on a session that a row keeps; a field that only a newer version knows is left out.

    Raises:
        TfperfError: it can't be read; names `row`.
    """
    return build(SessionVerdict, unpacked(whole, row), row, newer=True)


def profile_of(recorded: Any, date: str, row: str) -> Profile | None:
    """Return the profile of a measurement that was made on this date; None where there is none.

    Raises:
        TfperfError: it can't be read; names `row`.
    """
    if not isinstance(recorded, dict) or not isinstance(recorded.get("time"), str):
        raise TfperfError(f"{row} is damaged: it has no time")
    profile = recorded.get("profile") if recorded["time"].startswith(date) else None
    return build(Profile, profile, row, newer=True) if profile else None


def session_changes(session: object, changes: object, outcome: str, code: object) -> SessionChanges:
    """Make a `SessionChanges` from a row's columns.

    Raises:
        TfperfError: a column is damaged, or has a newer version's outcome.
    """
    try:
        of_runs = tuple(map(float, bounded_decoding.from_json(changes)))  # type: ignore[arg-type]
        if not all(map(math.isfinite, of_runs)):
            raise ValueError("a change is not finite")
        return SessionChanges(str(session), of_runs, Outcome(outcome), str(code or ""))
    except (TypeError, ValueError, AttributeError) as error:
        raise TfperfError(f"changes and outcome can't be read: {error}") from None


def earlier_of_columns(row: Any) -> EarlierMeasurement | None:
    """Make the value from a row's columns, without an environment; None where no baseline may rest on it.

    Raises:
        TfperfError: a column is damaged.
    """
    try:
        values = bounded_decoding.from_json(row.run_values)
        runs = tuple(RunValue(float(rate), float(error), int(count)) for rate, error, count in values)
        if not all(math.isfinite(run.log_rate) for run in runs):
            raise ValueError("a rate is not finite")
        date, columns = row.time[:10], {name: row._mapping[name] for name in ("session", "unit", "gpu", "commit")}
        return EarlierMeasurement(**columns, date=date, runs=runs, environment={}) if runs else None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TfperfError(f"run_values can't be read: {error}") from None


def with_details(one: EarlierMeasurement | None, whole: Any, row: str) -> EarlierMeasurement | None:
    """Add the environment of a measurement from its whole; without `one`, make it all from the whole.

    Raises:
        TfperfError: a field is missing; names the row.
    """
    if one is None:
        return _earlier(whole, row)
    try:
        return replace(one, environment=dict(whole["environment"]))
    except (KeyError, TypeError, ValueError) as error:
        raise TfperfError(f"{row} is damaged: {error!r}") from None


def _earlier(whole: Any, row: str) -> EarlierMeasurement | None:
    """Return the few fields that a provisional baseline needs: whole measurements take seconds in a large history.

    None where no baseline may rest on the measurement: it is undecided, refused as a baseline or not recorded to its
    end, disturbed, or slowed on purpose.

    Raises:
        TfperfError: a field is missing; names the row.
    """
    try:
        verdicts, environment = whole["verdicts"], whole["environment"]
        if not all(build(Verdict, verdict, row, newer=True).is_decided for verdict in verdicts[:1]):
            return None
        recording = whole["recording"]
        if whole["is_refused"] or (recording and build(Wants, recording, row, newer=True) != NOTHING):
            return None
        values = zip(whole["runs"], whole["throughput"]["runs"], strict=True)
        runs = tuple(
            RunValue(float(value["log_rate"]), float(value["error"]), int(value["windows"]))
            for run, value in values
            if run["disturbance"] is None
        )
        if not runs or "injected_slowdown" in environment:
            return None
        return EarlierMeasurement(
            session=whole["session"],
            date=whole["time"][:10],
            unit=whole["throughput"]["unit"],
            gpu=whole["gpu"],
            runs=runs,
            environment=environment,
            commit=whole["commit"],
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise TfperfError(f"{row} is damaged: {error!r}") from None


def _packed(whole: Measurement | SessionVerdict) -> bytes:
    text = json.dumps(plain(whole)).encode()
    if len(text) > bounded_decoding.MOST_BYTES and isinstance(whole, Measurement):
        text = json.dumps(plain(_without_polls(whole))).encode()
    return zlib.compress(text)


def _without_polls(m: Measurement) -> Measurement:
    """Leave out the telemetry of each second, which only curves show."""

    def runs(several: Iterable[Run]) -> tuple[Run, ...]:
        return tuple(replace(run, polls=()) for run in several)

    def pairs(several: Iterable[Pair]) -> tuple[Pair, ...]:
        return tuple(replace(pair, a=replace(pair.a, polls=()), b=replace(pair.b, polls=())) for pair in several)

    return replace(
        m,
        runs=runs(m.runs),
        discarded=runs(m.discarded),
        pairs=pairs(m.pairs),
        discarded_pairs=pairs(m.discarded_pairs),
    )
