"""A trial that runs: baselines of its own, then sessions of the same code until it has as many as it asked for."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final, final

from pytest_tfperf.console.pytest_process import PROGRESS, explained_interrupt, run_pytest
from pytest_tfperf.core.exit_status import EXIT_INTERRUPTED, EXIT_USAGE
from pytest_tfperf.core.measurement import OF_A_RUN, environment_changes
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.features import outputs
from pytest_tfperf.features.trial.answer import answer, trial_fact
from pytest_tfperf.features.trial.sessions import kept_of
from pytest_tfperf.features.trial.trial import FOLDER, Trial, TrialSession, write
from pytest_tfperf.reports.numbers import counted, duration, percent, time_span
from pytest_tfperf.revisions.git import run_git
from pytest_tfperf.stores.baseline_file import BaselineStore
from pytest_tfperf.stores.history import History
from pytest_tfperf.workers.failures import last_lines

_BLOCK: Final = 3  # sessions of which one has losses: an interrupted trial has both kinds
_SLOWED_SHARE: Final = 0.2  # of the tests, so that the others show the common drift
_HEADER: Final = "tfperf: "
_CODE: Final = (".py", ".so", ".sh", ".toml", ".yaml", ".yml", ".ini", ".cfg")
_NO_CODE: Final = ("pyvenv.cfg", "conda-meta")  # marks of a Python environment, whose versions sessions compare
_MOST_BYTES: Final = 10_000_000  # a larger file is data, and is taken for the same while its size and time are
_MOST_IN_VAIN: Final = 3  # sessions in a row that measure nothing
_NO_TESTS: Final = 5  # pytest's status where it collected none
_COLLECTION: Final = "during collection"  # in pytest's last line, with the status of Ctrl-C
_LISTED: Final = 3
_OF_A_SESSION: Final = {"commit", "injected_slowdown", *OF_A_RUN}  # in an environment

Start = Callable[[Sequence[str], Mapping[str, object]], tuple[int, str]]
"""Starts a session with further arguments, and what it is told, as `run_pytest` does; returns its status and output."""


@final
@dataclass(eq=False)
class Runner:
    """A trial that runs; each session is kept as soon as it ends."""

    trial: Trial  # what to run, and the sessions that have ended
    dir: Path  # the folder of the history; the trial lies below it
    start: Start  # starts a session
    show: Callable[[str], object]  # prints a line
    code: Callable[[], Mapping[str, str]]  # gives the code as it is now, as `Trial.code`
    seconds: float = math.inf  # the time that the sessions may take
    now: Callable[[], float] = time.monotonic  # a clock in seconds

    @property
    def _folder(self) -> Path:
        return self.dir / FOLDER

    @cached_property
    def _history(self) -> History:
        return History(self._folder / "history.sqlite")

    def run(self) -> Trial:
        """Run the sessions that are still missing, as far as the time suffices.

        Raises:
            TfperfError: pytest's arguments are wrong, no test could be recorded or measured, or code or environment
                changed meanwhile.
            KeyboardInterrupt: after a line that says how many sessions are kept.
        """
        end, in_vain = self.now() + self.seconds, 0
        with explained_interrupt(self.show, lambda: f"{counted(len(self.trial.sessions), 'session')} kept"):
            if not self.trial.tests and not self.trial.is_of_base:
                self._record()
            while (is_slowed := is_next_slowed(self.trial)) is not None:
                if self.now() + statistics.fmean(self.trial.seconds or [0.0]) > end:
                    break
                session = self._session(slowed_tests(self.trial) if is_slowed else ())
                in_vain = 0 if session.is_counted else in_vain + 1
                if in_vain == _MOST_IN_VAIN:
                    raise MeasurementError(
                        f"{in_vain} sessions in a row measured nothing: see {self._log(len(self.trial.sessions))}"
                    )
        return self.trial

    def _record(self) -> None:
        self.show(f"first, baselines of the trial's own are recorded in {os.path.relpath(self._folder)}/baselines")
        baselines = BaselineStore(self._folder / "baselines")
        tests: dict[str, bool] = {}
        began = self.now()
        for option in ("--tfperf-update-baselines", "--tfperf-update-baselines=failed"):  # disturbed ones once more
            status, text, session = self._pytest([option], {}, "recording")
            for m in self._history.measurements(session=session) if session else ():
                tests[m.test] = m.key in baselines.load(m.machine)
                self.trial = replace(self.trial, machine=m.machine)
            if tests and all(tests.values()):
                break
        recorded = tuple(test for test, is_recorded in tests.items() if is_recorded)
        if not recorded:
            raise MeasurementError(
                f"no baseline could be recorded, and pytest ended with status {status}",
                *last_lines(text),
                next_step=f"The whole output is in {self._log('recording')}",
            )
        refused = tuple(test for test in tests if test not in recorded)
        self._keep(replace(self.trial, tests=recorded, without_baseline=refused))
        without = f"; {counted(len(refused), 'test')} could not be recorded" if refused else ""
        self.show(f"{counted(len(recorded), 'test')} recorded in {duration(self.now() - began)}{without}")
        if failed := [test for test in self._failed() if test not in tests]:
            self.show(
                f"{_listed(failed)} FAILED, and may do so in each session: fix or deselect what does, and begin anew "
                f"with --again ({self._log('recording')})"
            )

    def _session(self, slowed: tuple[str, ...]) -> TrialSession:
        number = len(self.trial.sessions) + 1
        options = [f"--tfperf-inject-slowdown={self.trial.slowdown}"] if slowed else []
        self._last_failed.unlink(missing_ok=True)
        began = self.now()
        status, _, id = self._pytest(options, {"slowed": slowed} if slowed else {}, number)
        session = TrialSession(tests={})
        if id:
            measured = list(self._history.measurements(session=id))
            machine = measured[0].machine
            kept = kept_of(measured, self._history.verdicts(session=id, machine=machine))
            lost = {test for test, result in kept.tests.items() if result.outcome is Outcome.REGRESSED}
            session = replace(kept, failed=tuple(test for test in self._failed() if test not in lost))
            self.trial = replace(self.trial, machine=machine, tests=self.trial.tests or tuple(kept.tests))
        session = replace(session, slowed=slowed, status=status, seconds=self.now() - began)
        self._keep(replace(self.trial, sessions=(*self.trial.sessions, session)))
        described = _described(session, self.trial.slowdown)
        self.show(f"{number:>3}  {described}, {duration(session.seconds)}{self._left()}")
        return session

    def _pytest(self, options: list[str], told: Mapping[str, object], name: object) -> tuple[int, str, str]:
        """Run a session, and return its exit status, output and id; "" where it measured nothing."""
        before = self._newest_session()
        status, text = self.start(options, told)
        log = self._log(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text, "utf-8", "replace")
        (self._folder / ".gitignore").write_text("*\n", "utf-8")
        if status == EXIT_INTERRUPTED and _COLLECTION in text:
            raise TfperfError("pytest can't import the tests", *last_lines(text), next_step="Fix them first")
        if status in (EXIT_USAGE, _NO_TESTS):
            raise TfperfError(
                f"pytest ended with status {status}",
                *last_lines(text),
                next_step="Give pytest's arguments after `--`, as in `tfperf trial -- perf_tests -m cpu`",
            )
        if status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        require_same_code(self.trial, self.code())
        newest = self._newest_session()
        if newest == before:
            return status, text, ""
        self._require_same_environment(newest)
        return status, text, newest

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
        self.trial = replace(trial, date=datetime.now().astimezone().date().isoformat())
        write(self.dir, self.trial, trial_fact(self.trial, answer(self.trial)))

    def _left(self) -> str:
        trial, seconds = self.trial, self.trial.seconds
        left = max(0, trial.same - len(trial.unchanged)) + max(0, trial.slowed - len(trial.with_losses))
        time = f", {time_span(left * min(seconds), left * max(seconds))}" if len(seconds) > 1 else ""
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


# Sessions, their order, and the code that all of them run


def starter(folder: Path, trial: Trial, show: Callable[[str], object]) -> Start:
    """Return what starts sessions of the user's tests, with a history and baselines of the trial's own.

    `show` prints the lines of the first session's header, which say how many tests there are and how long they take.
    A trial that compares with the base needs no baselines.
    """
    own = [f"--tfperf-dir={folder}", "-o", f"cache_dir={folder / 'cache'}"]
    own += ["--tfperf-base=HEAD"] if trial.is_of_base else [f"--tfperf-baselines={folder / 'baselines'}"]
    has_run = False

    def show_header(line: str) -> None:
        if not has_run and line.startswith(_HEADER) and not line.startswith(PROGRESS):
            show(f"     {line}")

    def start(options: Sequence[str], told: Mapping[str, object]) -> tuple[int, str]:
        nonlocal has_run
        ended = run_pytest([*trial.arguments, *own, *options], told, outputs(), show_header)
        has_run = True
        return ended

    return start


def is_next_slowed(trial: Trial) -> bool | None:
    """Return whether the next session is one with losses; None where the trial has all that it asked for.

    The kinds come in random order, in blocks that hold one of them in three. Sessions that measured nothing are
    repeated.
    """
    unchanged, slowed = len(trial.unchanged), len(trial.with_losses)
    if unchanged >= trial.same or slowed >= trial.slowed or not trial.tests:
        return None if unchanged >= trial.same and slowed >= trial.slowed else unchanged >= trial.same
    number = unchanged + slowed
    return number % _BLOCK == random.Random(f"{trial.seed} {number // _BLOCK}").randrange(_BLOCK)


def slowed_tests(trial: Trial) -> tuple[str, ...]:
    """Return the tests that the next session with losses slows down: a fifth, each test as often as the others."""
    number = sum(bool(session.slowed) for session in trial.sessions)
    each = max(1, round(_SLOWED_SHARE * len(trial.tests)))
    order: list[str] = []
    for lap in range(math.ceil((number + 1) * each / len(trial.tests))):
        order += random.Random(f"{trial.seed} lap {lap}").sample(trial.tests, len(trial.tests))
    return tuple(dict.fromkeys(order[number * each : (number + 1) * each]))


def code_of(folders: Iterable[Path], besides: Collection[Path]) -> dict[str, str]:
    """Return the code, settings and committed files below these folders, each with a digest of its content.

    So it tells whether two sessions ran the same code also outside of git, and with changes that are not committed.
    Folders that sessions write are left out (`besides`).
    """
    skipped = {folder.resolve() for folder in besides}
    files = {file for folder in folders for file in _files(folder.resolve(), skipped)}
    return {str(file): digest for file in sorted(files) if (digest := _digest(file))}


def _files(folder: Path, skipped: set[Path]) -> Iterator[Path]:
    for tracked in run_git(folder, "ls-files", "-z").stdout.split("\0"):
        if tracked and not skipped & {*(folder / tracked).parents}:
            yield folder / tracked
    for where, folders, names in os.walk(folder):
        if skipped & {Path(where)} or {*_NO_CODE} & {*folders, *names}:
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        yield from (Path(where, name) for name in names if name.endswith(_CODE))


def _digest(file: Path) -> str:
    """Return a digest of a file's content; "" for what is no file that can be read."""
    with suppress(OSError):
        facts = file.stat()
        content = file.read_bytes() if facts.st_size <= _MOST_BYTES else f"{facts.st_size} {facts.st_mtime_ns}".encode()
        return hashlib.sha256(content).hexdigest()[:12]
    return ""
