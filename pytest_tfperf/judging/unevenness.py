"""Whether other work on the machine took as much from one side of a pair as from the other.

A disturbance of both sides alike cancels in their ratio, so such a pair counts. The ratio of an uneven pair is
uncertain by as much as the disturbance can have changed it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence

from pytest_tfperf.core.disturbance import DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.run import Pair, Run
from pytest_tfperf.core.telemetry import SLOWDOWNS
from pytest_tfperf.judging.pairs import spread
from pytest_tfperf.judging.validity import busiest, disturbance_in

_LEAST_LEFT = 0.25
"""The least fraction of the time that counts as left to a run.

Other processes can take nearly all of the time from a program that mostly waits, without slowing it down.
"""

_SECONDS_OF_A_SWAPPED_BYTE = 1e-4 / 4096  # 0.1 ms for each page


def unevenness(a: Run, b: Run, limits: DisturbanceLimits) -> float:
    """Return the largest change of the log ratio b / a that disturbances can have made; above 0 if a lost more to them.

    Args:
        a, b: the two runs of a pair.
        limits: define the use of the cores from which on other processes slow a run down.
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

    Args:
        a, b: the two runs of a pair.
        limits: what an undisturbed run may lose to each kind of disturbance.
    """
    if any(run.disturbance is not None and run.disturbance.kind in _ITS_OWN for run in (a, b)):
        return False
    x, y, accepted = _logs_left(a, limits), _logs_left(b, limits), _accepted(limits)
    return all(abs(y[kind] - x[kind]) <= -_log_left(accepted[kind]) for kind in accepted)


def tells_nothing(pair: Pair) -> bool:
    """Whether the ratio of a pair means nothing: a driver fell silent, or a run never settled by itself.

    Beside other work a run may be fast and slow by turns; then the error of its windows shows how uncertain it is.
    """
    return any(_tells_nothing(run) for run in (pair.a, pair.b))


_ITS_OWN = (DisturbanceKind.NOT_STEADY, DisturbanceKind.DRIVER_SILENT)
"""Disturbances of a run that have no amount to compare with another run's."""


_UNSETTLES = DisturbanceLimits(other_cpu_fraction=0.1, steal_fraction=0.1)
"""Limits above which other work that comes and goes can make a run unsteady: by 10 % (steady_state.py)."""


def _tells_nothing(run: Run) -> bool:
    if run.disturbance is None or run.disturbance.kind not in _ITS_OWN:
        return False
    samples = (telemetry for telemetry in (run.telemetry, *run.polls) if telemetry is not None)
    other_work = any(disturbance_in(sample, _UNSETTLES) for sample in samples)
    return run.disturbance.kind is DisturbanceKind.DRIVER_SILENT or not other_work


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
    return {
        DisturbanceKind.OTHER_PROCESSES: others,
        DisturbanceKind.STEAL: stolen,
        DisturbanceKind.SWAPPING: swapped * _SECONDS_OF_A_SWAPPED_BYTE,
        DisturbanceKind.GPU_SHARED: _largest(busiest(gpu.other_processes)[1] for gpu in gpus),
        DisturbanceKind.GPU_SLOWED_DOWN: _largest(
            (gpu.throttled_fractions or {}).get(reason, 0.0) for gpu in gpus for reason in SLOWDOWNS
        ),
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


def _largest(parts: Iterable[float]) -> float:
    return max(parts, default=0.0)
