"""tensorpack's DGX-1 page: ResNet-50, two tables (one for each variable update), 1 to 8 GPUs, four columns of figures.

tensorpack's own three columns are named after where its images are made (`--fake-location`), and run under its trainer.
The fourth is tf_cnn_benchmarks with its synthetic data on the GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pytest_tfperf.core.workload import Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError
from tools.documents.imported import Imported, Origin
from tools.documents.tables import figure, tables

NAME: Final = "tensorpack-multigpu-dgx1.md"
_COLUMNS: Final = ("#GPU", "tensorpack(GPU/CPU/Python)", "tensorflow/benchmarks")
_PIPELINES: Final = {"gpu": "device", "cpu": "host", "python": "python"}  # tensorpack's word, and ours
_NOTE: Final = "not repeated, and other physical machines between figures; not in the document: P100, 10.6 TFLOPS, 2017"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    update: VariableUpdate
    gpus: int
    location: str  # tensorpack's `--fake-location`; "" for tf_cnn_benchmarks
    images_per_sec: float | None

    @property
    def source(self) -> str:
        column = f"tensorpack {self.location}" if self.location else "tensorflow/benchmarks"
        return f"{NAME}, {self.update.value}, {self.gpus} {'GPU' if self.gpus == 1 else 'GPUs'}, {column}"

    @property
    def workload(self) -> Workload:
        return Workload(
            model="resnet50",
            batch_size=64,
            variable_update=self.update,
            input_pipeline=_PIPELINES.get(self.location, "device"),
            trainer=Trainer.KERAS if self.location else Trainer.LOOP,
        )


def read(page: str) -> Imported:
    """Both tables as baselines of one machine.

    Raises:
        DocumentError: a table or the version is missing, or a cell is not in its format.
    """
    version = re.search(r"^\* TF Version: v(\S+)\s*$", page, re.MULTILINE)
    if version is None:
        raise DocumentError(f"{NAME}: no line '* TF Version: v...'")
    origin = Origin(
        date="2017", environment=f"tensorflow={version[1]}", gpu="Tesla P100-SXM2-16GB", gpu_fp32_tflops=10.6
    )
    cells = _cells(page)
    return Imported(
        tuple(
            origin.baseline("dgx1-p100", c.workload, f"1x{c.gpus}", c.images_per_sec, c.source, _note(c, cells))
            for c in cells
            if c.images_per_sec is not None
        ),
        tuple(cell.source for cell in cells if cell.images_per_sec is None),
    )


def _cells(page: str) -> list[_Cell]:
    rows = {
        table.heading: table.rows
        for table in tables(page, NAME)
        if table.heading.startswith("variable_update=") and table.columns == _COLUMNS
    }
    cells = []
    for update in (VariableUpdate.REPLICATED, VariableUpdate.PARAMETER_SERVER):
        if (heading := f"variable_update={update.value}:") not in rows:
            raise DocumentError(f"{NAME}: no table of {', '.join(_COLUMNS)} under {heading!r}")
        for gpus, tensorpack, benchmarks in rows[heading]:
            figures = [*tensorpack.split("/"), benchmarks]
            if len(figures) != len(_PIPELINES) + 1:
                raise DocumentError(f"{NAME}: {tensorpack!r} is not three figures, GPU/CPU/Python")
            cells += [
                _Cell(update=update, gpus=int(gpus), location=location, images_per_sec=figure(text.strip(), NAME))
                for location, text in zip([*_PIPELINES, ""], figures, strict=True)
            ]
    return cells


def _note(cell: _Cell, cells: list[_Cell]) -> str:
    """tensorpack ran the same code on one GPU in both tables: its two figures show the noise."""
    same_code = [
        f"the same code gave {other.images_per_sec:g} in the {other.update.value} table"
        for other in cells
        if cell.gpus == other.gpus == 1
        and cell.location
        and other.location == cell.location
        and other.update is not cell.update
        and other.images_per_sec is not None
    ]
    return "; ".join([*same_code, _NOTE])
