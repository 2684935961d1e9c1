"""The sessions of a trial: how each is started, the code that all of them run, and what is kept of each."""

from __future__ import annotations

import hashlib
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pytest_tfperf.console.pytest_process import PROGRESS, run_pytest
from pytest_tfperf.core.breakdown import Bound
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import SessionVerdict
from pytest_tfperf.core.telemetry import Telemetry, merged
from pytest_tfperf.core.trial import Trial, TrialResult, TrialSession
from pytest_tfperf.core.verdict import Against, Outcome, Verdict, worst
from pytest_tfperf.features import outputs
from pytest_tfperf.revisions.git import run_git

_BLOCK: Final = 3  # sessions of which one has losses: an interrupted trial has both kinds
_SLOWED_SHARE: Final = 0.2  # of the tests, so that the others show the common drift
_HEADER: Final = "tfperf: "
_CODE: Final = (".py", ".so", ".sh", ".toml", ".yaml", ".yml", ".ini", ".cfg")
_NO_CODE: Final = ("pyvenv.cfg", "conda-meta")  # marks of a Python environment, whose versions sessions compare
_MOST_BYTES: Final = 10_000_000  # a larger file is data, and is taken for the same while its size and time are


@dataclass(frozen=True, slots=True)
class Ended:
    """A session of pytest that has ended; `text` is its output."""

    status: int
    seconds: float
    text: str


Start = Callable[[Sequence[str], Mapping[str, str]], Ended]
"""Starts a session with further arguments and environment variables, and waits for its end."""


def starter(folder: Path, trial: Trial, show: Callable[[str], object]) -> Start:
    """Return what starts sessions of the user's tests, with a history and baselines of the trial's own.

    Args:
        folder: of the trial.
        trial: its arguments for pytest, and whether it compares with the base, which needs no baselines.
        show: prints a line of the first session's header, which says how many tests there are and how long they take.
    """
    own = [f"--tfperf-dir={folder}", "-o", f"cache_dir={folder / 'cache'}"]
    own += ["--tfperf-base=HEAD"] if trial.is_of_base else [f"--tfperf-baselines={folder / 'baselines'}"]
    ended: list[Ended] = []

    def show_header(line: str) -> None:
        if not ended and line.startswith(_HEADER) and not line.startswith(PROGRESS):
            show(f"     {line}")

    def start(options: Sequence[str], variables: Mapping[str, str]) -> Ended:
        began = time.monotonic()
        status, text = run_pytest([*trial.arguments, *own, *options], variables, outputs(), show_header)
        ended.append(Ended(status, time.monotonic() - began, text))
        return ended[-1]

    return start


def code_of(folders: Iterable[Path], besides: Collection[Path]) -> dict[str, str]:
    """Return the code, settings and committed files below these folders, each with a digest of its content.

    So it tells whether two sessions ran the same code also outside of git, and with changes that are not committed.

    Args:
        folders: of the tests and of what they load.
        besides: folders that sessions write.
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


def is_next_slowed(trial: Trial) -> bool | None:
    """Return whether the next session is one with losses; None where the trial has all that it asked for.

    The kinds come in random order, in blocks that hold one of them in three. Sessions that measured nothing are
    repeated.
    """
    unchanged = sum(not session.slowed and session.is_counted for session in trial.sessions)
    slowed = sum(bool(session.slowed) and session.is_counted for session in trial.sessions)
    if unchanged >= trial.same or slowed >= trial.slowed or not trial.tests:
        return None if unchanged >= trial.same and slowed >= trial.slowed else not (unchanged < trial.same)
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
    is_provisional = verdict is not None and verdict.against is Against.EARLIER_SESSIONS
    tolerance = verdict.tolerance.lower if verdict and verdict.tolerance else None
    return TrialResult(
        outcome=None if is_provisional else measurement.outcome,
        throughput_outcome=verdict.outcome if verdict and not is_provisional else None,
        change=_change(verdict),
        tolerance=None if tolerance is None else -tolerance,
        disturbances=tuple(disturbance.kind for disturbance in discarded if disturbance),
        is_input_bound=measurement.breakdown is not None and measurement.breakdown.bound is Bound.INPUT,
        clock_mhz=_clock(merged(run.telemetry for run in runs)),
    )


def _change(verdict: Verdict | None) -> float | None:
    """Return ln(throughput / expected throughput), without the common drift."""
    if verdict is None or verdict.change is None or verdict.change <= -1:
        return None
    return math.log1p(verdict.change) - verdict.common_drift


def _clock(telemetry: Telemetry | None) -> float | None:
    if telemetry is None:
        return None
    of_gpus = [gpu.sm_clock_mhz_median for gpu in telemetry.gpus if gpu.sm_clock_mhz_median is not None]
    return statistics.fmean(of_gpus) if of_gpus else telemetry.cpu_mhz_median
