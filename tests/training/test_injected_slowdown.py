"""A worker that loses throughput on purpose, as --tfperf-inject-slowdown asks."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_tfperf.training import worker

BATCH_SECONDS = 0.01


class Pipeline:
    """A pipeline that makes a batch in 10 ms of a clock of its own, ahead of training, which takes no time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._taken = 0

    def perf_counter(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def begin_window(self) -> None: ...

    def run(self, steps: int) -> float:
        self._taken += steps
        self.now = max(self.now, self._taken * BATCH_SECONDS)
        return 0.5


@pytest.mark.parametrize("slowdown", [0.0, 0.05, 0.2, 0.8])
def test_training_that_waits_for_its_input_pipeline_loses_as_much_as_is_asked_for(
    slowdown: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop: Any = Pipeline()
    monkeypatch.setattr(worker, "time", loop)
    windows = [worker._window(loop, 10, slowdown) for _ in range(5)]
    kept = 5 * 10 * BATCH_SECONDS / sum(window["seconds"] for window in windows)
    assert kept == pytest.approx(1 - slowdown)
