"""The result of a whole session: verdicts that tell software and machine apart, and its tests' results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import EnvironmentChange, Measurement, changes_since
from pytest_tfperf.core.past import LastingChange
from pytest_tfperf.core.selection import SelectedTest
from pytest_tfperf.core.telemetry import Telemetry, merged
from pytest_tfperf.core.verdict import NOTHING, Against, Consequence, Outcome, Reason, Wants
from pytest_tfperf.errors import TfperfError


class VerdictOn(StrEnum):
    """The subject of a verdict on a session."""

    SOFTWARE = "software"
    """The current environment against the reference environment, over the session's sentinel tests."""
    MACHINE = "machine"
    """The machine against its baselines, by runs of the reference environment."""
    TOGETHER = "together"
    """Software and machine, where they cannot be told apart."""
    DRIFT = "drift"
    """A lasting change for the worse over many sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionVerdict:
    """A verdict on a whole session; `reports/session_verdicts.py` has its words."""

    kind: VerdictOn
    outcome: Outcome  # REGRESSED fails the session
    # why it is INCONCLUSIVE, or why software and machine cannot be told apart; None otherwise
    reason: Reason | None = None
    # the middle over the tests, as a fraction, -0.03 for 3 % slower; None without any pair, and for a drift, where each
    # test has its own
    change: float | None = None
    interval: tuple[float, float] | None = None  # its 95 % confidence interval; None where there is no change
    # the slowdown, a positive fraction, from which the session fails; None where any drop is accepted
    threshold: float | None = None
    tests: int = 0  # the number of tests that it rests on
    pairs: int = 0  # the number of interleaved pairs over all sentinels
    wants: Wants = NOTHING  # the pairs that each sentinel needs, if any
    # the number of tests that there are and the number that it takes, where the first is too small
    few: tuple[int, int] | None = None
    slow: tuple[str, ...] = ()  # the tests that the machine slows down, where it slows down some of them only
    # sentinels that failed in the current environment or were always disturbed, and why
    failures: Mapping[str, str] = field(default_factory=dict)
    # the lasting changes for the worse of a drift; histories keep them by this name
    slowdowns: tuple[LastingChange, ...] = ()
    machine: str = ""
    changed: tuple[EnvironmentChange, ...] = ()  # the changes of the tests' environments since their recorded baselines
    telemetry: Telemetry | None = None  # the machine's state during all runs; None where nothing was sampled

    def on(self, machine: str, measurements: Iterable[Measurement]) -> SessionVerdict:
        """Add the machine, and from the session's measurements on it the environment's changes and the telemetry."""
        measurements = list(measurements)
        of_rows = [m for m in measurements if m.verdict and m.verdict.against is not Against.EARLIER_SESSIONS]
        recorded = [(m, m.verdict.baseline) for m in of_rows if m.verdict and m.verdict.baseline]
        runs = (run for m in measurements for run in (*m.runs, *(run for pair in m.pairs for run in (pair.a, pair.b))))
        return replace(
            self,
            machine=machine,
            changed=tuple(dict.fromkeys(each for m, row in recorded for each in changes_since(row, m.environment))),
            telemetry=merged(run.telemetry for run in runs),
        )


def drift_verdict(machine: str, slowdowns: Iterable[LastingChange]) -> SessionVerdict:
    """Return the verdict that fails a session for at least one change for the worse that has lasted over sessions."""
    kind, outcome = VerdictOn.DRIFT, Outcome.REGRESSED
    return SessionVerdict(kind=kind, outcome=outcome, machine=machine, slowdowns=tuple(slowdowns))


def red_machines(verdicts: Iterable[SessionVerdict]) -> set[str]:
    """Return the machines that are REGRESSED as a whole, or whose software is; a drift of single tests is neither."""
    return {
        verdict.machine
        for verdict in verdicts
        if verdict.outcome is Outcome.REGRESSED and verdict.kind is not VerdictOn.DRIFT
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    """What a session found, frozen at its end."""

    # the throughput tests that pytest selected, by node id
    selection: Mapping[str, SelectedTest] = field(default_factory=dict)
    results: Sequence[Measurement] = ()  # their measurements, in order
    # of each of the results for its test; empty where the session's options are not known
    consequences: Sequence[Consequence] = ()
    verdicts: Sequence[SessionVerdict] = ()  # on software and machine as a whole
    # the error of each test that could not be measured; `FailsHereOnly` fails its test
    not_measured: Mapping[str, TfperfError] = field(default_factory=dict)
    # the error of each test that was measured, but refused as a baseline
    refused: Mapping[str, TfperfError] = field(default_factory=dict)
    # tests that this machine measured lately and that were collected, but deselected or skipped, and why
    not_run: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()  # further lines of the summary
    keeps_history: bool = False  # whether its measurements were added to the history
    exit_status: int | None = None  # None where only the measurements are known
    is_compared: bool = False  # whether each check was a comparison with the session's other side

    @property
    def alone(self) -> list[Measurement]:
        """The measurements without another side."""
        return [result for result in self.results if result.other is None]

    @property
    def interleaved(self) -> list[Measurement]:
        """The measurements beside another side."""
        return [result for result in self.results if result.other is not None]

    def consequence_of(self, measurement: Measurement) -> Consequence | None:
        """The consequence of one of the results for its test; None where it is not known."""
        known = zip(self.results, self.consequences, strict=False)
        return next((consequence for result, consequence in known if result is measurement), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedTests:
    """The tests without a recorded baseline: medians over them, as fractions; None where no test gives the fact."""

    tests: int
    judged: int  # the number of tests that were judged against earlier sessions
    # the last disturbance of each test without an undisturbed run, which no later session can use
    disturbances: tuple[DisturbanceKind, ...]
    within_runs: float | None  # standard error of a run, from its windows
    # standard deviation between fresh runs, pooled over the tests; None before two earlier sessions
    between_runs: float | None
    detectable: float | None  # minimum detectable slowdown (95 % power) in the next session
    detectable_recorded: float | None  # minimum detectable slowdown with a baseline of five runs
    too_noisy_to_record: bool = False  # whether the runs of most tests differ too much for a baseline
