"""New baselines from fresh runs: how many runs they need, the rows that they make, and why figures are refused."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pytest_tfperf.core.baseline import READ, Baseline, Key, Provenance
from pytest_tfperf.core.command import Command, parse_subject
from pytest_tfperf.core.figure import LOSS, Figure, at_fixed_steps
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue, hodges_lehmann
from pytest_tfperf.core.verdict import NOTHING, Tolerance, Want, Wants
from pytest_tfperf.core.workload import Workload, shown_name
from pytest_tfperf.errors import BaselineError, BaselineRefused
from pytest_tfperf.judging.common_drift import MIN_TESTS
from pytest_tfperf.judging.noise import without_slow_runs
from pytest_tfperf.judging.thresholds import (
    DETECTION,
    TOO_NOISY_TO_GATE,
    accepted_slowdown,
    detectable,
    screen_error,
    suspicion,
)

CONTROLS = 3
"""Other recorded workloads that run before each round of a recording of few rows, and after the last round."""


MOST_ALONE = -math.log1p(-0.05)
"""The most, in log throughput, that controls correct where a machine's rows are too few to show a common drift."""


def controls(rows: Iterable[Baseline], topology: str, recorded: Collection[Key]) -> list[Baseline]:
    """The rows that can serve as controls beside a recording, the best one first.

    A control is trained again from what its row says: programs, which it only names, can't be. On as many devices it
    does the same to the machine, and the rows whose runs differ least show best what the machine does.

    Args:
        rows: the machine's.
        topology: what the recording runs on.
        recorded: the rows that this session records, which are none.
    """
    able = [
        row
        for row in rows
        if row.is_measured
        and row.between_runs is not None
        and row.key not in recorded
        and row.key.topology == topology
        and isinstance(parse_subject(row.key.workload), Workload)
    ]
    return sorted(able, key=lambda row: row.between_runs or 0.0)


def correction(change: float, rows: int) -> float:
    """What to add to the logarithms of new references, from the median of ln(run / row) of the controls beside them.

    Runs of few tests follow one another, and share what the machine does then. Without it they are as comparable with
    the machine's other rows as if all had been recorded together.

    With too few rows for a common drift, each test is held against its row alone. A correction by more than sessions
    differ would then undo a slowdown of all tests that its user accepts test by test.

    Args:
        change: the median; 0 without controls.
        rows: how many the machine has, the new ones among them.
    """
    is_too_large = rows < MIN_TESTS and not -MOST_ALONE <= change <= MOST_ALONE
    return 0.0 if is_too_large else -change


def corrected(row: Baseline, log: float) -> Baseline:
    """The row with this added to the logarithm of its value."""
    return replace(row, value=float(f"{row.value * math.exp(log):.6g}")) if log else row


def wants(runs: Sequence[RunValue], least: int) -> Wants:
    """The fresh runs that a baseline still wants: `least` that agree, slow runs not counted; at most twice as many."""
    kept = without_slow_runs([run.log_rate for run in runs])
    if len(kept) >= max(least, 2) and _detectable(kept) <= TOO_NOISY_TO_GATE:
        return NOTHING
    count = min(max(least, len(runs) + 1), 2 * least)
    return Wants(Want.RUNS, count) if count > len(runs) else NOTHING


def new_baselines(measurement: Measurement, log: float = 0.0) -> tuple[list[Baseline], list[BaselineRefused]]:
    """The rows of the throughput and of each figure, and for each without a row the error.

    What is too noisy to record leaves the others recorded: memory does not depend on the machine's load. `log` is the
    `correction` of what goes with the machine's speed.
    """
    making = [(partial(baseline_of, measurement), 1)]
    if len(measurement.throughput.runs) > 1:  # else one error suffices
        figures = [one.figure for one in measurement.figures]
        making += [(partial(figure_baseline, measurement, figure), figure.with_speed) for figure in figures]
    rows, refusals = [], []
    for make, with_speed in making:
        try:
            rows.append(corrected(make(), with_speed * log))
        except BaselineRefused as refusal:
            refusals.append(refusal)
    return rows, refusals


def baseline_of(measurement: Measurement) -> Baseline:
    """The row that a measurement of several runs makes, without the name of its lock.

    Raises:
        BaselineRefused: the runs differ too much to detect a slowdown by a quarter, or there is only one.
    """
    runs = [run.log_rate for run in measurement.throughput.runs]
    kept = without_slow_runs(runs)
    what = _shown(measurement)
    if len(kept) < 2:
        raise BaselineRefused(
            f"{what}: one run is no baseline, which was left as it is: it does not show how much runs differ",
            next_step="Record again with at least two runs (ini option tfperf_runs)",
        )
    if (slowdown := _detectable(kept)) > TOO_NOISY_TO_GATE:
        longer = "readings" if isinstance(measurement.workload, Command) else "steps"
        each = "  ".join(f"{math.exp(rate):,.1f}" for rate in runs) + f" {measurement.throughput.unit}/s"
        raise BaselineRefused(
            f"{what}: too noisy for a baseline, which was left as it is: "
            f"its runs gave {each}, so a slowdown below {100 * slowdown:.0f} % would not be detected",
            next_step=f"Free the machine of other work, or give the test more {longer}, and record again",
        )
    left_out = "  ".join(f"{math.exp(rate):.5g}" for rate in runs if rate not in kept)
    return _row(
        measurement,
        value=float(f"{math.exp(hodges_lehmann(kept)):.5g}"),
        runs=len(kept),
        unit=measurement.throughput.unit,
        between_runs=float(f"{statistics.stdev(kept):.3g}"),
        gpu_fp32_tflops=measurement.gpu_fp32_tflops,
        note=f"left out as slow runs: {left_out} {measurement.throughput.unit}/s" if left_out else "",
    )


def _row(measurement: Measurement, figure: str = "", **values: Any) -> Baseline:
    """The row of the throughput or of a figure, with what both have in common."""
    return Baseline(
        **values,
        machine=measurement.machine,
        key=measurement.key._replace(figure=figure),
        provenance=Provenance.MEASURED,
        source="--update-baselines",
        date=measurement.time[:10],
        gpu=measurement.gpu,
        commit=measurement.commit,
        environment=" ".join(f"{name}={value}" for name, value in sorted(measurement.environment.items())),
    )


def _detectable(log_rates: Sequence[float]) -> float:
    """The slowdown, as a positive fraction, that one run against these shows with 98 % power."""
    error = screen_error(statistics.stdev(log_rates), len(log_rates))
    return -math.expm1(-(suspicion(accepted_slowdown(Tolerance()), error) + DETECTION * error))


def _shown(measurement: Measurement) -> str:
    return f"{shown_name(measurement.workload.id, measurement.name)} on {measurement.devices}"


def figure_baseline(measurement: Measurement, figure: Figure) -> Baseline:
    """The row that a measurement of several runs makes of one of its figures, without the name of its lock.

    Raises:
        BaselineRefused: the figure was not measured in each run, or its values differ too much.
    """
    values = [run.figures.get(figure.name) for run in measurement.runs]
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(known) < len(values):
        raise BaselineRefused(f"{figure.name} was not measured in each run").at(_shown(measurement))
    places = list(dict.fromkeys(run.figure_places.get(figure.name, "") for run in measurement.runs))
    if len(places) > 1:
        raise BaselineRefused(
            f"the runs don't give {figure.name} at the same place, but {', '.join(places)}",
            next_step=f"L{at_fixed_steps(figure.name, places[0])[1:]}",
        ).at(_shown(measurement))
    if refusal := _too_noisy(measurement, figure, known):
        raise refusal.at(_shown(measurement))
    kept = _kept(figure, known)
    value, spread = hodges_lehmann(kept), statistics.stdev(kept)
    try:
        return _row(
            measurement,
            figure.name,
            value=float(f"{value:.6g}"),
            runs=len(kept),
            unit=figure.unit or "",
            # Near 0 a fraction says nothing, and the absolute tolerance is all that counts.
            between_runs=float(f"{spread / abs(value):.3g}") if spread < abs(value) else None,
            note=f"{READ}{places[0]}" if places[0] else "",
        )
    except BaselineError as error:
        raise error.of_type(BaselineRefused).at(_shown(measurement)) from None


def _kept(figure: Figure, values: Sequence[float]) -> list[float]:
    """The values without those of slow spells of the machine, which a time may have as a rate."""
    sign = figure.with_speed
    if not sign or min(values) <= 0:
        return list(values)
    return [math.exp(sign * rate) for rate in without_slow_runs([sign * math.log(value) for value in values])]


def _too_noisy(measurement: Measurement, figure: Figure, values: Sequence[float]) -> BaselineRefused | None:
    """Why the values make no row; None if they do."""
    kept = _kept(figure, values)
    value, spread = hodges_lehmann(kept), statistics.stdev(kept)
    accepted = figure.accepted(value)
    each = "  ".join(f"{value:.6g}" for value in values) + f" {figure.unit}"
    if figure.name == LOSS and isinstance(measurement.workload, Workload) and max(kept) - min(kept) > accepted:
        return BaselineRefused(
            f"the loss differs between runs of the same seed by more than its tolerance: {each}",
            next_step=f"So the training is not deterministic: {_suspect(measurement.workload)}. Give a larger "
            "tolerance, Figure('loss', tolerance=...), or leave it out of also=",
        )
    smallest = detectable(accepted, screen_error(spread, len(kept)))
    if smallest > max(2 * accepted, TOO_NOISY_TO_GATE * abs(value)):
        return BaselineRefused(
            f"{figure.name} is too noisy for a baseline, which was left as it is: its runs gave {each}, so a change "
            f"below {smallest:.3g} {figure.unit} would not be detected",
            next_step="Free the machine of other work, or give a larger tolerance",
        )
    return None


def _suspect(workload: Workload) -> str:
    """What most often makes runs of one seed differ."""
    if workload.input_pipeline != "device":
        return f"the input pipeline {workload.input_pipeline} may give its batches in another order each time"
    return (
        "the model may draw random numbers without the seed, or a kernel may add in any order (TF_DETERMINISTIC_OPS=1)"
    )
