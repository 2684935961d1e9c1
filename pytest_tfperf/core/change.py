"""A lasting change of a throughput or a figure over many sessions: the `Change` noun."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.figure import Better


class ChangeKind(StrEnum):
    """`step`: from one session to the next; `decline`, `rise`: little by little, over a week or longer."""

    STEP = "step"
    DECLINE = "decline"
    RISE = "rise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One lasting change that the history shows.

    Args:
        machine: the machine's key.
        test: pytest's node id; None where all tests of the machine changed together.
        key: workload, topology and figure; None where `test` is.
        kind: a step, or a slow decline or rise.
        session, time: the first session after the step, or of the slow change.
        last_session: the last session of a slow change; the same as `session` for a step.
        found_session: the session that first had enough points to tell.
        commit_before, commit_after: commits of the tests' repository, in the last session before and in `session`.
        size: as a fraction of the value before, -0.03 for 3 % slower; over the whole of a slow change.
        low, high: its 95 % confidence interval.
        sessions_since: sessions with a measurement of it from `session` on, that one included.
        better: which change is good.
    """

    machine: str
    test: str | None
    key: Key | None
    kind: ChangeKind
    session: str
    time: str
    last_session: str
    found_session: str
    commit_before: str
    commit_after: str
    size: float
    low: float
    high: float
    sessions_since: int
    better: Better = Better.HIGHER

    @property
    def is_worse(self) -> bool:
        """Whether it is a change for the worse; each one is of a figure that should stay the same."""
        return self.better is Better.SAME or (self.size < 0) == (self.better is Better.HIGHER)
