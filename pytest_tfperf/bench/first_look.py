"""A look at the machine before baselines are recorded: a busy machine is found in seconds, not after the first runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_tfperf.bench.disturbance import DisturbanceGuard, disturbance_in
from pytest_tfperf.bench.one_run import TRIES
from pytest_tfperf.core.disturbance import NO_LIMITS, Disturbance, DisturbanceLimits
from pytest_tfperf.core.telemetry import Telemetry
from pytest_tfperf.errors import MeasurementError

LOOK_SECONDS = 1.0


def watch_idly() -> Telemetry | None:
    """What the machine does in a second in which we do nothing; None where it can't be sampled."""
    with DisturbanceGuard(DisturbanceLimits()).watching() as seen:
        time.sleep(LOOK_SECONDS)
    return seen.telemetry


def look_before_recording(limits: DisturbanceLimits, look: Callable[[], Telemetry | None] = watch_idly) -> str:
    """Return if a run would count now: "", or a remark where it counts only because the user accepts more.

    A disturbance must show in as many looks as a test has tries: a mail client that starts is over in a second.

    Args:
        limits: what the user accepts.
        look: samples the machine.

    Raises:
        MeasurementError: more disturbs the machine than the user accepts.
    """
    beyond: Disturbance | None = None
    for _ in range(TRIES):
        telemetry = look()
        if telemetry is None:
            return ""
        beyond = disturbance_in(telemetry, limits)
        if beyond is None:
            usual = disturbance_in(telemetry, DisturbanceLimits())
            return f"{usual}, and {limits.of(usual.kind)} accepts it: the new rows will say so" if usual else ""
    assert beyond is not None, "at least one look was taken"
    option = limits.of(beyond.kind)
    raise MeasurementError(
        f"--update-baselines: {beyond}, and the limit is {option}. Nothing was measured. Free the machine of other "
        f"work; or record all the same with a higher limit, as in -o {NO_LIMITS.of(beyond.kind)}: the new rows then "
        "say so"
    )
