"""A worker that loses throughput on purpose, as --tfperf-inject-slowdown asks."""

from __future__ import annotations

import time
from typing import Any

from pytest_tfperf.training import worker

STEP_SECONDS = 0.01


class Sleeping:
    def begin_window(self) -> None: ...

    def run(self, steps: int) -> float:
        time.sleep(steps * STEP_SECONDS)
        return 0.5


def test_an_injected_slowdown_costs_as_much_as_it_says() -> None:
    loop: Any = Sleeping()
    window = worker._window(loop, 10, 0.8)
    # No sleep is shorter than it was asked to be: what is left of the throughput is a fifth at most.
    assert window["seconds"] >= 10 * STEP_SECONDS / (1 - 0.8)
