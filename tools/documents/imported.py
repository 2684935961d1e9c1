"""What an importer makes of a document: baselines, and the cells that hold none."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.core.baseline import PUBLISHED_TOLERANCE, Baseline, Key, Provenance
from pytest_tfperf.core.workload import Workload


@dataclass(frozen=True, slots=True)
class Imported:
    """A document's figures.

    Args:
        baselines: one row for each figure, in the document's order.
        not_measured: the cells that hold 0 or nothing, written as a row's `source`.
    """

    baselines: tuple[Baseline, ...]
    not_measured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What all rows of a document share: date, software and the GPU, as far as they are known."""

    date: str
    environment: str
    gpu: str
    gpu_fp32_tflops: float
    runs: int = 1

    def baseline(
        self, machine: str, workload: Workload, topology: str, images_per_sec: float, source: str, note: str
    ) -> Baseline:
        """The row for one published figure."""
        return Baseline(
            machine=machine,
            key=Key(workload.id, topology),
            reference=images_per_sec,
            lower=-PUBLISHED_TOLERANCE,
            upper=PUBLISHED_TOLERANCE,
            provenance=Provenance.PUBLISHED,
            source=source,
            date=self.date,
            runs=self.runs,
            gpu=self.gpu,
            gpu_fp32_tflops=self.gpu_fp32_tflops,
            environment=self.environment,
            note=note,
        )
