"""What workers leave behind, and what of it the next session removes."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from pytest_tfperf.workers.local import WorkerFiles

DAY_SECONDS = 86_400


def age(path: Path, days: int) -> Path:
    then = time.time() - days * DAY_SECONDS
    os.utime(path, (then, then))
    return path


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp"


@pytest.mark.parametrize(("days", "kept"), [(31, False), (29, True)])
def test_logs_are_kept_for_a_month(tmp_path: Path, days: int, kept: bool) -> None:
    files = WorkerFiles(tmp_path / "logs")
    for log in (files.worker_log(1), files.server_log):
        log.touch()
        age(log, days)
    WorkerFiles(tmp_path / "logs").remove_old()
    assert len(list((tmp_path / "logs").iterdir())) == (2 if kept else 0)


@pytest.mark.parametrize("name", ["django.log", "worker-1.log", "worker-20260102.log", "server-access.log"])
def test_a_projects_own_logs_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    age(tmp_path / name, 400)
    WorkerFiles(tmp_path).remove_old()
    assert (tmp_path / name).exists()


@pytest.mark.parametrize(("days", "kept"), [(3, False), (1, True)])
def test_temporary_folders_of_killed_sessions_are_removed(tmp_path: Path, days: int, kept: bool) -> None:
    left = age(WorkerFiles(tmp_path).new_scratch_folder(), days)
    WorkerFiles(tmp_path).remove_old()
    assert left.exists() is kept


def test_other_temporary_folders_are_left_alone(tmp_path: Path, temporary: Path) -> None:
    (temporary / "mine").mkdir()
    age(temporary / "mine", 400)
    WorkerFiles(tmp_path).remove_old()
    assert (temporary / "mine").exists()


def test_two_launchers_of_one_moment_write_to_logs_of_their_own(tmp_path: Path) -> None:
    assert len({WorkerFiles(tmp_path).worker_log(1) for _ in range(2)}) == 2
