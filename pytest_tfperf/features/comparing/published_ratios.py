"""Ratios of the documents' figures, which hold on other machines than theirs, too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.errors import BaselineError


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """Two published figures of one document.

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
    """The lowest ratio of two published figures; the lowest, because it has to hold on other machines.

    Both figures are of one machine, or if there is none, of two machines with the same GPU in one document, as Azure's
    NC6 and NC12. Measured rows and other keys in `rows` are ignored.

    Raises:
        BaselineError: no document has both.
    """
    published = [row for row in rows if not row.is_measured]
    pairs = [
        PublishedRatio(row, other)
        for row in published
        for other in published
        if row.key == figure and other.key == over and (_document(row), row.gpu) == (_document(other), other.gpu)
    ]
    ratios = [pair for pair in pairs if pair.figure.machine == pair.over.machine] or pairs
    if not ratios:
        raise BaselineError(
            f"no document gives both {figure.workload} on {figure.topology} and {over.workload} on {over.topology}; "
            "compare two workloads with throughput.compare"
        )
    return min(ratios, key=lambda ratio: ratio.value)


def _document(row: Baseline) -> str:
    return row.source.partition(",")[0]
