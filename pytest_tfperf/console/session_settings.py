"""What a session in the current folder would be told: environment variables, and pytest's ini file."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from pytest_tfperf.console.ini_section import ini_file


def root() -> Path:
    """The folder of pytest's ini file, from which its paths start; the current folder without one.

    Raises:
        TfperfError: the file can't be read or parsed.
    """
    return _read(Path.cwd())[0]


def setting(name: str) -> str | None:
    """The value of the variable `TFPERF_NAME`, else of the ini value `tfperf_name`; None for neither.

    Raises:
        as `root`.
    """
    return os.environ.get(f"TFPERF_{name.upper()}") or _read(Path.cwd())[1].get(f"tfperf_{name}") or None


def folder_setting(name: str, default: str) -> Path:
    """A folder, as short as it can be written here.

    Raises:
        as `root`.
    """
    path = root() / Path(setting(name) or default).expanduser()
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def forget() -> None:
    """Read the file again when it is next asked for."""
    _read.cache_clear()


@cache
def _read(folder: Path) -> tuple[Path, dict[str, str]]:
    """Each command asks several times for what one file says."""
    found = ini_file(folder)
    return (folder, {}) if found is None else (found.path.parent, dict(found.values))
