"""How much fresh runs of one workload differ on one machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The noise that a verdict allows for; standard deviations are of natural logarithms of throughput.

    Args:
        between_runs: standard deviation between fresh runs, pooled over the machine's rows.
        degrees_of_freedom: how well it is known; inf where it is assumed.
        rows: rows of the machine that it was learnt from; 0 where it is assumed from the DGX-1 document.
        between_sessions: standard deviation of what a session does to one test by itself; one figure for a machine,
            learnt from its history (`judging/session_variance.py`).
    """

    between_runs: float
    degrees_of_freedom: float
    rows: int = 0
    between_sessions: float = 0.0
