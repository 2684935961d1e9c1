"""Locks: the packages that baselines were recorded with, as a requirements file beside the machine's CSV."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pytest_tfperf.errors import BaselineError

SUFFIX: Final = ".lock.txt"

# Workers import pytest_tfperf from the driver's own copy, and each virtual environment brings the pip that it needs.
_NOT_LOCKED = frozenset({"pip", "pytest-tfperf"})
_PYTHON, _RECORDED, _WARNING = "# python: ", "# recorded: ", "# warning: "
_TENSORFLOW = re.compile(r"(?:tensorflow|tensorflow-cpu|tf-nightly|tf-nightly-cpu)==(.+)")


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock's lines, without blanks around them: a header of comments, then requirements that pip reads."""

    lines: tuple[str, ...]

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of all but the date: equal where an equal environment would be built."""
        dated = "\n".join(line for line in self.lines if not line.startswith(_RECORDED))
        return hashlib.sha256(dated.encode()).hexdigest()[:8]

    @property
    def python(self) -> str:
        """Version of the Python that it is for, "3.11.7"; "" where it does not say."""
        return next(iter(self._after(_PYTHON)), "")

    @property
    def tensorflow(self) -> str:
        """Version of TensorFlow, "" where none is locked under one of its names."""
        return next((match[1] for line in self.lines if (match := _TENSORFLOW.match(line))), "")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What an environment built from it lacks, or has in another build; sentences."""
        return tuple(self._after(_WARNING))

    def _after(self, beginning: str) -> Iterator[str]:
        return (line.removeprefix(beginning) for line in self.lines if line.startswith(beginning))


def read_lock(path: Path) -> Lock:
    """The lock in a file that `write_lock` wrote, and that people may have edited.

    Raises:
        BaselineError: it can't be read, or does not say which Python it is for.
    """
    mend = "Restore it from git, or record the baselines again with --update-baselines"
    try:
        lock = Lock(tuple(line.strip() for line in path.read_text("utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path} can't be read: {getattr(error, 'strerror', 'it is not UTF-8')}. {mend}") from None
    if not lock.python:
        raise BaselineError(f"{path} has no line '{_PYTHON}VERSION', so --update-baselines did not write it. {mend}")
    return lock


def write_lock(folder: Path, machine: str, *, root: Path, search: Sequence[str] | None = None) -> str:
    """Lock the packages of the running interpreter beside the machine's CSV; returns the file's name.

    A set of packages has one file, `<machine>-<digest>.lock.txt`, whenever and for however many rows it is written.

    Args:
        folder: the baselines' folder; made where missing.
        machine: whose rows will name the lock.
        root: the project; what is installed from below it is its own code, which comes from git.
        search: folders to look for packages in; None: `sys.path`.

    Raises:
        BaselineError: the file can't be written.
    """
    lock = _current(root.resolve(), sys.path if search is None else search)
    path = folder / f"{machine}-{lock.digest}{SUFFIX}"
    temporary = folder / f".{path.name[-200:]}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            temporary.write_text("\n".join(lock.lines) + "\n", "utf-8")
            temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise BaselineError(
            f"{path} can't be written: {error.strerror}. Make the folder writable, or name another with "
            "--tfperf-baselines=DIR"
        ) from None
    return path.name


def forget_locks(folder: Path, machine: str, named: Collection[str]) -> tuple[str, ...]:
    """Remove the machine's locks that none of its rows names any more; returns their names."""
    ours = re.compile(re.escape(machine) + r"-[0-9a-f]{8}" + re.escape(SUFFIX))
    unused = sorted(path for path in folder.glob(f"*{SUFFIX}") if ours.fullmatch(path.name) and path.name not in named)
    for path in unused:
        with suppress(OSError):  # a lock too many harms nobody
            path.unlink()
    return tuple(path.name for path in unused)


def _current(root: Path, search: Sequence[str]) -> Lock:
    requirements: dict[str, str] = {}
    warnings: list[str] = []
    by_conda = False
    for found in distributions(path=list(search)):
        if not (found.read_text("METADATA") or found.read_text("PKG-INFO")):
            continue  # what a broken installation left behind
        key = re.sub(r"[-_.]+", "-", found.name).lower()
        if key in _NOT_LOCKED or key in requirements:  # the first on the path is what is imported
            continue
        requirements[key], warning = _locked(found, root)
        warnings += [f"{_WARNING}{warning}"] if warning else []
        by_conda |= _is_by_conda(found)
    if by_conda:
        warnings.append(
            f"{_WARNING}conda installed some of these packages: an environment built from this file has pip's builds, "
            "which may run at another speed. Name the conda environment instead: --tfperf-reference=PYTHON"
        )
    return Lock(
        (
            "# The packages that baselines were recorded with; `tfperf reference create` installs them.",
            f"{_PYTHON}{platform.python_version()}",
            f"# platform: {sysconfig.get_platform()}",
            f"{_RECORDED}{date.today().isoformat()}",
            *sorted(warnings),
            *(requirements[key] for key in sorted(requirements) if requirements[key]),
        )
    )


def _locked(found: Distribution, root: Path) -> tuple[str, str]:
    """A package's line for pip, or "" where pip can't install it again; and a warning, or ""."""
    origin = _origin(found)
    url = origin.get("url", "")
    if commit := origin.get("vcs_info", {}).get("commit_id"):
        part = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
        return f"{found.name} @ {origin['vcs_info']['vcs']}+{url}@{commit}{part}", ""
    if "archive_info" in origin:
        sha256 = origin["archive_info"].get("hashes", {}).get("sha256")
        return f"{found.name} @ {url}" + (f"#sha256={sha256}" if sha256 else ""), ""
    if "dir_info" not in origin:
        return f"{found.name}=={found.version}", ""
    folder = Path(unquote(urlsplit(url).path))
    if folder.resolve().is_relative_to(root):
        return "", ""  # the project itself: its code comes from the commit
    return "", (
        f"{found.name} {found.version} is installed from the folder {folder}, so it is not in this file. "
        "If the tests' models import it, install it from a wheel or from git"
    )


def _origin(found: Distribution) -> dict[str, Any]:
    """PEP 610's direct_url.json, as far as it can be relied upon; {} for what came from an index."""
    if _is_by_conda(found):
        return {}  # names a folder of the machine that built the package
    location = Path(str(found.locate_file("")))
    if location.name not in ("site-packages", "dist-packages"):  # `setup.py develop`, or beside its source on the path
        return {"url": location.absolute().as_uri(), "dir_info": {}}
    with suppress(ValueError):
        origin = json.loads(found.read_text("direct_url.json") or "{}")
        return origin if isinstance(origin, dict) else {}
    return {}


def _is_by_conda(found: Distribution) -> bool:
    return (found.read_text("INSTALLER") or "").strip() == "conda"
