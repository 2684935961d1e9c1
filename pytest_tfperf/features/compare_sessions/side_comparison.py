"""Two sets of figures measured at different times, compared: sessions, exports or revisions of baselines."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.figure import BUILT_IN, THROUGHPUT, Better, Figure
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Noise
from pytest_tfperf.judging.common_drift import CommonDrift, common_drift
from pytest_tfperf.judging.noise import mean_square, noise_of, with_assumption
from pytest_tfperf.judging.session_variance import session_variance
from pytest_tfperf.judging.thresholds import FALSE_ALARMS, quantile, reference_variance


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureValue:
    """One figure of a workload on one side.

    Args:
        machine: the machine's key, "" where the source does not say.
        key: workload id, topology and figure.
        figure: the throughput or another.
        unit: what is counted.
        log_value: natural logarithm of the value.
        runs: fresh runs that it rests on.
        error: standard error of one run's logarithm from its windows; 0 where it isn't known.
        noise: between fresh runs and sessions; None where the source knows none.
        name: what the test calls the workload; "" for no name of its own.
        environment: software and settings, name -> version.
        place: where a program printed the figure, as "at step 400"; "" for what is measured.
        has_direction: whether the source says which change of the figure is for the worse.
    """

    machine: str
    key: Key
    figure: Figure
    unit: str
    log_value: float
    runs: int
    error: float = 0.0
    noise: Noise | None = None
    name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    place: str = ""
    has_direction: bool = True

    @property
    def is_throughput(self) -> bool:
        """Whether it takes part in the common drift."""
        return self.figure == THROUGHPUT

    def is_like(self, other: FigureValue) -> bool:
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

    a: FigureValue
    b: FigureValue
    ratio: float
    low: float
    high: float
    noise: float
    movement: Movement


@dataclass(frozen=True, slots=True, kw_only=True)
class SideComparison:
    """All figures of two sides.

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
    only_a: tuple[FigureValue, ...]
    only_b: tuple[FigureValue, ...]
    other_units: tuple[tuple[FigureValue, FigureValue], ...]

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


def values_of_measurements(measurements: Iterable[Measurement]) -> list[FigureValue]:
    """The figures above 0 of the last valid measurement of each machine's workloads, in the order of their first."""
    latest = {(m.machine, m.key): m for m in measurements if m.is_valid}
    noise = _noise_of_runs([run.log_rate for run in m.throughput.runs] for m in latest.values())
    return [value for m in latest.values() for value in _values_of(m, noise)]


def values_of_rows(rows: Iterable[Baseline]) -> list[FigureValue]:
    """The rows of baselines, each with the noise that its machine's rows show; no figure of 0 or less."""
    rows = [row for row in rows if row.reference > 0]
    alike: dict[tuple[str, str], list[Baseline]] = {}
    for row in rows:
        alike.setdefault((row.machine, row.key.figure), []).append(row)
    return [
        FigureValue(
            machine=row.machine,
            key=row.key,
            unit=row.unit,
            log_value=math.log(row.reference),
            runs=row.runs,
            noise=noise_of(row, alike[row.machine, row.key.figure]),
            environment=dict(part.split("=", 1) for part in row.environment.split() if "=" in part),
            figure=_figure_of(row),
            place=row.place,
            has_direction=row.key.figure in ("", *BUILT_IN),
        )
        for row in rows
    ]


def compare_sides(a: Sequence[FigureValue], b: Sequence[FigureValue]) -> SideComparison:
    """Compare all workloads that both sides have; b against a.

    Sides of one machine each are compared even if the machines differ. From eight workloads on, what all have in common
    is taken out before a single one is said to have moved.
    """
    first, second = _by_row(a, b)
    common = [(first[row], second[row]) for row in first if row in second]
    comparable = [(one, other) for one, other in common if one.is_like(other)]
    drift = common_drift([other.log_value - one.log_value for one, other in comparable if one.is_throughput])
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
    a: Sequence[FigureValue], b: Sequence[FigureValue]
) -> tuple[Mapping[_RowId, FigureValue], Mapping[_RowId, FigureValue]]:
    """By machine and key; the machine counts only where a side has several, or both have the same."""
    machines = [{figure.machine for figure in side} for side in (a, b)]
    is_one_each = all(len(names) <= 1 for names in machines)

    def by_row(side: Sequence[FigureValue]) -> dict[_RowId, FigureValue]:
        return {("" if is_one_each else figure.machine, figure.key): figure for figure in side}

    return by_row(a), by_row(b)


def _ratio(
    a: FigureValue, b: FigureValue, drift: CommonDrift, expected_between_sessions: float, *, tests: int
) -> Ratio:
    """One workload; `tests` of them share the false alarms."""
    learnt = [figure.noise.between_sessions for figure in (a, b) if figure.noise and figure.noise.between_sessions > 0]
    between_sessions = max(learnt, default=expected_between_sessions)
    variance = _variance(a) + _variance(b) + 2 * between_sessions**2
    freedom = min(_noise(figure).degrees_of_freedom for figure in (a, b))
    change = b.log_value - a.log_value
    drift = drift if b.is_throughput else CommonDrift(0.0, 0)
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
        movement=movement if told.is_throughput else _of_figure(movement, a, b, told.figure),
    )


def _of_figure(movement: Movement, a: FigureValue, b: FigureValue, figure: Figure) -> Movement:
    """How a figure moved, which noise alone would call slower or faster."""
    before, after = math.exp(a.log_value), math.exp(b.log_value)
    if movement is Movement.NONE or abs(after - before) <= figure.accepted(before):
        return Movement.NONE
    if not (a.has_direction or b.has_direction):
        return Movement.CHANGED
    is_good = figure.better is not Better.SAME and (after > before) == (figure.better is Better.HIGHER)
    return Movement.BETTER if is_good else Movement.WORSE


def _variance(figure: FigureValue) -> float:
    """Of a figure's logarithm: what its runs leave uncertain."""
    return float(max(_noise(figure).between_runs, figure.error) ** 2 * reference_variance(figure.runs))


def _noise(figure: FigureValue) -> Noise:
    return figure.noise or with_assumption(0.0, 0)


def _values_of(m: Measurement, noise: Noise) -> Iterator[FigureValue]:
    """Its throughput, by the noise that all measurements show, and its figures, each by that of its own runs."""
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
        if verdict.value is not None and 0 < verdict.value < math.inf:
            yield replace(
                throughput,
                key=m.key._replace(figure=figure.name),
                figure=figure,
                unit=figure.unit or "",
                log_value=math.log(verdict.value),
                runs=max(1, len(runs)),
                error=0.0,
                noise=_noise_of_runs([[math.log(value) for value in runs]]),
                place=" and ".join(verdict.places),
            )


def _figure_of(row: Baseline) -> Figure:
    """A row does not say which change of a user's own figure is good."""
    name, unit = row.key.figure, row.unit
    if not name:
        return THROUGHPUT
    return Figure(name) if name in BUILT_IN else Figure(name, unit=unit, better=Better.SAME)


def _noise_of_runs(measured: Iterable[Sequence[float]]) -> Noise:
    """The noise of the runs of all measurements, in logarithms, pooled with what is assumed for any machine."""
    groups = [group for group in measured if len(group) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    squares = math.fsum(statistics.variance(group) * (len(group) - 1) for group in groups)
    return with_assumption(squares / freedom if freedom else 0.0, freedom)
