"""tensorpack's DGX-1 page: ResNet-50, two tables (one for each variable update), 1 to 8 GPUs, four columns of figures.

tensorpack's own three columns are named after where its images are made (`--fake-location`), and run under its trainer.
The fourth is tf_cnn_benchmarks with its synthetic data on the GPU.
"""

from __future__ import annotations

from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import TfperfError
from tools.documents.tables import Figure, number, published, require, tables

NAME: Final = "tensorpack-multigpu-dgx1.md"
_COLUMNS: Final = ("#GPU", "tensorpack(GPU/CPU/Python)", "tensorflow/benchmarks")
_BENCHMARKS: Final = "tensorflow/benchmarks"
_PIPELINES: Final = {
    "tensorpack gpu": "device",
    "tensorpack cpu": "host",
    "tensorpack python": "python",
    _BENCHMARKS: "device",
}
"""A figure's column -> our pipeline's name."""
_VERSION: Final = "1.3.0-rc1-1302-g593dc8e"
_NOTE: Final = "not repeated, and other physical machines between figures; not in the document: P100, 10.6 TFLOPS, 2017"


def read(page: str) -> list[Figure]:
    """The figures of both tables.

    Raises:
        TfperfError: a table or the version is missing, or a cell is not in its format.
    """
    require(page, NAME, f"TF Version: v{_VERSION}")
    table_of = {table.heading: table for table in tables(page, NAME) if table.columns == _COLUMNS}
    found = []
    for update in (VariableUpdate.REPLICATED.value, VariableUpdate.PARAMETER_SERVER.value):
        table = table_of.get(f"variable_update={update}:")
        if table is None:
            raise TfperfError(f"{NAME}: no table of {', '.join(_COLUMNS)} under 'variable_update={update}:'")
        for gpus, tensorpack, benchmarks in table.rows:
            cells = [*tensorpack.split("/"), benchmarks]
            if len(cells) != len(_PIPELINES):
                raise TfperfError(f"{NAME}: {tensorpack!r} is not three figures, GPU/CPU/Python")
            row = f"{gpus} GPU" if gpus == "1" else f"{gpus} GPUs"
            for column, cell in zip(_PIPELINES, cells, strict=True):
                found.append(Figure(NAME, update, row, column, number(cell.strip(), NAME)))
    return found


def baseline(figure: Figure) -> Baseline:
    """The row of a figure."""
    workload = Workload(
        model="resnet50",
        batch_size=64,
        variable_update=VariableUpdate(figure.table),
        input_pipeline=_PIPELINES[figure.column],
        trainer=Trainer.LOOP if figure.column == _BENCHMARKS else Trainer.KERAS,
    )
    return published(
        "dgx1-p100",
        workload,
        f"1x{figure.row.split()[0]}",
        figure,
        date="2017",
        gpu="Tesla P100-SXM2-16GB",
        gpu_fp32_tflops=10.6,
        environment=f"tensorflow={_VERSION}",
        note=_NOTE,
    )
