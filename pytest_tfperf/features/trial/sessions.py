"""What a trial keeps of its sessions, and those of a history before which nothing had changed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from pytest_tfperf.core.measurement import Measurement, environment_changes
from pytest_tfperf.core.profile import Bound
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.telemetry import Telemetry, merged
from pytest_tfperf.core.verdict import Against, Outcome, worst
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.trial.trial import Trial, TrialResult, TrialSession
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.revisions.git import DIRTY
from pytest_tfperf.stores.history import History

_MOST: Final = 200  # sessions of a history, the latest: half a year of nights


def kept_of(measurements: Iterable[Measurement], verdicts: Iterable[SessionVerdict]) -> TrialSession:
    """Return what a trial keeps of a session: of its measurements, and of the verdicts on it as a whole."""
    calls: dict[str, list[Measurement]] = {}
    for measurement in measurements:
        calls.setdefault(measurement.test, []).append(measurement)
    failing = (verdict.kind for verdict in verdicts if verdict.outcome is Outcome.REGRESSED)
    tests = {test: result_of(of_test) for test, of_test in calls.items()}
    return TrialSession(tests=tests, failing=tuple(dict.fromkeys(failing)))


def result_of(calls: Sequence[Measurement]) -> TrialResult:
    """Return what a trial keeps of a test's calls: of several, the worst outcomes and the largest change."""
    each = [_of_call(call) for call in calls]
    largest = max(each, key=lambda result: abs(result.change or 0.0))
    return replace(
        largest,
        outcome=worst(result.outcome for result in each),
        throughput_outcome=worst(result.throughput_outcome for result in each),
        disturbances=tuple(kind for result in each for kind in result.disturbances),
    )


def _of_call(measurement: Measurement) -> TrialResult:
    """Return what a trial keeps of a call. A verdict against earlier sessions fails no test, so it tells nothing."""
    runs = [*measurement.runs, *(pair.b for pair in measurement.pairs)]
    discarded = [run.disturbance for run in measurement.discarded]
    discarded += [pair.disturbance for pair in measurement.discarded_pairs]
    verdict = measurement.verdict
    change = None
    if verdict is not None and verdict.change is not None and verdict.change > -1:
        change = math.log1p(verdict.change) - verdict.common_drift
    is_provisional = verdict is not None and verdict.against is Against.EARLIER_SESSIONS
    tolerance = verdict.tolerance.lower if verdict and verdict.tolerance else None
    return TrialResult(
        outcome=None if is_provisional else measurement.outcome,
        throughput_outcome=verdict.outcome if verdict and not is_provisional else None,
        change=change,
        tolerance=None if tolerance is None else -tolerance,
        disturbances=tuple(disturbance.kind for disturbance in discarded if disturbance),
        is_input_bound=measurement.breakdown is not None and measurement.breakdown.bound is Bound.INPUT,
        clock_mhz=_clock(merged(run.telemetry for run in runs)),
    )


def _clock(telemetry: Telemetry | None) -> float | None:
    if telemetry is None:
        return None
    of_gpus = [gpu.sm_clock_mhz_median for gpu in telemetry.gpus if gpu.sm_clock_mhz_median is not None]
    return statistics.fmean(of_gpus) if of_gpus else telemetry.cpu_mhz_median


# Of a history


@dataclass(frozen=True, slots=True)
class _Past:
    """A session of the history: the last measurement of each test, and what a trial keeps of it."""

    measurements: Mapping[str, Measurement]
    session: TrialSession

    @property
    def commit(self) -> str:
        """The commit that all tests ran at; "" where they differ, or had uncommitted changes."""
        commits = {measurement.commit for measurement in self.measurements.values()}
        commit = commits.pop() if len(commits) == 1 else ""
        return "" if commit.endswith(DIRTY) else commit

    def is_like(self, other: _Past) -> bool:
        """Whether both ran the same code in the same environment, as far as they share tests."""
        if not self.commit or self.commit != other.commit:
            return False
        tests = self.measurements.keys() & other.measurements.keys()
        environments = [[side.measurements[test].environment for side in (self, other)] for test in tests]
        return bool(tests) and not any(environment_changes(then, now) for then, now in environments)

    def change_since(self, other: _Past, test: str) -> float | None:
        """Return how much a test's sessions vary, by its change since another session, without the common drift.

        None where one of them has no throughput. The change from the baseline would not do: a gain that stays, or a
        loss, is no noise.
        """
        verdicts = (side.measurements[test].verdict for side in (self, other) if test in side.measurements)
        levels = [math.log(each.value) - each.common_drift for each in verdicts if each is not None and each.value]
        return (levels[0] - levels[1]) / math.sqrt(2) if len(levels) == 2 else None  # both vary


def trial_of_history(history: History, machine: str | None) -> Trial:
    """Return the trial whose sessions are those of a history that ran the same code as the session before.

    A test that was REGRESSED in the session before or is in the next one, all with the same code, has lost something:
    it is left out. So only a failure that came and went counts as false.

    `machine` is the machine's key; None for that of the last session.

    Raises:
        TfperfError: there is no history, or no session of the machine ran the same code as the one before.
    """
    name = machine or next((of for _, of in history.newest_sessions(alone_only=True)), "")
    newest = [id for id, _ in islice(history.newest_sessions(name, alone_only=True), _MOST)]
    past = [session for session in (_past(history, id, name) for id in reversed(newest)) if session.measurements]
    sessions = []
    for before, now, after in zip(past, past[1:], [*past[2:], None], strict=False):
        if not now.is_like(before):
            continue
        lost = set(before.session.regressed)
        if after is not None and now.is_like(after):
            lost |= set(now.session.regressed) & set(after.session.regressed)
        kept = now.session.tests.items()
        tests = {
            test: replace(result, change=now.change_since(before, test)) for test, result in kept if test not in lost
        }
        sessions.append(replace(now.session, tests=tests))
    if not sessions:
        raise TfperfError(
            f"none of {counted(len(past), 'session')} of {name or 'any machine'} ran the same commit, without "
            "uncommitted changes, in the same environment as the session before",
            next_step="Without --from-history, a trial runs sessions of its own",
        )
    return Trial(
        date=next(iter(past[-1].measurements.values())).time[:10],
        machine=name,
        is_of_history=True,
        same=len(sessions),
        slowed=0,
        sessions=tuple(sessions),
    )


def _past(history: History, session: str, machine: str) -> _Past:
    measured = [
        measurement
        for measurement in history.measurements(session=session, machine=machine)
        if measurement.other is None and "injected_slowdown" not in measurement.environment
    ]
    kept = kept_of(measured, history.verdicts(session=session, machine=machine))
    return _Past({measurement.test: measurement for measurement in measured}, kept)
