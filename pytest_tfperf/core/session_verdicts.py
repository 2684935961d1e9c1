"""What came of a whole session: its verdicts, the software and the machine kept apart, and what its tests gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.disturbance import DisturbanceKind
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.selection import Selection
from pytest_tfperf.core.verdict import Outcome


class DoubtKind(StrEnum):
    """Why a verdict on a session is INCONCLUSIVE."""

    UNDECIDED = "undecided"  # more pairs could decide
    WITHIN_NOISE = "within noise"  # slower by more than the tolerance, but not by more than noise explains
    TESTS_DISAGREE = "tests disagree"
    FEW_TESTS = "few tests"  # of the session have a baseline
    FEW_WITH_PAIRS = "few with pairs"  # of those that have a baseline


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
        outcome: REGRESSED, INCONCLUSIVE or PASS.
        change: the middle over the sentinels, as a fraction, -0.03 for 3 % slower.
        low, high: its 95 % confidence interval.
        threshold: the slowdown, a positive fraction, from which the session fails; None where any drop is accepted.
        tests: sentinels that have pairs.
        pairs: interleaved pairs over all of them.
        pairs_wanted: pairs that each sentinel needs in all; 0 when decided.
        doubt: why it is INCONCLUSIVE; None where it is not.
    """

    outcome: Outcome
    change: float
    low: float
    high: float
    threshold: float | None
    tests: int
    pairs: int
    pairs_wanted: int = 0
    doubt: Doubt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineVerdict:
    """How far the machine moved since its baselines were recorded; one for a session.

    Args:
        outcome: PASS, REGRESSED, IMPROVED, or INCONCLUSIVE where too few tests show a slowdown.
        change: the middle over tests, as a fraction, -0.08 for 8 % slower.
        low, high: its 95 % confidence interval.
        threshold: the slowdown, a positive fraction, from which the session fails.
        tests: tests that it rests on.
        is_apart: it rests on runs of the reference environment; else `change` holds the software's share as well.
        doubt: why it is INCONCLUSIVE; None where it is not.
    """

    outcome: Outcome
    change: float
    low: float
    high: float
    threshold: float
    tests: int
    is_apart: bool = False
    doubt: Doubt | None = None


class VerdictOn(StrEnum):
    """What a verdict on a session is about."""

    SOFTWARE = "software"
    MACHINE = "machine"
    TOGETHER = "together"
    """Software and machine, where nothing tells them apart."""
    DRIFT = "drift"
    """A lasting slowdown over many sessions."""


@dataclass(frozen=True, slots=True)
class SessionVerdict:
    """A verdict on a whole session, as it is reported.

    Args:
        kind: what it is about.
        machine: the machine's key.
        outcome: REGRESSED fails the session.
        change: what it found, as a fraction; None of a drift, which is one of several tests.
        text: fact, location, next step; "" where there is nothing to say.
    """

    kind: VerdictOn
    machine: str
    outcome: Outcome
    change: float | None
    text: str


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
        not_measured: of each test that ended in an error, the message.
        refused: of each test that was measured and whose baseline was refused, the message.
        left_out: tests that there was no time for, and the seconds that each would take.
        remarks: further lines of its summary.
        keeps_history: whether it added what it measured to the history.
    """

    selection: Selection = field(default_factory=Selection)
    results: Sequence[Measurement | Comparison] = ()
    verdicts: Sequence[SessionVerdict] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
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
