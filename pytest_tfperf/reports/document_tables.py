"""A machine's own results in the tables that the three documents have, column by column as their authors wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.past_result import PastResult
from pytest_tfperf.core.verdict import Outcome
from pytest_tfperf.core.workload import AllReduce, ParameterDevice, Trainer, VariableUpdate, Workload

NOT_MEASURED: Final = "not measured"

Figures = Mapping[str, Mapping[Key, float]]
"""The throughputs of each machine."""

_GPUS_OF_DGX1 = (1, 2, 4, 8)
_PIPELINES_OF_DGX1 = ("device", "host", "python")

_GPUS_OF_LAMBDA = 4
BATCH_OF_LAMBDA = {
    "resnet50": 64,
    "resnet101": 64,
    "resnet152": 32,
    "inception3": 64,
    "inception4": 16,
    "vgg16": 64,
    "alexnet": 512,
}
"""Images for each GPU, by model."""

_PIPELINES_OF_LAMBDA = {
    "syn": {"": "device"},
    "real": {"-distortions": "imagenet-distortions-consistent", "": "imagenet-consistent"},
}
_UPDATES_OF_LAMBDA: Mapping[str, Mapping[str, Any]] = {
    "parameter_server": {
        "variable_update": VariableUpdate.PARAMETER_SERVER,
        "local_parameter_device": ParameterDevice.GPU,
    },
    "replicated-nccl": {"all_reduce": AllReduce.NCCL},
    "replicated": {},
}

_TOPOLOGIES_OF_AZURE = ((1, 1), (1, 2), (2, 1), (2, 2))


def dgx1(figures: Figures) -> str:
    """tensorpack's page: ResNet-50 on one to eight GPUs. Each machine has two tables, one for each variable update.

    The column tensorpack shows Keras' `fit` on three pipelines, the column tensorflow/benchmarks our own loop.
    """
    blocks = []
    for machine, measured in figures.items():
        blocks.append(f"* Machine: {machine}")
        for update in (VariableUpdate.REPLICATED, VariableUpdate.PARAMETER_SERVER):
            rows = [_row_of_dgx1(measured, update, gpus) for gpus in _GPUS_OF_DGX1]
            columns = ("#GPU", "tensorpack(GPU/CPU/Python)", "tensorflow/benchmarks")
            lines = [" | ".join(row) for row in (columns, ("---", "---", "---"), *rows)]
            blocks += [f"variable_update={update.value}:", "\n".join(f"| {line} |" for line in lines)]
    return "\n\n".join(blocks)


def lambda_cpus(figures: Figures) -> str:
    """Lambda's page: seven models on four GPUs in nine tables, with a column for each machine."""
    blocks = []
    for data, pipelines in _PIPELINES_OF_LAMBDA.items():
        for update, choices in _UPDATES_OF_LAMBDA.items():
            for distortions, pipeline in pipelines.items():
                lines = [" | ".join(["CPU", *figures]) + " |", "|".join([":------:"] * (1 + len(figures))) + "|"]
                for model, batch in BATCH_OF_LAMBDA.items():
                    workload = Workload(model=model, batch_size=batch, input_pipeline=pipeline, **choices)
                    key = Key(workload.id, f"1x{_GPUS_OF_LAMBDA}")
                    cells = [_exact(measured.get(key)) for measured in figures.values()]
                    lines.append(" |".join([model, *cells]) + " |")
                heading = f"**{data}-{update}{distortions}-{_GPUS_OF_LAMBDA}gpus**"
                blocks += [heading, "\n".join(lines)]
    return "\n\n".join(blocks)


def azure(figures: Figures) -> str:
    """Azure's page: ResNet-50 under Horovod, a line for each topology and machine; `gpu` is on each node."""
    workload = Workload(model="resnet50", batch_size=64, variable_update=VariableUpdate.HOROVOD)
    lines = [
        "test | node | gpu | images/sec | images/sec/gpu | note",
        "--   | --   | --  | --         | --             | --",
    ]
    for nodes, gpus in _TOPOLOGIES_OF_AZURE:
        key = Key(workload.id, f"{nodes}x{gpus}")
        found = [(machine, measured[key]) for machine, measured in figures.items() if key in measured]
        for machine, total in found:
            cells = (len(lines) - 1, nodes, gpus, _exact(total), _exact(total / (nodes * gpus)), machine)
            lines.append(" | ".join(map(str, cells)))
        if not found:
            lines.append(f"{len(lines) - 1} | {nodes} | {gpus} | {NOT_MEASURED} | {NOT_MEASURED} |")
    return "\n".join(lines)


DOCUMENTS: Final[Mapping[str, Callable[[Figures], str]]] = {"dgx1": dgx1, "lambda": lambda_cpus, "azure": azure}


def document_tables(document: str, results: Iterable[PastResult]) -> str:
    """The tables of one of `DOCUMENTS` from these results; "" if they have none of its figures.

    The last valid result of a workload counts. Machines without any figure are left out.
    """
    render, figures = DOCUMENTS[document], dict[str, dict[Key, float]]()
    for one in results:
        if one.outcome != Outcome.INVALID and not one.is_slowed_on_purpose:
            figures.setdefault(one.machine, {})[one.key] = one.examples_per_sec
    known = {
        machine: measured
        for machine, measured in figures.items()
        if render({machine: measured}) != render({machine: {}})
    }
    return render(known) if known else ""


def _row_of_dgx1(measured: Mapping[Key, float], update: VariableUpdate, gpus: int) -> tuple[str, str, str]:
    workload, topology = Workload(model="resnet50", batch_size=64, variable_update=update), f"1x{gpus}"
    keras = [workload.with_(trainer=Trainer.KERAS, input_pipeline=pipeline) for pipeline in _PIPELINES_OF_DGX1]
    whole = [measured.get(Key(one.id, topology)) for one in keras]
    parts = "/".join(NOT_MEASURED if figure is None else f"{figure:.0f}" for figure in whole)
    return str(gpus), parts if any(whole) else NOT_MEASURED, _exact(measured.get(Key(workload.id, topology)))


def _exact(images_per_sec: float | None) -> str:
    return NOT_MEASURED if images_per_sec is None else f"{images_per_sec:.2f}"
