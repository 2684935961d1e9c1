"""The names of models and input pipelines, and what devices can train, known without importing TensorFlow.

Each public top-level function of a file in `training/models/` or `training/pipelines/` is a name, with dashes for
underscores. The files are searched as text, because importing them would import TensorFlow, and collection must not.
Users add names of their own through the plugin's hooks (`register`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cache, partial
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.data_sets import IMAGES, TOKENS, DataSet
from pytest_tfperf.errors import NotInstalled, WorkloadError, known_names, page, unknown

if TYPE_CHECKING:  # each pytest imports this file
    from pytest_tfperf.core.topology import Topology
    from pytest_tfperf.core.workload import Workload

_TRAINING = Path(__file__).parents[1] / "training"
_KINDS = {"model": "models", "input_pipeline": "pipelines"}
_registered: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS.values()}

# The files whose pipelines read a data set; a user's own pipeline checks its data itself.
_READ_BY = {
    "pytest_tfperf.training.pipelines.imagenet": IMAGES,
    "pytest_tfperf.training.pipelines.texts": TOKENS,
}

# "def" at the beginning of a line: a top-level function. Parsing a syntax tree takes twenty times as long.
_FUNCTION = re.compile(r"^def ([a-z]\w*)\(", re.MULTILINE)


def names(kind: str) -> Mapping[str, str]:
    """Return "package.module:function" of each name of a kind ("models" or "pipelines"), users' own included."""
    return _shipped(kind) | _registered[kind]


def register(kind: str, own: Mapping[str, str]) -> None:
    """Add users' own names of a kind ("models" or "pipelines"), as a hook of theirs gives them.

    Raises:
        WorkloadError: they are no mapping of texts, the package ships the name, it has another target already, or a
            target is not "package.module:function".
    """
    if not isinstance(own, Mapping):
        raise WorkloadError(f"pytest_tfperf_{kind} gave {own!r:.60}: return {{'name': 'package.module:function'}}")
    for name, target in own.items():
        if not isinstance(name, str) or not isinstance(target, str):
            raise WorkloadError(
                f"{name!r:.60} of {kind} is {target!r:.60}: write both as texts, the function as "
                "'package.module:function', because another process imports it"
            )
        if name in _shipped(kind):
            raise WorkloadError(f"{name!r} is one of pytest-tfperf's own {kind}: give yours another name")
        if ":" not in target:
            raise WorkloadError(f"{name!r} = {target!r}: write the function as 'package.module:function'")
        known = _registered[kind].setdefault(name, target)
        if known != target:
            raise WorkloadError(f"{name!r} names two {kind}, {known!r} and {target!r}: give one of them another name")


def registered() -> dict[str, dict[str, str]]:
    """Return users' own names, kind -> name -> target; a worker registers them too."""
    return deepcopy(_registered)


def forget() -> Callable[[], None]:
    """Forget users' names, and return a function that restores them: pytest sessions can be nested."""
    before = registered()
    for own in _registered.values():
        own.clear()
    return partial(_registered.update, before)


def resolve(field: str, name: str) -> str:
    """Return the "package.module:function" of a name or path that a workload's field ("model", "input_pipeline") has.

    Raises:
        WorkloadError: an unknown name; lists the known ones.
    """
    if ":" in name:
        return name
    known = names(_KINDS[field])
    if name not in known:
        raise WorkloadError(
            unknown(field, name),
            next_step=f"{known_names(name, known)} For a function of your own: {field}='package.module:function'.",
        )
    return known[name]


def check(workload: Workload) -> None:
    """Check that the workload's names exist, and that its packages are installed.

    Raises:
        WorkloadError: an unknown model or pipeline, or training options for a pipeline that is measured alone.
        NotInstalled: Horovod, which the workload needs.
    """
    from pytest_tfperf.core.workload import VariableUpdate

    resolve("model", workload.model)
    target = resolve("input_pipeline", workload.input_pipeline)
    if target.partition(":")[0] in _READ_BY and target.endswith("_only"):
        require_no_training_options(workload)
    if workload.variable_update is VariableUpdate.HOROVOD and find_spec("horovod") is None:
        raise NotInstalled(
            f"{workload.id}: Horovod is not installed here",
            next_step=f"The commands that build it for today's TensorFlow: {page('cluster.md')}",
        )


def require_own_modules(workload: Workload, folder: Path) -> None:
    """Check that a worker would import a user's model or pipeline from the test's folder, where it has such a module.

    Raises:
        WorkloadError: Python would import another module of that name, which would be measured under the same id.
    """
    for name, target in (("model", workload.model), ("input_pipeline", workload.input_pipeline)):
        top = target.partition(":")[0].partition(".")[0]
        own = next((path for path in (folder / f"{top}.py", folder / top / "__init__.py") if path.is_file()), None)
        if ":" not in target or own is None:
            continue
        spec = PathFinder.find_spec(top)
        if spec is not None and spec.origin and Path(spec.origin).resolve() != own.resolve():
            raise WorkloadError(
                f"{workload.id}: {name}={target!r} would be read from {spec.origin}, and not from {own} beside the "
                "test: give one of the two modules another name"
            )


def require_no_training_options(workload: Workload) -> None:
    """Check that every training option has its default, because a pipeline measured by itself ignores them.

    Raises:
        WorkloadError: names the options to leave out.
    """

    # In the id they would suggest a difference that does not exist.
    options = ("all_reduce", "precision", "tf32", "xla", "optimizer", "trainer", "forward_only")
    plain = type(workload)(
        model=workload.model, batch_size=workload.batch_size, variable_update=workload.variable_update
    )
    given = [name for name in options if getattr(workload, name) != getattr(plain, name)]
    if given:
        raise WorkloadError(
            f"{workload.id}: its input pipeline is measured without training: leave out {', '.join(given)}"
        )


def data_set_of(input_pipeline: str) -> DataSet | None:
    """Return the data set that a shipped pipeline reads; None for all other pipelines."""
    return _READ_BY.get(resolve("input_pipeline", input_pipeline).partition(":")[0])


@cache
def _shipped(kind: str) -> dict[str, str]:
    return {
        name.replace("_", "-"): f"pytest_tfperf.training.{kind}.{file.stem}:{name}"
        for file in sorted((_TRAINING / kind).glob("[!_]*.py"))
        for name in _FUNCTION.findall(file.read_text(encoding="utf-8"))
    }


def require_trainable(workload: Workload, topology: Topology) -> None:
    """Check that the topology's taken devices can train `workload`.

    Raises:
        WorkloadError: they lack what its all-reduce, parameter device or XLA needs, or its update can't train on
            several nodes; says which choices work.
    """
    if fault := _fault(workload, topology):
        raise WorkloadError(f"{workload.id}: {fault}")


def _fault(workload: Workload, topology: Topology) -> str:
    """Return why the devices can't train the workload, and what to use instead; "" if they can."""
    from pytest_tfperf.core.topology import DeviceKind
    from pytest_tfperf.core.workload import (
        ALL_REDUCES,
        DISTRIBUTED,
        AllReduce,
        ParameterDevice,
        Trainer,
        VariableUpdate,
    )

    devices = topology.devices
    assert devices is not None, "the fixture has refused a topology without devices taken"
    nodes, update = topology.node_count, workload.variable_update
    on_gpus = devices.kind is DeviceKind.GPU
    by_nccl = workload.all_reduce is AllReduce.NCCL
    parameters_on_gpu = workload.local_parameter_device is ParameterDevice.GPU
    if nodes > 1 and update not in (*DISTRIBUTED, VariableUpdate.PARAMETER_SERVER):
        return (
            f"variable_update={update.value!r} trains on one node, and this test takes {nodes}; on several nodes use "
            "'collective', 'horovod' or 'parameter_server'"
        )
    if nodes > 1 and workload.trainer is Trainer.KERAS:
        return f"model.fit trains on one node, and this test takes {nodes}; use trainer='loop'"
    if devices.split and update is VariableUpdate.HOROVOD and devices.count > 1:
        return "Horovod starts a process for each GPU, and here one GPU is split; leave out tfperf_split_gpu"
    cpus = f"{devices.count} virtual CPU devices" if devices.count > 1 else "the CPU"
    others = [repr(choice.value) for choice in ALL_REDUCES.get(update, ()) if choice != "nccl"]
    without_nccl = f"all_reduce={' or '.join(others)}"
    if by_nccl and not on_gpus:
        return f"all_reduce='nccl' needs GPUs, and this test runs on {cpus}; on CPUs use {without_nccl}"
    if by_nccl and devices.split and devices.count > 1:
        return (
            "all_reduce='nccl' needs a GPU for each replica, and here one GPU is split; "
            f"leave out tfperf_split_gpu, or use {without_nccl}"
        )
    if workload.all_reduce is AllReduce.HIERARCHICAL and devices.count > 1 and devices.count % 2:
        # TensorFlow's cross_device_utils sums two halves of n // 2 replicas each, and silently drops the last one.
        return (
            f"all_reduce='hierarchical' needs an even number of devices, and there are {devices.count}: "
            "TensorFlow would ignore the gradients of one; use all_reduce='copy' or 'nccl'"
        )
    if parameters_on_gpu and not on_gpus:
        return (
            f"local_parameter_device='gpu' needs GPUs, and this test runs on {cpus}; "
            "leave it out to keep the parameters, or the sums of gradients, on the CPU"
        )
    # A parameter server that is the one device also trains the variables that it keeps.
    is_apart = nodes * devices.count > 1 or on_gpus is not parameters_on_gpu
    if workload.xla and update is VariableUpdate.PARAMETER_SERVER and is_apart:
        return "XLA can't compile a step whose variables are on another device; use variable_update='replicated'"
    if workload.xla and workload.trainer is Trainer.KERAS and devices.count > 1 and not by_nccl:
        return (
            "model.fit also compiles the update, and inside XLA replicas exchange gradients by NCCL only; use "
            "all_reduce='nccl' on GPUs, or trainer='loop' and a model that is not compiled"
        )
    return ""
