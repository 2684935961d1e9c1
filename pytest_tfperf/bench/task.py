"""One measurement to take, with everything that is known before it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytest_tfperf.bench.one_run import Side
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.profile import Profile
from pytest_tfperf.core.run import Plan
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.judging.reference import Reference

Call = tuple[str, int]
"""pytest's node id and the call's index in the test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A call of `throughput.check` or `throughput.measure`.

    Args:
        test: pytest's node id.
        index: which of the test's calls it is, from 0.
        topology: what to train on.
        plan: how many steps.
        side: what to train, and what starts it.
        reference: what the result is judged against.
        tolerance: the accepted change.
        reference_side: the same workload in the reference environment; None if there is none.
    """

    test: str
    index: int = 0
    topology: Topology
    plan: Plan
    side: Side
    reference: Reference
    tolerance: Tolerance
    reference_side: Side | None = None

    @property
    def workload(self) -> Subject:
        """What to train."""
        return self.side.workload

    @property
    def call(self) -> Call:
        """What identifies this task in the session."""
        return self.test, self.index


Profiler = Callable[[Task, Measurement], Profile]
"""Profiles a task that was measured; never raises, because no verdict depends on a profile."""
