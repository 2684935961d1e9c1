"""Baselines of a file, a folder or a git revision, to be compared."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_tfperf.core.machine_key import is_name
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.stores import baseline_file

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_tfperf.core.baseline import Baseline, Key

Rows = dict[tuple[str, "Key"], "Baseline"]
"""By machine and key."""


def rows_of_path(path: Path) -> Rows:
    """The rows of a CSV, or of all CSVs of a folder; a single file's machine is "", so that two files compare.

    Raises:
        TfperfError: it is missing or can't be read whole.
    """
    if not path.exists():
        raise TfperfError(f"{path}: there is no such file or folder. Name another one")
    files = [file for file in sorted(path.glob("*.csv")) if is_name(file.stem)] if path.is_dir() else [path]
    try:
        return _parsed((file.stem if path.is_dir() else "", file.read_bytes(), str(file)) for file in files)
    except OSError as error:
        raise TfperfError(f"{error.filename} can't be read: {error.strerror}. Name another one") from None


def rows_of_revision(revision: str, folder: Path) -> Rows:
    """The rows that a folder had at a git revision; none where it was not there yet.

    Raises:
        TfperfError: git knows no such revision, or a file of it can't be read whole.
    """
    folder = folder.resolve()  # "." has no name
    commit = _git(folder, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").decode().strip()
    files = os.fsdecode(_git(folder, "ls-tree", "-z", "--name-only", commit, "--", f"{folder.name}/")).split("\0")
    return _parsed(
        (Path(name).stem, _git(folder, "show", f"{commit}:./{name}"), f"{revision}:{name}")
        for name in files
        if name.endswith(".csv") and is_name(Path(name).stem)
    )


def _parsed(files: Iterable[tuple[str, bytes, str]]) -> Rows:
    return {
        (machine, key): row
        for machine, data, name in files
        for key, row in baseline_file.parse(data, machine, name).items()
    }


def _git(folder: Path, *arguments: str) -> bytes:
    """What git prints in the folder above; the folder itself may be of another revision."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder.absolute().parent), *arguments], capture_output=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TfperfError(f"git can't be run: {error}. Name two files instead of revisions") from None
    if done.returncode:
        asked, said = arguments[-1].removesuffix("^{commit}"), os.fsdecode(done.stderr).strip()
        raise TfperfError(f"{asked}: there is no such file, and git knows no such revision ({said}). Name another one")
    return done.stdout
