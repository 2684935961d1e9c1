"""A baseline from fresh runs: how many runs it needs, and the row that they make."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue, hodges_lehmann
from pytest_tfperf.core.verdict import NOTHING, Tolerance, Want, Wants
from pytest_tfperf.core.workload import shown_name
from pytest_tfperf.errors import BaselineRefused
from pytest_tfperf.judging.noise import without_slow_runs
from pytest_tfperf.judging.thresholds import DETECTION, accepted_slowdown, screen_error, suspicion

TOO_NOISY_TO_GATE = 0.25
"""A row that can't detect a slowdown of 25 % is no gate: with five runs, a standard deviation of 7 %."""


def wants(runs: Sequence[RunValue], least: int) -> Wants:
    """The fresh runs that a baseline still wants: `least` that agree, slow runs not counted; at most twice as many."""
    kept = without_slow_runs([run.log_rate for run in runs])
    if len(kept) >= max(least, 2) and _detectable(kept) <= TOO_NOISY_TO_GATE:
        return NOTHING
    count = min(max(least, len(runs) + 1), 2 * least)
    return Wants(Want.RUNS, count) if count > len(runs) else NOTHING


def baseline_of(measurement: Measurement) -> Baseline:
    """The row that a measurement of several runs makes, without the name of its lock.

    Raises:
        BaselineRefused: the runs differ too much to detect a slowdown by a quarter, or there is only one.
    """
    runs = [run.log_rate for run in measurement.throughput.runs]
    kept = without_slow_runs(runs)
    what = f"{shown_name(measurement.workload.id, measurement.name)} on {measurement.devices}"
    if len(kept) < 2:
        raise BaselineRefused(
            f"{what}: one run is no baseline, which was left as it is: it "
            "does not show how much runs differ. Record again with at least two runs (ini option tfperf_runs)"
        )
    if (slowdown := _detectable(kept)) > TOO_NOISY_TO_GATE:
        longer = "readings" if isinstance(measurement.workload, Command) else "steps"
        each = "  ".join(f"{math.exp(rate):,.1f}" for rate in runs) + f" {measurement.throughput.unit}/s"
        raise BaselineRefused(
            f"{what}: too noisy for a baseline, which was left as it is: "
            f"its runs gave {each}, so a slowdown below {100 * slowdown:.0f} % would not be detected. Free the "
            f"machine of other work, or give the test more {longer}, and record again"
        )
    left_out = "  ".join(f"{math.exp(rate):.5g}" for rate in runs if rate not in kept)
    return Baseline(
        machine=measurement.machine,
        key=measurement.key,
        reference=float(f"{math.exp(hodges_lehmann(kept)):.5g}"),
        unit=measurement.throughput.unit,
        provenance=Provenance.MEASURED,
        source="--update-baselines",
        date=measurement.time[:10],
        runs=len(kept),
        between_runs=float(f"{statistics.stdev(kept):.3g}"),
        gpu=measurement.gpu,
        gpu_fp32_tflops=measurement.gpu_fp32_tflops,
        commit=measurement.commit,
        environment=" ".join(f"{name}={value}" for name, value in sorted(measurement.environment.items())),
        note=f"left out as slow runs: {left_out} {measurement.throughput.unit}/s" if left_out else "",
    )


def _detectable(log_rates: Sequence[float]) -> float:
    """The slowdown, as a positive fraction, that one run against these shows with 98 % power."""
    error = screen_error(statistics.stdev(log_rates), len(log_rates))
    return -math.expm1(-(suspicion(accepted_slowdown(Tolerance()), error) + DETECTION * error))
