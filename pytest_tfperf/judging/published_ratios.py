"""Ratios of the documents' figures, which hold on other machines than theirs, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.errors import BaselineError


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """Two published figures of one machine.

    Args:
        figure: the numerator.
        over: the denominator.
    """

    figure: Baseline
    over: Baseline

    @property
    def value(self) -> float:
        """Images/s over images/s."""
        return self.figure.reference / self.over.reference


def published_ratio(rows: Iterable[Baseline], figure: Key, over: Key) -> PublishedRatio:
    """The lowest ratio among the machines of which the documents give both figures.

    The lowest, because it has to hold on machines that are none of theirs. `rows` may hold any rows; measured ones and
    other keys are ignored.

    Raises:
        BaselineError: no machine has both.
    """
    published = {(row.machine, row.key): row for row in rows if not row.is_measured}
    others = {machine: row for (machine, key), row in published.items() if key == over}
    ratios = [
        PublishedRatio(row, others[machine])
        for (machine, key), row in published.items()
        if key == figure and machine in others
    ]
    if not ratios:
        raise BaselineError(
            f"no document gives both {figure.workload} on {figure.topology} and {over.workload} on {over.topology}; "
            "compare two workloads with throughput.compare"
        )
    return min(ratios, key=lambda ratio: ratio.value)
