"""Measured windows as the rounds of pytest-benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.session.benchmarks import feed, forget_clock_readings, window_clock
from tests.helpers.measurements import measurement, run, throughput


class Benchmark:
    """Times calls as pytest-benchmark's fixture does with the timer that it was given."""

    def __init__(self) -> None:
        self.extra_info: dict[str, Any] = {}
        self.rounds: list[float] = []

    def pedantic(self, target: Callable[[], Any], *, rounds: int, iterations: int) -> None:
        assert iterations == 1
        for _ in range(rounds):
            start = window_clock()
            target()
            self.rounds.append(window_clock() - start)


def fed(*runs: Run) -> Benchmark:
    benchmark = Benchmark()
    feed(benchmark, measurement(throughput(1402.0), runs=runs))
    return benchmark


@given(st.lists(st.builds(Window, st.integers(1, 100), st.floats(1e-3, 1e3)), min_size=1, max_size=30))
def test_each_window_is_a_round_of_seconds_per_step(windows: list[Window]) -> None:
    assert fed(Run(tuple(windows), 64)).rounds == pytest.approx([w.seconds / w.steps for w in windows], abs=1e-9)


def test_only_the_first_run_is_handed_over() -> None:
    assert fed(run([0.5]), run([0.25, 0.25])).rounds == pytest.approx([0.5])


def test_clock_readings_are_forgotten_and_facts_kept() -> None:
    info = {"node": "a", "cpu": {"brand_raw": "Xeon", "hz_actual": [1, 2], "hz_actual_friendly": "2 GHz", "count": 8}}
    forget_clock_readings(info)
    assert info == {"node": "a", "cpu": {"brand_raw": "Xeon", "count": 8}}
