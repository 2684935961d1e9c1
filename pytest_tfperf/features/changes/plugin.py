"""`--tfperf-fail-on-drift`: slowdowns that last and were not accepted by a new baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.acknowledgement import Acknowledgement
    from pytest_tfperf.core.baseline import Key
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.past import LastingChange
    from pytest_tfperf.core.session_verdicts import SessionVerdict

FAIL_ON_DRIFT: Final[Setting[bool]] = Setting(
    name="fail_on_drift",
    default=False,
    parse=parse.flag,
    help="fail the session while the history shows a lasting slowdown, or a figure that became worse for good, that no "
    "new baseline accepted and nobody acknowledged",
    of_one_session=True,
)


def session_verdicts(session: Session, machines: Sequence[str]) -> Iterator[SessionVerdict]:
    """A red verdict for each machine with a lasting slowdown, or a figure that became worse for good."""
    from pytest_tfperf.core.session_verdicts import drift_verdict
    from pytest_tfperf.features.changes.lasting_losses import lasting_losses  # imports NumPy

    history, today = session.history, datetime.now(UTC).date()
    for machine in machines:
        results = [*history.results(machine=machine), *history.figure_results(machine=machine)]
        known = [one for one in session.acknowledgements if one.days_left(today) >= 0]
        now = history.measurements(session=session.id, machine=machine)
        losses = lasting_losses(results, session.id, _tolerances(now))
        if found := [loss for loss in losses if not any(_is_of(one, loss) for one in known)]:
            yield drift_verdict(machine, found)


def _tolerances(measurements: Iterable[Measurement]) -> dict[tuple[str, Key], float]:
    """Return the slowdown that each test accepts, a positive fraction; inf where it accepts any."""
    given = {(m.test, m.key): m.verdict.tolerance for m in measurements if m.verdict and m.verdict.tolerance}
    return {test: math.inf if tolerance.lower is None else -tolerance.lower for test, tolerance in given.items()}


def _is_of(one: Acknowledgement, loss: LastingChange) -> bool:
    """Whether an acknowledgement is about a lasting loss."""
    from pytest_tfperf.core.figure import RATE

    if loss.test is None or loss.key is None:
        return False
    return one.is_of(loss.machine, loss.test, loss.key) and one.figure == (loss.key.figure or RATE)


FEATURE: Final = Feature(settings=(FAIL_ON_DRIFT,), session_verdicts=session_verdicts)
