"""The figures that a verdict rested on, for whoever asks later why it is what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_COUNTED: Final = 100
"""Runs or pairs up to which `Decision.enough` looks."""


@dataclass(frozen=True, slots=True)
class Power:
    """What a number of runs or pairs can show; the slowdowns are positive fractions.

    Args:
        count: runs or pairs.
        threshold: the slowdown from which the test would fail.
        detectable: the slowdown that is detected with 95 % power, suspicion by the first run included.
    """

    count: int
    threshold: float
    detectable: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardDeviations:
    """Why two measurements differ, as standard deviations of log throughput; None if not known.

    Args:
        within_runs: what the windows of one run leave uncertain.
        between_runs: of fresh runs.
        of_baseline: of the baseline, which rests on a limited number of runs.
        between_sessions: of what a session does to one test by itself.
    """

    within_runs: float | None
    between_runs: float
    of_baseline: float
    between_sessions: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The steps from runs to a verdict; changes are fractions, -0.05 for 5 % slower.

    Args:
        expected: the throughput that the runs were held against, with the drift common to all tests.
        first_change: of the first run, which raises a suspicion or passes the test.
        suspected_from: the slowdown of the first run, a positive fraction, from which it is suspected; negative where
            only a faster run passes unsuspected.
        changes: of each run or pair that decided, in order; the verdict's rule says which.
        middle: the Hodges-Lehmann median of the changes; None before there is one.
        accepted: the slowdown that the tolerance accepts, a positive fraction.
        threshold: the slowdown from which the test fails: the tolerance, or more where noise explains more.
        showing: how many changes show at least half of the threshold.
        showing_needed: how many of them must.
        last: the count of runs or pairs that decides at the latest.
        enough: the least count for which the threshold is below this slowdown; None where the tolerance accepts the
            slowdown, or no count up to `MOST_COUNTED` would be enough.
        deviations: where the threshold comes from.
        powers: what other counts would show.
    """

    expected: float
    first_change: float
    suspected_from: float
    changes: tuple[float, ...]
    middle: float | None
    accepted: float
    threshold: float
    showing: int
    showing_needed: int
    last: int
    enough: int | None
    deviations: StandardDeviations
    powers: tuple[Power, ...]
