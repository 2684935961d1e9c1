"""A trial of the gate: sessions of unchanged code, and sessions in which some tests lose throughput on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_MACHINE, EXIT_NOT_MEASURED
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.core.session_verdicts import VerdictOn
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.stores import kept

VERSION: Final = 1  # of the kept file's form
FOLDER: Final = "trial"  # the folder of a trial in that of the history

_NOT_MEASURED: Final = (None, Outcome.INVALID)
_NO_FAILURE: Final = (EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_MACHINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of a test in a session of a trial."""

    outcome: Outcome | None  # the test's, the worst of its figures'; None where nothing was judged
    throughput_outcome: Outcome | None = None  # of its throughput alone
    change: float | None = None  # ln(throughput / expected throughput), without the common drift; None: not judged
    tolerance: float | None = None  # the accepted slowdown, a positive fraction; None where any is accepted
    disturbances: tuple[DisturbanceKind, ...] = ()
    is_input_bound: bool = False
    clock_mhz: float | None = None  # the median of its GPUs, or else of the cores; None where it is not reported


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSession:
    """A session of a trial."""

    slowed: tuple[str, ...] = ()  # the tests that lost throughput on purpose; empty for a session of unchanged code
    status: int = 0
    seconds: float = 0.0  # its duration; 0 where it is not known
    tests: Mapping[str, TrialResult]  # the result of each test, by pytest's node id
    failing: tuple[VerdictOn, ...] = ()  # the subjects of its own verdicts that were REGRESSED, as the machine's
    failed: tuple[str, ...] = ()  # the tests that failed or were errors for another reason than a loss, such as a crash

    @property
    def is_counted(self) -> bool:
        """Whether it tells something about the gate: a session that could measure nothing does not."""
        return any(result.outcome not in _NOT_MEASURED for result in self.tests.values())

    @property
    def regressed(self) -> tuple[str, ...]:
        """The tests that are REGRESSED though nothing slowed them down."""
        tests = self.tests.items()
        return tuple(t for t, result in tests if result.outcome is Outcome.REGRESSED and t not in self.slowed)

    @property
    def is_falsely_slower(self) -> bool:
        """Whether a test, or the software as a whole, is REGRESSED though nothing is slower."""
        return bool(self.regressed) or any(subject is not VerdictOn.MACHINE for subject in self.failing)

    @property
    def failed_falsely(self) -> bool:
        """Whether it would block somebody though nothing is slower: by a false verdict, or because a test failed.

        A machine that is slower than when its baselines were recorded has a status of its own, and so has a session
        that could not measure all of its tests: they are no failures.
        """
        return self.is_falsely_slower or (not self.slowed and self.status not in _NO_FAILURE)

    @property
    def other_failures(self) -> tuple[str, ...]:
        """The tests that failed for another reason than a loss; pytest's status where it failed and none is known."""
        if self.failed or self.is_falsely_slower or not self.failed_falsely:
            return self.failed
        return (f"pytest's status {self.status}",)

    @property
    def losses(self) -> dict[str, bool]:
        """Whether the loss of each slowed test was found; tests that could not be measured are left out."""
        judged = {test: self.tests[test].throughput_outcome for test in self.slowed if test in self.tests}
        return {test: what is Outcome.REGRESSED for test, what in judged.items() if what not in _NOT_MEASURED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial of one machine and some tests."""

    date: str = ""  # ISO date of its last session
    machine: str = ""  # the machine's key; "" before the first session
    arguments: tuple[str, ...] = ()  # pytest's, which select the tests
    is_of_base: bool = False  # sessions compare the code with itself, as `--tfperf-base` does, in place of baselines
    is_of_history: bool = False
    slowdown: float = 0.05  # the fraction of the throughput that a slowed test loses
    same: int = 20  # the number of sessions asked for, without losses
    slowed: int = 10  # and with them
    commit: str = ""  # the commit of the tests' repository, "" outside of one
    code: Mapping[str, str] = field(default_factory=dict)  # the files of tests and of what they may load, and digests
    seed: int = 0
    tests: tuple[str, ...] = ()  # the tests with a baseline, which may be slowed down; none before they are known
    without_baseline: tuple[str, ...] = ()  # the tests that were measured and got no baseline
    sessions: tuple[TrialSession, ...] = ()

    def changed_code(self, now: Mapping[str, str]) -> list[str]:
        """Return the files that differ from those that it began with, or are gone."""
        return [file for file, digest in self.code.items() if now.get(file) != digest]

    @property
    def unchanged(self) -> Sequence[TrialSession]:
        """The sessions of unchanged code that tell something about the gate."""
        return [session for session in self.sessions if not session.slowed and session.is_counted]

    @property
    def with_losses(self) -> Sequence[TrialSession]:
        """The sessions with losses that tell something about the gate."""
        return [session for session in self.sessions if session.slowed and session.is_counted]

    @property
    def seconds(self) -> Sequence[float]:
        """The duration of each session."""
        return [session.seconds for session in self.sessions]

    @property
    def losses(self) -> Sequence[bool]:
        """Whether each loss was found."""
        return [is_found for session in self.sessions for is_found in session.losses.values()]


def trial_file(folder: Path) -> Path:
    """Return the trial's file in the folder of a history."""
    return folder / FOLDER / "trial.json"


def read(folder: Path) -> Trial | None:
    """Return the trial in the folder of a history; None where there is none.

    Raises:
        TfperfError: as `kept.read`.
    """
    return kept.read(Trial, trial_file(folder), VERSION, "Begin the trial anew: tfperf trial --again")


def write(folder: Path, trial: Trial, fact: str) -> None:
    """Write the trial, whole or not at all, with the fact in a sentence that report and doctor show.

    Raises:
        TfperfError: as `kept.write`.
    """
    kept.write(trial_file(folder), {**plain(trial), "fact": fact}, VERSION)
