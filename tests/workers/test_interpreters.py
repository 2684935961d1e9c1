"""Where workers look for the user's modules: where pytest finds them, or in another checkout."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from pathlib import Path

import pytest

from pytest_tfperf.workers.processes import Interpreter


@pytest.mark.parametrize("library", [sys.prefix, sys.base_prefix, sysconfig.get_path("stdlib")])
def test_a_folder_that_only_begins_like_a_librarys_is_the_tests_own(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, f"{library}-of-mine"])
    assert f"{library}-of-mine" in Interpreter("python").import_paths()


def test_folders_of_installed_packages_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = [*site.getsitepackages(), sysconfig.get_path("stdlib"), sysconfig.get_path("stdlib") + "/lib-dynload"]
    monkeypatch.setattr(sys, "path", [*sys.path, *installed])
    assert not set(installed) & set(Interpreter("python").import_paths())


def test_folders_of_a_project_are_those_of_its_other_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project, checkout = tmp_path / "project", tmp_path / "checkout"
    (project / "perf_tests").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setattr(sys, "path", [str(project / "perf_tests"), "/home/me/lib"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(project), "/home/me/lib"]))
    interpreter = Interpreter("python", {project: checkout})
    assert interpreter.import_paths() == [str(checkout / "perf_tests"), "/home/me/lib", str(checkout)]
    assert interpreter.environment()["PYTHONPATH"] == os.pathsep.join([str(checkout), "/home/me/lib"])


@pytest.mark.parametrize("name", ["TFPERF_HISTORY_URL", "TFPERF_NOTIFY", "TFPERF_GITHUB_TOKEN"])
def test_workers_and_programs_get_nothing_of_ours_that_others_may_not_know(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "postgresql://me:PaSsWoRd@db/speed")
    assert "PaSsWoRd" not in str(Interpreter("python").environment())


def test_coverage_does_not_start_in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COV_CORE_SOURCE", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.setenv(name, "here")
    assert "here" not in Interpreter("python").environment().values()


@pytest.mark.parametrize("there", [True, False], ids=["there", "not there"])
def test_workers_run_in_the_same_folder_of_the_other_checkout_or_at_its_top(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, there: bool
) -> None:
    project, checkout = tmp_path / "project", tmp_path / "checkout"
    (project / "perf_tests").mkdir(parents=True)
    (checkout / "perf_tests" if there else checkout).mkdir(parents=True)
    monkeypatch.chdir(project / "perf_tests")
    assert Interpreter("python", {project: checkout}).folder() == (checkout / "perf_tests" if there else checkout)
