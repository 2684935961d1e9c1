"""Tests that passed tonight, measured again beside bad news: is it the test that is slow, or by now the machine?

A shared machine slows down for minutes without any sign that a guest could read. What a control loses against its own
first run of the night, the machine has lost.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.throughput import run_value
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError

SLOWER = -math.log1p(-0.03)
"""A control that lost more than this against its first run of the night shows a slower machine; only worse news asks
for one."""

_ERRORS = 2.0  # standard errors of the two runs: a control of a few restless windows proves little

Measure = Callable[[Workload, Topology, Plan], Run]


class Controls:
    """The night's passing tests, taken in turns."""

    def __init__(self) -> None:
        self._passed: deque[tuple[Workload, Topology, Plan, Run]] = deque()

    def add(self, workload: Workload, topology: Topology, plan: Plan, first: Run) -> None:
        """A test that passed, with its first run."""
        self._passed.append((workload, topology, plan, first))

    def slower_now(self, measure: Measure) -> str:
        """What the next control says of the machine: "" where it is as fast as before, or where nothing passed.

        One that can't be measured any more is none: its fault is not that of the test it stands beside.
        """
        while self._passed:
            workload, topology, plan, first = self._passed[0]
            try:
                now = run_value(measure(workload, topology, plan))
            except (TfperfError, OSError):
                self._passed.popleft()
                continue
            self._passed.rotate(-1)
            before = run_value(first)
            lost = before.log_rate - now.log_rate
            if lost <= max(SLOWER, _ERRORS * math.hypot(before.error, now.error)):
                return ""
            share = f"{-math.expm1(-lost):.0%}"
            return f"the machine is slower by now: {workload.id}, which passed, lost {share} against its own first run"
        return ""
