"""Lambda's page on host CPUs: seven models on four GPUs under five CPUs, nine tables.

The table of models at its top gives error rates under "performance", not speeds, and is not read. The column of the
1950X is all 0: not measured. Batch sizes are in the benchmark's code, not on the page; nor is where `parameter_server`
kept the parameters and `replicated` without NCCL summed the gradients: LambdaColdStorage/cpu_benchmark's
cpu_benchmark.sh does not pass --local_parameter_device (seen at f9891f0 of 2018-08-10, whose README holds these
figures), and tf_cnn_benchmarks' default was "gpu" then.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import AllReduce, ParameterDevice, VariableUpdate, Workload
from pytest_tfperf.errors import TfperfError, one_of
from tools.documents.tables import Figure, number, published, require, tables

NAME: Final = "lambda-cpu-benchmark.md"
# Images for each GPU, by model.
_BATCH_SIZES: Final = {
    "resnet50": 64,
    "resnet101": 64,
    "resnet152": 32,
    "inception3": 64,
    "inception4": 16,
    "vgg16": 64,
    "alexnet": 512,
}
_DEFAULT: Final = "tf_cnn_benchmarks' default, which Lambda's cpu_benchmark.sh leaves"
_ON_GPUS: Final = {
    VariableUpdate.PARAMETER_SERVER: f"parameters on GPUs ({_DEFAULT}: dealt out over all GPUs there, on the first one "
    "here)",
    VariableUpdate.REPLICATED: f"gradients summed on the GPUs in turn ({_DEFAULT})",
}
_HEADING = re.compile(
    r"\*\*(?P<table>(?P<data>syn|real)-(?P<update>parameter_server|replicated)(?P<nccl>-nccl)?"
    r"(?P<distortions>-distortions)?-(?P<gpus>[1-9]\d?)gpus)\*\*"
)
_TABLES: Final = 9
_VERSION: Final = "1.9.0"
_COMMIT: Final = "9165a70"


def read(page: str) -> list[Figure]:
    """The figures of the nine tables, under the four CPUs that were measured: cells of 0 give none.

    Raises:
        TfperfError: a table or a version is missing, a model has no known batch size, or a cell is not a figure.
    """
    require(page, NAME, f"(tf version {_VERSION})", f"GitHub hash {_COMMIT}")
    found = [(heading, table) for table in tables(page, NAME) if (heading := _HEADING.fullmatch(table.heading))]
    if len(found) != _TABLES:
        raise TfperfError(
            f"{NAME}: expected {_TABLES} tables under headings such as '**syn-replicated-nccl-4gpus**', found "
            f"{len(found)}"
        )
    figures = [
        Figure(NAME, heading["table"], model, cpu, number(cell, NAME))
        for heading, table in found
        for model, *cells in table.rows
        for cpu, cell in zip(table.columns[1:], cells, strict=True)
    ]
    return [figure for figure in figures if figure.images_per_sec]


def baseline(figure: Figure) -> Baseline:
    """The row of a figure; each CPU is a machine.

    Raises:
        TfperfError: the model has no known batch size.
    """
    heading = _HEADING.fullmatch(f"**{figure.table}**")
    assert heading is not None, figure
    workload = _workload(heading, figure.row)
    on_gpus = workload.local_parameter_device is ParameterDevice.GPU
    where = f", {_ON_GPUS[workload.variable_update]}" if on_gpus else ""
    note = (
        f"not in the document: GPU (probably GTX 1080 Ti, 11.3 TFLOPS), batch {workload.batch_size}, "
        f"mean of 2 runs, 2018{where}"
    )
    return published(
        f"lambda-{figure.column.lower()}",
        workload,
        f"1x{heading['gpus']}",
        figure,
        date="2018",
        runs=2,
        gpu="GeForce GTX 1080 Ti",
        gpu_fp32_tflops=11.3,
        environment=f"tensorflow={_VERSION} benchmarks={_COMMIT}",
        note=f"W-2133 reads low in most cells; {note}" if figure.column == "W-2133" else note,
    )


def _workload(heading: re.Match[str], model: str) -> Workload:
    if model not in _BATCH_SIZES:
        raise TfperfError(f"{NAME}: {one_of('model', model, _BATCH_SIZES)}")
    update = VariableUpdate(heading["update"])
    # Lambda patched tf_cnn_benchmarks so that images are resized alike with distortions and without.
    real = "imagenet-distortions-consistent" if heading["distortions"] else "imagenet-consistent"
    return Workload(
        model=model,
        batch_size=_BATCH_SIZES[model],
        variable_update=update,
        all_reduce=AllReduce.NCCL if heading["nccl"] else AllReduce.COPY,
        input_pipeline=real if heading["data"] == "real" else "device",
        local_parameter_device=ParameterDevice.CPU if heading["nccl"] else ParameterDevice.GPU,
    )
