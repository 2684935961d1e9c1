"""The result of measuring two sides interleaved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pytest_tfperf.core.breakdown import Breakdown
from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.run import Pair
from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict


class Interleaving(StrEnum):
    """How the two runs of a pair were interleaved."""

    WINDOWS = "interleaved windows"
    RUNS = "alternating runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One side of a comparison.

    Args:
        workload: what was trained.
        throughput: over all of its runs.
        environment: what they ran on: "tensorflow" -> "2.21.0".
        name: what tables and messages call the workload; "" for no name of its own.
        breakdown: what a step's time is spent on; None where no worker was asked.
    """

    workload: Subject
    throughput: Throughput
    environment: Mapping[str, str]
    name: str = ""
    breakdown: Breakdown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result of an interleaved comparison of b with a.

    Args:
        test: pytest's node id.
        session: the session's id.
        a, b: the two sides.
        pairs: pairs of fresh workers, in order.
        ratio: b / a, the pairs' geometric mean, from ten pairs on without a tenth of them at either end.
        low, high: 95 % confidence interval of the ratio, corrected for testing after each pair.
        outcome: the worst of its ratio's and its figures'; None where nothing was judged.
        reason: of the ratio's outcome; one sentence. Where it is INVALID, what losses and discarded pairs don't say.
        tolerance: the accepted change of b.
        interleaving: how the runs of a pair were interleaved.
        machine, devices, topology: as in a `Measurement`.
        seconds: how long it took.
        time: when it finished, ISO 8601 with its zone.
        discarded_pairs: disturbed pairs, which count for nothing; kept to be shown.
        ratio_outcome: PASS, IMPROVED, REGRESSED, INCONCLUSIVE or INVALID; None where there are no figures, so that the
            outcome is the ratio's.
        figures: what became of each figure that was asked for beside the throughput.
        against_other_side: whether a is the session's other side, as with --tfperf-base; False for the two sides of a
            `throughput.compare`, which both run the current code.
    """

    test: str
    a: ComparedSide
    b: ComparedSide
    pairs: tuple[Pair, ...]
    ratio: float
    low: float
    high: float
    outcome: Outcome | None
    reason: str
    tolerance: Tolerance
    interleaving: Interleaving
    machine: str
    devices: str
    topology: str
    seconds: float
    session: str = ""
    time: str = ""
    discarded_pairs: tuple[Pair, ...] = ()
    ratio_outcome: Outcome | None = None
    figures: tuple[Verdict, ...] = ()
    against_other_side: bool = False

    @property
    def of_ratio(self) -> Outcome | None:
        """The outcome of the ratio alone."""
        return self.ratio_outcome if self.figures else self.outcome

    @property
    def log_ratios(self) -> tuple[float, ...]:
        """ln(b / a) of each pair."""
        return tuple(pair.log_ratio for pair in self.pairs)

    @property
    def is_decided(self) -> bool:
        """Always true: a comparison ends only when it has all of its pairs."""
        return True
