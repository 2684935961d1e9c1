"""A disk of its own that is soon full, where mounting one is allowed."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk() -> Iterator[Path]:
    """A folder on a disk of its own, of 32 MB."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="tfperf-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "none", str(folder)]
    try:
        if (refused := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
            pytest.skip(f"no small disk can be mounted here: {refused.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
    finally:
        folder.rmdir()


def leave_a_megabyte(folder: Path) -> Path:
    """A file that fills the disk."""
    disk = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(bytes(disk.f_bavail * disk.f_bsize - 1_000_000))
    return filler
