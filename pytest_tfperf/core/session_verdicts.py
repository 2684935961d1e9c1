"""What came of a whole session: verdicts that keep software and machine apart, and what its tests gave and showed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import EnvironmentChange, Measurement, changes_since
from pytest_tfperf.core.past import LastingChange
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.telemetry import Telemetry, merged
from pytest_tfperf.core.verdict import NOTHING, Against, Outcome, Wants
from pytest_tfperf.errors import TfperfError


class DoubtKind(StrEnum):
    """Why a verdict on a session is INCONCLUSIVE."""

    UNDECIDED = "undecided"  # more pairs could decide
    WITHIN_NOISE = "within noise"  # slower by more than the tolerance, but not by more than noise explains
    FEW_TESTS = "few tests"  # of the session have a baseline
    FEW_WITH_PAIRS = "few with pairs"  # of those that have a baseline
    NO_PAIRS = "no pairs"  # could be taken of any test that was to be compared


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why a verdict on a session is INCONCLUSIVE, though its change may lie beyond its threshold.

    Args:
        kind: the reason.
        found, needed: how many tests there were, and how many it takes to fail the session; 0 if it isn't their number.
    """

    kind: DoubtKind
    found: int = 0
    needed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareVerdict:
    """The current environment against the reference environment, over the sentinel tests of a session.

    Args:
        outcome: REGRESSED, INCONCLUSIVE, TOO_NOISY or PASS.
        change: the middle over the sentinels, as a fraction, -0.03 for 3 % slower; None without any pair.
        low, high: its 95 % confidence interval; infinite without any pair.
        threshold: the slowdown, a positive fraction, from which the session fails; None where any drop is accepted.
        tests: sentinels that have pairs.
        pairs: interleaved pairs over all of them.
        wants: the pairs that each sentinel needs, if any.
        doubt: why it is INCONCLUSIVE; None where it is not.
        failures: sentinels that the current environment failed, or that were always disturbed, and why.
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
        """The verdict where no test could be compared with the reference environment."""
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
    """How far the machine moved since its baselines were recorded; one for a session.

    Args:
        outcome: PASS, REGRESSED, IMPROVED, TOO_NOISY, or INCONCLUSIVE where too few tests show a slowdown.
        change: the middle over tests, as a fraction, -0.08 for 8 % slower.
        low, high: its 95 % confidence interval.
        threshold: the slowdown, a positive fraction, from which the session fails.
        tests: tests that it rests on.
        is_apart: it rests on runs of the reference environment; else `change` holds the software's share as well.
        no_pairs: there is a reference environment, but no test could be compared with it.
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
    """What a verdict on a session is about."""

    SOFTWARE = "software"
    MACHINE = "machine"
    TOGETHER = "together"
    """Software and machine, where nothing tells them apart."""
    DRIFT = "drift"
    """A lasting change for the worse over many sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftVerdict:
    """Changes for the worse that have lasted over sessions; they fail the session that shows them.

    Args:
        slowdowns: at least one, of throughputs or figures; histories have this name.
    """

    slowdowns: tuple[LastingChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionVerdict:
    """A verdict on a whole session; `reports/session_verdicts.py` has its words.

    Args:
        machine: the machine's key.
        found: the verdict.
        changed: what changed in the tests' environments since their recorded baselines.
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
        """The verdict, with what the session's measurements on the machine show beside it."""
        measurements = list(measurements)
        of_rows = [m for m in measurements if m.verdict and m.verdict.against is not Against.EARLIER_SESSIONS]
        recorded = [(m, m.verdict.baseline) for m in of_rows if m.verdict and m.verdict.baseline]
        runs = (run for m in measurements for run in (*m.runs, *(run for pair in m.pairs for run in (pair.a, pair.b))))
        return cls(
            machine=machine,
            found=found,
            changed=tuple(dict.fromkeys(one for m, row in recorded for one in changes_since(row, m.environment))),
            telemetry=merged(run.telemetry for run in runs),
        )

    @property
    def kind(self) -> VerdictOn:
        """What it is about."""
        match self.found:
            case SoftwareVerdict():
                return VerdictOn.SOFTWARE
            case MachineVerdict():
                return VerdictOn.MACHINE if self.found.is_apart else VerdictOn.TOGETHER
            case DriftVerdict():
                return VerdictOn.DRIFT

    @property
    def outcome(self) -> Outcome:
        """REGRESSED fails the session."""
        return Outcome.REGRESSED if isinstance(self.found, DriftVerdict) else self.found.outcome

    @property
    def change(self) -> float | None:
        """What it found, as a fraction; None of a drift, which is one of several tests."""
        return None if isinstance(self.found, DriftVerdict) else self.found.change


def red_machines(verdicts: Iterable[SessionVerdict]) -> set[str]:
    """The machines that are REGRESSED as a whole, or their software; a drift of single tests is neither."""
    return {one.machine for one in verdicts if one.outcome is Outcome.REGRESSED and one.kind is not VerdictOn.DRIFT}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """What came of a session.

    Args:
        selection: the throughput tests that pytest selected.
        results: what they gave, in order.
        verdicts: on software and machine as a whole.
        not_measured: of each test that ended in an error, that error.
        refused: of each test that was measured and whose baseline was refused, the error.
        left_out: tests that there was no time for, and the seconds that each would take.
        remarks: further lines of its summary.
        keeps_history: whether it added what it measured to the history.
    """

    selection: Selection = field(default_factory=Selection)
    results: Sequence[Measurement | Comparison] = ()
    verdicts: Sequence[SessionVerdict] = ()
    not_measured: Mapping[str, TfperfError] = field(default_factory=dict)
    refused: Mapping[str, TfperfError] = field(default_factory=dict)
    left_out: Mapping[str, float] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    keeps_history: bool = False

    @property
    def measurements(self) -> list[Measurement]:
        """The results that are no comparisons."""
        return [one for one in self.results if isinstance(one, Measurement)]

    @property
    def comparisons(self) -> list[Comparison]:
        """The results that compare two sides."""
        return [one for one in self.results if isinstance(one, Comparison)]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecordedTests:
    """What the tests without a recorded baseline show: medians over them, as fractions; None if no test shows it.

    Args:
        tests: how many.
        judged: how many of them were judged against earlier sessions.
        disturbances: of each test without an undisturbed run, which is no reference for the next session: what
            disturbed its last run.
        within_runs: standard error of one run, from its windows.
        between_runs: standard deviation between fresh runs, pooled over the tests; None before two earlier sessions.
        detectable: the slowdown that the next session detects, with 95 % power.
        detectable_recorded: the same with a baseline of five runs.
        too_noisy_to_record: most tests' runs differ too much for a baseline.
    """

    tests: int
    judged: int
    disturbances: tuple[DisturbanceKind, ...]
    within_runs: float | None
    between_runs: float | None
    detectable: float | None
    detectable_recorded: float | None
    too_noisy_to_record: bool = False
