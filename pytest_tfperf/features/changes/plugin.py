"""`--tfperf-fail-on-drift`: slowdowns that last and were not accepted by a new baseline."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from pytest_tfperf.bench.feature import Feature
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.setting import Setting
from pytest_tfperf.core.settings import DEFAULT_TOLERANCE

if TYPE_CHECKING:
    from pytest_tfperf.bench.session import Session
    from pytest_tfperf.core.acknowledgement import Acknowledgement
    from pytest_tfperf.core.baseline import Key
    from pytest_tfperf.core.figure import Figure
    from pytest_tfperf.core.measurement import Measurement
    from pytest_tfperf.core.past import LastingChange, Value
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

    history, today = session.history, datetime.now(UTC).date()
    for machine in machines:
        results = list(history.values(machine=machine))
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
    from pytest_tfperf.core.figure import RATE  # not at the top: each pytest imports this file

    if loss.test is None or loss.key is None:
        return False
    return one.is_of(loss.machine, loss.test, loss.key) and one.figure == (loss.key.figure or RATE)


_Series: TypeAlias = "tuple[str, Key]"
_Baselines = Mapping[int, float]  # the values of a baseline by the index of the session that it judged, oldest first

_RECOVERED_SHARE = 0.5  # a loss is over when more than this share of it has come back


def lasting_losses(results: Sequence[Value], session: str, tolerances: Mapping[_Series, float]) -> list[LastingChange]:
    """Return the changes for the worse of tests in a session that are neither over nor accepted, oldest first.

    A change is accepted if it is within the test's tolerance, or if the test has got a new baseline since; a change of
    the whole machine, if that is so for most of its tests. Only tests that the session judged against a recorded
    baseline count: a slowdown of the others, as of `throughput.measure`, could never be accepted.

    The results are throughputs and figures of one machine, each oldest first, and the tolerances are the slowdowns that
    the session's tests accept, as fractions; by default 2 %.
    """
    from pytest_tfperf.core.figure import Better
    from pytest_tfperf.judging.lasting_changes import changes_of  # imports NumPy

    order = {id: index for index, id in enumerate(dict.fromkeys(result.session for result in results))}
    baselines: dict[_Series, dict[int, float]] = {}
    judged: dict[_Series, Figure | None] = {}
    for result in results:
        series = (result.test, result.key)
        if result.baseline is not None:
            baselines.setdefault(series, {})[order[result.session]] = result.baseline
            if result.session == session:
                judged[series] = result.figure

    def accepted(series: _Series, level: float) -> float:
        figure = judged[series]
        return figure.accepted(level) if figure else tolerances.get(series, DEFAULT_TOLERANCE) * level

    losses = []
    for change in changes_of(results):
        concerned = _concerned(change, judged)
        if not change.is_worse or not concerned:
            continue
        # If a figure should stay the same, the change that brings it back is for the worse, too: its baseline tells
        # them apart.
        start = _latest(baselines[concerned[0]]) if change.better is Better.SAME else change.before
        away = change.now - start
        within = statistics.median(accepted(series, start) for series in concerned)
        least = max(within, (1 - _RECOVERED_SHARE) * abs(change.size * change.before))
        lasts = away * change.size > 0 and abs(away) > least
        if lasts and not _is_accepted(change, [baselines[series] for series in concerned], order):
            losses.append(change)
    return losses


def _concerned(change: LastingChange, judged: Iterable[_Series]) -> list[_Series]:
    """Return the judged series that show a change: all throughputs if it is the machine's."""
    if change.test:
        return [series for series in judged if series == (change.test, change.key)]
    return [(test, key) for test, key in judged if not key.figure]


def _is_accepted(change: LastingChange, baselines: Sequence[_Baselines], order: Mapping[str, int]) -> bool:
    """Return whether most of the baselines were recorded again after a change."""
    from pytest_tfperf.core.past import ChangeKind

    start = order[change.last_session] + (change.kind is not ChangeKind.STEP)
    accepted = sum(_recorded_since(start, of_series) for of_series in baselines)
    return 2 * accepted > len(baselines)


def _recorded_since(start: int, baselines: _Baselines) -> bool:
    """Return whether the baseline is another now than before a session."""
    before = [baseline for index, baseline in baselines.items() if index < start]
    return _latest(baselines) != (before[-1] if before else None)


def _latest(baselines: _Baselines) -> float:
    return list(baselines.values())[-1]


FEATURE: Final = Feature(settings=(FAIL_ON_DRIFT,), session_verdicts=session_verdicts)
