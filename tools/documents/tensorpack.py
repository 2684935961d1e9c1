"""tensorpack's DGX-1 page: ResNet-50, two tables (one for each variable update), 1 to 8 GPUs, four columns of figures.

tensorpack's own three columns are where its images are made (`--fake-location`), under its trainer; the fourth is
tf_cnn_benchmarks with its synthetic data on the GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.workload import Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.stores.documents.imported import Imported, Origin, published, unambiguous
from pytest_tfperf.stores.documents.tables import count, figure, tables

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.stores.documents.tables import Table

NAME: Final = "tensorpack-multigpu-dgx1.md"
MACHINE: Final = "dgx1-p100"
_COLUMNS: Final = ("#GPU", "tensorpack(GPU/CPU/Python)", "tensorflow/benchmarks")
_UPDATES: Final = (VariableUpdate.REPLICATED, VariableUpdate.PARAMETER_SERVER)
# tensorpack's word for where the images are made, and ours.
_PIPELINES: Final = {"gpu": "device", "cpu": "host", "python": "python"}
_GPU, _GPU_FP32_TFLOPS = "Tesla P100-SXM2-16GB", 10.6
_VERSION = re.compile(r"^\* TF Version: v(?P<tensorflow>\S+)\s*$", re.MULTILINE)
_HEADING = re.compile(r"variable_update=(?P<update>\w+):")
_NOTE: Final = "not repeated, and other physical machines between figures; not in the document: P100, 10.6 TFLOPS, 2017"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One figure and its place."""

    update: VariableUpdate
    gpus: int
    location: str  # tensorpack's `--fake-location`; "" for tf_cnn_benchmarks
    images_per_sec: float | None


def read(text: str, name: str = NAME) -> Imported:
    """Both tables as baselines of one machine.

    Raises:
        DocumentError: a table or the version is missing, or a cell is not in its form.
    """
    version = _VERSION.search(text)
    if version is None:
        raise DocumentError(f"{name}: no line '* TF Version: v...'")
    origin = Origin(
        date="2017",
        environment=f"tensorflow={version['tensorflow']}",
        gpu=_GPU,
        gpu_fp32_tflops=_GPU_FP32_TFLOPS,
    )
    by_update = {heading["update"]: t for t in tables(text, name) if (heading := _HEADING.fullmatch(t.heading))}
    missing = [update.value for update in _UPDATES if update not in by_update]
    if missing:
        raise DocumentError(f"{name}: no table under 'variable_update={missing[0]}:'")
    cells = [cell for update in _UPDATES for cell in _cells(by_update[update], update, name)]
    rows = [_baseline(origin, cell, cells, name) for cell in cells]
    return Imported(
        unambiguous([row for row in rows if row is not None], name),
        tuple(_source(cell, name) for cell in cells if cell.images_per_sec is None),
    )


def _cells(table: Table, update: VariableUpdate, name: str) -> list[_Cell]:
    if table.header.cells != _COLUMNS:
        raise DocumentError(f"{name}, line {table.header.line}: the columns must be {' | '.join(_COLUMNS)}")
    cells = []
    for row in table.rows:
        gpus, tensorpack, benchmarks = row.cells
        figures = [*tensorpack.split("/"), benchmarks]
        if len(figures) != len(_PIPELINES) + 1:
            raise DocumentError(f"{name}, line {row.line}: {tensorpack[:40]!r} is not three figures, GPU/CPU/Python")
        cells += [
            _Cell(
                update=update,
                gpus=count(gpus, name, row.line),
                location=location,
                images_per_sec=figure(text.strip(), name, row.line),
            )
            for location, text in zip([*_PIPELINES, ""], figures, strict=True)
        ]
    return cells


def _baseline(origin: Origin, cell: _Cell, cells: list[_Cell], name: str) -> Baseline | None:
    if cell.images_per_sec is None:
        return None
    workload = Workload(
        model="resnet50",
        batch_size=64,
        variable_update=cell.update,
        input_pipeline=_PIPELINES.get(cell.location, "device"),
        trainer=Trainer.KERAS if cell.location else Trainer.LOOP,
    )
    return published(
        origin, MACHINE, workload, f"1x{cell.gpus}", cell.images_per_sec, _source(cell, name), _note(cell, cells)
    )


def _source(cell: _Cell, name: str) -> str:
    column = f"tensorpack {cell.location}" if cell.location else "tensorflow/benchmarks"
    return f"{name}, {cell.update.value}, {cell.gpus} {'GPU' if cell.gpus == 1 else 'GPUs'}, {column}"


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
