"""Ratios of the documents' figures: what holds on other machines than theirs, too."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.stores.baselines import BaselineStore


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """Two published figures of one machine.

    Args:
        figure: the one that is held against the other.
        over: the other.
    """

    figure: Baseline
    over: Baseline

    @property
    def value(self) -> float:
        """Images/s over images/s."""
        return self.figure.reference / self.over.reference


def published_ratio(store: BaselineStore, figure: Key, over: Key) -> PublishedRatio:
    """The lowest ratio of the machines of which the documents give both figures.

    The lowest, because it has to hold on machines that are none of theirs.

    Raises:
        BaselineError: no machine has both, or a file can't be read whole.
    """
    others = {row.machine: row for row in store.published_like(over)}
    pairs = [PublishedRatio(row, others[row.machine]) for row in store.published_like(figure) if row.machine in others]
    if not pairs:
        raise BaselineError(
            f"no document gives both {figure.workload} on {figure.topology} and {over.workload} on {over.topology}; "
            "hold two workloads against each other with throughput.compare"
        )
    return min(pairs, key=lambda pair: pair.value)
