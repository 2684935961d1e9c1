"""Where workers look for the user's modules: the same folders as pytest, or those of another checkout."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path


def import_paths(moved: Mapping[Path, Path]) -> list[str]:
    """Folders in which pytest finds the tests' own modules, the working folder first.

    Folders of installed packages are left out: the worker's interpreter has its own, and may be another.

    Args:
        moved: as in `LocalLauncher`.
    """
    libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    installed = [Path(path) for path in (*libraries, *site.getsitepackages(), site.getusersitepackages()) if path]
    ours = (path for path in sys.path if path and not any(Path(path).is_relative_to(folder) for folder in installed))
    return [_move(path, moved) for path in (str(Path.cwd()), *ours)]


def working_folder(moved: Mapping[Path, Path]) -> Path:
    """The folder in which workers run: pytest's, or the same of the other checkout; its top where it has no such."""
    here = Path(_move(str(Path.cwd()), moved))
    return here if here.is_dir() else next(new for new in moved.values() if here.is_relative_to(new))


def python_path(moved: Mapping[Path, Path]) -> str:
    """The value of PYTHONPATH for a worker."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(_move(folder, moved) for folder in folders if folder)


def _move(path: str, moved: Mapping[Path, Path]) -> str:
    for old, new in moved.items():
        if Path(path).resolve().is_relative_to(old.resolve()):
            return str(new / Path(path).resolve().relative_to(old.resolve()))
    return path
