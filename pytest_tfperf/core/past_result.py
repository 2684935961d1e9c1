"""One measurement as tables, trends and plots over many sessions need it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.verdict import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PastResult:
    """What the history knows about a measurement without reading all of it.

    Args:
        id: of the measurement, the same in every history that holds it.
        session: the session's id.
        time: when it finished, ISO 8601 with its zone.
        test: pytest's node id.
        name: what the test called the workload; "" for no name of its own.
        machine: the machine's key.
        workload, topology: the workload's id, and nodes x devices per node.
        unit: what was counted: "images", "tokens".
        examples_per_sec: the throughput.
        low, high: its 95 % confidence interval.
        outcome: None where it was not judged, or not decided yet.
        is_provisional: whether it was judged against earlier sessions, for want of a row.
        reference: of the row that it was judged against; None where there is none.
        runs: fresh runs that count.
        seconds: that all of its workers took.
        commit: the git commit of the tests' repository, "" outside of one.
        is_slowed_on_purpose: whether `--tfperf-inject-slowdown` was given.
    """

    id: str
    session: str
    time: str
    test: str
    machine: str
    workload: str
    topology: str
    unit: str
    examples_per_sec: float
    low: float
    high: float
    outcome: Outcome | None
    runs: int
    seconds: float
    name: str = ""
    reference: float | None = None
    commit: str = ""
    is_slowed_on_purpose: bool = False
    is_provisional: bool = False

    @property
    def outcome_word(self) -> str:
        """The outcome as tables show it, "PASS (provisional)"; "" for none."""
        return f"{self.outcome or ''}{' (provisional)' if self.is_provisional else ''}"

    @property
    def key(self) -> Key:
        """The workload and the topology, which one machine's results are told apart by."""
        return Key(self.workload, self.topology)
