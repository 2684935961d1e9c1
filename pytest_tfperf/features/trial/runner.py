"""A trial that runs: baselines of its own, then sessions until it has as many as it asked for."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, final

from pytest_tfperf.core.exit_status import EXIT_INTERRUPTED, EXIT_USAGE
from pytest_tfperf.core.measurement import OF_A_RUN, environment_changes
from pytest_tfperf.core.trial import Trial, TrialSession
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.features.trial.sessions import Ended, Start, is_next_slowed, kept_of, slowed_tests
from pytest_tfperf.lines import Line, LineKind
from pytest_tfperf.reports.numbers import counted, duration, percent, time_span
from pytest_tfperf.stores import trial_file
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.history import History

_RECORDINGS: Final = 2  # a disturbed recording is tried once more
_MOST_IN_VAIN: Final = 3  # sessions in a row that measure nothing
_LAST_LINES: Final = 15
_NO_TESTS: Final = 5  # pytest's status where it collected none
_COLLECTION: Final = "during collection"  # in pytest's last line, with the status of Ctrl-C
_LISTED: Final = 3
_OF_A_SESSION: Final = {"commit", "injected_slowdown", *OF_A_RUN}  # in an environment


@final
class Runner:
    """A trial that runs; each session is kept as soon as it ends.

    Args:
        trial: what to run, and the sessions that an interrupted command left.
        folder: of the history; the trial lies below it.
        start: starts a session.
        show: prints a line.
        code: gives the code as it is now, as `Trial.code`.
        seconds: the time that the sessions may take; None for no limit.
        now: a clock in seconds.
    """

    def __init__(
        self,
        trial: Trial,
        folder: Path,
        start: Start,
        show: Callable[[str], object],
        code: Callable[[], Mapping[str, str]],
        *,
        seconds: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._trial = trial
        self._dir = folder
        self._folder = folder / trial_file.FOLDER
        self._history = History(self._folder / "history.sqlite")
        self._start = start
        self._show = show
        self._code = code
        self._now = now
        self._end = None if seconds is None else now() + seconds

    def run(self) -> Trial:
        """Run the sessions that are still missing, as far as the time suffices.

        Raises:
            TfperfError: pytest's arguments are wrong, no test could be recorded or measured, or code or environment
                changed meanwhile.
            KeyboardInterrupt: after a line that says how many sessions are kept.
        """
        try:
            if not self._trial.tests and not self._trial.is_of_base:
                self._record()
            in_vain = 0
            while self._fits() and (is_slowed := is_next_slowed(self._trial)) is not None:
                session = self._session(slowed_tests(self._trial) if is_slowed else ())
                in_vain = 0 if session.is_counted else in_vain + 1
                if in_vain == _MOST_IN_VAIN:
                    raise MeasurementError(
                        f"{in_vain} sessions in a row measured nothing: see {self._log(len(self._trial.sessions))}"
                    )
        except KeyboardInterrupt:
            self._show(
                f"interrupted; {counted(len(self._trial.sessions), 'session')} kept. The same command goes on, with "
                "--again it begins anew"
            )
            raise
        return self._trial

    def _record(self) -> None:
        self._show(f"first, baselines of the trial's own are recorded in {os.path.relpath(self._folder)}/baselines")
        baselines = BaselineStore(self._folder / "baselines")
        tests: dict[str, bool] = {}
        for attempt in range(_RECORDINGS):
            option = "--tfperf-update-baselines" if attempt == 0 else "--tfperf-update-baselines=failed"
            ended, session = self._pytest([option], {}, "recording")
            for m in self._history.measurements(session=session) if session else ():
                tests[m.test] = m.key in baselines.load(m.machine)
                self._trial = replace(self._trial, machine=m.machine)
            if tests and all(tests.values()):
                break
        recorded = tuple(test for test, is_recorded in tests.items() if is_recorded)
        if not recorded:
            raise MeasurementError(
                f"no baseline could be recorded, and pytest ended with status {ended.status}",
                *_last_lines(ended),
                next_step=f"The whole output is in {self._log('recording')}",
            )
        refused = tuple(test for test in tests if test not in recorded)
        self._keep(replace(self._trial, tests=recorded, without_baseline=refused))
        without = f"; {counted(len(refused), 'test')} could not be recorded" if refused else ""
        self._show(f"{counted(len(recorded), 'test')} recorded in {duration(ended.seconds)}{without}")
        if failed := [test for test in self._failed() if test not in tests]:
            self._show(
                f"{_listed(failed)} FAILED, and may do so in each session: fix or deselect what does, and begin anew "
                f"with --again ({self._log('recording')})"
            )

    def _session(self, slowed: tuple[str, ...]) -> TrialSession:
        number = len(self._trial.sessions) + 1
        options, variables = [], {}
        if slowed:
            options = [f"--tfperf-inject-slowdown={self._trial.slowdown}"]
            variables = {"TFPERF_INJECT_SLOWDOWN_TESTS": "\n".join(slowed)}
        self._last_failed.unlink(missing_ok=True)
        ended, id = self._pytest(options, variables, number)
        session = TrialSession(slowed=slowed, status=ended.status, seconds=ended.seconds, tests={})
        if id:
            measured = list(self._history.measurements(session=id))
            machine = measured[0].machine
            kept = kept_of(measured, self._history.verdicts(session=id, machine=machine))
            session = replace(kept, slowed=slowed, status=ended.status, seconds=ended.seconds)
            lost = {test for test, result in session.tests.items() if result.outcome is Outcome.REGRESSED}
            session = replace(session, failed=tuple(test for test in self._failed() if test not in lost))
            self._trial = replace(self._trial, machine=machine, tests=self._trial.tests or tuple(kept.tests))
        self._keep(replace(self._trial, sessions=(*self._trial.sessions, session)))
        self._show(f"{number:>3}  {_described(session, self._trial.slowdown)}, {duration(ended.seconds)}{self._left()}")
        return session

    def _pytest(self, options: list[str], variables: dict[str, str], name: object) -> tuple[Ended, str]:
        """Run a session, and return its end with its id; "" where it measured nothing."""
        before = self._newest_session()
        ended = self._start(options, variables)
        log = self._log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(ended.text, "utf-8", "replace")
        (self._folder / ".gitignore").write_text("*\n", "utf-8")
        if ended.status == EXIT_INTERRUPTED and _COLLECTION in ended.text:
            raise TfperfError("pytest can't import the tests", *_last_lines(ended), next_step="Fix them first")
        if ended.status in (EXIT_USAGE, _NO_TESTS):
            raise TfperfError(
                f"pytest ended with status {ended.status}",
                *_last_lines(ended),
                next_step="Give pytest's arguments after `--`, as in `tfperf trial -- perf_tests -m cpu`",
            )
        if ended.status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        require_same_code(self._trial, self._code())
        newest = self._newest_session()
        if newest == before:
            return ended, ""
        self._require_same_environment(newest)
        return ended, newest

    def _require_same_environment(self, session: str) -> None:
        *_, (first, _) = self._history.newest_sessions()  # the latest may be one that this has refused
        then = {m.test: m.environment for m in self._history.measurements(session=first)}
        for measurement in self._history.measurements(session=session):
            environments = (then.get(measurement.test, {}), measurement.environment)
            kept = [{name: e[name] for name in e if name not in _OF_A_SESSION} for e in environments]
            if changes := environment_changes(*kept):
                raise _of_other_code(f"the environment changed ({', '.join(map(str, changes))})")

    @property
    def _last_failed(self) -> Path:
        return self._folder / "cache" / "v" / "cache" / "lastfailed"

    def _failed(self) -> list[str]:
        """Return the tests that failed or were errors in the last session; none with `-p no:cacheprovider`."""
        with suppress(OSError, ValueError):
            return sorted(json.loads(self._last_failed.read_text("utf-8")))
        return []

    def _newest_session(self) -> str:
        """Return the id of the history's last session; "" where it has none."""
        sessions = self._history.newest_sessions() if self._history.database.exists else iter(())
        return next((session for session, _ in sessions), "")

    def _log(self, name: object) -> Path:
        return self._folder / "sessions" / f"{name}.txt"

    def _keep(self, trial: Trial) -> None:
        self._trial = replace(trial, date=datetime.now().astimezone().date().isoformat())
        trial_file.write(self._dir, self._trial)

    def _fits(self) -> bool:
        """Whether another session fits into the time."""
        return self._end is None or self._now() + self._expected() <= self._end

    def _expected(self) -> float:
        """Return how long a session takes, by those before it."""
        known = [session.seconds for session in self._trial.sessions]
        return statistics.fmean(known) if known else 0.0

    def _left(self) -> str:
        trial = self._trial
        left = max(0, trial.same - len(trial.unchanged)) + max(
            0, trial.slowed - sum(bool(s.slowed) and s.is_counted for s in trial.sessions)
        )
        known = [session.seconds for session in trial.sessions]
        time = f", {time_span(left * min(known), left * max(known))}" if len(known) > 1 else ""
        return f"; {counted(left, 'session')} left{time}" if left else ""


def _described(session: TrialSession, slowdown: float) -> str:
    """Return a session in a few words: "unchanged: passed", "1 test 5 % slower: found"."""
    if not session.is_counted:
        return f"measured nothing, status {session.status}"
    told = []
    if session.slowed:
        found = sum(session.losses.values())
        told.append(f"{counted(len(session.losses), 'test')} {percent(slowdown)} slower: {found} found")
    if session.is_falsely_slower:
        told.append(f"{', '.join(session.regressed) or 'the software as a whole'} FAILED FALSELY")
    if others := session.other_failures:
        told.append(f"{_listed(others)} failed otherwise, status {session.status}")
    text = ", ".join(told) or "passed"
    return text if session.slowed else f"unchanged: {text}"


def require_same_code(trial: Trial, code: Mapping[str, str]) -> None:
    """Return if a trial can go on with this code.

    Raises:
        TfperfError: it differs from that which the trial began with.
    """
    if changed := trial.changed_code(code):
        raise _of_other_code(f"{_listed(changed)} changed")


def _of_other_code(fact: str) -> TfperfError:
    return TfperfError(
        f"{fact} since the trial began, and all of its sessions must run the same code",
        next_step="Begin anew with --again; or put it back, and the same command goes on. If the sessions themselves "
        "write it, let them write elsewhere",
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def _last_lines(ended: Ended) -> list[Line]:
    return [Line(text, kind=LineKind.LOG) for text in ended.text.splitlines()[-_LAST_LINES:]]
