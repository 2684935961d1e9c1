"""The reference environment: the Python and the user's code that a baseline was recorded with, still runnable."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.git_worktree import DIRTY
from pytest_tfperf.workers.import_paths import import_paths, python_path, working_folder
from pytest_tfperf.workers.interpreters import find_python, require_tensorflow
from pytest_tfperf.workers.reference_lock import SUFFIX

_PACKAGE = str(Path(__file__).parents[1] / "__init__.py")
_RECORD = "Record them again: pytest --update-baselines"
_IMPORT_SECONDS = 300  # a cold network disk

# Imports as a worker does: pytest_tfperf is the driver's, and the user's own code comes after what is installed.
_IMPORTS = """
import importlib, importlib.util, json, os, sys
package, paths, targets = json.load(sys.stdin)
spec = importlib.util.spec_from_file_location("pytest_tfperf", package)
sys.modules["pytest_tfperf"] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.path += [path for path in paths if path not in sys.path]
answer, sys.stdout = sys.stdout, sys.stderr
faults = {}
for target in targets:
    name, _, function = target.partition(":")
    try:
        if not callable(getattr(importlib.import_module(name), function, None)):
            faults[target] = "module %r has no function %r" % (name, function)
    except BaseException as error:
        faults[target] = "importing %r raises %s: %s" % (name, type(error).__name__, error)
answer.write("\\n" + json.dumps(faults) + "\\n")
answer.flush()
os._exit(0)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceEnvironment:
    """An interpreter with the packages, and the user's code at the commit, that baselines were recorded with.

    Args:
        name: what `tfperf reference list` calls it; the interpreter's path where --tfperf-reference names one.
        python: the interpreter, an absolute path.
        source: folder of the user's code; None: today's code.
        replaces: the folder that `source` is another copy of; None: pytest's rootdir.
        lock: file name of the lock that it was built from; "" where --tfperf-reference names it.
        commit: the commit of `source`; "" where it isn't known.
    """

    name: str
    python: Path
    source: Path | None = None
    replaces: Path | None = None
    lock: str = ""
    commit: str = ""

    def moved(self, root: Path) -> dict[Path, Path]:
        """What `LocalLauncher` takes as `moved`; `root` is pytest's rootdir."""
        return {self.replaces or root: self.source} if self.source else {}


class State(StrEnum):
    """Whether an environment can be used: it is whole and unchanged, something is missing, or something changed."""

    OK = "ok"
    BROKEN = "broken"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a baseline has no reference environment that can be used.

    Args:
        fact: what is missing, broken or changed; a sentence without its full stop.
        mend: the command, or what else to do, that gives one.
        state: broken, or stale where something changed.
    """

    fact: str
    mend: str
    state: State = State.BROKEN

    def __str__(self) -> str:
        return f"{self.fact}. {self.mend}"


@dataclass(frozen=True, slots=True)
class Checked:
    """What trying a reference environment gave.

    Args:
        tensorflow: version that it imports; "" where it can't.
        problem: why nothing can be measured in it; None where something can.
        unknown: workload id -> why its model or pipeline is not in the reference environment's code.
    """

    tensorflow: str = ""
    problem: Missing | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


def parse_reference(text: str) -> ReferenceEnvironment:
    """What `--tfperf-reference=PYTHON[:SOURCE_DIR]` names: an environment that somebody else keeps.

    Raises:
        ValueError: PYTHON is none that can be run, or SOURCE_DIR is no folder.
    """
    python, colon, folder = text.partition(":")
    found = find_python(python)
    if not colon:
        return ReferenceEnvironment(name=str(found), python=found)
    source = Path(folder).expanduser().absolute()
    if not folder or not source.is_dir():
        raise ValueError(f"must name a folder of source code after the colon, and {folder!r} is none")
    return ReferenceEnvironment(name=text, python=found, source=source)


def unrepeatable(row: Baseline) -> Missing | None:
    """Why no reference environment can be built for a baseline; None where git and an index may have all of it.

    For recording, too: what it gives for a new row is the warning.
    """
    if not re.fullmatch(r"[^/]+" + re.escape(SUFFIX), row.lock):
        return Missing("baselines that name no lock have no reference environment", _RECORD)
    if not row.commit:
        return Missing(
            "baselines recorded outside of a git repository have no reference environment",
            f"Commit the tests and their models to one. {_RECORD}",
        )
    if row.commit.endswith(DIRTY):
        return Missing(
            f"baselines recorded with uncommitted changes ({row.commit}) have no reference environment",
            f"Commit the changes. {_RECORD}",
        )
    return None


def check(environment: ReferenceEnvironment, workloads: Iterable[Workload], root: Path) -> Checked:
    """Try it: does its Python import TensorFlow, and does its code have the workloads' models and pipelines?

    Takes as long as importing TensorFlow, twice where a model or pipeline is the user's own. Trains nothing.

    Args:
        environment: to be tried.
        workloads: known to `catalogue.check`.
        root: pytest's rootdir.
    """
    targets = {workload.id: _own_functions(workload) for workload in workloads}
    try:
        tensorflow = require_tensorflow(environment.python)
        wanted = sorted({target for own in targets.values() for target in own})
        faults = _faults(environment.python, environment.moved(root), wanted)
    except TfperfError as error:
        fact, _, advice = str(error).partition("\n")
        if environment.lock:  # a package more or another version would no longer be what was recorded with
            advice = f"Build it again: tfperf reference remove {environment.name}, then tfperf reference create"
        return Checked(problem=Missing(f"the reference environment {environment.name} can't be used: {fact}", advice))
    unknown = {id: "; ".join(faults[target] for target in own if target in faults) for id, own in targets.items()}
    return Checked(tensorflow=tensorflow, unknown={id: why for id, why in unknown.items() if why})


def _own_functions(workload: Workload) -> list[str]:
    """The user's own "package.module:function" that a workload needs; pytest_tfperf's come with the driver."""
    targets = (catalogue.resolve_model(workload.model), catalogue.resolve_pipeline(workload.input_pipeline))
    return [target for target in targets if not target.startswith("pytest_tfperf.")]


def _faults(python: Path, moved: Mapping[Path, Path], targets: Sequence[str]) -> dict[str, str]:
    """Why functions can't be imported under `python`, by target; those that can are left out.

    Raises:
        TfperfError: it does not answer.
    """
    if not targets:
        return {}
    hidden = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}
    try:
        done = subprocess.run(
            [str(python), "-P", "-c", _IMPORTS],
            input=json.dumps([_PACKAGE, import_paths(moved), targets]),
            cwd=working_folder(moved),
            env={**os.environ, **hidden, "PYTHONPATH": python_path(moved)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_IMPORT_SECONDS,
            check=False,
        )
        faults = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        raise TfperfError(f"{python} did not import {', '.join(targets)} within {_IMPORT_SECONDS} s") from None
    except OSError as error:
        raise TfperfError(f"{python} can't be run: {error.strerror}") from None
    except (IndexError, ValueError):  # a crash in native code
        return dict.fromkeys(targets, f"importing it ends {python} with status {done.returncode}")
    return {str(target): str(fault) for target, fault in faults.items()}
