"""A baseline from fresh runs: how many it takes, and what is written down."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_tfperf.core.baseline import Baseline, Provenance
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import RunValue, hodges_lehmann, run_value
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.judging.common_drift import PREFIX_WINDOWS, prefix
from pytest_tfperf.judging.noise import without_spells
from pytest_tfperf.judging.thresholds import TOO_NOISY_TO_GATE, loss_seen


def runs_wanted(runs: Sequence[RunValue], least: int) -> int:
    """Fresh runs in all that a baseline takes: `least` that lie in no slow spell and agree, twice as many at most."""
    kept = without_spells([run.log_rate for run in runs])
    enough = len(kept) >= least and loss_seen(statistics.stdev(kept), len(kept)) <= TOO_NOISY_TO_GATE
    return len(runs) if enough else min(max(least, len(runs) + 1), 2 * least)


def baseline_of(record: Measurement) -> Baseline:
    """The row that a record of several runs makes.

    Raises:
        MeasurementError: the runs differ too much to catch a loss of 15 %.
    """
    runs = [run.log_rate for run in record.throughput.runs]
    kept = without_spells(runs)
    spread = statistics.stdev(kept)
    if (loss := loss_seen(spread, len(kept))) > TOO_NOISY_TO_GATE:
        each = "  ".join(f"{math.exp(rate):,.1f}" for rate in runs)
        raise MeasurementError(
            f"{record.workload.id} on {record.devices}: too noisy for a baseline, which was left as it is: its runs "
            f"gave {each} images/s, so that losses below {loss:.0%} would go unseen. Free the machine of other work, "
            "or give the test more steps, and record again"
        )
    attempts = [attempt for attempt in record.trial.attempts if len(attempt.windows) >= 2 * PREFIX_WINDOWS]
    above = statistics.median([prefix(one) - run_value(one).log_rate for one in attempts]) if attempts else 0.0
    left_out = "  ".join(f"{math.exp(rate):.5g}" for rate in runs if rate not in kept)
    return Baseline(
        machine=record.machine,
        key=record.key,
        reference=float(f"{math.exp(hodges_lehmann(kept)):.5g}"),
        provenance=Provenance.MEASURED,
        source=f"--update-baselines at {record.commit}" if record.commit else "--update-baselines",
        date=record.time[:10],
        runs=len(kept),
        spread=float(f"{spread:.3g}"),
        prefix=round(above, 4),
        gpu=record.gpu,
        gpu_fp32_tflops=record.gpu_fp32_tflops,
        canaries=record.canaries,
        environment=" ".join(f"{name}={value}" for name, value in sorted(record.environment.items())),
        note=f"left out, in slow spells of the machine: {left_out} images/s" if left_out else "",
    )
