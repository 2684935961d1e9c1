"""What the tests without a recorded baseline tell of the machine and of later sessions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Medians over the tests without a recorded baseline, as fractions; None where no test tells.

    Args:
        tests: how many.
        judged: how many of them were judged against earlier sessions.
        disturbed: how many have no undisturbed run, so that they are no reference for the next session.
        within_runs: what the windows of a run leave uncertain (standard error).
        between_runs: standard deviation between fresh runs, pooled over the tests; None before two earlier sessions.
        detectable: the slowdown that the next session detects, with 95 % power.
        detectable_recorded: the same with a baseline of five runs.
    """

    tests: int
    judged: int
    disturbed: int
    within_runs: float | None
    between_runs: float | None
    detectable: float | None
    detectable_recorded: float | None
