"""A provisional baseline: what earlier sessions of this machine measured, where no row was recorded.

It shows a new user how the gate works from the second session on. It warns and never fails, because nobody has
confirmed that those sessions were right.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.past import EarlierMeasurement
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.judging.noise import mean_square, without_slow_runs

MOST_MEASUREMENTS = 10
"""How many of a workload's latest measurements a provisional baseline uses."""

MOST_RUNS = 3
"""Fresh runs that a suspected slowdown gets in all.

Two more runs tell a slow run from a slow test. The eight of rule 2 guard against failing a test by mistake, and a
provisional baseline fails none.
"""


def provisional_baselines(
    machine: str, earlier: Mapping[Key, Sequence[EarlierMeasurement]], *, gpu: str
) -> dict[Key, Baseline]:
    """The rows that earlier sessions give for a machine.

    Args:
        machine: the machine's key.
        earlier: what they measured, oldest first.
        gpu: the GPUs' name today, "" on CPUs; a machine with a name of its own may have got other GPUs.
    """
    alike = {key: [one for one in measured if one.gpu == gpu] for key, measured in earlier.items()}
    return {key: provisional_baseline(machine, key, measured) for key, measured in alike.items() if measured}


def provisional_baseline(machine: str, key: Key, earlier: Sequence[EarlierMeasurement]) -> Baseline:
    """The Hodges-Lehmann median of all undisturbed runs, slow ones left out as in a recorded baseline.

    `earlier` has at least one measurement, oldest first; what counts other units than the latest is left out.
    """
    latest = earlier[-1]
    used = [one for one in earlier if one.unit == latest.unit]
    runs = [run for one in used for run in one.runs]
    kept = without_slow_runs([run.log_rate for run in runs])
    sessions = len({one.session for one in used})
    return Baseline(
        machine=machine,
        key=key,
        reference=math.exp(hodges_lehmann(kept)),
        unit=latest.unit,
        provenance=Provenance.PROVISIONAL,
        source=f"{sessions} earlier session{'' if sessions == 1 else 's'} here",
        date=" to ".join(dict.fromkeys((used[0].date, latest.date))),
        runs=len(kept),
        between_runs=_between_runs(kept, [run.error for run in runs]),
        gpu=latest.gpu,
        commit=latest.commit,
        environment=" ".join(f"{name}={value}" for name, value in sorted(latest.environment.items())),
    )


def _between_runs(log_rates: Sequence[float], errors: Sequence[float]) -> float | None:
    """The standard deviation between runs; never below what their own windows leave uncertain.

    A single run says no more than that, and two or three that agree by chance must not suspect every later one.
    """
    within = mean_square(errors)
    known = [] if within is None else [math.sqrt(within)]
    if len(log_rates) > 1:
        known.append(statistics.stdev(log_rates))
    return max(known, default=None)
