"""Two sets of figures that were measured at different times, compared: sessions, exports or revisions of baselines.

Not to be confused with a measurement beside another side, whose pairs were interleaved.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.figure import BUILT_IN, Better, Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Noise
from pytest_tfperf.judging.common_drift import CommonDrift, common_drift
from pytest_tfperf.judging.noise import mean_square, noise_of, with_assumption
from pytest_tfperf.judging.session_variance import session_variance
from pytest_tfperf.judging.thresholds import FALSE_ALARMS, quantile, reference_variance


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRate:
    """The throughput of one workload on one side, or one of its figures.

    Args:
        machine: the machine's key, "" where the source does not say.
        key: workload id, topology and figure.
        unit: what is counted.
        log_rate: natural logarithm of the throughput or the figure.
        runs: fresh runs that it rests on.
        error: standard error of one run's logarithm from its windows; 0 where it isn't known.
        noise: between fresh runs and sessions; None where the source knows none.
        name: what the test calls the workload; "" for no name of its own.
        environment: software and settings, name -> version.
        figure: what it is; None for the throughput.
        place: where a program printed the figure, as "at step 400"; "" for what is measured.
        has_direction: whether the source says which change of the figure is for the worse.
    """

    machine: str
    key: Key
    unit: str
    log_rate: float
    runs: int
    error: float = 0.0
    noise: Noise | None = None
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    figure: Figure | None = None
    place: str = ""
    has_direction: bool = True

    def is_like(self, other: WorkloadRate) -> bool:
        """Whether the two can be compared: they count the same, and were printed at the same place."""
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
    """One workload on both sides.

    Args:
        a, b: its figures.
        ratio: b / a.
        low, high: its 95 % confidence interval.
        noise: the change in its direction, a positive fraction, that noise explains beyond what all have in common.
        movement: whether it moved by more than that; a figure, by more than its own tolerances, too.
    """

    a: WorkloadRate
    b: WorkloadRate
    ratio: float
    low: float
    high: float
    noise: float
    movement: Movement


@dataclass(frozen=True, slots=True, kw_only=True)
class SideComparison:
    """All workloads of two sides.

    Args:
        ratios: the workloads that both sides have: slower ones first, then faster ones.
        common: the change that all have in common, a fraction; None where too few workloads show it.
        common_low, common_high: its 95 % confidence interval; 0 without one.
        only_a, only_b: the figures that the other side lacks.
        other_units: workloads that count different things on both sides, or were printed at another place.
    """

    ratios: tuple[Ratio, ...]
    common: float | None
    common_low: float
    common_high: float
    only_a: tuple[WorkloadRate, ...]
    only_b: tuple[WorkloadRate, ...]
    other_units: tuple[tuple[WorkloadRate, WorkloadRate], ...]

    @property
    def moved(self) -> tuple[Ratio, ...]:
        """Those that moved by more than noise explains."""
        return tuple(one for one in self.ratios if one.movement is not Movement.NONE)

    def is_slower_than(self, tolerance: float) -> bool:
        """Whether a workload, or what all have in common, is slower by more than a fraction and than noise explains.

        A figure that is worse counts by its own tolerances.
        What all have in common does not count in a workload's own change, as in a session.
        """
        least = (1 - tolerance) * (1 + (self.common or 0.0))
        alone = any(one.ratio < least for one in self.ratios if one.movement is Movement.SLOWER)
        is_worse = any(one.movement is Movement.WORSE for one in self.ratios)
        return alone or is_worse or (self.common is not None and self.common_high < -tolerance)


_INTERVAL = 0.025  # beyond either end of a 95 % interval

_RowId = tuple[str, Key]


def rates_of_measurements(measurements: Iterable[Measurement]) -> list[WorkloadRate]:
    """The last valid measurement of each machine's workloads and its figures above 0, in the order of their first."""
    valid = [m for m in measurements if m.is_valid]
    latest = {(m.machine, m.key): m for m in valid}
    noise = _noise_of_runs([run.log_rate for run in m.throughput.runs] for m in latest.values())
    rates = [(m, _rate_of(m, noise)) for m in latest.values()]
    return [one for m, rate in rates for one in (rate, *_figures_of(m, rate))]


def rates_of_rows(rows: Iterable[Baseline]) -> list[WorkloadRate]:
    """The rows of baselines, each with the noise that its machine's rows show; no figure of 0 or less."""
    rows = [row for row in rows if row.reference > 0]
    alike: dict[tuple[str, str], list[Baseline]] = {}
    for row in rows:
        alike.setdefault((row.machine, row.key.figure), []).append(row)
    return [
        WorkloadRate(
            machine=row.machine,
            key=row.key,
            unit=row.unit,
            log_rate=math.log(row.reference),
            runs=row.runs,
            noise=noise_of(row, alike[row.machine, row.key.figure]),
            environment=dict(part.split("=", 1) for part in row.environment.split() if "=" in part),
            figure=_figure_of(row) if row.key.figure else None,
            place=row.place,
            has_direction=row.key.figure in ("", *BUILT_IN),
        )
        for row in rows
    ]


def compare_sides(a: Sequence[WorkloadRate], b: Sequence[WorkloadRate]) -> SideComparison:
    """Compare all workloads that both sides have; b against a.

    Sides of one machine each are compared even if the machines differ. From eight workloads on, what all have in common
    is taken out before a single one is said to have moved.
    """
    first, second = _by_row(a, b)
    common = [(first[row], second[row]) for row in first if row in second]
    comparable = [(one, other) for one, other in common if one.is_like(other)]
    drift = common_drift([other.log_rate - one.log_rate for one, other in comparable if one.figure is None])
    # Of throughputs only: figures take no part in the common drift, so they don't make it known either.
    expected = session_variance(tests=drift.tests).mean
    ratios = [_ratio(one, other, drift, expected, tests=len(comparable)) for one, other in comparable]
    half = quantile(max(drift.tests - 1, 1), _INTERVAL) * drift.error
    order = list(Movement)
    return SideComparison(
        ratios=tuple(sorted(ratios, key=lambda one: (order.index(one.movement), one.ratio))),
        common=math.expm1(drift.log) if drift.is_known else None,
        common_low=math.expm1(drift.log - half),
        common_high=math.expm1(drift.log + half),
        only_a=tuple(figure for row, figure in first.items() if row not in second),
        only_b=tuple(figure for row, figure in second.items() if row not in first),
        other_units=tuple((one, other) for one, other in common if not one.is_like(other)),
    )


def _by_row(
    a: Sequence[WorkloadRate], b: Sequence[WorkloadRate]
) -> tuple[Mapping[_RowId, WorkloadRate], Mapping[_RowId, WorkloadRate]]:
    """By machine and key; the machine counts only where a side has several, or both have the same."""
    machines = [{figure.machine for figure in side} for side in (a, b)]
    is_one_each = all(len(names) <= 1 for names in machines)

    def by_row(side: Sequence[WorkloadRate]) -> dict[_RowId, WorkloadRate]:
        return {("" if is_one_each else figure.machine, figure.key): figure for figure in side}

    return by_row(a), by_row(b)


def _ratio(
    a: WorkloadRate, b: WorkloadRate, drift: CommonDrift, expected_between_sessions: float, *, tests: int
) -> Ratio:
    """One workload; `tests` of them share the false alarms."""
    learnt = [figure.noise.between_sessions for figure in (a, b) if figure.noise and figure.noise.between_sessions > 0]
    between_sessions = max(learnt, default=expected_between_sessions)
    variance = _variance(a) + _variance(b) + 2 * between_sessions**2
    freedom = min(_noise(figure).degrees_of_freedom for figure in (a, b))
    change = b.log_rate - a.log_rate
    drift = drift if b.figure is None else CommonDrift(0.0, 0)
    half = quantile(freedom, _INTERVAL) * math.sqrt(variance)
    noise = quantile(freedom, FALSE_ALARMS / 2 / tests) * math.sqrt(variance + drift.error**2)
    own = change - drift.log
    told = b if b.has_direction else a
    movement = Movement.SLOWER if own < -noise else Movement.FASTER if own > noise else Movement.NONE
    return Ratio(
        a=a,
        b=b,
        ratio=math.exp(change),
        low=math.exp(change - half),
        high=math.exp(change + half),
        noise=abs(math.expm1(math.copysign(noise, own))),
        movement=movement if told.figure is None else _of_figure(movement, a, b, told.figure),
    )


def _of_figure(movement: Movement, a: WorkloadRate, b: WorkloadRate, figure: Figure) -> Movement:
    """How a figure moved, which noise alone would call slower or faster."""
    before, after = math.exp(a.log_rate), math.exp(b.log_rate)
    if movement is Movement.NONE or abs(after - before) <= figure.accepted(before):
        return Movement.NONE
    if not (a.has_direction or b.has_direction):
        return Movement.CHANGED
    is_good = figure.better is not Better.SAME and (after > before) == (figure.better is Better.HIGHER)
    return Movement.BETTER if is_good else Movement.WORSE


def _variance(figure: WorkloadRate) -> float:
    """Of a figure's logarithm: what its runs leave uncertain."""
    return float(max(_noise(figure).between_runs, figure.error) ** 2 * reference_variance(figure.runs))


def _noise(figure: WorkloadRate) -> Noise:
    return figure.noise or with_assumption(0.0, 0)


def _rate_of(m: Measurement, noise: Noise) -> WorkloadRate:
    return WorkloadRate(
        machine=m.machine,
        key=m.key,
        unit=m.throughput.unit,
        log_rate=math.log(m.throughput.examples_per_sec),
        runs=max(1, len(m.throughput.runs)),
        error=math.sqrt(mean_square(run.error for run in m.throughput.runs) or 0.0),
        noise=(m.verdict and m.verdict.noise) or noise,
        name=m.name,
        environment=m.environment,
    )


def _figures_of(m: Measurement, rate: WorkloadRate) -> Iterator[WorkloadRate]:
    for one in m.figures:
        runs = [value for run in m.runs if (value := run.figures.get(one.figure.name)) is not None and value > 0]
        if one.value is not None and 0 < one.value < math.inf:
            yield replace(
                rate,
                key=m.key._replace(figure=one.figure.name),
                unit=one.figure.unit or "",
                log_rate=math.log(one.value),
                runs=max(1, len(runs)),
                error=0.0,
                noise=_noise_of_runs([[math.log(value) for value in runs]]),
                figure=one.figure,
                place=" and ".join(one.places),
            )


def _figure_of(row: Baseline) -> Figure:
    """A row does not say which change of a user's own figure is good."""
    name, unit = row.key.figure, row.unit
    return Figure(name) if name in BUILT_IN else Figure(name, unit=unit, better=Better.SAME)


def _noise_of_runs(measured: Iterable[Sequence[float]]) -> Noise:
    """The noise of the runs of all measurements, in logarithms, pooled with what is assumed for any machine."""
    groups = [group for group in measured if len(group) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    squares = math.fsum(statistics.variance(group) * (len(group) - 1) for group in groups)
    return with_assumption(squares / freedom if freedom else 0.0, freedom)
