"""A site's folder: a run that fails or is killed leaves the site as it was, and other files are never touched."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.stores import files

_OWN: Final = "tfperf"  # the folder with all files but the index
_DIGEST: Final = "[0-9a-f]" * 16
_TEMPORARY: Final = f".tfperf-{_DIGEST}"  # left by a process that was killed while it wrote


def require_own(folder: Path) -> None:
    """Check before any work that a site may be written to this folder.

    Raises:
        TfperfError: it is a file, or has files and no site of `tfperf report --site`.
    """
    if folder.exists() and not folder.is_dir():
        raise TfperfError(f"--site={folder}: that is a file", next_step="Name a folder")
    is_empty = not any(path.is_file() for path in folder.rglob("*"))
    if not is_empty and not _own_files(folder):
        raise TfperfError(
            f"--site={folder}: that folder has files, and no site of `tfperf report --site`",
            next_step="Name a new or an empty folder",
        )


def write(folder: Path, site: Iterable[tuple[str, bytes]]) -> None:
    """Write a site's files, the index last, then remove those of the earlier site that it does not name.

    Raises:
        TfperfError: a file can't be written; an earlier site is still whole.
    """
    with worded(folder, "written", "Correct its permissions, or name another folder"):
        (folder / _OWN).mkdir(parents=True, exist_ok=True)
        with files.locked(folder):
            written = set()
            for name, content in site:
                files.replace(folder / name, content)
                written.add(folder / name)
            for path in _own_files(folder):
                if path not in written:
                    path.unlink()


def _own_files(folder: Path) -> list[Path]:
    patterns = (f"{_OWN}/{_DIGEST}.js", f"{_OWN}/{_TEMPORARY}", _TEMPORARY)
    return [path for pattern in patterns for path in folder.glob(pattern)]
