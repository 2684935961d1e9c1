"""The comparison of two sets of figures measured at different times: sessions, exports or revisions of baselines."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.figure import BUILT_IN, THROUGHPUT, Better, Figure
from pytest_tfperf.core.measurement import Measurement, recorded_with
from pytest_tfperf.core.verdict import Noise
from pytest_tfperf.judging.noise import (
    FALSE_ALARMS,
    baseline_variance,
    mean_square,
    noise_of,
    quantile,
    with_assumption,
)
from pytest_tfperf.judging.session_effects import CommonDrift, common_drift, session_variance


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureValue:
    """A figure of a workload on one side."""

    machine: str  # the machine's key; "" if the source does not name it
    key: Key
    figure: Figure
    unit: str
    log_value: float  # natural logarithm of the value; that of 0 is -inf
    runs: int  # number of fresh runs behind the value
    error: float = 0.0  # standard error of a run's logarithm from its windows; 0 if unknown
    noise: Noise | None = None  # noise between fresh runs and between sessions; None if unknown
    name: str = ""  # the workload's name in its test; "" if it has none
    environment: Mapping[str, str] = field(default_factory=dict)  # software and settings, name -> version
    place: str = ""  # where a program printed the figure, as "at step 400"; "" for a measured figure
    has_direction: bool = True  # whether the source says which change of the figure is for the worse

    @property
    def is_throughput(self) -> bool:
        """Whether it takes part in the common drift."""
        return self.figure == THROUGHPUT

    def is_like(self, other: FigureValue) -> bool:
        """Whether the two can be compared: they have the same unit, and were printed at the same place."""
        return (self.unit, self.place) == (other.unit, other.place)


class Movement(StrEnum):
    """Whether a workload or a figure moved by more than noise explains; the values are what a table shows."""

    SLOWER = "slower"
    WORSE = "worse"
    CHANGED = "changed"
    FASTER = "faster"
    BETTER = "better"
    NONE = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A figure of a workload on both sides."""

    a: FigureValue
    b: FigureValue
    ratio: float  # b / a; inf where only a is 0
    low: float  # of its 95 % confidence interval
    high: float
    noise: float  # the change in the same direction that noise explains beyond the common change, a positive fraction
    movement: Movement  # beyond noise, and, but for the throughput, beyond the figure's own tolerances


@dataclass(frozen=True, slots=True, kw_only=True)
class SideComparison:
    """All figures of two sides."""

    ratios: tuple[Ratio, ...]  # the figures that both sides have, in the order of `Movement`
    common: float | None  # what all throughputs have in common, a fraction; None if too few workloads show it
    common_low: float  # of its 95 % confidence interval; 0 if it is None
    common_high: float
    only_a: tuple[FigureValue, ...]  # what the other side lacks
    only_b: tuple[FigureValue, ...]
    other_units: tuple[tuple[FigureValue, FigureValue], ...]  # the unit, or the place in a program's output, differs

    @property
    def moved(self) -> tuple[Ratio, ...]:
        """The figures that moved by more than noise explains."""
        return tuple(ratio for ratio in self.ratios if ratio.movement is not Movement.NONE)

    def is_slower_than(self, tolerance: float) -> bool:
        """Return whether a workload, or all in common, is slower by more than a fraction and than noise explains.

        A figure that is worse counts by its own tolerances.
        """
        # As in a session, the common change is no part of a workload's own change.
        least = (1 - tolerance) * (1 + (self.common or 0.0))
        is_slower = any(ratio.ratio < least for ratio in self.ratios if ratio.movement is Movement.SLOWER)
        is_worse = any(ratio.movement is Movement.WORSE for ratio in self.ratios)
        return is_slower or is_worse or (self.common is not None and self.common_high < -tolerance)


_TAIL = 0.025  # of either end of a 95 % interval


def values_of_measurements(measurements: Iterable[Measurement]) -> list[FigureValue]:
    """Return the figures from 0 of the last valid measurement of each machine's workloads."""
    latest = {(m.machine, m.key): m for m in measurements if m.is_valid}
    noise = _noise_of_runs([run.log_rate for run in m.throughput.runs] for m in latest.values())
    return [value for m in latest.values() for value in _values_of(m, noise)]


def values_of_rows(rows: Iterable[Baseline]) -> list[FigureValue]:
    """Return the baselines from 0, each with the noise that its machine's rows show."""
    rows = [row for row in rows if row.value >= 0]
    alike: dict[tuple[str, str], list[Baseline]] = {}
    for row in rows:
        alike.setdefault((row.machine, row.key.figure), []).append(row)
    return [
        FigureValue(
            machine=row.machine,
            key=row.key,
            unit=row.unit,
            log_value=_log(row.value),
            runs=row.runs,
            noise=noise_of(row, alike[row.machine, row.key.figure]),
            environment=recorded_with(row),
            figure=_figure_of(row),
            place=row.place,
            has_direction=row.key.figure in ("", *BUILT_IN),
        )
        for row in rows
    ]


def compare_sides(a: Sequence[FigureValue], b: Sequence[FigureValue]) -> SideComparison:
    """Compare all figures that both sides have, b with a.

    Sides of one machine each are compared even if the machines differ. From eight workloads on, their common change is
    taken out before a workload is said to have moved.
    """
    has_one_machine_each = all(len({value.machine for value in side}) <= 1 for side in (a, b))
    a_rows, b_rows = (
        {("" if has_one_machine_each else value.machine, value.key): value for value in side} for side in (a, b)
    )
    matched = [(a_rows[row], b_rows[row]) for row in a_rows if row in b_rows]
    comparable = [(a, b) for a, b in matched if a.is_like(b)]
    # Figures other than throughputs take no part in the common drift, so they don't make it known either.
    drift = common_drift([b.log_value - a.log_value for a, b in comparable if a.is_throughput])
    expected = session_variance(tests=drift.tests).mean
    ratios = [_ratio(a, b, drift, expected, tests=len(comparable)) for a, b in comparable]
    half = quantile(max(drift.tests - 1, 1), _TAIL) * drift.error
    order = list(Movement)
    return SideComparison(
        ratios=tuple(sorted(ratios, key=lambda ratio: (order.index(ratio.movement), ratio.ratio))),
        common=math.expm1(drift.log) if drift.is_known else None,
        common_low=math.expm1(drift.log - half),
        common_high=math.expm1(drift.log + half),
        only_a=tuple(value for row, value in a_rows.items() if row not in b_rows),
        only_b=tuple(value for row, value in b_rows.items() if row not in a_rows),
        other_units=tuple((a, b) for a, b in matched if not a.is_like(b)),
    )


def _ratio(
    a: FigureValue, b: FigureValue, drift: CommonDrift, expected_between_sessions: float, *, tests: int
) -> Ratio:
    """Compare a figure's values; `tests` comparisons share the false-alarm rate."""
    if a.figure.is_count or b.figure.is_count or -math.inf in (a.log_value, b.log_value):
        return _exact(a, b)
    learnt = [value.noise.between_sessions for value in (a, b) if value.noise and value.noise.between_sessions > 0]
    between_sessions = max(learnt, default=expected_between_sessions)
    variance = _variance(a) + _variance(b) + 2 * between_sessions**2
    freedom = min(_noise(value).degrees_of_freedom for value in (a, b))
    change = b.log_value - a.log_value
    drift = drift if b.is_throughput else CommonDrift(0.0, 0)
    half = quantile(freedom, _TAIL) * math.sqrt(variance)
    noise = quantile(freedom, FALSE_ALARMS / 2 / tests) * math.sqrt(variance + drift.error**2)
    own = change - drift.log
    movement = Movement.SLOWER if own < -noise else Movement.FASTER if own > noise else Movement.NONE
    return Ratio(
        a=a,
        b=b,
        ratio=math.exp(change),
        low=math.exp(change - half),
        high=math.exp(change + half),
        noise=abs(math.expm1(math.copysign(noise, own))),
        movement=movement if b.is_throughput else _movement_of_figure(movement, a, b),
    )


def _exact(a: FigureValue, b: FigureValue) -> Ratio:
    """Compare counts, which do not vary, or values of which one is 0, so that noise has no fraction."""
    ratio = 1.0 if a.log_value == b.log_value else math.exp(b.log_value - a.log_value)
    movement = Movement.NONE if ratio == 1 else _movement_of_figure(Movement.CHANGED, a, b)
    return Ratio(a=a, b=b, ratio=ratio, low=ratio, high=ratio, noise=0.0, movement=movement)


def _movement_of_figure(movement: Movement, a: FigureValue, b: FigureValue) -> Movement:
    """Return how a figure other than the throughput moved, given its movement beyond noise as if it were a rate."""
    figure = b.figure if b.has_direction else a.figure
    before, after = math.exp(a.log_value), math.exp(b.log_value)
    if movement is Movement.NONE or abs(after - before) <= figure.accepted(before):
        return Movement.NONE
    if not (a.has_direction or b.has_direction):
        return Movement.CHANGED
    is_good = figure.better is not Better.SAME and (after > before) == (figure.better is Better.HIGHER)
    return Movement.BETTER if is_good else Movement.WORSE


def _variance(value: FigureValue) -> float:
    """Return the variance of the value's logarithm that its runs leave."""
    return float(max(_noise(value).between_runs, value.error) ** 2 * baseline_variance(value.runs))


def _noise(value: FigureValue) -> Noise:
    return value.noise or with_assumption(0.0, 0)


def _values_of(m: Measurement, noise: Noise) -> Iterator[FigureValue]:
    """Yield the throughput with the noise that all measurements show, and other figures with that of their own runs."""
    throughput = FigureValue(
        machine=m.machine,
        key=m.key,
        figure=THROUGHPUT,
        unit=m.throughput.unit,
        log_value=math.log(m.throughput.examples_per_sec),
        runs=max(1, len(m.throughput.runs)),
        error=math.sqrt(mean_square(run.error for run in m.throughput.runs) or 0.0),
        noise=(m.verdict and m.verdict.noise) or noise,
        name=m.name,
        environment=m.environment,
    )
    yield throughput
    for verdict in m.figures:
        figure = verdict.figure
        runs = [value for run in m.runs if (value := run.figures.get(figure.name)) is not None and value > 0]
        if verdict.value is not None and 0 <= verdict.value < math.inf:
            yield replace(
                throughput,
                key=m.key._replace(figure=figure.name),
                figure=figure,
                unit=figure.unit or "",
                log_value=_log(verdict.value),
                runs=max(1, len(runs)),
                error=0.0,
                noise=_noise_of_runs([[math.log(value) for value in runs]]),
                place=" and ".join(verdict.places),
            )


def _log(value: float) -> float:
    return math.log(value) if value else -math.inf


def _figure_of(row: Baseline) -> Figure:
    name, unit = row.key.figure, row.unit
    if not name:
        return THROUGHPUT
    # A row does not say which change of a user's own figure is good.
    return Figure(name) if name in BUILT_IN else Figure(name, unit=unit, better=Better.SAME)


def _noise_of_runs(measured: Iterable[Sequence[float]]) -> Noise:
    """Pool the noise of all measurements' runs, given as logarithms, with the assumption for any machine."""
    groups = [group for group in measured if len(group) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    squares = math.fsum(statistics.variance(group) * (len(group) - 1) for group in groups)
    return with_assumption(squares / freedom if freedom else 0.0, freedom)
