"""Whether a run, a pair or a result counts: disturbed, never steady, or a loss or a figure that is no number.

GPUs in use before a run, and a driver that stopped answering, are detected in `bench/disturbance_guard.py`. Only the
code that takes or reads runs knows that no run of a test counts; it then takes `ALL_DISTURBED`.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.run import Pair, Run, Window
from pytest_tfperf.core.telemetry import SLOWDOWNS, GpuTelemetry, Telemetry, least_share
from pytest_tfperf.core.throughput import Throughput, scatter
from pytest_tfperf.core.verdict import Outcome, Reason, Verdict
from pytest_tfperf.judging.pairs import spread

ALL_DISTURBED = Verdict(outcome=Outcome.INVALID, reason=Reason.DISTURBED)
"""The verdict where each fresh run was disturbed, so that none counts."""


def invalid(throughput: Throughput) -> Verdict | None:
    """Return the verdict INVALID on a throughput that means nothing; None where it can be judged."""
    return Verdict(outcome=Outcome.INVALID, reason=Reason.DIVERGED) if throughput.is_diverged else None


def unusable(values: Iterable[float | None]) -> Reason | None:
    """Return why a figure can't be judged: a run lacks it (None), or a value is not finite. None where it can."""
    known = list(values)
    if None in known:
        return Reason.NOT_MEASURED
    return None if all(isfinite(value) for value in known if value is not None) else Reason.NOT_FINITE


def disturbance_in(telemetry: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    """Return the first disturbance above its limit, of a GPU or else of the host; None if there is none.

    Smaller disturbances show in the spread of windows and of repeated runs.
    """
    on_gpus = [_gpu_disturbance(gpu, telemetry.seconds, limits) for gpu in telemetry.gpus]
    return next(filter(None, on_gpus), None) or _host_disturbance(telemetry, limits)


def load_of(runs: Iterable[Run]) -> list[Disturbance]:
    """Return the disturbances of runs that count only because the user set other limits than ours, one for each run."""
    disturbances = [disturbance_in(run.telemetry, DisturbanceLimits()) for run in runs if run.telemetry is not None]
    return [disturbance for disturbance in disturbances if disturbance is not None]


def busiest(shares: Mapping[str, float] | None) -> tuple[str, float]:
    """Return the process, or GPU, with the largest share; "" and 0 without any."""
    return max((shares or {}).items(), key=lambda item: item[1], default=("", 0.0))


def _gpu_disturbance(gpu: GpuTelemetry, seconds: float, limits: DisturbanceLimits) -> Disturbance | None:
    if (throttle := gpu.slowed_down_by(least_share(limits.gpu_samples_fraction, seconds))) is not None:
        return Disturbance(
            DisturbanceKind.GPU_SLOWED_DOWN, gpu=gpu.uuid, throttle=throttle, celsius=gpu.temperature_celsius_max
        )
    process, used = busiest(gpu.other_processes)
    if used > limits.gpu_utilisation_fraction:
        return Disturbance(DisturbanceKind.GPU_SHARED, used, culprit=process, gpu=gpu.uuid)
    return None


def _host_disturbance(host: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    others, idle = host.other_cpu_fraction_mean or 0.0, host.idle_fraction_mean or 0.0
    # Other processes that only use idle cores do not slow us down.
    if others > limits.other_cpu_fraction and idle <= limits.idle_fraction:
        process, _ = busiest(host.other_processes)
        return Disturbance(DisturbanceKind.OTHER_PROCESSES, others, culprit=process, cores=host.usable_cores)
    stolen = host.steal_fraction_mean or 0.0
    if stolen > limits.steal_fraction:
        return Disturbance(DisturbanceKind.STEAL, stolen, cores=host.usable_cores)
    swapped = host.swap_bytes_per_sec_mean or 0.0
    if swapped > limits.swap_bytes_per_sec:
        return Disturbance(DisturbanceKind.SWAPPING, swapped)
    return None


LEAST_WINDOWS = 20
"""With fewer windows a drift can't be separated from noise, so the run counts as steady."""

_MOST_DISCARDED = 1 / 3  # a run that settles later than that has not settled
# A noisy machine must still get a result, so only faults that would change a verdict count: a drift or a step of 10 %,
# or two modes 10 % apart, each far beyond the windows' own scatter.
_LEAST_SHIFT = math.log(1.10)
_SCATTERS = 5.0
_LEAST_SHARE = 0.25  # of the windows in the smaller of two modes


def in_steady_state(run: Run) -> Run:
    """Count the windows before a run's steady state as warm-up; the run is disturbed if it never became steady."""
    cut = settled_from(run.windows, fetches=run.fetches)
    windows = run.windows[cut:]
    why = why_not_steady(windows, fetches=run.fetches)
    return replace(run, warmup=run.warmup + run.windows[:cut], windows=windows, disturbance=why)


def settled_from(windows: Sequence[Window], *, fetches: bool = False) -> int:
    """Return how many first windows to discard to minimise MSER, the squared standard error of the rest's mean.

    White 1997, "An effective truncation heuristic for bias reduction in simulation output". Zero for few windows, and
    where the first third is no different from the rest.
    """
    rates = _rates(windows)
    if len(rates) < LEAST_WINDOWS:
        return 0
    best = _least_mser(rates)
    early, rest = rates[:best], rates[best:]
    if not early:
        return 0
    faster = statistics.median(early) - statistics.median(rest)
    # MSER alone would discard a few windows of pure noise in most runs. A rate that falls by a tenth was no warm-up,
    # unless batches lay ready at first.
    if abs(faster) < 3 * scatter(rest) or (faster > _LEAST_SHIFT and not fetches):
        return 0
    return best


def why_not_steady(windows: Sequence[Window], *, fetches: bool = False) -> Disturbance | None:
    """Return why a run's timed windows are not a steady state; None where they are.

    Steps that fetch their batches may well have two speeds: with a batch that lay ready, and without.
    """
    rates = _rates(windows)
    if len(rates) < LEAST_WINDOWS:
        return None
    return _drift(rates) or (None if fetches else _two_modes(rates))


def _drift(rates: Sequence[float]) -> Disturbance | None:
    """Return a change from the first to the last third."""
    third = len(rates) // 3
    parts = [rates[:third], rates[third:-third], rates[-third:]]
    first, middle, last = map(statistics.median, parts)
    within = statistics.median(map(scatter, parts))
    change = last - first
    if abs(change) < max(_LEAST_SHIFT, _SCATTERS * within):
        return None
    if not min(first, last) <= middle <= max(first, last):
        return None
    return Disturbance(DisturbanceKind.NOT_STEADY, math.expm1(change))


def _two_modes(rates: Sequence[float]) -> Disturbance | None:
    """Return the widest gap in the sorted windows, with enough windows on either side and little scatter within."""
    ordered = sorted(rates)
    least = math.ceil(_LEAST_SHARE * len(ordered))
    gaps = [(ordered[i] - ordered[i - 1], i) for i in range(least, len(ordered) - least + 1)]
    gap, split = max(gaps)
    low, high = ordered[:split], ordered[split:]
    apart = statistics.median(high) - statistics.median(low)
    if gap < max(_LEAST_SHIFT / 2, _SCATTERS * max(scatter(low), scatter(high))) or apart < _LEAST_SHIFT:
        return None
    return Disturbance(DisturbanceKind.NOT_STEADY, math.expm1(-apart), windows=(len(low), len(high)))


def _rates(windows: Sequence[Window]) -> list[float]:
    return [math.log(w.steps / w.seconds) for w in windows]


def _least_mser(rates: Sequence[float]) -> int:
    """Return the cut with the least variance / count of the rest, from running sums because it is called often."""
    count, total, squares = 0, 0.0, 0.0
    scores: list[tuple[float, int]] = []
    middle = statistics.median(rates)  # sums of squares lose their digits far from zero
    for cut in range(len(rates) - 1, -1, -1):
        count, total, squares = count + 1, total + rates[cut] - middle, squares + (rates[cut] - middle) ** 2
        if cut <= len(rates) * _MOST_DISCARDED:
            scores.append(((squares / count - (total / count) ** 2) / count, cut))
    return min(scores)[1]


# Pairs: other work that takes as much from one side as from the other cancels in their ratio, so such a pair counts.
# The ratio of an uneven pair is uncertain by as much as the disturbance can have changed it.

_LEAST_LEFT = 0.25
"""The least fraction of the time that counts as left to a run.

Other processes can take nearly all of the time from a program that mostly waits, without slowing it down.
"""

_SECONDS_OF_A_SWAPPED_BYTE = 1e-4 / 4096  # 0.1 ms for each page


def unevenness(a: Run, b: Run, limits: DisturbanceLimits) -> float:
    """Return the largest change of the log ratio b / a that disturbances can have made; above 0 if a lost more to them.

    `limits` define the use of the cores from which on other processes slow a run down.
    """
    x, y = _logs_left(a, limits), _logs_left(b, limits)
    return math.fsum(y[kind] - x[kind] for kind in x)


def bias(pairs: Sequence[Pair]) -> float:
    """Return the largest change of the mean log ratio that disturbances of mostly one side can have made.

    Pairs that are uneven in different ways show by their spread how unevenness affects a ratio: if they differ much in
    unevenness and hardly in their ratios, the program does not need what other processes took.
    """
    unevenness = [pair.unevenness for pair in pairs]
    differ, ratios_differ = statistics.pstdev(unevenness), math.sqrt(spread([pair.log_ratio for pair in pairs])[0])
    effect = min(1.0, ratios_differ / differ) if differ else 1.0
    return effect * abs(statistics.fmean(unevenness))


def are_alike(a: Run, b: Run, limits: DisturbanceLimits) -> bool:
    """Whether a pair of these runs may count: nothing took more from one run than an undisturbed run may lose.

    Two undisturbed runs are always alike. A run that never settled is like no other run.
    """
    if any(run.disturbance is not None and run.disturbance.kind in _ITS_OWN for run in (a, b)):
        return False
    x, y, accepted = _logs_left(a, limits), _logs_left(b, limits), _accepted(limits)
    return all(abs(y[kind] - x[kind]) <= -_log_left(accepted[kind]) for kind in accepted)


def tells_nothing(pair: Pair) -> bool:
    """Whether the ratio of a pair means nothing: a driver fell silent, or a run never settled by itself.

    Beside other work a run may be fast and slow by turns; then the error of its windows shows how uncertain it is.
    """
    for run in (pair.a, pair.b):
        kind = None if run.disturbance is None else run.disturbance.kind
        samples = [telemetry for telemetry in (run.telemetry, *run.polls) if telemetry is not None]
        other_work = any(disturbance_in(sample, _UNSETTLES) for sample in samples)
        if kind is DisturbanceKind.DRIVER_SILENT or (kind is DisturbanceKind.NOT_STEADY and not other_work):
            return True
    return False


_ITS_OWN = (DisturbanceKind.NOT_STEADY, DisturbanceKind.DRIVER_SILENT)
"""Disturbances of a run that have no amount to compare with another run's."""

_UNSETTLES = DisturbanceLimits(other_cpu_fraction=0.1, steal_fraction=0.1)
"""Limits above which other work that comes and goes can make a run unsteady, by 10 %."""


def _logs_left(run: Run, limits: DisturbanceLimits) -> Mapping[DisturbanceKind, float]:
    """Return the logarithm of the fraction of its time that each kind of disturbance has left to a run, at least."""
    taken, disturbance = _sampled(run, limits), run.disturbance
    if disturbance is not None and disturbance.kind in taken:  # it may have shown only before the run
        amount = 1.0 if disturbance.amount is None else disturbance.amount
        of_time = amount * _SECONDS_OF_A_SWAPPED_BYTE if disturbance.kind is DisturbanceKind.SWAPPING else amount
        taken[disturbance.kind] = max(taken[disturbance.kind], of_time)
    return {kind: _log_left(part) for kind, part in taken.items()}


def _sampled(run: Run, limits: DisturbanceLimits) -> dict[DisturbanceKind, float]:
    host, gpus = run.telemetry, () if run.telemetry is None else run.telemetry.gpus
    others = swapped = stolen = 0.0
    if host is not None:
        takes_ours = (host.idle_fraction_mean or 0.0) <= limits.idle_fraction
        others = (host.other_cpu_fraction_mean or 0.0) if takes_ours else 0.0
        stolen, swapped = host.steal_fraction_mean or 0.0, host.swap_bytes_per_sec_mean or 0.0
    slowed_down = ((gpu.throttled_fractions or {}).get(reason, 0.0) for gpu in gpus for reason in SLOWDOWNS)
    return {
        DisturbanceKind.OTHER_PROCESSES: others,
        DisturbanceKind.STEAL: stolen,
        DisturbanceKind.SWAPPING: swapped * _SECONDS_OF_A_SWAPPED_BYTE,
        DisturbanceKind.GPU_SHARED: max((busiest(gpu.other_processes)[1] for gpu in gpus), default=0.0),
        DisturbanceKind.GPU_SLOWED_DOWN: max(slowed_down, default=0.0),
    }


def _accepted(limits: DisturbanceLimits) -> Mapping[DisturbanceKind, float]:
    """Return the fraction of its time that an undisturbed run may lose to each kind of disturbance."""
    return {
        DisturbanceKind.OTHER_PROCESSES: limits.other_cpu_fraction,
        DisturbanceKind.STEAL: limits.steal_fraction,
        DisturbanceKind.SWAPPING: limits.swap_bytes_per_sec * _SECONDS_OF_A_SWAPPED_BYTE,
        DisturbanceKind.GPU_SHARED: limits.gpu_utilisation_fraction,
        DisturbanceKind.GPU_SLOWED_DOWN: limits.gpu_samples_fraction,
    }


def _log_left(taken: float) -> float:
    return math.log(max(1 - taken, _LEAST_LEFT))
