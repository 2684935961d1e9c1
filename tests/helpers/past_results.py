"""Results of simulated sessions, as the history gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.past import Series, Value, seconds_of
from pytest_tfperf.core.verdict import Outcome

START = datetime(2026, 1, 1, 3, tzinfo=UTC)


def past_result(session: int, test: str, log_rate: float, **more: Any) -> Value:
    """What one test gave in the session `s<number>`, a day after the one before; `more` is as in `changed`."""
    rate = 1000 * math.exp(log_rate)
    value = Value(
        Series("box", test, "resnet50-b64", "1x1"),
        session=f"s{session}",
        at=int((START + timedelta(days=session)).timestamp()),
        unit="images",
        value=rate,
        low=rate * 0.99,
        high=rate * 1.01,
        outcome=Outcome.PASS,
        runs=1,
        seconds=1.0,
        baseline=1000.0,
        commit=f"c{session}",
        number=session,
    )
    return changed(value, **more)


def changed(value: Value, /, **changes: Any) -> Value:
    """The value with other fields; those of its series and its ISO time go by their own names."""
    of_series = {name: changes.pop(name) for name in Series._fields if name != "figure" and name in changes}
    if (figure := changes.get("figure")) is not None:
        of_series["figure"] = figure.name
    if "time" in changes:
        changes["at"] = seconds_of(changes.pop("time"))
    return value._replace(series=value.series._replace(**of_series), **changes)


def past_results(series: Mapping[str, NDArray[np.float64]], **more: Any) -> list[Value]:
    """Of each test's log rates, session by session; NaN where it was not measured."""
    sessions = range(max(map(len, series.values())))
    return [
        past_result(session, test, float(rates[session]), **more)
        for session in sessions
        for test, rates in series.items()
        if session < len(rates) and not math.isnan(rates[session])
    ]


def past_figure(figure: Figure, values: Sequence[float], **more: Any) -> list[Value]:
    """A figure of the test `test_0`, session by session."""
    return [
        past_result(
            *(number, "test_0", 0.0),
            **{"figure": figure, "unit": figure.unit, "value": value, "low": value, "high": value} | more,
        )
        for number, value in enumerate(values)
    ]


def quiet_tests(count: int, sessions: int, cv: float = 0.005, seed: int = 1) -> dict[str, NDArray[np.float64]]:
    """The log rates of tests to which nothing happens."""
    random = np.random.default_rng(seed)
    return {f"test_{number}": random.normal(0, cv, sessions) for number in range(count)}
