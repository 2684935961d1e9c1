"""Workers on this machine that can't be started, what their launcher tidies up, and where they look for modules."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import pytest

from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.workers import local
from pytest_tfperf.workers.launcher import Job
from pytest_tfperf.workers.local import LocalLauncher

JOB = Job(workload=Workload(model="trivial", batch_size=1), devices=Devices(kind=DeviceKind.CPU, count=1))
DAY_SECONDS = 86_400


def start(logs: Path, *, fresh: bool = True) -> None:
    """With an interpreter that isn't there."""
    launcher = LocalLauncher(logs=logs, silence_seconds=1.0, fresh=fresh, python="/nonexistent/python")
    try:
        launcher.start(JOB, lambda phase: None)
    finally:
        launcher.close()


def test_a_worker_that_the_system_refuses_to_start_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"a worker could not be started: .*No such file or directory"):
        start(tmp_path / "logs")


def test_a_worker_that_did_not_start_leaves_no_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    with pytest.raises(MeasurementError):
        start(tmp_path / "logs")
    assert list((tmp_path / "tmp").iterdir()) == []


def test_two_launchers_of_one_moment_write_to_logs_of_their_own(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(MeasurementError):
            start(tmp_path)
    assert len(list(tmp_path.glob("worker-*-1.log"))) == 2


@pytest.mark.parametrize(("days", "kept"), [(3, False), (1, True)])
def test_temporary_folders_of_killed_sessions_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, kept: bool
) -> None:
    left = tmp_path / "tfperf-worker-abc"
    left.mkdir()
    then = time.time() - days * DAY_SECONDS
    os.utime(left, (then, then))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(MeasurementError):
        start(tmp_path / "logs")
    assert left.exists() is kept


def kept(folder: Path, name: str, days: int) -> bool:
    """Whether a log of this name and age outlives the next session."""
    (folder / name).touch()
    then = time.time() - days * DAY_SECONDS
    os.utime(folder / name, (then, then))
    with pytest.raises(MeasurementError):
        start(folder)
    return (folder / name).exists()


@pytest.mark.parametrize("name", ["worker-20260102-030405-678-9abc-1.log", "server-20260102-030405-678-9abc.log"])
@pytest.mark.parametrize(("days", "stays"), [(31, False), (29, True)])
def test_our_logs_are_kept_for_a_month(tmp_path: Path, name: str, days: int, stays: bool) -> None:
    assert kept(tmp_path, name, days) is stays


@pytest.mark.parametrize("fresh", [True, False], ids=["worker", "server"])
def test_the_names_that_we_give_logs_are_known_as_ours(tmp_path: Path, fresh: bool) -> None:
    with pytest.raises(MeasurementError):
        start(tmp_path, fresh=fresh)
    (log,) = tmp_path.glob("*.log")
    assert not kept(tmp_path, log.name, 31)


@pytest.mark.parametrize("name", ["django.log", "worker-1.log", "worker-20260102.log", "server-access.log"])
def test_a_projects_own_logs_are_left_alone(tmp_path: Path, name: str) -> None:
    assert kept(tmp_path, name, 400)


# Where workers look for modules


@pytest.mark.parametrize("library", [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")])
def test_a_folder_that_only_begins_like_a_librarys_is_the_tests_own(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, f"{library}-of-mine"])
    assert f"{library}-of-mine" in local._import_paths()


def test_what_is_installed_stays_with_this_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [*site.getsitepackages(), sysconfig.get_path("stdlib"), sysconfig.get_path("stdlib") + "/lib-dynload"]
    monkeypatch.setattr(sys, "path", [*sys.path, *installed])
    assert not set(installed) & set(local._import_paths())


def test_the_working_folder_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert local._import_paths()[0] == str(tmp_path)
