"""tensorpack's DGX-1 page: ResNet-50, two tables (one for each variable update), 1 to 8 GPUs, four columns of figures.

tensorpack's own three columns are named after where its images are made (`--fake-location`), and run under its trainer.
The fourth is tf_cnn_benchmarks with its synthetic data on the GPU.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError
from tools.documents.tables import figure, published, tables

NAME: Final = "tensorpack-multigpu-dgx1.md"
_COLUMNS: Final = ("#GPU", "tensorpack(GPU/CPU/Python)", "tensorflow/benchmarks")
# tensorpack's `--fake-location` and our pipeline's name; "" is tf_cnn_benchmarks.
_PIPELINES: Final = {"gpu": "device", "cpu": "host", "python": "python", "": "device"}
_NOTE: Final = "not repeated, and other physical machines between figures; not in the document: P100, 10.6 TFLOPS, 2017"


def read(page: str) -> list[Baseline]:
    """Both tables as baselines of one machine.

    Raises:
        DocumentError: a table or the version is missing, or a cell is not in its format.
    """
    version = re.search(r"^\* TF Version: v(\S+)\s*$", page, re.MULTILINE)
    if version is None:
        raise DocumentError(f"{NAME}: no line '* TF Version: v...'")
    table_of = {table.heading: table for table in tables(page, NAME) if table.columns == _COLUMNS}
    found = []
    for update in (VariableUpdate.REPLICATED, VariableUpdate.PARAMETER_SERVER):
        table = table_of.get(f"variable_update={update.value}:")
        if table is None:
            raise DocumentError(f"{NAME}: no table of {', '.join(_COLUMNS)} under 'variable_update={update.value}:'")
        for gpus, tensorpack, benchmarks in table.rows:
            figures = [*tensorpack.split("/"), benchmarks]
            if len(figures) != len(_PIPELINES):
                raise DocumentError(f"{NAME}: {tensorpack!r} is not three figures, GPU/CPU/Python")
            for location, text in zip(_PIPELINES, figures, strict=True):
                images_per_sec = figure(text.strip(), NAME)
                if images_per_sec:
                    found.append(_row(update, gpus, location, images_per_sec, version[1]))
    return found


def _row(update: VariableUpdate, gpus: str, location: str, images_per_sec: float, version: str) -> Baseline:
    workload = Workload(
        model="resnet50",
        batch_size=64,
        variable_update=update,
        input_pipeline=_PIPELINES[location],
        trainer=Trainer.KERAS if location else Trainer.LOOP,
    )
    column = f"tensorpack {location}" if location else "tensorflow/benchmarks"
    return published(
        "dgx1-p100",
        workload,
        f"1x{gpus}",
        images_per_sec,
        source=f"{NAME}, {update.value}, {gpus} {'GPU' if gpus == '1' else 'GPUs'}, {column}",
        date="2017",
        gpu="Tesla P100-SXM2-16GB",
        gpu_fp32_tflops=10.6,
        environment=f"tensorflow={version}",
        note=_NOTE,
    )
