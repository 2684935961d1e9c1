"""What an earlier session found for one baseline, as later verdicts need it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.core.verdict import Outcome


@dataclass(frozen=True, slots=True)
class PastSession:
    """The last measurement that one session made against one baseline row.

    Args:
        session: the session's id.
        changes: of each run ln(images/s / reference), less the drift common to all tests of that session.
        outcome: what the session decided.
    """

    session: str
    changes: tuple[float, ...]
    outcome: Outcome
