"""The result of a whole session: verdicts that tell software and machine apart, and its tests' results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import EnvironmentChange, Measurement, changes_since
from pytest_tfperf.core.past import LastingChange
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.telemetry import Telemetry, merged
from pytest_tfperf.core.verdict import NOTHING, Against, Consequence, Outcome, Wants
from pytest_tfperf.errors import TfperfError


class DoubtKind(StrEnum):
    """The reasons why a verdict on a session is INCONCLUSIVE."""

    UNDECIDED = "undecided"  # more pairs could decide
    WITHIN_NOISE = "within noise"  # slower by more than the tolerance, but not by more than noise explains
    FEW_TESTS = "few tests"  # too few tests of the session have a baseline
    FEW_WITH_PAIRS = "few with pairs"  # too few tests that have a baseline also have pairs
    SLOW_IN_PART = "slow in part"  # the machine slows some tests down, and not the others
    NO_PAIRS = "no pairs"  # no chosen test could be measured in pairs


@dataclass(frozen=True, slots=True)
class Doubt:
    """The reason why a verdict on a session is INCONCLUSIVE, though its change may lie beyond its threshold.

    Args:
        found, needed: the number of tests, and the number that could fail the session; 0 where numbers are not the
            reason.
        tests: the tests that the machine slows down, where it slows down some of them only.
    """

    kind: DoubtKind
    found: int = 0
    needed: int = 0
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareVerdict:
    """The verdict on the current environment against the reference environment, over a session's sentinel tests.

    Args:
        outcome: REGRESSED, INCONCLUSIVE, TOO_NOISY or PASS.
        change: the middle over the sentinels, as a fraction, -0.03 for 3 % slower; None without any pair.
        low, high: its 95 % confidence interval; infinite without any pair.
        threshold: the slowdown, a positive fraction, from which the session fails; None where any drop is accepted.
        tests: the number of sentinels that have pairs.
        pairs: the number of interleaved pairs over all sentinels.
        wants: the pairs that each sentinel needs, if any.
        doubt: why it is INCONCLUSIVE; None where it is not.
        failures: sentinels that failed in the current environment or were always disturbed, and why.
    """

    outcome: Outcome
    change: float | None
    low: float
    high: float
    threshold: float | None
    tests: int
    pairs: int
    wants: Wants = NOTHING
    doubt: Doubt | None = None
    failures: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def without_pairs(cls, failures: Mapping[str, str]) -> Self:
        """Make the verdict where no test could be compared with the reference environment."""
        return cls(
            outcome=Outcome.INCONCLUSIVE,
            change=None,
            low=-math.inf,
            high=math.inf,
            threshold=None,
            tests=0,
            pairs=0,
            doubt=Doubt(DoubtKind.NO_PAIRS),
            failures=failures,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineVerdict:
    """The verdict on the machine against its baselines; one for a session.

    Args:
        outcome: PASS, REGRESSED, IMPROVED, TOO_NOISY, or INCONCLUSIVE where too few tests show a slowdown.
        change: the middle over tests, as a fraction, -0.08 for 8 % slower.
        low, high: its 95 % confidence interval.
        threshold: the slowdown, a positive fraction, from which the session fails.
        tests: the number of tests that it rests on.
        is_apart: whether it rests on runs of the reference environment; if not, `change` includes the software's share.
        no_pairs: whether there is a reference environment, but no test could be compared with it.
        doubt: why it is INCONCLUSIVE; None where it is not.
    """

    outcome: Outcome
    change: float
    low: float
    high: float
    threshold: float
    tests: int
    is_apart: bool = False
    no_pairs: bool = False
    doubt: Doubt | None = None


class VerdictOn(StrEnum):
    """The subject of a verdict on a session."""

    SOFTWARE = "software"
    MACHINE = "machine"
    TOGETHER = "together"
    """Software and machine, where they cannot be told apart."""
    DRIFT = "drift"
    """A lasting change for the worse over many sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftVerdict:
    """Changes for the worse that have lasted over sessions; they fail the session that shows them.

    Args:
        slowdowns: at least one change for the worse of a throughput or another figure; histories keep it by this name.
    """

    slowdowns: tuple[LastingChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionVerdict:
    """A verdict on a whole session; `reports/session_verdicts.py` has its words.

    Args:
        machine: the machine's key.
        found: the verdict itself.
        changed: the changes of the tests' environments since their recorded baselines.
        telemetry: the machine's state during all runs; None where nothing was sampled.
    """

    machine: str
    found: SoftwareVerdict | MachineVerdict | DriftVerdict
    changed: tuple[EnvironmentChange, ...] = ()
    telemetry: Telemetry | None = None

    @classmethod
    def of(
        cls, found: SoftwareVerdict | MachineVerdict, machine: str, measurements: Iterable[Measurement]
    ) -> SessionVerdict:
        """Add the environment's changes and the telemetry of the session's measurements on the machine."""
        measurements = list(measurements)
        of_rows = [m for m in measurements if m.verdict and m.verdict.against is not Against.EARLIER_SESSIONS]
        recorded = [(m, m.verdict.baseline) for m in of_rows if m.verdict and m.verdict.baseline]
        runs = (run for m in measurements for run in (*m.runs, *(run for pair in m.pairs for run in (pair.a, pair.b))))
        return cls(
            machine=machine,
            found=found,
            changed=tuple(dict.fromkeys(each for m, row in recorded for each in changes_since(row, m.environment))),
            telemetry=merged(run.telemetry for run in runs),
        )

    @property
    def kind(self) -> VerdictOn:
        """The verdict's subject."""
        match self.found:
            case SoftwareVerdict():
                return VerdictOn.SOFTWARE
            case MachineVerdict():
                return VerdictOn.MACHINE if self.found.is_apart else VerdictOn.TOGETHER
            case DriftVerdict():
                return VerdictOn.DRIFT

    @property
    def outcome(self) -> Outcome:
        """The verdict's outcome; REGRESSED fails the session."""
        return Outcome.REGRESSED if isinstance(self.found, DriftVerdict) else self.found.outcome

    @property
    def change(self) -> float | None:
        """The verdict's change, as a fraction; None for a drift, where each test has its own."""
        return None if isinstance(self.found, DriftVerdict) else self.found.change


def red_machines(verdicts: Iterable[SessionVerdict]) -> set[str]:
    """Return the machines that are REGRESSED as a whole, or whose software is; a drift of single tests is neither."""
    regressed = [verdict for verdict in verdicts if verdict.outcome is Outcome.REGRESSED]
    return {verdict.machine for verdict in regressed if verdict.kind is not VerdictOn.DRIFT}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult:
    """What a session found, frozen at its end.

    Args:
        selection: the throughput tests that pytest selected.
        results: their measurements, in order.
        consequences: of each of the results for its test; empty where the session's options are not known.
        verdicts: on software and machine as a whole.
        not_measured: the error of each test that could not be measured; `FailsHereOnly` fails its test.
        refused: the error of each test that was measured, but refused as a baseline.
        not_run: tests that this machine measured lately and that were collected, but deselected or skipped, and why.
        remarks: further lines of the summary.
        keeps_history: whether its measurements were added to the history.
        is_compared: whether each check was a comparison with the session's other side.
    """

    selection: Selection = field(default_factory=Selection)
    results: Sequence[Measurement] = ()
    consequences: Sequence[Consequence] = ()
    verdicts: Sequence[SessionVerdict] = ()
    not_measured: Mapping[str, TfperfError] = field(default_factory=dict)
    refused: Mapping[str, TfperfError] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    keeps_history: bool = False
    exit_status: int = 0
    is_compared: bool = False

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
    """The tests without a recorded baseline: medians over them, as fractions; None where no test gives the fact.

    Args:
        tests: the number of tests.
        judged: the number of tests that were judged against earlier sessions.
        disturbances: the last disturbance of each test without an undisturbed run, which no later session can use.
        within_runs: standard error of a run, from its windows.
        between_runs: standard deviation between fresh runs, pooled over the tests; None before two earlier sessions.
        detectable: minimum detectable slowdown (95 % power) in the next session.
        detectable_recorded: minimum detectable slowdown with a baseline of five runs.
        too_noisy_to_record: whether the runs of most tests differ too much for a baseline.
    """

    tests: int
    judged: int
    disturbances: tuple[DisturbanceKind, ...]
    within_runs: float | None
    between_runs: float | None
    detectable: float | None
    detectable_recorded: float | None
    too_noisy_to_record: bool = False
