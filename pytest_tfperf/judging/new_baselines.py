"""New baselines from fresh runs: how many runs they need, the rows that they make, and why figures are refused."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pytest_tfperf.core.baseline import READ, RUNS, Baseline, Key, Provenance
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.figure import LOSS, Figure, at_fixed_steps
from pytest_tfperf.core.measurement import MATMUL, STEP_PARTS, Measurement, parts_fact
from pytest_tfperf.core.run import StepParts
from pytest_tfperf.core.throughput import RunValue, hodges_lehmann
from pytest_tfperf.core.verdict import NOTHING, Tolerance, Want, Wants
from pytest_tfperf.core.workload import Workload, shown_name
from pytest_tfperf.errors import BaselineError, BaselineRefused
from pytest_tfperf.judging.breakdown import matmul_rate
from pytest_tfperf.judging.noise import (
    TOO_NOISY_TO_GATE,
    accepted_slowdown,
    baseline_variance,
    detectable,
    screen_error,
    without_slow_runs,
)
from pytest_tfperf.judging.session_effects import MIN_TESTS

CONTROLS = 3
"""Other recorded workloads that run before each round of a recording of few rows, and after the last round."""

MOST_REFUSED = 0.25
"""The share of a time's or a rate's rows that a recording may refuse before it refuses all.

Where runs differ so much, the rows that are not refused are calm by luck, and fail falsely.
"""

_FAR = 20.0  # standard deviations of the other runs

MOST_ALONE = -math.log1p(-0.05)
"""The most, in log throughput, that controls correct where a machine's rows are too few to show a common drift."""


def controls(rows: Iterable[Baseline], topology: str, recorded: Collection[Key]) -> list[Baseline]:
    """Return the rows that can serve as controls beside a recording, the best first.

    A control is trained again from its row; a program can't be, because a row only names it. Controls run on as many
    devices as the recording, so that they load the machine alike, and the rows with the least noise between runs show
    changes of the machine best. The rows that this session records can't be controls.
    """
    candidates = [
        row
        for row in rows
        if row.is_measured
        and row.between_runs is not None
        and row.key not in recorded
        and row.key.topology == topology
        and isinstance(parse_subject(row.key.workload), Workload)
    ]
    return sorted(candidates, key=lambda row: row.between_runs or 0.0)


def correction(change: float, rows: int) -> float:
    """Return what to add to the logarithms of new baselines, from the median of ln(run / row) of their controls.

    Runs of few tests follow one another, and share the state of the machine at that time. Corrected for it, the new
    rows compare with the machine's other rows as if all had been recorded together.

    With too few rows for a common drift, each test is judged against its row alone. A correction by more than sessions
    differ would then undo a slowdown of all tests that the user accepts test by test. `rows` is the number of the
    machine's rows, including the new rows; `change` is 0 without controls.
    """
    is_too_large = rows < MIN_TESTS and not -MOST_ALONE <= change <= MOST_ALONE
    return 0.0 if is_too_large else -change


def corrected(row: Baseline, log: float) -> Baseline:
    """Add `log` to the logarithm of the row's value."""
    return replace(row, value=float(f"{row.value * math.exp(log):.6g}")) if log else row


def wants(runs: Sequence[RunValue]) -> Wants:
    """Return the fresh runs that a baseline still wants: `RUNS` that agree, without slow runs; at most twice that."""
    kept = without_slow_runs([run.log_rate for run in runs])
    if len(kept) >= RUNS and _detectable(kept) <= TOO_NOISY_TO_GATE:
        return NOTHING
    count = min(max(RUNS, len(runs) + 1), 2 * RUNS)
    return Wants(Want.RUNS, count) if count > len(runs) else NOTHING


def pooled(measurements: Sequence[Measurement], *, is_gain: bool) -> Measurement:
    """Return the latest of a test's measurements with the runs of all, as a recording that is taken from them.

    The runs lose the drift that all tests of their session had in common. For a gain they lose only a drift to the
    better: with one to the worse, a test that kept its speed would seem to be faster.

    `measurements` are of one workload and topology, latest first.
    """
    latest, runs, values = measurements[0], [], []
    for m in measurements:
        drift = m.verdicts[0].common_drift
        drift = max(0.0, drift) if is_gain else drift
        speed = {verdict.figure.name: verdict.figure.with_speed for verdict in m.figures}
        for run in m.runs:
            figures = {name: value * math.exp(-speed.get(name, 0) * drift) for name, value in run.figures.items()}
            runs.append(replace(run, figures=figures))
        values += [replace(value, log_rate=value.log_rate - drift) for value in m.throughput.runs]
    return replace(latest, runs=tuple(runs), throughput=replace(latest.throughput, runs=tuple(values)))


_SURE: Final = 3.5
"""Standard errors by which a gain exceeds noise: each week's look at each row is a chance to be lucky.

benchmarks/accept.py counts what that costs and brings in twenty simulated years.
"""


def is_beyond_noise(levels: Sequence[float], target: float, row: Baseline, accepted: float) -> bool:
    """Whether several sessions are better than a row by more than the tolerance and noise explain.

    `levels` are the sessions' and `target` is the row's, in log throughput or, of another figure, in its unit with a
    sign that makes a rise a gain; so is `accepted`, the largest rise that the tolerance accepts.
    """
    between_runs = (row.between_runs or 0.0) * (abs(row.value) if row.key.figure else 1.0)
    deviation = max(statistics.stdev(levels), between_runs)
    error = deviation * math.sqrt(1 / len(levels) + baseline_variance(row.runs))
    return statistics.fmean(levels) - target > max(accepted, _SURE * error)


def new_baselines(measurement: Measurement, log: float = 0.0) -> tuple[list[Baseline], list[BaselineRefused]]:
    """Return the rows of the throughput and of each figure, and the errors of those that get no row.

    A figure that is too noisy to record does not prevent the others: memory does not depend on the machine's load.
    `log` is the `correction` for figures that go with the machine's speed.
    """
    recipes = [(partial(baseline_of, measurement), 1)]
    if len(measurement.throughput.runs) > 1:  # else one error suffices
        figures = [verdict.figure for verdict in measurement.figures]
        recipes += [(partial(figure_baseline, measurement, figure), figure.with_speed) for figure in figures]
    rows, refusals = [], []
    for make, with_speed in recipes:
        try:
            rows.append(corrected(make(), with_speed * log))
        except BaselineRefused as refusal:
            refusals.append(refusal)
    return rows, refusals


def baseline_of(measurement: Measurement) -> Baseline:
    """Return the row of the throughput of several runs, without the name of its lock.

    Raises:
        BaselineRefused: the runs differ too much to detect a slowdown by a quarter, or there is only one run.
    """
    runs = [run.log_rate for run in measurement.throughput.runs]
    kept = without_slow_runs(runs)
    name = _shown(measurement)
    if len(kept) < 2:
        raise BaselineRefused(
            f"{name}: one run is no baseline, which was left as it is: it does not show how much runs differ",
            next_step="Record again",
        )
    if (slowdown := _detectable(kept)) > TOO_NOISY_TO_GATE:
        each = "  ".join(f"{math.exp(rate):,.1f}" for rate in runs) + f" {measurement.throughput.unit}/s"
        raise BaselineRefused(
            f"{name}: too noisy for a baseline, which was left as it is: "
            f"its runs gave {each}, so a slowdown below {100 * slowdown:.0f} % would not be detected",
            next_step="Free the machine of other work, or give the test more steps (steps=), and record again",
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
    """Return the row of the throughput or of a figure, with the values that both have in common."""
    matmul, parts = matmul_rate(measurement.runs), StepParts.of(measurement.runs)
    facts = dict(measurement.environment) | ({} if matmul is None else {MATMUL: f"{matmul:.3g}"})
    facts |= {} if parts is None or figure else {STEP_PARTS: parts_fact(parts)}
    return Baseline(
        **values,
        machine=measurement.machine,
        key=measurement.key._replace(figure=figure),
        provenance=Provenance.MEASURED,
        source="--update-baselines",
        date=measurement.time[:10],
        gpu=measurement.gpu,
        commit=measurement.commit,
        environment=" ".join(f"{name}={value}" for name, value in sorted(facts.items())),
    )


def _detectable(log_rates: Sequence[float]) -> float:
    """Return the slowdown, as a positive fraction, that a run compared with these shows with 98 % power."""
    error = screen_error(statistics.stdev(log_rates), len(log_rates))
    return -math.expm1(-detectable(accepted_slowdown(Tolerance()), error))


def _shown(measurement: Measurement) -> str:
    return f"{shown_name(measurement.workload.id, measurement.name)} on {measurement.devices}"


def figure_baseline(measurement: Measurement, figure: Figure) -> Baseline:
    """Return the row of one figure of several runs, without the name of its lock.

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
    kept = _kept(figure, known)
    value, spread = hodges_lehmann(kept), statistics.stdev(kept)
    if refusal := _too_noisy(measurement, figure, known, kept):
        raise refusal.at(_shown(measurement))
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
    """Leave out values from slow periods of the machine, of a time or a rate.

    They differ more than throughputs. Without the slowest of runs that differ much, a row would be too fast and calm by
    luck, so only runs that are far from all others are left out.
    """
    sign = figure.with_speed
    if not sign or min(values) <= 0:
        return list(values)
    rates = [sign * math.log(value) for value in values]
    kept = without_slow_runs(rates)
    slow = [rate for rate in rates if rate not in kept]
    if not slow or min(kept) - max(slow) < _FAR * statistics.stdev(kept):
        return list(values)
    return [value for value, rate in zip(values, rates, strict=True) if rate in kept]


def _too_noisy(
    measurement: Measurement, figure: Figure, values: Sequence[float], kept: Sequence[float]
) -> BaselineRefused | None:
    """Return the error for values of which those `kept` can't make a row; None if they can."""
    value, spread = hodges_lehmann(kept), statistics.stdev(kept)
    accepted = figure.accepted(value)
    each = "  ".join(f"{value:.6g}" for value in values) + f" {figure.unit}"
    if figure.name == LOSS and isinstance(measurement.workload, Workload) and max(kept) - min(kept) > accepted:
        return BaselineRefused(
            f"the loss differs between runs of the same seed by more than its tolerance: {each}",
            next_step=f"So the training is not deterministic: {_suspect(measurement.workload)}. Give a larger "
            "tolerance, Figure('loss', tolerance=...), or leave it out of also=",
        )
    if figure.is_count and max(kept) - min(kept) > accepted:
        return BaselineRefused(
            f"{figure.name} is a count, which should be the same in each run, and its runs gave {each.rstrip()}",
            next_step=f"Let the program do the same in each run, or accept the difference: Figure({figure.name!r}, "
            "absolute=..., ...)",
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
    """Return the likeliest reason why runs of one seed differ."""
    if workload.input_pipeline != "device":
        return f"the input pipeline {workload.input_pipeline} may give its batches in another order each time"
    return (
        "the model may draw random numbers without the seed, or a kernel may add in any order (TF_DETERMINISTIC_OPS=1)"
    )
