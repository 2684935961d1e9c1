"""What the tests without a recorded baseline show about the machine and about later sessions."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.core.disturbance import DisturbanceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """Medians over the tests without a recorded baseline, as fractions; None if no test shows it.

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
