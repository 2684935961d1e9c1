"""Measurements made by hand: attempts, throughputs, baselines and records with chosen figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.comparison import Comparison, How, Measured
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Run, Trial, Window
from pytest_tfperf.core.throughput import RunValue, Throughput, hodges_lehmann
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.core.workload import Workload

WORKLOAD = Workload(model="resnet50", batch_size=64)
KEY = Key(WORKLOAD.id, "1x8")


def attempt(seconds: Sequence[float], images_per_step: int = 64, **more: Any) -> Run:
    """One step a window."""
    return Run(tuple(Window(1, s) for s in seconds), images_per_step, **more)


def throughput(*images_per_sec: float, error: float = 0.001, **more: Any) -> Throughput:
    """Fresh runs of these values, each known to within `error`; an interval of 0.5 % on either side."""
    runs = tuple(RunValue(math.log(rate), error, 100) for rate in images_per_sec)
    centre = math.exp(hodges_lehmann([run.log_rate for run in runs]))
    given: dict[str, Any] = {
        "images_per_sec": centre,
        "low": centre * 0.995,
        "high": centre * 1.005,
        "runs": runs,
        "mean_images_per_sec": centre,
        "uncertainty": 1.5,
        "jitter": 2.5,
        "steps": 100 * len(runs),
        "images_per_step": 64,
    }
    return Throughput(**given | more)


def baseline(reference: float = 1000.0, **more: Any) -> Baseline:
    """Five measured runs that differed by 1 %."""
    given: dict[str, Any] = {"machine": "box", "key": KEY, "reference": reference, "runs": 5, "spread": 0.01}
    return Baseline(**given | more)


def record(now: Throughput | None = None, **more: Any) -> Measurement:
    given: dict[str, Any] = {
        "test": "perf_tests/test_a.py::test_b[1]",
        "workload": WORKLOAD,
        "topology": "1x8",
        "machine": "box",
        "devices": "8x Tesla P100",
        "trial": Trial((attempt([0.064]),)),
        "throughput": now or throughput(1000.0),
        "time": "2026-01-02T03:04:05+00:00",
        "seconds": 12.0,
    }
    return Measurement(**given | more)


def comparison(**more: Any) -> Comparison:
    """Three pairs, b 10 % slower under a newer TensorFlow."""
    given: dict[str, Any] = {
        "test": "perf_tests/test_a.py::test_b[1]",
        "a": Measured(workload=WORKLOAD, throughput=throughput(1000.0), environment={"tensorflow": "2.16.2"}),
        "b": Measured(workload=WORKLOAD, throughput=throughput(900.0), environment={"tensorflow": "2.21.0"}),
        "log_ratios": (-0.1, -0.11, -0.105),
        "ratio": 0.9,
        "low": 0.89,
        "high": 0.91,
        "outcome": Outcome.REGRESSED,
        "reason": "slower by more than the tolerance in 3 fresh pairs",
        "tolerance": Tolerance(),
        "how": How.TURNS,
        "machine": "box",
        "devices": "8x Tesla P100",
        "topology": "1x8",
        "seconds": 30.0,
    }
    return Comparison(**given | more)
