"""The reference environment: the Python and the user's code that a baseline was recorded with, kept runnable."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, WorkloadError
from pytest_tfperf.workers.interpreters import find_python, try_imports


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceEnvironment:
    """An interpreter with the packages, and the user's code at the commit, that baselines were recorded with.

    Args:
        name: its name in `tfperf reference list`, or the text given to --tfperf-reference.
        python: the interpreter, an absolute path.
        source: folder of the user's code; None for the current code.
        replaces: the folder that `source` is another copy of; None for pytest's rootdir.
    """

    name: str
    python: Path
    source: Path | None = None
    replaces: Path | None = None

    @property
    def is_named(self) -> bool:
        """Whether --tfperf-reference names it: the user maintains it, and `tfperf reference` does not know it."""
        return self.replaces is None

    def moved(self, root: Path) -> dict[Path, Path]:
        """Folders to take from elsewhere, as in `Interpreter`; `root` is pytest's rootdir."""
        return {self.replaces or root: self.source} if self.source else {}


def parse_reference(text: str) -> ReferenceEnvironment:
    """The environment that `--tfperf-reference=PYTHON[:SOURCE_DIR]` names; the user maintains it.

    Raises:
        ValueError: PYTHON can't be run, or SOURCE_DIR is no folder.
    """
    python, colon, folder = text.partition(":")
    found = find_python(python)
    if not colon:
        return ReferenceEnvironment(name=text, python=found)
    source = Path(folder).expanduser().absolute()
    if not folder or not source.is_dir():
        raise ValueError(f"must name a folder of source code after the colon, and {folder!r} is none")
    return ReferenceEnvironment(name=text, python=found, source=source)


def check(environment: ReferenceEnvironment, workloads: Iterable[Workload], root: Path) -> tuple[str, dict[str, str]]:
    """Check that the Python imports TensorFlow, and that the code has the workloads' models and pipelines.

    Takes as long as importing TensorFlow, and trains nothing. Returns TensorFlow's version, and why a workload can't be
    used, by id, for each whose model or pipeline is missing, there or here.

    Args:
        environment: to be checked.
        workloads: what is to be measured in it.
        root: pytest's rootdir.

    Raises:
        TfperfError: nothing can be measured in it.
    """
    needed: dict[str, list[str]] = {}
    unknown: dict[str, str] = {}
    for workload in workloads:
        try:
            needed[workload.id] = _own_functions(workload)
        except WorkloadError as error:  # a row of a model that was renamed, or whose conftest.py was not loaded
            unknown[workload.id] = str(error)
    functions = {function for own in needed.values() for function in own}
    try:
        tensorflow, faults = try_imports(environment.python, functions, environment.moved(root))
    except TfperfError as error:
        why = str(error.lines[0])
        raise TfperfError(
            f"the reference environment {environment.name} can't be used: {why}", next_step=_next_step(environment)
        ) from None
    for id, own in needed.items():
        if why := "; ".join(faults[name] for name in own if name in faults):
            unknown[id] = why
    return tensorflow, unknown


def _next_step(environment: ReferenceEnvironment) -> str:
    another = "name another: --tfperf-reference=PYTHON"
    if environment.is_named:
        return f"Install what {environment.python} lacks (Python 3.11 or newer, with TensorFlow), or {another}"
    return f"Build it again (tfperf reference remove {environment.name}, then tfperf reference create), or {another}"


def _own_functions(workload: Workload) -> list[str]:
    """The user's functions that a workload needs, as "package.module:function"; our own are always there."""
    functions = (catalogue.resolve_model(workload.model), catalogue.resolve_pipeline(workload.input_pipeline))
    return [function for function in functions if not function.startswith("pytest_tfperf.")]
