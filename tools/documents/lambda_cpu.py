"""Lambda's page on host CPUs: seven models on four GPUs under five CPUs, nine tables.

The table of models at its top gives error rates under "performance", no speeds, and is not read. The column of the
1950X is all 0: not measured. Batch sizes are in the benchmark's code, not on the page; nor is where `parameter_server`
kept the parameters: LambdaColdStorage/cpu_benchmark's cpu_benchmark.sh does not pass --local_parameter_device (seen at
f9891f0 of 2018-08-10, whose README holds these figures), and tf_cnn_benchmarks' default was "gpu" then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.workload import AllReduce, ParameterDevice, VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError, one_of
from pytest_tfperf.stores.documents.imported import Imported, Origin, published, unambiguous
from pytest_tfperf.stores.documents.tables import figure, tables

if TYPE_CHECKING:
    from pytest_tfperf.core.baseline import Baseline
    from pytest_tfperf.stores.documents.tables import Table

NAME: Final = "lambda-cpu-benchmark.md"
_BATCH_PER_GPU: Final = {
    "resnet50": 64,
    "resnet101": 64,
    "resnet152": 32,
    "inception3": 64,
    "inception4": 16,
    "vgg16": 64,
    "alexnet": 512,
}
_GPU, _GPU_FP32_TFLOPS = "GeForce GTX 1080 Ti", 11.3
_PARAMETERS: Final = (
    ", parameters on GPUs (tf_cnn_benchmarks' default, which Lambda's cpu_benchmark.sh leaves: dealt out over all GPUs "
    "there, on the first one here)"
)
_VERSION = re.compile(r"\(tf version (?P<tensorflow>[\d.]+)\)")
_COMMIT = re.compile(r"GitHub hash (?P<commit>[0-9a-f]+)")
_HEADING = re.compile(
    r"\*\*(?P<table>(?P<data>syn|real)-(?P<update>parameter_server|replicated)(?P<nccl>-nccl)?"
    r"(?P<distortions>-distortions)?-(?P<gpus>[1-9]\d?)gpus)\*\*"
)
_TABLES: Final = 9
# Lambda patched tf_cnn_benchmarks so that images with distortions and without are resized alike.
_PLAIN, _DISTORTED = "imagenet-consistent", "imagenet-distortions-consistent"
_LIGHTER: Final = {_PLAIN: "device", _DISTORTED: _PLAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One figure and its place; the figure of another pipeline is found by the other fields."""

    table: str
    model: str
    cpu: str
    update: VariableUpdate
    all_reduce: AllReduce
    pipeline: str
    gpus: int
    images_per_sec: float | None

    def beside(self, pipeline: str) -> tuple[object, ...]:
        return self.model, self.cpu, self.update, self.all_reduce, self.gpus, pipeline


def read(text: str, name: str = NAME) -> Imported:
    """The nine tables as baselines, one machine for each CPU; cells of 0 are reported as not measured.

    Raises:
        DocumentError: a table or the version is missing, a model has no known batch size, or a cell is not a figure.
    """
    version, commit = _VERSION.search(text), _COMMIT.search(text)
    if version is None or commit is None:
        raise DocumentError(f"{name}: no '(tf version ...)' or no 'GitHub hash ...' in its configuration")
    origin = Origin(
        date="2018",
        environment=f"tensorflow={version['tensorflow']} benchmarks={commit['commit']}",
        gpu=_GPU,
        gpu_fp32_tflops=_GPU_FP32_TFLOPS,
        runs=2,
    )
    found = [(heading, t) for t in tables(text, name) if (heading := _HEADING.fullmatch(t.heading))]
    if len(found) != _TABLES:
        raise DocumentError(
            f"{name}: {len(found)} tables under headings such as '**syn-replicated-nccl-4gpus**', not {_TABLES}"
        )
    cells = [cell for heading, table in found for cell in _cells(heading, table, name)]
    figures = {cell.beside(cell.pipeline): cell.images_per_sec for cell in cells}
    rows = [_baseline(origin, cell, figures, name) for cell in cells]
    return Imported(
        unambiguous([row for row in rows if row is not None], name),
        tuple(_source(cell, name) for cell in cells if cell.images_per_sec is None),
    )


def _cells(heading: re.Match[str], table: Table, name: str) -> list[_Cell]:
    first, *cpus = table.header.cells
    if first != "CPU" or len(set(cpus)) != len(cpus) or not all(re.fullmatch(r"[A-Za-z0-9-]{1,40}", c) for c in cpus):
        raise DocumentError(f"{name}, line {table.header.line}: the columns must be 'CPU', then one for each CPU")
    real = _DISTORTED if heading["distortions"] else _PLAIN
    pipeline = real if heading["data"] == "real" else "device"
    cells = []
    for row in table.rows:
        model, *figures = row.cells
        if model not in _BATCH_PER_GPU:
            raise DocumentError(f"{name}, line {row.line}: {one_of('model', model[:40], _BATCH_PER_GPU)}")
        cells += [
            _Cell(
                table=heading["table"],
                model=model,
                cpu=cpu,
                update=VariableUpdate(heading["update"]),
                all_reduce=AllReduce.NCCL if heading["nccl"] else AllReduce.COPY,
                pipeline=pipeline,
                gpus=int(heading["gpus"]),
                images_per_sec=figure(text, name, row.line),
            )
            for cpu, text in zip(cpus, figures, strict=True)
        ]
    missing = _BATCH_PER_GPU.keys() - {cell.model for cell in cells}
    if missing:
        raise DocumentError(f"{name}, line {table.header.line}: the table has no row for {', '.join(sorted(missing))}")
    return cells


def _baseline(
    origin: Origin, cell: _Cell, figures: dict[tuple[object, ...], float | None], name: str
) -> Baseline | None:
    if cell.images_per_sec is None:
        return None
    on_gpus = cell.update is VariableUpdate.PARAMETER_SERVER
    workload = Workload(
        model=cell.model,
        batch_size=_BATCH_PER_GPU[cell.model],
        variable_update=cell.update,
        all_reduce=cell.all_reduce,
        input_pipeline=cell.pipeline,
        local_parameter_device=ParameterDevice.GPU if on_gpus else ParameterDevice.CPU,
    )
    return published(
        origin,
        f"lambda-{cell.cpu.lower()}",
        workload,
        f"1x{cell.gpus}",
        cell.images_per_sec,
        _source(cell, name),
        _note(cell, figures),
    )


def _source(cell: _Cell, name: str) -> str:
    return f"{name}, {cell.table}, {cell.model}, {cell.cpu}"


def _note(cell: _Cell, figures: dict[tuple[object, ...], float | None]) -> str:
    notes = []
    if cell.cpu == "W-2133":
        notes.append("W-2133 reads low in most cells")
    lighter = _LIGHTER.get(cell.pipeline)
    other = figures.get(cell.beside(lighter)) if lighter else None
    assert cell.images_per_sec is not None
    if other is not None and cell.images_per_sec > other:
        notes.append(f"above {other:g} of the lighter input ({lighter})")
    synthetic = figures.get(cell.beside("device"))
    if cell.model == "alexnet" and cell.pipeline != "device" and synthetic is not None:
        notes.append(f"bound by its input: {cell.images_per_sec / synthetic:.2f} of synthetic")
    parameters = _PARAMETERS if cell.update is VariableUpdate.PARAMETER_SERVER else ""
    notes.append(
        f"not in the document: GPU (probably GTX 1080 Ti, 11.3 TFLOPS), batch {_BATCH_PER_GPU[cell.model]}, "
        f"mean of 2 runs, 2018{parameters}"
    )
    return "; ".join(notes)
