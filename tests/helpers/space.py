"""Disks without room, as a limit of this process, and folders where another disk is mounted."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def no_room_for_files() -> Iterator[None]:
    """Each write to a file fails; Python ignores the signal that the system sends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def no_file_left_to_open() -> Iterator[None]:
    """Opening any file fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def full_disk_at(folder: Path) -> Iterator[None]:
    """A disk of 1 MB at this folder, where mounting one is allowed."""
    folder.mkdir(parents=True)
    with _mounted(folder, ["-t", "tmpfs", "-o", "size=1m", "none", str(folder)]):
        yield


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder can't be written to, not even by root, where mounting is allowed."""
    with _mounted(folder, ["--bind", str(folder), str(folder)], ["-o", "remount,bind,ro", str(folder)]):
        yield


@contextmanager
def _mounted(folder: Path, *mounts: Sequence[str]) -> Iterator[None]:
    for mount in mounts:
        if (done := subprocess.run(["mount", *mount], capture_output=True, text=True, check=False)).returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
