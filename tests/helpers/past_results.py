"""Results of simulated sessions, as the history gives them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.past import PastResult
from pytest_tfperf.core.verdict import Outcome

START = datetime(2026, 1, 1, 3, tzinfo=UTC)


def past_result(session: int, test: str, log_rate: float, **more: Any) -> PastResult:
    """What one test gave in the session `s<number>`, a day after the one before."""
    rate = 1000 * math.exp(log_rate)
    given: dict[str, Any] = {
        "id": f"{session}-{test}",
        "session": f"s{session}",
        "time": (START + timedelta(days=session)).isoformat(),
        "test": test,
        "machine": "box",
        "workload": "resnet50-b64",
        "topology": "1x1",
        "unit": "images",
        "value": rate,
        "low": rate * 0.99,
        "high": rate * 1.01,
        "outcome": Outcome.PASS,
        "runs": 1,
        "seconds": 1.0,
        "baseline": 1000.0,
        "commit": f"c{session}",
    }
    return PastResult(**given | more)


def past_results(series: Mapping[str, NDArray[np.float64]], **more: Any) -> list[PastResult]:
    """Of each test's log rates, session by session; NaN where it was not measured."""
    sessions = range(max(map(len, series.values())))
    return [
        past_result(session, test, float(rates[session]), **more)
        for session in sessions
        for test, rates in series.items()
        if session < len(rates) and not math.isnan(rates[session])
    ]


def past_figure(figure: Figure, values: Sequence[float], **more: Any) -> list[PastResult]:
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
