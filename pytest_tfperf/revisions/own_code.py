"""The proof that a side of a comparison ran its own code, and neither the other side's nor a copy that both share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Final, final
from urllib.parse import unquote, urlsplit

from pytest_tfperf.errors import Lack, NotCompared, TfperfError
from pytest_tfperf.revisions.checkout import Checkout, absolute_paths, is_installed
from pytest_tfperf.revisions.git import run_git
from pytest_tfperf.revisions.lock import direct_url
from pytest_tfperf.revisions.program_sources import Sources

_METADATA: Final = (".egg-info", ".dist-info")
_OF_PROJECT: Final = ("pyproject.toml", "setup.py", "setup.cfg")
_SOURCE_ROOTS: Final = ("", "src")
_NAMES_NO_CODE: Final = ("PATH", "PYTHONPATH", "PWD", "OLDPWD", "TFPERF_", "PYTEST_")
_SHOWN: Final = 3


@final
class OwnCode:
    """Checks the files that the workers and programs of a side have loaded and read.

    Args:
        may_be_same: whether to compare without any code of the repository, because the packages differ.
        lacking: the other side, whose checkout may lack files that git ignores and that this side reads.
    """

    def __init__(self, checkout: Checkout, *, may_be_same: bool = False, lacking: OwnCode | None = None) -> None:
        self._checkout = checkout
        self._may_be_same = may_be_same
        self._lacking = lacking
        # Files that git ignores and that this side read from the user's own folder, such as data.
        self.shared: set[Path] = set()

    def require_loaded(self, modules: Mapping[str, str]) -> None:
        """Return if a worker has loaded its modules from this side's code.

        Args:
            modules: name -> file; empty from workers on several nodes, which don't report them.

        Raises:
            NotCompared: nothing of the repository is among them.
            TfperfError: one is the other side's, or a copy that both sides share; says how to fix it.
        """
        if not modules:
            raise TfperfError(
                f"{self._checkout.name}: a worker on several nodes does not say whose code it runs, so nothing proves "
                "that two sides are compared",
                next_step="Compare on one node",
            )
        for module, file in modules.items():
            if self._checkout.is_foreign(Path(file)):
                raise self._not_two(module, file, "an editable install or an import path leads there")
        others = {name: file for name, file in modules.items() if not self._checkout.is_own(Path(file))}
        self._refuse_copies(others)
        own = {Path(file) for module, file in modules.items() if module not in others}
        self._look_for_lacking("the worker", self._checkout.ignored(own), frozenset(own))
        if not self._may_be_same and len(others) == len(modules):
            raise NotCompared(Lack.OWN_CODE)

    def require_read(
        self, command: str, sources: Sources, named: Iterable[Path], environment: Mapping[str, str]
    ) -> TfperfError | None:
        """Return if a program has read this side's code, with what leaves doubt that it ran no other; None for nothing.

        A file that a program runs is its side's own or installed; any other is the same file on both sides.

        Args:
            command: its id.
            named: paths of this side's code that its arguments and variables name; they count where no Python reported
                the files that it reads.

        Raises:
            NotCompared: it has read nothing of the repository.
            TfperfError: it has read the other side's code, a copy that both sides share, or built code that the other
                side lacks; says how to fix it.
        """
        ignored = self._checkout.ignored(sources.files)
        self._refuse_foreign(command, sources, ignored, environment)
        self._refuse_copies(sources.packages)
        self.shared |= {file for file in ignored if self._checkout.is_foreign(file)}
        files = [*sources.files, *([] if sources.has_python else (path for path in named if path.is_file()))]
        own = {file for file in files if self._checkout.is_own(file)}
        # What the program itself has just made in this side's folder, its side's code makes.
        found = [file for file in own & ignored if file.exists() and file.stat().st_mtime < sources.began]
        lacking = self._look_for_lacking(command, found, sources.code)
        if shared := sorted(file for file in sources.code | sources.programs if self._is_shared(file)):
            return TfperfError(
                f"{command}: both sides run {_shown(shared)}, which is in no commit",
                next_step="If it is built from this repository, let the command build it in the folder where it runs, "
                "as in ['bash', '-c', 'make && ...']; if it is another project's, install it, or add it as a "
                "submodule",
            )
        if sources.unwatched:
            return TfperfError(
                f"{command}: nothing tells which files this process reads: {sources.unwatched}",
                next_step="Start a Python without -I, -E and -S, as the user who runs pytest, and keep PYTHONPATH in "
                "its environment, as in PYTHONPATH=$PYTHONPATH:src; it must be Python 3.8 or newer",
            )
        # Code that git ignores was built here, and data was not.
        if not self._may_be_same and not any(file in sources.code or file not in ignored for file in own):
            raise NotCompared(Lack.OWN_CODE)
        if sources.not_python or not sources.has_python:
            why = f"not Python but this process does the work: {sources.not_python}"
            return TfperfError(
                f"{command}: nothing tells which files it reads: {why if sources.has_python else 'it runs no Python'}",
                next_step="A loss is found all the same; to see it pass, judge it against a baseline",
            )
        return lacking

    def _is_shared(self, file: Path) -> bool:
        return self._checkout.is_foreign(file) or not (self._checkout.is_own(file) or is_installed(file))

    def _refuse_foreign(
        self, command: str, sources: Sources, ignored: frozenset[Path], environment: Mapping[str, str]
    ) -> None:
        """Refuse files of the other side, but for those that git ignores in the user's own folder."""
        foreign = {real: given for real, given in sources.files.items() if self._checkout.is_foreign(real)}
        if read := [file for file in foreign if file not in ignored or not self._checkout.is_current(file)]:
            given = foreign[read[0]]
            raise TfperfError(
                f"{command}: both sides would run the same code: at {self._checkout.name} it read {_shown(read)}, and "
                f"not what is in {self._checkout.folder}",
                next_step=self._way_to(given if given != read[0] else None, read[0], environment),
            )

    def _way_to(self, link: Path | None, file: Path, environment: Mapping[str, str]) -> str:
        """The next step for a program that read a file of the other side."""
        if link is not None:
            return f"The link {link} leads there: commit a relative one"
        names = sorted(
            name
            for name, value in environment.items()
            if not name.startswith(_NAMES_NO_CODE) and self._may_lead_there(value)
        )
        if names:
            return (
                f"{' and '.join(names)} in its environment may lead there: give such a variable to the command itself, "
                f"env={{{names[0]!r}: ...}}, whose paths are those of either side"
            )
        is_module = file.suffix == ".py" and self._checkout.is_current(file)
        root = self._source_root(file.relative_to(self._checkout.repository)) if is_module else "src"
        return (
            "Let paths begin where the command runs, which is cwd=. If an editable install leads there, let the import "
            f"path decide: PYTHONPATH={root} pytest ..."
        )

    def _may_lead_there(self, variable: str) -> bool:
        paths = [Path(path).resolve() for path in absolute_paths(variable, self._checkout.repository)]
        return any(self._checkout.is_current(path) and not self._checkout.is_ignored(path) for path in paths)

    def _source_root(self, module: Path) -> Path:
        """The folder from which a module's top-level package is imported, as a path from the checkout's root."""
        parent = module.parent
        while (self._checkout.folder / parent / "__init__.py").exists():
            parent = parent.parent
        # Folders between the two are namespaces.
        return next((root for root in self._roots if root.name == "src" and parent.is_relative_to(root)), parent)

    def _refuse_copies(self, modules: Mapping[str, str]) -> None:
        """Refuse installed copies of the repository's packages, which are the same for both sides.

        `modules` are those that are not of this side's code, with their files.
        """
        for module, file in modules.items():
            top = module.partition(".")[0]
            copies = _copies_from(self._checkout.repository, _folder_of(module, Path(file)))
            if top in copies:
                raise self._not_two(module, file, f"the package {copies[top]} was installed from this repository")
            if self._root_with(module) is not None:
                raise self._not_two(module, file, "an installed copy hides it")

    def _root_with(self, module: str) -> Path | None:
        """The folder of packages that has the module; of a namespace, it must have a package or a module in it."""
        names = module.split(".")
        if names[0] in sys.stdlib_module_names or names[0] == "pytest_tfperf":
            return None
        below = [Path(*names[:count]) for count in range(1, len(names) + 1)]
        files = [file for path in below for file in (path / "__init__.py", Path(f"{path}.py"))]
        top = self._checkout.folder
        return next((root for root in self._roots if any((top / root / file).exists() for file in files)), None)

    @cached_property
    def _roots(self) -> tuple[Path, ...]:
        """Folders from which projects import their packages, the innermost first; a repository may hold several."""
        listed = run_git(self._checkout.folder, "ls-files", "--", *(f":(glob)**/{name}" for name in _OF_PROJECT)).stdout
        projects = {Path(), *(Path(name).parent for name in listed.splitlines())}
        roots = {project / root for project in projects for root in _SOURCE_ROOTS}
        return tuple(sorted(roots, key=lambda root: len(root.parts), reverse=True))

    def _not_two(self, module: str, file: str, why: str) -> TfperfError:
        root = self._root_with(module) or _root_of(self._checkout.folder, module.partition(".")[0])
        return TfperfError(
            f"both sides would run the same code: at {self._checkout.name} {module} comes from {file}, and not from "
            f"{self._checkout.folder}: {why}",
            next_step=f"Let the import path decide on both sides: PYTHONPATH={root} pytest ...",
        )

    def _look_for_lacking(self, subject: str, ignored: Iterable[Path], code: frozenset[Path]) -> TfperfError | None:
        """Refuse code that git ignores and the other side's checkout lacks; return what any other such file means."""
        if self._lacking is None or not (lacking := sorted(filter(self._lacking.lacks, ignored))):
            return None
        there = f"which git ignores, and {self._lacking._checkout.name} has nothing there"
        if built := [file for file in lacking if file in code]:
            raise TfperfError(
                f"{subject}: it runs {_shown(built)}, {there}, so it may do the same work in a slower way",
                next_step="Commit it, or remove it here, too. A program may build it in the folder where it runs, as "
                "in ['bash', '-c', 'make && ...']",
            )
        return TfperfError(
            f"{subject}: it reads {_shown(lacking)}, {there}: that may set the two sides apart",
            next_step="Name it in an argument by its absolute path to give it to both, or remove it",
        )

    def lacks(self, file: Path) -> bool:
        """Whether this side lacks a file of the user's own folder, and did not read that file there."""
        below = file.relative_to(self._checkout.repository)
        is_metadata = any(part.endswith(_METADATA) for part in below.parts)
        return not is_metadata and file not in self.shared and not (self._checkout.folder / below).exists()


@cache
def _copies_from(repository: Path, packages: Path) -> dict[str, str]:
    """Top-level names of packages that were installed as copies from the repository -> the package's name."""
    copies = (package for package in distributions(path=[str(packages)]) if _is_copy(package, repository))
    return {name: package.name for package in copies for name in _names(package)}


def _is_copy(package: Distribution, repository: Path) -> bool:
    """Whether it was installed from the repository's folder or from a wheel in it, and is not editable."""
    origin = direct_url(package)
    url = urlsplit(origin.get("url", ""))
    if url.scheme != "file" or origin.get("dir_info", {}).get("editable"):
        return False
    if package.name == "pytest-tfperf":  # workers run the driver's copy of it
        return False
    return Path(unquote(url.path)).resolve().is_relative_to(repository)


def _names(package: Distribution) -> set[str]:
    """The top-level names of a package; its own name where its metadata lists none."""
    if listed := (package.read_text("top_level.txt") or "").split():
        return set(listed)
    parts = {file.parts[0].removesuffix(".py") for file in package.files or () if file.suffix == ".py"}
    return {part for part in parts if part.isidentifier()} or {package.name.replace("-", "_")}


def _folder_of(module: str, file: Path) -> Path:
    """The folder of the import path that a module was imported from.

    >>> _folder_of("nets.layers", Path("/usr/lib/site-packages/nets/layers/__init__.py"))
    PosixPath('/usr/lib/site-packages')
    """
    path = file.parent if file.stem == "__init__" else file
    return path.parents[min(module.count("."), len(path.parents) - 1)]


def _shown(files: Sequence[Path]) -> str:
    more = len(files) - _SHOWN
    return ", ".join(map(str, files[:_SHOWN])) + (f" and {more} more" if more > 0 else "")


def _root_of(folder: Path, top: str) -> Path:
    """The folder of a checkout from which a top-level name is imported, as a path from its root."""
    patterns = (f":(glob)**/{top}/__init__.py", f":(glob)**/{top}.py")
    listed = run_git(folder, "ls-files", "--", *patterns).stdout.splitlines()
    nearest = min(map(Path, listed), key=lambda path: len(path.parts), default=Path(top))
    return nearest.parent.parent if nearest.name == "__init__.py" else nearest.parent
