"""A launcher that runs the code of another checkout, and proves that it is not the current code."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.errors import NotCompared, TfperfError
from pytest_tfperf.workers.git_worktree import run_git
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher, PreparedCommand
from pytest_tfperf.workers.repository_packages import copies_from, origins_of, packages_from, paths_of
from pytest_tfperf.workers.training_run import TrainingRun
from pytest_tfperf.workers.worker_run import Progress

_LIBRARIES = ("site-packages", "dist-packages")
_SAME = (
    "nothing of this repository is in it, so both sides would be the same. Give it a model, pipeline or program of "
    "your own"
)

# What ends a path inside of other text, such as a shell's.
_ENDS_PATH = r"""\s:;,'"`=|&<>()\[\]{}"""


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
            self._require_installed_from(run.modules)
        except BaseException:
            run.close()
            raise
        return run

    def prepare_command(self, command: Command, devices: Devices, nodes: int) -> PreparedCommand:
        """See `Launcher.prepare_command`; paths that the command names lead into the checkout.

        Raises:
            NotCompared: the checkout lacks a file that the command names, or nothing of the repository is in it.
            TfperfError: an installed package, or a path inside of other text, would give the current code to it.
        """
        argv = tuple(
            self._moved(word, command.folder, f"{command.id}: argument {number}")
            for number, word in enumerate(command.argv)
        )
        environment = tuple(
            (name, self._moved(value, "", f"{command.id}: the variable {name}")) for name, value in command.environment
        )
        self._require_any_path(command)
        moved = replace(command, argv=argv, environment=environment)
        prepared = self._local.prepare_command(moved, devices, nodes)
        if own := _own_paths(self._interpreter.python, self._checkout):
            before = prepared.environment.get("PYTHONPATH", "")
            path = os.pathsep.join([*own, before] if before else own)
            prepared = replace(prepared, environment={**prepared.environment, "PYTHONPATH": path})
        self._require_own_program(moved, prepared)
        self._require_own_packages(prepared)
        return prepared

    # Workers

    def _require_installed_from(self, modules: Mapping[str, str]) -> None:
        if not modules:
            raise TfperfError(
                f"{self._checkout.name}: a worker on several nodes does not say whose code it runs, so nothing proves "
                "that two sides are compared",
                next_step="Compare on one node",
            )
        copies = copies_from(self._checkout.repository, self._interpreter.python)
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

    def _moved(self, text: str, folder: str, what: str) -> str:
        """An argument or a variable whose paths of the repository lead into the checkout.

        Args:
            text: paths with colons between them, as in PYTHONPATH, each perhaps after "name=".
            folder: where relative paths begin; "" for absolute ones only.
            what: how messages call it.
        """
        return os.pathsep.join(self._moved_part(part, folder, what) for part in self._parts(text, folder))

    def _moved_part(self, text: str, folder: str, what: str) -> str:
        found = self._in_repository(text, folder)
        if found is None:
            self._require_elsewhere(text, what)
            return text
        before, relative = found
        self._require_elsewhere(before, what)
        there, here = self._checkout.folder / relative, self._checkout.repository / relative
        is_relative = not text.removeprefix(before).startswith(os.sep)
        if there.exists():
            stays = is_relative and self._relative(folder) is not None
            return text if stays else before + str(there)
        if self._is_ignored(here):
            return before + str(here)  # data and environments, which git has on neither side
        if here.exists():
            raise NotCompared(f"NEW: {self._checkout.name} has no {relative}")
        return before + str(there)  # what the program will write, on each side beside its own code

    def _parts(self, text: str, folder: str) -> list[str]:
        """The paths of a list, and the texts between the colons of anything else."""
        return [text] if self._in_repository(text, folder) else text.split(os.pathsep)

    def _in_repository(self, text: str, folder: str) -> tuple[str, Path] | None:
        """What is before the path, and the path from the repository's root; None where it is no such path.

        A word without a slash must be a file: "train" is more often a program's command than a folder. An absolute path
        need not exist: the program may write it.
        """
        if text == sys.executable:
            return None
        for before in ("", text[: text.rfind("=") + 1]):
            path = text.removeprefix(before)
            is_absolute = path.startswith(os.sep)
            if not path or not (is_absolute or folder):
                continue
            place = os.path.join(folder, path)  # noqa: PTH118  # a program's text may be too long for a Path
            exists = (os.sep in path and os.path.exists(place)) or os.path.isfile(place)  # noqa: PTH110, PTH113
            relative = self._relative(place) if exists or is_absolute else None
            if relative is not None and (exists or not re.search(f"[{_ENDS_PATH}]", str(relative))):
                slashes = len(path) - len(path.lstrip(os.sep))
                return before + os.sep * (slashes - 1), relative  # "file:///repo/x" keeps its two
        return None

    def _require_elsewhere(self, text: str, what: str) -> None:
        """Refuse text with a path of the repository in it, which would lead both sides to the current code."""
        for path in _absolute_paths(text, self._checkout.repository):
            relative = self._relative(path)
            if relative is not None and not self._is_ignored(self._checkout.repository / relative):
                raise TfperfError(
                    f"{what} has {path} inside of other text, so both sides would run the current code: "
                    f"{self._checkout.name} is in {self._checkout.folder}",
                    next_step="Write a path that is relative to where the command runs, which is cwd=; or give the "
                    "path as an argument or a variable of its own",
                )

    def _require_own_program(self, command: Command, prepared: PreparedCommand) -> None:
        """Refuse a program that PATH finds in the repository: the variable is pytest's own, and is not moved."""
        name = command.argv[0]
        found = None if os.sep in name else shutil.which(name, path=prepared.environment.get("PATH"))
        relative = self._relative(found) if found is not None else None
        if relative is not None and not self._is_ignored(self._checkout.repository / relative):
            raise TfperfError(
                f"{command.id}: PATH finds {name} at {found}, so both sides would run the current code",
                next_step="Write the program's path, relative to where the command runs, which is cwd=",
            )

    def _is_ignored(self, path: Path) -> bool:
        return run_git(self._checkout.repository, "check-ignore", "--quiet", str(path)).returncode == 0

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
        if not self._may_be_same and not any(self._has_any(*text) for text in texts):
            raise NotCompared(_SAME)

    def _has_any(self, text: str, folder: str) -> bool:
        """Whether a path in it leads to something in the checkout."""
        found = (self._in_repository(part, folder) for part in self._parts(text, folder))
        return any((self._checkout.folder / one[1]).exists() for one in found if one is not None)

    def _require_own_packages(self, prepared: PreparedCommand) -> None:
        """Refuse packages that were installed from the repository and don't come from the checkout."""
        python = self._interpreter.python
        if not (packages := packages_from(self._checkout.repository, python)):
            return
        script = next((word for word in prepared.argv[1:2] if word.endswith(".py")), "")
        first = str((prepared.folder / script).parent) if script else str(prepared.folder)
        origins = origins_of(packages, python, first, prepared.folder, prepared.environment)
        for name, origin in origins.items():
            if origin and not self._checkout.has_loaded(os.path.realpath(origin)):
                raise self._not_two(name, origin, f"the package {packages[name]} was installed from this repository")


def _absolute_paths(text: str, repository: Path) -> list[str]:
    """The absolute paths in a text, also after an option of a compiler: "-I/usr/include".

    >>> _absolute_paths("cd /repo/x && ./run -I/usr 'open=/a b' src/train", Path("/repo"))
    ['/repo/x', '/usr', '/a']
    """
    begins = r"""(?:(?<![^\s'"])-\w+|(?<![\w.~$*/\])}-]))"""
    # The repository's own path may have spaces.
    path = rf"/*{re.escape(str(repository))}(?![^/{_ENDS_PATH}])[^{_ENDS_PATH}]*|/[^{_ENDS_PATH}]*"
    return re.findall(f"{begins}({path})", text)


def _own_paths(python: str, checkout: Checkout) -> tuple[str, ...]:
    """Folders of the repository that an editable install puts on this Python's path, in the checkout."""
    paths = map(os.path.realpath, paths_of(python))
    own = [Path(path).relative_to(checkout.repository) for path in paths if checkout.is_current(path)]
    return tuple(str(checkout.folder / path) for path in own)


def _source_root(folder: Path, top: str) -> Path:
    """The folder of the checkout from which a top-level name is imported, as a path from its root."""
    listed = run_git(
        folder, "ls-files", "--", f":(glob)**/{top}/__init__.py", f":(glob)**/{top}.py"
    ).stdout.splitlines()
    nearest = min(map(Path, listed), key=lambda path: len(path.parts), default=Path(top))
    return nearest.parent.parent if nearest.name == "__init__.py" else nearest.parent
