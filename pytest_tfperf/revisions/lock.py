"""Locks: the packages that baselines were recorded with, in a requirements file beside the machine's CSV."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pytest_tfperf.core.baseline import Baseline
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.errors import BaselineError, worded
from pytest_tfperf.revisions.git import DIRTY
from pytest_tfperf.stores import files

SUFFIX: Final = ".lock.txt"

_PYTHON, _WARNING = "# python: ", "# warning: "

# Workers import pytest_tfperf from the driver's copy, and none of them needs pip.
_NOT_LOCKED = frozenset({"pip", "pytest-tfperf"})
_TENSORFLOW = r"(?:tensorflow|tensorflow-cpu|tf-nightly|tf-nightly-cpu)=="


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock's header comments, and its requirement for TensorFlow."""

    python: str  # "3.11.7"
    tensorflow: str  # "" if it is not locked
    warnings: tuple[str, ...]  # sentences about packages that an environment built from it lacks


def read_lock(path: Path) -> Lock:
    """Read a file that `write_lock` wrote, and that people may have edited.

    Raises:
        BaselineError: it can't be read, or does not say which Python it is for.
    """
    advice = f"Restore it from git, or record the baselines again with {recording_option()}"
    with worded(path, "read", advice, kind=BaselineError):
        lines = [line.strip() for line in path.read_text("utf-8").splitlines()]

    def after(beginning: str) -> list[str]:
        return [line[match.end() :] for line in lines if (match := re.match(beginning, line))]

    if not (python := after(rf"{_PYTHON}(?=\d+\.\d+)")):
        raise BaselineError(f"{path} has no line '{_PYTHON}VERSION', so no recording wrote it", next_step=advice)
    return Lock(python[0], tensorflow="".join(after(_TENSORFLOW)[:1]), warnings=tuple(after(_WARNING)))


def write_lock(folder: Path, machine: str, *, root: Path, search: Sequence[str] | None = None) -> str:
    """Lock the packages of the running interpreter beside the machine's CSV; returns the file's name.

    Rows with the same packages share one file, `<machine>-<digest>.lock.txt`.

    Args:
        root: the project. Packages that are installed from below it are its own code, which comes from git.
        search: folders to look for packages in; None for `sys.path`.

    Raises:
        BaselineError: the file can't be written.
    """
    header, requirements = _current(root.resolve(), _installed(sys.path if search is None else search))
    text = "\n".join([*header, *(requirements[key] for key in sorted(requirements))]) + "\n"
    path = folder / f"{machine}-{hashlib.sha256(text.encode()).hexdigest()[:8]}{SUFFIX}"
    way_out = "Make the folder writable, or name another with --tfperf-baselines=DIR"
    with worded(path, "written", way_out, kind=BaselineError):
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            files.replace(path, text.encode())
    return path.name


def forget_locks(folder: Path, machine: str, named: Collection[str]) -> None:
    """Remove the machine's locks that no row names any more."""
    ours = re.compile(re.escape(machine) + r"-[0-9a-f]{8}" + re.escape(SUFFIX))
    for path in folder.glob(f"*{SUFFIX}"):
        if ours.fullmatch(path.name) and path.name not in named:
            with suppress(OSError):  # an unused lock does no harm
                path.unlink()


def _installed(search: Sequence[str]) -> dict[str, Distribution]:
    packages: dict[str, Distribution] = {}
    for package in distributions(path=list(search)):
        if package.read_text("METADATA") or package.read_text("PKG-INFO"):  # else the rest of a broken installation
            # The first on the path is imported.
            packages.setdefault(re.sub(r"[-_.]+", "-", package.name).lower(), package)
    return packages


def _current(root: Path, packages: Mapping[str, Distribution]) -> tuple[list[str], dict[str, str]]:
    """Return the comments of a lock and the requirement of each package."""
    requirements: dict[str, str] = {}
    from_folders: list[str] = []
    for key, package in packages.items():
        if key in _NOT_LOCKED:
            continue
        origin = _origin(package)
        if "dir_info" not in origin:  # a wheel, an archive, a repository or an index
            requirements[key] = _requirement(package, origin)
        elif not Path(unquote(urlsplit(origin["url"]).path)).resolve().is_relative_to(root):
            from_folders.append(key)
    header = [
        "# The packages that baselines were recorded with; `tfperf reference create` installs them.",
        f"{_PYTHON}{platform.python_version()}",
    ]
    if from_folders:
        header.append(
            f"{_WARNING}these packages were installed from a folder, or by conda, so they are not in this file: "
            f"{', '.join(sorted(from_folders))}. If the tests need them, install them from an index, a wheel or git; "
            "or name an environment that has them: --tfperf-reference=PYTHON"
        )
    return header, requirements


def _requirement(package: Distribution, origin: dict[str, Any]) -> str:
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        part = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
        return f"{package.name} @ {vcs['vcs']}+{_without_login(origin['url'])}@{vcs['commit_id']}{part}"
    if "archive_info" in origin:
        return f"{package.name} @ {_without_login(origin['url'])}"
    return f"{package.name}=={package.version}"


def _without_login(url: str) -> str:
    """A lock is committed; installers leave out a token, but people write direct_url.json, too."""
    return re.sub(r"^(https?://)[^/@]*@", r"\1", url)


def _origin(package: Distribution) -> dict[str, Any]:
    """As `direct_url`, also for a package whose metadata lies beside its source."""
    location = Path(str(package.locate_file("")))
    if location.name not in ("site-packages", "dist-packages"):
        # An index may have another package of that name.
        return {"url": location.absolute().as_uri(), "dir_info": {}}
    return direct_url(package)


def direct_url(package: Distribution) -> dict[str, Any]:
    """The origin of an installed package, PEP 610's direct_url.json; {} for an index."""
    origin: dict[str, Any] = json.loads(package.read_text("direct_url.json") or "{}")
    return origin


def unrepeatable(row: Baseline) -> str:
    """Why no reference environment can be built for a baseline; "" if git and a package index may have all of it."""
    fault = _commit_fault(row.commit)
    if not re.fullmatch(r"[^/]+" + re.escape(SUFFIX), row.lock):
        fault = "baselines that name no lock have no reference environment"
    return f"{fault}. Record them again: pytest {recording_option()}" if fault else ""


def contradiction(row: Baseline, lock: Lock) -> str:
    """Why a lock can't be of the packages that a row was recorded with; "" if it can. People may edit locks."""
    recorded = dict(fact.partition("=")[::2] for fact in row.environment.split())
    for name, locked, parts in (("python", lock.python, 2), ("tensorflow", lock.tensorflow, 3)):
        then = recorded.get(name, "")
        if then and locked and _numbers(then, parts) != _numbers(locked, parts):
            return (
                f"{row.lock} has {name} {locked}, and {row.key.workload} {row.key.topology} was recorded with {then}. "
                f"Restore the file from git, or record again: pytest {recording_option()}"
            )
    return ""


def _numbers(version: str, most: int) -> list[str]:
    """The first numbers of a version; nightly builds write the rest in two ways."""
    return re.findall(r"\d+", version)[:most]


def unrepeatable_commit(commit: str) -> str:
    """Why new baselines at this commit will have no reference environment; "" if they will."""
    fault = _commit_fault(commit)
    return f"{fault} first (Ctrl-C ends this session), then record" if fault else ""


def _commit_fault(commit: str) -> str:
    how, missing = "without a git commit", "the tests and their models"
    if commit:
        how, missing = f"with uncommitted changes ({commit})", "the changes"
    is_whole = commit and not commit.endswith(DIRTY)
    return "" if is_whole else f"baselines recorded {how} have no reference environment. Commit {missing}"
