"""Ratios of published figures: required on GPUs like the document's; elsewhere a lower ratio is only a warning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.errors import BaselineError

ALIKE = 1.5
"""A GPU is like a document's if the FP32 rate of neither is more than this many times that of the other."""


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """The published figures of both sides, of one document."""

    a: Baseline
    b: Baseline

    @property
    def value(self) -> float:
        """The ratio b / a."""
        return self.b.value / self.a.value

    def binds(self, topology: Topology) -> bool:
        """Whether this machine must reach the ratio: its GPUs are like the document's, or the document has none.

        Today's GPUs compute many times as fast, and their links and hosts have not become faster by as much: a model
        that scaled 7.0 times on eight P100 may scale less without a fault.
        """
        then = self.b.gpu_fp32_tflops
        if then is None:
            return True
        rates = [gpu.fp32_tflops for gpu in topology.gpus]
        is_split = topology.devices is not None and topology.devices.split
        return bool(rates) and not is_split and all(now and max(now / then, then / now) <= ALIKE for now in rates)

    def is_not_required(self, ratio: float, topology: Topology) -> str:
        """Return the warning about a lower ratio of GPUs unlike the document's."""
        return (
            f"{_named(self.b.key)} over {_named(self.a.key)}: {ratio:.3f}, below the {self.value:.3f} of "
            f"{self.b.machine} ({self.b.gpu}). It is not required here, because {topology.describe()} is not like that "
            f"GPU (FP32 rates within {ALIKE:g} times)"
        )


def published_ratio(published: Sequence[Baseline], a: Key, b: Key) -> PublishedRatio:
    """Return the lowest ratio of two published figures; the lowest, because it has to hold on other machines.

    Both figures are of one machine, or if no machine has both, of two machines with the same GPU in one document, as
    Azure's NC6 and NC12.

    Raises:
        BaselineError: no document has both figures.
    """
    pairs = [
        PublishedRatio(of_a, of_b)
        for of_a in published
        for of_b in published
        if (of_a.key, of_b.key) == (a, b) and (_document(of_a), of_a.gpu) == (_document(of_b), of_b.gpu)
    ]
    ratios = [pair for pair in pairs if pair.a.machine == pair.b.machine] or pairs
    if not ratios:
        raise BaselineError(
            f"no document gives both {_named(b)} and {_named(a)}; give a limit of your own, as in at_least=3.6, or "
            "compare them with a tolerance"
        )
    return min(ratios, key=lambda ratio: ratio.value)


def _document(row: Baseline) -> str:
    return row.source.partition(",")[0]


def _named(key: Key) -> str:
    return f"{key.workload} on {key.topology}"
