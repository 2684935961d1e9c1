"""A launcher that runs the code of another checkout, and proves that it is not the current code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import final

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.workers.git_worktree import run_git
from pytest_tfperf.workers.interpreters import IMPORT_SECONDS, Interpreter
from pytest_tfperf.workers.launcher import Launcher, PreparedCommand
from pytest_tfperf.workers.lock import direct_url, source_folder
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.worker_run import Progress

_LIBRARIES = ("site-packages", "dist-packages")
_SAME = (
    "nothing of this repository is in it, so both sides would be the same. Give it a model, pipeline or program of "
    "your own"
)

# What each module would be loaded from, by a Python that begins as the user's program does.
_ORIGINS = """
import importlib.util, json, sys
first, *names = sys.argv[1:]
sys.path[0] = first
found = {}
for name in names:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    found[name] = spec.origin or next(iter(spec.submodule_search_locations or ()), "") if spec else ""
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """The code of a commit beside the user's own.

    Args:
        repository: root of the user's repository, links followed.
        folder: where the commit is checked out, links followed.
        name: what messages call it: "origin/main (1a2b3c4d5e6f)".
    """

    repository: Path
    folder: Path
    name: str

    @property
    def moved(self) -> dict[Path, Path]:
        """As in `Interpreter`."""
        return {self.repository: self.folder}

    def has_loaded(self, file: str) -> bool:
        """Whether the file is of this checkout."""
        return Path(file).is_relative_to(self.folder)

    def is_current(self, file: str) -> bool:
        """Whether the file is the user's own, and of no checkout and no virtual environment in the repository."""
        path, prefix = Path(file), Path(sys.prefix).resolve()
        is_library = any(part in path.parts for part in _LIBRARIES)
        if self.repository in prefix.parents:
            is_library |= path.is_relative_to(prefix)
        return path.is_relative_to(self.repository) and not path.is_relative_to(self.folder) and not is_library


@final
class CheckoutLauncher:
    """Starts what `local` starts, on the code of a checkout.

    An editable install, or a copy among the installed packages, gives the current code to every worker. Such a
    comparison would pass whatever the change costs, so it is refused.

    Args:
        local: starts workers under `interpreter`.
        interpreter: whose `moved` is the checkout's.
        checkout: whose code must run.
        may_be_same: whether workloads without any code of the repository are worth a comparison, because the packages
            differ.
    """

    def __init__(
        self, local: Launcher, interpreter: Interpreter, checkout: Checkout, *, may_be_same: bool = False
    ) -> None:
        self._local = local
        self._interpreter = interpreter
        self._checkout = checkout
        self._may_be_same = may_be_same

    def start(self, job: Job, progress: Progress) -> TrainingRun:
        """See `Launcher.start`.

        Raises:
            NotCompared: nothing of the repository is in the workload.
            TfperfError: the worker has loaded the current code; says how to mend it.
        """
        run = self._local.start(replace(job, reports_modules=True), progress)
        try:
            self._require_own(run.modules)
        except BaseException:
            run.close()
            raise
        return run

    def prepare_command(self, command: Command, devices: Devices, nodes: int) -> PreparedCommand:
        """See `Launcher.prepare_command`; paths that the command names lead into the checkout.

        Raises:
            NotCompared: the checkout lacks a file that the command names, or nothing of the repository is in it.
            TfperfError: an installed package would give the current code to it.
        """
        argv = tuple(self._moved(word, command.folder) for word in command.argv)
        environment = tuple((name, self._moved(value, "")) for name, value in command.environment)
        self._require_any_path(command)
        moved = replace(command, argv=argv, environment=environment)
        prepared = self._local.prepare_command(moved, devices, nodes)
        if own := _own_paths(self._interpreter.python, self._checkout):
            before = prepared.environment.get("PYTHONPATH", "")
            path = os.pathsep.join([*own, before] if before else own)
            prepared = replace(prepared, environment={**prepared.environment, "PYTHONPATH": path})
        self._require_own_packages(prepared)
        return prepared

    # Workers

    def _require_own(self, modules: Mapping[str, str]) -> None:
        if not modules:
            raise TfperfError(
                f"{self._checkout.name}: a worker on several nodes does not say whose code it runs, so nothing proves "
                "that two sides are compared",
                next_step="Compare on one node",
            )
        copies = _copies(self._checkout.repository) if self._interpreter.python == sys.executable else {}
        for module, file in modules.items():
            if self._checkout.is_current(file):
                raise self._not_two(module, file, "an editable install or an import path leads there")
            package = copies.get(module.partition(".")[0])
            if package is not None and not self._checkout.has_loaded(file):
                raise self._not_two(module, file, f"the package {package} was installed from this repository")
        if not self._may_be_same and not any(map(self._checkout.has_loaded, modules.values())):
            raise NotCompared(_SAME)

    def _not_two(self, module: str, file: str, why: str) -> TfperfError:
        top = module.partition(".")[0]
        return TfperfError(
            f"both sides would run the current code: at {self._checkout.name} {module} comes from {file}, and not from "
            f"{self._checkout.folder}: {why}",
            next_step=f"Let the import path decide on both sides: "
            f"PYTHONPATH={_source_root(self._checkout.folder, top)} pytest ...",
        )

    # Commands

    def _moved(self, text: str, folder: str) -> str:
        """An argument or a variable, with a path of the repository that the checkout has.

        Args:
            text: a path, perhaps after "--name=".
            folder: where relative paths begin; "" for absolute ones only.
        """
        found = self._in_repository(text, folder)
        if found is None:
            return text
        before, relative = found
        there, here = self._checkout.folder / relative, self._checkout.repository / relative
        is_relative = not text.removeprefix(before).startswith(os.sep)
        if there.exists():
            stays = is_relative and self._relative(folder) is not None
            return text if stays else before + str(there)
        if run_git(self._checkout.repository, "check-ignore", "--quiet", str(here)).returncode == 0:
            return before + str(here)  # data and environments, which git has on neither side
        raise NotCompared(f"NEW: {self._checkout.name} has no {relative}")

    def _in_repository(self, text: str, folder: str) -> tuple[str, Path] | None:
        """What is before the path, and the path from the repository's root; None where it is no such path.

        A word without a slash must be a file: "train" is more often a program's command than a folder.
        """
        before, equals, _ = text.rpartition("=") if text.startswith("-") else ("", "", text)
        path = text.removeprefix(before + equals)
        if not path or not (path.startswith(os.sep) or folder) or text == sys.executable:
            return None
        place = os.path.join(folder, path)  # noqa: PTH118  # a program's text may be too long for a Path
        is_path = (os.sep in path and os.path.exists(place)) or os.path.isfile(place)  # noqa: PTH110, PTH113
        relative = self._relative(place) if is_path else None
        return None if relative is None else (before + equals, relative)

    def _relative(self, place: str) -> Path | None:
        """From the repository's root; None where it lies elsewhere, or in an environment of Python."""
        real = Path(place).resolve() if place else Path.cwd().resolve()
        return real.relative_to(self._checkout.repository) if self._checkout.is_current(str(real)) else None

    def _require_any_path(self, command: Command) -> None:
        """Raise NotCompared where the command runs elsewhere and names nothing of the repository."""
        relative = self._relative(command.folder)
        if relative is not None:
            if not (self._checkout.folder / relative).is_dir():
                raise NotCompared(f"NEW: {self._checkout.name} has no folder {relative}")
            return
        texts = [(word, command.folder) for word in command.argv] + [(value, "") for _, value in command.environment]
        if not self._may_be_same and not any(self._in_repository(*text) for text in texts):
            raise NotCompared(_SAME)

    def _require_own_packages(self, prepared: PreparedCommand) -> None:
        """Refuse packages that were installed from the repository and don't come from the checkout."""
        if self._interpreter.python != sys.executable or not (packages := _packages_of(self._checkout.repository)):
            return
        script = next((word for word in prepared.argv[1:2] if word.endswith(".py")), "")
        first = str((prepared.folder / script).parent) if script else str(prepared.folder)
        done = subprocess.run(
            [self._interpreter.python, "-c", _ORIGINS, first, *packages],
            cwd=prepared.folder,
            env=dict(prepared.environment),
            capture_output=True,
            text=True,
            timeout=IMPORT_SECONDS,
            check=False,
        )
        for name, origin in json.loads(done.stdout or "{}").items():
            if origin and not self._checkout.has_loaded(os.path.realpath(origin)):
                raise self._not_two(name, origin, f"the package {packages[name]} was installed from this repository")


@cache
def _packages_of(repository: Path) -> dict[str, str]:
    """Top-level names of what is installed from the repository, editable or copied -> the package's name."""
    return {name: found.name for found in distributions() if _comes_from(found, repository) for name in _names(found)}


@cache
def _copies(repository: Path) -> dict[str, str]:
    """Those of `_packages_of` whose files lie among the installed packages."""
    return {
        name: found.name
        for found in distributions()
        if _comes_from(found, repository) and not direct_url(found).get("dir_info", {}).get("editable")
        for name in _names(found)
    }


def _comes_from(found: Distribution, repository: Path) -> bool:
    source = source_folder(direct_url(found))
    if source is None or found.name == "pytest-tfperf":  # workers run the driver's copy of it
        return False
    return source.is_relative_to(repository)


def _names(found: Distribution) -> set[str]:
    """The top-level names that a package gives; its own name where it does not say."""
    if said := (found.read_text("top_level.txt") or "").split():
        return set(said)
    parts = {file.parts[0].removesuffix(".py") for file in found.files or () if file.suffix == ".py"}
    return {part for part in parts if part.isidentifier()} or {found.name.replace("-", "_")}


@cache
def _own_paths(python: str, checkout: Checkout) -> tuple[str, ...]:
    """Folders of the repository that an editable install puts on this Python's path, in the checkout."""
    program = "import json, sys; print(json.dumps(sys.path[1:]))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            [python, "-c", program], cwd="/", env=environment, capture_output=True, text=True, check=False
        )
        paths = [os.path.realpath(path) for path in json.loads(done.stdout)]
    except (OSError, ValueError):
        return ()
    own = [Path(path).relative_to(checkout.repository) for path in paths if checkout.is_current(path)]
    return tuple(str(checkout.folder / path) for path in own)


def _source_root(folder: Path, top: str) -> Path:
    """The folder of the checkout from which a top-level name is imported, as a path from its root."""
    listed = run_git(
        folder, "ls-files", "--", f":(glob)**/{top}/__init__.py", f":(glob)**/{top}.py"
    ).stdout.splitlines()
    nearest = min(map(Path, listed), key=lambda path: len(path.parts), default=Path(top))
    return nearest.parent.parent if nearest.name == "__init__.py" else nearest.parent
