"""Lambda's page on host CPUs: seven models on four GPUs under five CPUs, nine tables.

The table of models at its top gives error rates under "performance", not speeds, and is not read. The column of the
1950X is all 0: not measured. Batch sizes are in the benchmark's code, not on the page; nor is where `parameter_server`
kept the parameters: LambdaColdStorage/cpu_benchmark's cpu_benchmark.sh does not pass --local_parameter_device (seen at
f9891f0 of 2018-08-10, whose README holds these figures), and tf_cnn_benchmarks' default was "gpu" then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pytest_tfperf.core.workload import AllReduce, ParameterDevice, VariableUpdate, Workload
from pytest_tfperf.errors import DocumentError, one_of
from tools.documents.imported import Imported, Origin
from tools.documents.tables import figure, tables

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
_PARAMETERS: Final = (
    ", parameters on GPUs (tf_cnn_benchmarks' default, which Lambda's cpu_benchmark.sh leaves: dealt out over all GPUs "
    "there, on the first one here)"
)
_HEADING = re.compile(
    r"\*\*(?P<table>(?P<data>syn|real)-(?P<update>parameter_server|replicated)(?P<nccl>-nccl)?"
    r"(?P<distortions>-distortions)?-(?P<gpus>[1-9]\d?)gpus)\*\*"
)
_TABLES: Final = 9
# Lambda patched tf_cnn_benchmarks so that images are resized alike with distortions and without.
_PLAIN, _DISTORTED = "imagenet-consistent", "imagenet-distortions-consistent"
_LIGHTER: Final = {_PLAIN: "device", _DISTORTED: _PLAIN}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    table: str
    cpu: str
    workload: Workload
    topology: str
    images_per_sec: float | None

    @property
    def source(self) -> str:
        return f"{NAME}, {self.table}, {self.workload.model}, {self.cpu}"

    def place(self, pipeline: str) -> tuple[str, Workload]:
        """Where the figure of this cell under another pipeline is."""
        return self.cpu, self.workload.with_(input_pipeline=pipeline)


def read(page: str) -> Imported:
    """The nine tables as baselines, one machine for each CPU; cells of 0 are reported as not measured.

    Raises:
        DocumentError: a table or the version is missing, a model has no known batch size, or a cell is not a figure.
    """
    version, commit = re.search(r"\(tf version ([\d.]+)\)", page), re.search(r"GitHub hash ([0-9a-f]+)", page)
    found = [(heading, table) for table in tables(page, NAME) if (heading := _HEADING.fullmatch(table.heading))]
    if version is None or commit is None or len(found) != _TABLES:
        raise DocumentError(
            f"{NAME}: expected '(tf version ...)', 'GitHub hash ...' and {_TABLES} tables under headings such as "
            f"'**syn-replicated-nccl-4gpus**', found {len(found)}"
        )
    origin = Origin(
        date="2018",
        environment=f"tensorflow={version[1]} benchmarks={commit[1]}",
        gpu="GeForce GTX 1080 Ti",
        gpu_fp32_tflops=11.3,
        runs=2,
    )
    cells = [
        _cell(heading, model, cpu, text)
        for heading, table in found
        for model, *figures in table.rows
        for cpu, text in zip(table.columns[1:], figures, strict=True)
    ]
    figures = {(cell.cpu, cell.workload): cell.images_per_sec for cell in cells}
    return Imported(
        tuple(
            origin.baseline(
                f"lambda-{c.cpu.lower()}", c.workload, c.topology, c.images_per_sec, c.source, _note(c, figures)
            )
            for c in cells
            if c.images_per_sec is not None
        ),
        tuple(cell.source for cell in cells if cell.images_per_sec is None),
    )


def _cell(heading: re.Match[str], model: str, cpu: str, text: str) -> _Cell:
    if model not in _BATCH_PER_GPU:
        raise DocumentError(f"{NAME}: {one_of('model', model, _BATCH_PER_GPU)}")
    update = VariableUpdate(heading["update"])
    on_gpus = update is VariableUpdate.PARAMETER_SERVER
    real = _DISTORTED if heading["distortions"] else _PLAIN
    workload = Workload(
        model=model,
        batch_size=_BATCH_PER_GPU[model],
        variable_update=update,
        all_reduce=AllReduce.NCCL if heading["nccl"] else AllReduce.COPY,
        input_pipeline=real if heading["data"] == "real" else "device",
        local_parameter_device=ParameterDevice.GPU if on_gpus else ParameterDevice.CPU,
    )
    return _Cell(
        table=heading["table"],
        cpu=cpu,
        workload=workload,
        topology=f"1x{heading['gpus']}",
        images_per_sec=figure(text, NAME),
    )


def _note(cell: _Cell, figures: dict[tuple[str, Workload], float | None]) -> str:
    notes = []
    workload, images_per_sec = cell.workload, cell.images_per_sec or 0.0
    if cell.cpu == "W-2133":
        notes.append("W-2133 reads low in most cells")
    if (lighter := _LIGHTER.get(workload.input_pipeline)) is not None:
        other = figures.get(cell.place(lighter))
        if other is not None and images_per_sec > other:
            notes.append(f"above {other:g} of the lighter input ({lighter})")
        synthetic = figures.get(cell.place("device"))
        if workload.model == "alexnet" and synthetic is not None:
            notes.append(f"bound by its input: {images_per_sec / synthetic:.2f} of synthetic")
    parameters = _PARAMETERS if workload.variable_update is VariableUpdate.PARAMETER_SERVER else ""
    notes.append(
        f"not in the document: GPU (probably GTX 1080 Ti, 11.3 TFLOPS), batch {workload.batch_size}, "
        f"mean of 2 runs, 2018{parameters}"
    )
    return "; ".join(notes)
