"""Reference environments: what is locked, what is found, what is wrong with one, and where its code lies."""

from __future__ import annotations

import json
import re
import shutil
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from reference_projects import ReferenceProject, play_python

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.references.environment import (
    ReferenceEnvironment,
    ReferenceLaunchers,
    check,
    named,
    parse_reference,
)
from pytest_tfperf.workers.local import LocalLauncher
from tests.helpers.played import steady


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceProject:
    play_python(tmp_path / "bin", monkeypatch)
    made = ReferenceProject(tmp_path / "project")
    monkeypatch.chdir(made.folder)
    return made


# What is found


def found(project: ReferenceProject, *requirements: str) -> ReferenceEnvironment:
    """A new environment, as a session finds it."""
    row = project.row(*requirements)
    project.store.create(row, lambda _: None)
    return project.store.find(row)


def test_what_was_created_is_found_with_its_packages_and_its_code(project: ReferenceProject) -> None:
    environment = found(project, "six==1.16.0")
    assert environment.checkout is not None
    project.commit("def tiny(): ...  # slower\n")
    assert (environment.checkout.folder / "nets.py").read_text() == "def tiny(): ...\n"
    assert environment.interpreter.moved == {project.folder: environment.checkout.folder}
    assert list(environment.python.parents[1].rglob("six-1.16.0.dist-info"))
    assert project.git("status", "--porcelain", ".tfperf") == "", "git does not see it"


def test_one_lock_at_two_commits_is_installed_once_and_checked_out_twice(project: ReferenceProject) -> None:
    row = project.row("six==1.16.0")
    later = project.row_of(row.lock, project.commit("def tiny(): ...  # slower\n"))
    said: list[str] = []
    first, second, again = (project.store.create(row, said.append) for row in (row, later, row))
    assert (first.python == second.python, first.checkout == second.checkout, first == again) == (True, False, True)
    assert ["installing" in text for text in said] == [True, False, False]


def why_not(project: ReferenceProject, row: Baseline) -> str:
    """What a new session says of the environment."""
    with pytest.raises(TfperfError) as refused:
        project.store.find(row)
    return str(refused.value)


def test_the_command_that_builds_an_environment_names_its_folders(
    project: ReferenceProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = "tfperf reference create --machine=box --dir=project/.tfperf --baselines=project/baselines"
    assert why_not(project, project.row("six==1.16.0")).endswith(f" is not there. Build it: {command}")


@pytest.mark.parametrize(
    ("gone", "fact"),
    [
        ("venv/lib/*/site-packages/six-*.dist-info", "packages in .* have changed"),
        ("venv/bin/python", "bin/python is gone"),
        ("source/*", "the code of .* is not in"),
    ],
)
def test_what_is_gone_is_said_and_built_again(gone: str, fact: str, project: ReferenceProject) -> None:
    row = project.row("six==1.16.0")
    project.store.create(row, lambda _: None)
    (path,) = project.home.glob(f"*/{gone}")
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert re.search(fact, why_not(project, row))
    assert project.store.create(row, lambda _: None) == project.store.find(row)


def test_what_can_not_be_read_is_no_environment(project: ReferenceProject) -> None:
    row = project.row("six==1.16.0")
    project.store.create(row, lambda _: None)
    (installed,) = project.home.glob("*/venv/installed.txt")
    installed.unlink()
    assert re.search("box-.* can't be read: .*Build it", why_not(project, row))


def test_an_environment_whose_lock_has_changed_is_built_again_and_one_without_its_lock_is_not_used(
    project: ReferenceProject,
) -> None:
    row = project.row("six==1.16.0")
    project.store.create(row, lambda _: None)
    lock = project.baselines / row.lock
    lock.write_text("# python: 3.99.1\nsix==1.17.0\n")
    assert f"{lock} has changed since" in why_not(project, row)
    assert project.store.create(row, lambda _: None) == project.store.find(row)
    lock.unlink()
    assert f"{lock} can't be read: No such file or directory" in why_not(project, row)
    (entry,) = project.store.entries([])
    assert (entry.rows, entry.fault) == (0, why_not(project, row))


def test_an_environment_of_a_lock_that_contradicts_its_row_is_neither_found_nor_built(
    project: ReferenceProject,
) -> None:
    row = project.row("tensorflow==2.19.0")
    project.store.create(row, lambda _: None)
    row = replace(row, environment="tensorflow=2.21.0")
    assert "has tensorflow 2.19.0, and" in why_not(project, row)
    with pytest.raises(TfperfError, match=r"recorded with 2\.21\.0\. Restore"):
        project.store.create(row, lambda _: None)


def test_code_that_was_changed_is_kept(project: ReferenceProject) -> None:
    row = project.row("six==1.16.0")
    checkout = project.store.create(row, lambda _: None).checkout
    assert checkout is not None
    source = checkout.folder
    (source / "nets.py").write_text("mine")
    assert f"the code in {source} is not that of {project.first} any more. Delete that folder" in why_not(project, row)
    with pytest.raises(TfperfError, match="is not that of"):
        project.store.create(row, lambda _: None)
    assert (source / "nets.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("lock", "commit", "why"),
    [
        ("", "abc", "name no lock"),
        ("../other.lock.txt", "abc", "name no lock"),
        ("box-1.lock.txt", "", "without a git commit"),
        ("box-1.lock.txt", "abc-dirty", "with uncommitted changes"),
    ],
)
def test_a_row_that_can_have_no_environment_says_to_record_it_again(
    project: ReferenceProject, lock: str, commit: str, why: str
) -> None:
    row = project.row_of(lock, commit)
    said = why_not(project, row)
    assert (why in said, said.endswith("Record them again: pytest --update-baselines")) == (True, True)
    with pytest.raises(TfperfError, match=why):
        project.store.create(row, lambda _: None)


# What can't be created


def refusal(project: ReferenceProject, *requirements: str, **of: str) -> str:
    """Why it can't be; nothing half made is left, and what is found afterwards says how to build it."""
    row = project.row(*requirements, **of)
    with pytest.raises(TfperfError) as refused:
        project.store.create(row, lambda _: None)
    assert not list(project.home.glob("*/venv")) + list(project.home.glob("*/source/*"))
    assert "is not there" in why_not(project, row)
    return str(refused.value)


@pytest.mark.parametrize(
    ("error", "step"),
    [
        ("No matching distribution found", "--tfperf-reference=PYTHON"),
        ("[Errno 28] No space left on device", "Free space on that disk"),
    ],
)
def test_packages_that_can_not_be_installed_show_the_last_lines(
    error: str, step: str, project: ReferenceProject
) -> None:
    said = refusal(project, "six==1.16.0", f"fail=={error}")
    assert f"  | ERROR: {error}\n" in said
    assert said.count("Looking in indexes") < 30
    assert step in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ({"python": "3.98.2"}, "no python3.98 on PATH. Install Python 3.98"),
        ({"commit": "deadbeefdead"}, "has no commit deadbeefdead, at which"),
    ],
)
def test_a_python_or_a_commit_that_is_not_there_is_named_before_packages_are_installed(
    project: ReferenceProject, lacks: dict[str, str], said: str
) -> None:
    assert said in refusal(project, "fail==too late", **lacks)


@pytest.mark.parametrize(
    ("shim", "said"),
    [
        ("echo 'pyenv: python3.98: command not found' >&2; exit 127", "says: pyenv: python3.98: command not found"),
        ("echo Python 3.97.1", "says: Python 3.97.1"),
    ],
    ids=["not installed", "another version"],
)
def test_a_shim_for_a_python_that_is_not_there_is_no_python(
    project: ReferenceProject, tmp_path: Path, shim: str, said: str
) -> None:
    path = tmp_path / "bin" / "python3.98"
    path.write_text(f"#!/bin/sh\n{shim}\n")
    path.chmod(0o755)
    told = refusal(project, python="3.98.2")
    assert f"there is no python3.98 on PATH ({path} {said}). Install Python 3.98" in told
    assert "out of the lock" not in told


def test_of_a_shallow_clone_the_rest_is_to_be_fetched(tmp_path: Path, project: ReferenceProject) -> None:
    project.commit("def tiny(): ...  # again\n")
    project.git("clone", "--quiet", "--depth=1", project.folder.as_uri(), str(tmp_path / "clone"))
    row = project.row("six==1.16.0")
    project.folder = tmp_path / "clone"
    with pytest.raises(TfperfError, match=r"This is a shallow clone.*git fetch --unshallow"):
        project.store.create(row, lambda _: None)


def test_without_a_repository_an_environment_can_be_named(project: ReferenceProject) -> None:
    shutil.rmtree(project.folder / ".git")
    assert "--tfperf-reference=PYTHON[:SOURCE_DIR]" in refusal(project)


def test_a_folder_that_can_not_be_written_is_named(project: ReferenceProject) -> None:
    (project.folder / ".tfperf").write_text("a file")
    assert ".tfperf/reference can't be written: " in refusal(project)


# What is listed and removed


def test_an_environment_is_listed_with_what_it_serves(project: ReferenceProject) -> None:
    row = project.row("tensorflow==2.21.0")
    project.store.create(row, lambda _: None)
    (entry,) = project.store.entries([row, row, project.row_of(row.lock, "other")])
    assert (entry.name, entry.fault) == (row.lock.removesuffix(".lock.txt"), "")
    assert (entry.rows, entry.commits, entry.bytes > 0) == (2, (project.first,), True)
    assert entry.lock is not None
    assert (entry.lock.python, entry.lock.tensorflow) == ("3.99.1", "2.21.0")


def test_what_is_removed_is_gone_from_disk_and_from_git(project: ReferenceProject) -> None:
    project.store.remove(found(project).name, lambda _: None)
    assert project.store.entries([]) == []
    assert len(project.git("worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("name", ["../..", "box-1", ""])
def test_where_nothing_is_listed_that_is_said(name: str, project: ReferenceProject) -> None:
    with pytest.raises(TfperfError, match=r"unknown reference environment '.*'\. There are none\.$"):
        project.store.remove(name, lambda _: None)


@pytest.mark.parametrize("name", ["../..", "box-1", ""])
def test_only_what_is_listed_can_be_removed(project: ReferenceProject, name: str) -> None:
    known = found(project).name
    with pytest.raises(TfperfError, match=f"unknown reference environment '{name}'.*Known: {known}"):
        project.store.remove(name, lambda _: None)


# One that somebody else keeps


def test_a_named_python_runs_todays_code_or_that_of_a_named_folder(tmp_path: Path) -> None:
    root, alone, with_source = Path("/project"), sys.executable, f"{sys.executable}:{tmp_path}"
    environments = [named(*parse_reference(text), root) for text in (alone, with_source)]
    assert [environment.python for environment in environments] == [Path(sys.executable)] * 2
    assert [environment.interpreter.moved for environment in environments] == [{}, {root: tmp_path}]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/no/such/python", "there is no such file"),
        (f"{sys.executable}:/no/such/folder", "folder of source code after the colon"),
        (f"{sys.executable}:", "folder of source code after the colon"),
    ],
)
def test_a_name_that_leads_nowhere_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_reference(text)


def answering(folder: Path, **answer: object) -> ReferenceEnvironment:
    """One whose Python finds this when it tries its imports."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    python.chmod(0o755)
    return ReferenceEnvironment(name="box-1", python=python)


def test_an_environment_without_tensorflow_says_what_to_do(tmp_path: Path) -> None:
    environment = answering(tmp_path, failed="No module named tensorflow", faults={})
    said = (
        "box-1 can't be used: .* can't import TensorFlow: No module named tensorflow.*tfperf reference remove box-1, "
        "then tfperf reference create"
    )
    with pytest.raises(TfperfError, match=said):
        check(environment, [Workload(model="trivial", batch_size=1)])


def test_of_a_named_python_nobody_is_told_to_remove_or_build_it(tmp_path: Path) -> None:
    python = answering(tmp_path, failed="No module named tensorflow", faults={}).python
    with pytest.raises(TfperfError, match=f"Install what {python} lacks .*--tfperf-reference=PYTHON") as refused:
        check(named(python, None, tmp_path), [Workload(model="trivial", batch_size=1)])
    assert "tfperf reference" not in str(refused.value)


# What a session uses


def test_a_row_of_a_model_that_nobody_knows_any_more_takes_no_other_row_along(tmp_path: Path) -> None:
    environment = answering(tmp_path, imported={"tensorflow": "2.21.0"}, faults={})
    workloads = [Workload(model=model, batch_size=1) for model in ("trivial", "renamed")]
    _, unknown = check(environment, workloads)
    assert list(unknown) == [workloads[1].id]
    assert "renamed" in unknown[workloads[1].id]


def test_a_session_uses_what_can_be_measured_and_says_of_the_rest_why_not(
    project: ReferenceProject, tmp_path: Path
) -> None:
    versions, faults = {"tensorflow": "2.21.0", "keras": "3.15.1"}, {"nets:gone": "module nets has no function gone"}
    environment = answering(tmp_path, imported=versions, faults=faults)

    def find(row: Baseline) -> ReferenceEnvironment:
        if not row.lock:
            raise TfperfError("no lock")
        return environment

    good, lockless = project.row_of("box-1.lock.txt", "abc"), project.row_of("", "abc")
    lockless = replace(lockless, key=Key("nets:other-b1-replicated-device", "1x1"))
    unknown = replace(good, key=Key("nets:gone-b1-replicated-device", "1x1"))
    launchers = ReferenceLaunchers(find, lambda _: steady(100.0), tmp_path)
    assert launchers.check([good, lockless, unknown]) == [
        "1 baseline has no reference environment: no lock",
        f"1 baseline has no reference environment: {unknown.key.workload} is unknown to box-1: "
        "module nets has no function gone",
    ]
    assert launchers.launcher_for(good) is launchers.launcher_for(good) is not None
    assert [launchers.launcher_for(row) for row in (None, lockless, unknown)] == [None, None, None]


def test_a_reference_environment_of_commands_needs_no_tensorflow(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"python": "3.12.1"}\'\n')
    python.chmod(0o755)
    keys = [Key("my-train", "1x1"), Key("trivial-b1-replicated-device", "1x1")]
    rows = [Baseline(machine="box", key=key, value=1.0) for key in keys]
    environment = ReferenceEnvironment(name="other", python=python)
    launcher = LocalLauncher(logs=tmp_path, silence_seconds=1)
    with closing(launcher):
        references = ReferenceLaunchers(lambda _: environment, lambda _: launcher, tmp_path)
        (why,) = references.check(rows)
        assert [references.launcher_for(row) is not None for row in rows] == [True, False]
    assert why.startswith("1 baseline has no reference environment: the reference environment other can't be used")
