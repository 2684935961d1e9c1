"""Which models and input pipelines have names, read without importing TensorFlow.

A name is a public top-level function of a file in `training/models/` or `training/pipelines/`, with
dashes for underscores. The files are searched, not imported, because importing them would import TensorFlow, and
collection must not. Users' own names are added by `register` (the plugin's hook) and win over none of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pytest_tfperf.core.image_data import Data
from pytest_tfperf.core.workload import AllReduce, Optimizer, Precision, Trainer, VariableUpdate, Workload
from pytest_tfperf.errors import NotBuiltYet, WorkloadError, one_of

# The file whose pipelines read real images; a user's own pipeline looks for itself.
_READS_DATA = "pytest_tfperf.training.pipelines.imagenet:"

_TRAINING = Path(__file__).parents[1] / "training"
_registered: dict[str, dict[str, str]] = {"models": {}, "pipelines": {}}


def models() -> Mapping[str, str]:
    """Name -> "package.module:function" of each model that can be named."""
    return _functions("models") | _registered["models"]


def pipelines() -> Mapping[str, str]:
    """Name -> "package.module:function" of each input pipeline that can be named."""
    return _functions("pipelines") | _registered["pipelines"]


def register(room: str, names: Mapping[str, str]) -> None:
    """Add users' own names to `room` ("models" or "pipelines").

    Raises:
        WorkloadError: a name that is ours already or was given to another target, or a target that is not
            "package.module:function".
    """
    for name, target in names.items():
        if name in _functions(room):
            raise WorkloadError(f"{name!r} is one of pytest-tfperf's own {room}: give yours another name")
        if ":" not in target:
            raise WorkloadError(f"{name!r} = {target!r}: write the function as 'package.module:function'")
        known = _registered[room].setdefault(name, target)
        if known != target:
            raise WorkloadError(f"{name!r} names two {room}, {known!r} and {target!r}: give one of them another name")


def forget() -> Callable[[], None]:
    """Forget users' names, and return what brings today's back: pytest sessions run in one process, even nested."""
    before = registered()
    for names in _registered.values():
        names.clear()
    return lambda: _registered.update(before)


def resolve_model(name: str) -> str:
    """The "package.module:function" behind a model's name (a path is returned as it is).

    Raises:
        WorkloadError: no such name; lists the known ones.
    """
    return _resolve("model", models(), name)


def resolve_pipeline(name: str) -> str:
    """The "package.module:function" behind an input pipeline's name, as `resolve_model`."""
    return _resolve("input_pipeline", pipelines(), name)


def check(workload: Workload) -> None:
    """Raise WorkloadError where the workload can't be trained, on any devices.

    Raises:
        WorkloadError: a name that nobody has (the known ones are listed), or as `require_nothing_to_train`.
        NotBuiltYet: known names, but so far only in published figures and replayed logs.
    """
    resolve_model(workload.model)
    target = resolve_pipeline(workload.input_pipeline)
    if target.startswith(_READS_DATA) and target.endswith("_only"):
        require_nothing_to_train(workload)
    if workload.variable_update is VariableUpdate.HOROVOD:
        raise NotBuiltYet(
            f"{workload.id}: horovod takes a process for each GPU, which this version doesn't drive; "
            "`tfperf replay` judges its logs, and 'replicated' trains on the same GPUs in one process"
        )


def require_nothing_to_train(workload: Workload) -> None:
    """For a pipeline that is measured alone: what says how to train would be in the id, and do nothing.

    Raises:
        WorkloadError: names what to leave out.
    """
    idle = {
        "all_reduce": workload.all_reduce is not AllReduce.COPY,
        "precision": workload.precision is not Precision.FLOAT32,
        "tf32": not workload.tf32,
        "xla": workload.xla,
        "optimizer": workload.optimizer is not Optimizer.SGD,
        "trainer": workload.trainer is not Trainer.LOOP,
        "forward_only": workload.forward_only,
    }
    if any(idle.values()):
        named = ", ".join(field for field, is_idle in idle.items() if is_idle)
        raise WorkloadError(f"{workload.id}: its pipeline is measured alone, and nothing trained: leave out {named}")


def check_data(workload: Workload, data: Data) -> None:
    """Before a worker starts: is there the data set that the workload's pipeline reads, if it reads one?

    Raises:
        NoData, MeasurementError: as `Data.shards`.
    """
    if reads_data(workload):
        data.shards()


def reads_data(workload: Workload) -> bool:
    """Whether the workload's pipeline is one of ours that reads real images."""
    return pipeline_reads_data(workload.input_pipeline)


def pipeline_reads_data(name: str) -> bool:
    """The same of a pipeline's name."""
    return resolve_pipeline(name).startswith(_READS_DATA)


def _resolve(kind: str, known: Mapping[str, str], name: str) -> str:
    if ":" in name:
        return name
    if name not in known:
        raise WorkloadError(one_of(kind, name, known) + f" Your own: {kind}='package.module:function'.")
    return known[name]


# At the beginning of a line: top-level. A syntax tree says the same in twenty times the time, at each collection.
_FUNCTION = re.compile(r"^def ([a-z]\w*)\(", re.MULTILINE)


@cache
def _functions(room: str) -> dict[str, str]:
    return {
        name.replace("_", "-"): f"pytest_tfperf.training.{room}.{file.stem}:{name}"
        for file in sorted((_TRAINING / room).glob("[!_]*.py"))
        for name in _FUNCTION.findall(file.read_text(encoding="utf-8"))
    }


def registered() -> dict[str, dict[str, str]]:
    """The users' own names, room -> name -> target, so that a worker can know them too."""
    return {room: dict(names) for room, names in _registered.items()}
