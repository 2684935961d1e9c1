"""What an importer makes of a document: baselines, and the cells that hold none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_tfperf.core.baseline import PUBLISHED_TOLERANCE, Baseline, Key, Provenance
from pytest_tfperf.errors import DocumentError

if TYPE_CHECKING:
    from pytest_tfperf.core.workload import Workload


@dataclass(frozen=True, slots=True)
class Imported:
    """A document's figures.

    Args:
        baselines: one row for each figure, in the document's order.
        not_measured: the places of the cells that say 0 or nothing, written as a row's `source`.
    """

    baselines: tuple[Baseline, ...]
    not_measured: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What all rows of a document share: date, software and the GPU, as far as it is known."""

    date: str
    environment: str
    gpu: str
    gpu_fp32_tflops: float
    runs: int = 1


def published(
    origin: Origin, machine: str, workload: Workload, topology: str, images_per_sec: float, source: str, note: str
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
        date=origin.date,
        runs=origin.runs,
        gpu=origin.gpu,
        gpu_fp32_tflops=origin.gpu_fp32_tflops,
        environment=origin.environment,
        note=note,
    )


def unambiguous(baselines: list[Baseline], name: str) -> tuple[Baseline, ...]:
    """The rows, or a DocumentError where a document gives two figures for one machine, workload and topology."""
    first: dict[tuple[str, Key], Baseline] = {}
    for row in baselines:
        other = first.setdefault((row.machine, row.key), row)
        if other is not row:
            raise DocumentError(
                f"{name} gives two figures for {row.key.workload} on {row.machine}, {row.key.topology}: "
                f"{other.reference:g} ({other.source}) and {row.reference:g} ({row.source}). Remove one"
            )
    return tuple(baselines)
