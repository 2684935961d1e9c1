"""The names of models and input pipelines, read without importing TensorFlow.

Each public top-level function of a file in `training/models/` or `training/pipelines/` is a name, with dashes for
underscores. The files are searched as text, because importing them would import TensorFlow, and collection must not.
Users add names of their own through the plugin's hooks (`register`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.data_sets import IMAGES, TOKENS, DataSet
from pytest_tfperf.errors import NotInstalled, WorkloadError, known_names, page, unknown

if TYPE_CHECKING:
    from pytest_tfperf.core.workload import Workload

_TRAINING = Path(__file__).parents[1] / "training"
_registered: dict[str, dict[str, str]] = {"models": {}, "pipelines": {}}

# The files whose pipelines read a data set; a user's own pipeline checks its data itself.
_READ_BY = {
    "pytest_tfperf.training.pipelines.imagenet": IMAGES,
    "pytest_tfperf.training.pipelines.texts": TOKENS,
}

# "def" at the beginning of a line: a top-level function. Parsing a syntax tree takes twenty times as long.
_FUNCTION = re.compile(r"^def ([a-z]\w*)\(", re.MULTILINE)


def models() -> Mapping[str, str]:
    """Return "package.module:function" of each model by its name, users' own included."""
    return _shipped("models") | _registered["models"]


def pipelines() -> Mapping[str, str]:
    """Return "package.module:function" of each input pipeline by its name, users' own included."""
    return _shipped("pipelines") | _registered["pipelines"]


def register(kind: str, names: Mapping[str, str]) -> None:
    """Add users' own names of a kind ("models" or "pipelines"), as a hook of theirs gives them.

    Raises:
        WorkloadError: they are no mapping of texts, the package ships the name, it has another target already, or a
            target is not "package.module:function".
    """
    if not isinstance(names, Mapping):
        raise WorkloadError(f"pytest_tfperf_{kind} gave {names!r:.60}: return {{'name': 'package.module:function'}}")
    for name, target in names.items():
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
    return {kind: dict(names) for kind, names in _registered.items()}


def forget() -> Callable[[], None]:
    """Forget users' names, and return a function that restores them: pytest sessions can be nested."""
    before = registered()
    for names in _registered.values():
        names.clear()
    return lambda: _registered.update(before)


def resolve_model(name: str) -> str:
    """Return the "package.module:function" of a model's name or path; a WorkloadError lists the known names."""
    return _resolve("model", models(), name)


def resolve_pipeline(name: str) -> str:
    """Return the "package.module:function" of a pipeline's name or path; a WorkloadError lists the known names."""
    return _resolve("input_pipeline", pipelines(), name)


def check(workload: Workload) -> None:
    """Check that the workload's names exist, and that its packages are installed.

    Raises:
        WorkloadError: an unknown model or pipeline, or training options for a pipeline that is measured alone.
        NotInstalled: Horovod, which the workload needs.
    """
    from pytest_tfperf.core.workload import VariableUpdate  # not at the top: each pytest imports this file

    resolve_model(workload.model)
    target = resolve_pipeline(workload.input_pipeline)
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
    return _READ_BY.get(resolve_pipeline(input_pipeline).partition(":")[0])


def _resolve(field: str, known: Mapping[str, str], name: str) -> str:
    if ":" in name:
        return name
    if name not in known:
        raise WorkloadError(
            unknown(field, name),
            next_step=f"{known_names(name, known)} For a function of your own: {field}='package.module:function'.",
        )
    return known[name]


@cache
def _shipped(kind: str) -> dict[str, str]:
    return {
        name.replace("_", "-"): f"pytest_tfperf.training.{kind}.{file.stem}:{name}"
        for file in sorted((_TRAINING / kind).glob("[!_]*.py"))
        for name in _FUNCTION.findall(file.read_text(encoding="utf-8"))
    }
