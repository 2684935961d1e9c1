"""`--tfperf-fail-on-drift`: slowdowns that last and were not accepted by a new baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.figure import RATE
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.features import Feature

if TYPE_CHECKING:
    from pytest_tfperf.bench.session_context import SessionContext
    from pytest_tfperf.core.session_verdicts import SessionVerdict

FAIL_ON_DRIFT: Final[Setting[bool]] = Setting(
    name="fail_on_drift",
    default=False,
    parse=parse.flag,
    help="fail the session while the history shows a lasting slowdown, or a figure that became worse for good, that no "
    "new baseline accepted and nobody acknowledged",
    of_one_session=True,
)


def session_verdicts(context: SessionContext, machines: Sequence[str]) -> Iterator[SessionVerdict]:
    """A red verdict for each machine with a lasting slowdown, or a figure that became worse for good."""
    from pytest_tfperf.core.session_verdicts import DriftVerdict, SessionVerdict
    from pytest_tfperf.features.changes.lasting_losses import lasting_losses  # imports NumPy

    history, today = context.history, datetime.now(UTC).date()
    for machine in machines:
        results = [*history.results(machine=machine), *history.figure_results(machine=machine)]
        known = {
            (one.test, one.figure)
            for one in context.acknowledgements
            if one.machine == machine and one.days_left(today) >= 0
        }
        tolerances = {
            (each.test, each.key): -(each.verdict.tolerance.lower or -math.inf)
            for each in history.measurements(session=context.id, machine=machine)
            if each.verdict is not None and each.verdict.tolerance is not None
        }
        losses = lasting_losses(results, context.id, tolerances)
        if found := [each for each in losses if (each.test, (each.key and each.key.figure) or RATE) not in known]:
            yield SessionVerdict(machine=machine, found=DriftVerdict(slowdowns=tuple(found)))


FEATURE: Final = Feature(settings=(FAIL_ON_DRIFT,), session_verdicts=session_verdicts)
