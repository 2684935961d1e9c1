"""Reference environments: what is locked, what is found, what is wrong with one, and where its code lies."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_projects import ReferenceProject, play_python

from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineError, TfperfError
from pytest_tfperf.workers.git_worktree import commit_of
from pytest_tfperf.workers.import_paths import working_folder
from pytest_tfperf.workers.reference_environment import (
    Missing,
    ReferenceEnvironment,
    State,
    check,
    parse_reference,
)
from pytest_tfperf.workers.reference_lock import Lock, forget_locks, read_lock, write_lock


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReferenceProject:
    play_python(tmp_path / "bin", monkeypatch)
    made = ReferenceProject(tmp_path / "project")
    monkeypatch.chdir(made.folder)
    return made


# What is locked


def package(packages: Path, name: str, version: str = "1.0", **files: object) -> None:
    """A distribution as installers leave it; `direct_url` and `installer` are more of its files."""
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    if "direct_url" in files:
        (info / "direct_url.json").write_text(json.dumps(files["direct_url"]))
    if "installer" in files:
        (info / "INSTALLER").write_text(f"{files['installer']}\n")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "venv" / "site-packages"
    folder.mkdir(parents=True)
    return folder


def locked(tmp_path: Path, *search: Path) -> Lock:
    folder = tmp_path / "baselines"
    return read_lock(folder / write_lock(folder, "box", root=tmp_path / "project", search=[*map(str, search)]))


def requirements(lock: Lock) -> list[str]:
    return [line for line in lock.lines if not line.startswith("#")]


def test_a_lock_names_each_package_with_its_version(tmp_path: Path, packages: Path) -> None:
    package(packages, "tensorflow", "2.21.0")
    package(packages, "Keras", "3.15.1")
    lock = locked(tmp_path, packages)
    assert (requirements(lock), lock.tensorflow) == (["Keras==3.15.1", "tensorflow==2.21.0"], "2.21.0")


def test_a_lock_says_which_python_it_is_for(tmp_path: Path, packages: Path) -> None:
    assert locked(tmp_path, packages).python == ".".join(map(str, sys.version_info[:3]))


def test_pip_and_pytest_tfperf_are_not_locked(tmp_path: Path, packages: Path) -> None:
    package(packages, "pip")
    package(packages, "pytest_tfperf")
    assert requirements(locked(tmp_path, packages)) == []


def test_of_a_package_that_is_there_twice_the_one_that_is_imported_is_locked(tmp_path: Path, packages: Path) -> None:
    other = tmp_path / "other" / "site-packages"
    package(packages, "my_lib", "2.0")
    package(other, "My-Lib", "1.0")
    assert requirements(locked(tmp_path, packages, other)) == ["my_lib==2.0"]


def test_what_a_broken_installation_left_is_not_locked(tmp_path: Path, packages: Path) -> None:
    (packages / "~ensorflow-2.20.0.dist-info").mkdir()
    assert requirements(locked(tmp_path, packages)) == []


@pytest.mark.parametrize(
    ("origin", "line"),
    [
        (
            {"url": "https://h/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "py"},
            "mine @ git+https://h/r.git@abc#subdirectory=py",
        ),
        (
            {"url": "file:///w/mine-1.0-py3-none-any.whl", "archive_info": {"hashes": {"sha256": "12"}}},
            "mine @ file:///w/mine-1.0-py3-none-any.whl#sha256=12",
        ),
        ({"url": "file:///w/mine-1.0.tar.gz", "archive_info": {}}, "mine @ file:///w/mine-1.0.tar.gz"),
        ("no object", "mine==1.0"),
    ],
    ids=["git", "wheel", "archive without a hash", "garbage"],
)
def test_a_package_that_is_from_no_index_is_locked_by_its_address(
    origin: object, line: str, tmp_path: Path, packages: Path
) -> None:
    package(packages, "mine", direct_url=origin)
    assert requirements(locked(tmp_path, packages)) == [line]


def test_a_package_that_is_installed_from_a_folder_is_left_out_with_a_warning(tmp_path: Path, packages: Path) -> None:
    package(packages, "mine", direct_url={"url": "file:///home/me/my%20lib", "dir_info": {"editable": True}})
    lock = locked(tmp_path, packages)
    (warning,) = lock.warnings
    assert (requirements(lock), "mine 1.0 is installed from the folder /home/me/my lib" in warning) == ([], True)


def test_a_package_beside_its_source_is_never_taken_for_an_indexs_of_the_same_name(tmp_path: Path) -> None:
    package(tmp_path / "src", "mine")
    lock = locked(tmp_path, tmp_path / "src")
    assert (requirements(lock), len(lock.warnings)) == ([], 1)


def test_the_project_itself_is_not_locked(tmp_path: Path, packages: Path) -> None:
    own = (tmp_path / "project").as_uri()
    package(packages, "project", direct_url={"url": own, "dir_info": {"editable": True}})
    lock = locked(tmp_path, packages)
    assert (requirements(lock), lock.warnings) == ([], ())


def test_condas_packages_are_locked_by_version_with_one_warning(tmp_path: Path, packages: Path) -> None:
    for name in ("numpy", "scipy"):
        package(packages, name, installer="conda", direct_url={"url": "file:///feedstock/work", "dir_info": {}})
    lock = locked(tmp_path, packages)
    assert (requirements(lock), ["conda" in warning for warning in lock.warnings]) == (
        ["numpy==1.0", "scipy==1.0"],
        [True],
    )


def test_equal_packages_have_one_lock_and_others_another(tmp_path: Path, packages: Path) -> None:
    folder = tmp_path / "baselines"
    package(packages, "six", "1.16.0")
    names = [write_lock(folder, "box", root=tmp_path, search=[str(packages)]) for _ in range(2)]
    package(packages, "seven")
    names.append(write_lock(folder, "box", root=tmp_path, search=[str(packages)]))
    assert (names[0] == names[1], names[1] == names[2]) == (True, False)
    assert sorted(path.name for path in folder.iterdir()) == sorted({*names})


def test_the_day_does_not_make_another_lock() -> None:
    locks = [Lock(("# python: 3.11.7", f"# recorded: 2026-01-0{day}", "six==1.16.0")) for day in (1, 2)]
    assert locks[0].digest == locks[1].digest


def test_an_edited_lock_is_not_written_over(tmp_path: Path, packages: Path) -> None:
    package(packages, "python-apt", "2.6.0+x")
    path = tmp_path / write_lock(tmp_path, "box", root=tmp_path, search=[str(packages)])
    path.write_text("# python: 3.11.7\n")
    assert write_lock(tmp_path, "box", root=tmp_path, search=[str(packages)]) == path.name
    assert path.read_text() == "# python: 3.11.7\n"


def test_locks_that_no_row_names_go_and_other_machines_stay(tmp_path: Path) -> None:
    keep = ["box-00000001.lock.txt", "box-2-00000002.lock.txt", "notes.lock.txt", "box-00000003.txt"]
    for name in (*keep, "box-00000004.lock.txt"):
        (tmp_path / name).touch()
    assert forget_locks(tmp_path, "box", [keep[0]]) == ("box-00000004.lock.txt",)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(keep)


def test_a_lock_that_can_not_be_written_names_its_folder(tmp_path: Path, packages: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BaselineError, match=r"file/box-.*can't be written: .*--tfperf-baselines=DIR"):
        write_lock(tmp_path / "file", "box", root=tmp_path, search=[str(packages)])


@pytest.mark.parametrize(
    ("data", "why"), [(b"\xff\xfe", "it is not UTF-8"), (b"six==1.16.0\n", "has no line '# python: VERSION'")]
)
def test_a_file_that_is_no_lock_is_named(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x.lock.txt").write_bytes(data)
    with pytest.raises(BaselineError, match=rf"x.lock.txt .*{why}.*Restore it from git"):
        read_lock(tmp_path / "x.lock.txt")


@given(data=st.binary())
def test_any_other_file_is_refused(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "x.lock.txt"
    path.write_bytes(data)
    with pytest.raises(BaselineError):
        read_lock(path)


# At which commit


def test_baselines_that_were_just_recorded_do_not_make_the_code_dirty(project: ReferenceProject) -> None:
    csv = project.baselines / "box.csv"
    csv.write_text("old")
    project.git("add", "baselines")
    last = project.commit("def tiny(): ...  # again\n")
    csv.write_text("new")
    assert commit_of(project.folder, besides=project.baselines) == last


@pytest.mark.parametrize("below", ["", "tests"], ids=["the root", "a folder of it"])
def test_a_changed_file_makes_the_code_dirty(project: ReferenceProject, below: str) -> None:
    (project.folder / "nets.py").write_text("changed")
    (project.folder / "tests").mkdir()
    assert commit_of(project.folder / below, besides=project.baselines) == f"{project.first}-dirty"


def test_outside_of_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert commit_of(tmp_path, besides=tmp_path / "baselines") == ""


# What is found


def found(project: ReferenceProject, *requirements: str) -> ReferenceEnvironment:
    """A new environment, as a session finds it."""
    row = project.row(*requirements)
    project.store.create(row, lambda _: None)
    environment = project.store.find(row)
    assert isinstance(environment, ReferenceEnvironment), environment
    return environment


def test_what_was_created_is_found_with_its_packages_and_its_code(project: ReferenceProject) -> None:
    environment = found(project, "six==1.16.0")
    assert environment.source is not None
    project.commit("def tiny(): ...  # slower\n")
    assert (environment.source / "nets.py").read_text() == "def tiny(): ...\n"
    assert (environment.replaces, environment.commit) == (project.folder, project.first)
    assert list(environment.python.parents[1].rglob("six-1.16.0.dist-info"))


def test_one_lock_at_two_commits_is_installed_once(project: ReferenceProject) -> None:
    row = project.row("six==1.16.0")
    later = project.row_of(row.lock, project.commit("def tiny(): ...  # slower\n"))
    said: list[str] = []
    first, second = (project.store.create(row, said.append) for row in (row, later))
    assert (first.python == second.python, first.source == second.source) == (True, False)
    assert ["installing" in text for text in said] == [True, False, False]


def test_what_is_whole_is_created_once(project: ReferenceProject) -> None:
    row = project.row("six==1.16.0")
    said: list[str] = []
    for _ in range(2):
        project.store.create(row, said.append)
    assert len(said) == 2


def test_git_does_not_see_reference_environments(project: ReferenceProject) -> None:
    found(project)
    assert project.git("status", "--porcelain", ".tfperf") == ""


def missing(project: ReferenceProject, environment: ReferenceEnvironment) -> Missing:
    """What a new session says of it; all that `tfperf reference list` says is the same."""
    row = project.row_of(environment.lock, environment.commit)
    said = project.store.find(row)
    assert isinstance(said, Missing)
    assert [entry.fault for entry in project.store.entries([row])] == [said]
    return said


def test_an_environment_that_was_not_created_names_the_command(project: ReferenceProject) -> None:
    said = project.store.find(project.row("six==1.16.0"))
    assert str(said).endswith(" is not there. Build it: tfperf reference create --machine=box")


def test_the_command_names_folders_that_are_not_the_usual_ones(
    project: ReferenceProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = project.row("six==1.16.0")
    monkeypatch.chdir(tmp_path)
    said = str(project.store.find(row))
    assert said.endswith("tfperf reference create --dir=project/.tfperf --baselines=project/baselines --machine=box")


def change_lock(project: ReferenceProject, environment: ReferenceEnvironment) -> None:
    (project.baselines / environment.lock).write_text("# python: 3.99.1\nsix==1.17.0\n")


def delete_lock(project: ReferenceProject, environment: ReferenceEnvironment) -> None:
    (project.baselines / environment.lock).unlink()


def delete_package(project: ReferenceProject, environment: ReferenceEnvironment) -> None:
    (info,) = environment.python.parents[1].rglob("six-*.dist-info")
    shutil.rmtree(info)


def delete_python(project: ReferenceProject, environment: ReferenceEnvironment) -> None:
    environment.python.unlink()


@pytest.mark.parametrize(
    ("harm", "fact", "state"),
    [
        (change_lock, r"\.lock\.txt has changed since", State.STALE),
        (delete_lock, "can't be read: No such file or directory", State.STALE),
        (delete_package, "packages have changed in .*: six$", State.STALE),
        (delete_python, "bin/python is gone", State.BROKEN),
    ],
)
def test_what_is_broken_or_has_changed_is_told(
    harm: Callable[[ReferenceProject, ReferenceEnvironment], None], fact: str, state: State, project: ReferenceProject
) -> None:
    environment = found(project, "six==1.16.0", "seven==7.0")
    harm(project, environment)
    said = missing(project, environment)
    assert (bool(re.search(fact, said.fact)), said.state) == (True, state), said


def test_code_that_was_changed_is_told_and_kept(project: ReferenceProject) -> None:
    environment = found(project)
    assert environment.source is not None
    (environment.source / "nets.py").write_text("mine")
    assert f"git -C {environment.source} checkout" in missing(project, environment).mend
    with pytest.raises(TfperfError, match="is not that of"):
        project.store.create(project.row_of(environment.lock, environment.commit), lambda _: None)
    assert (environment.source / "nets.py").read_text() == "mine"


@pytest.mark.parametrize("lost", ["whole", "link"])
def test_code_that_is_gone_is_told_and_checked_out_again(project: ReferenceProject, lost: str) -> None:
    environment = found(project, "six==1.16.0")
    assert environment.source is not None
    shutil.rmtree(environment.source) if lost == "whole" else (environment.source / ".git").unlink()
    assert "has no code of the commit" in missing(project, environment).fact
    said: list[str] = []
    project.store.create(project.row_of(environment.lock, environment.commit), said.append)
    assert (len(said), (environment.source / "nets.py").read_text()) == (1, "def tiny(): ...\n")


@pytest.mark.parametrize(
    ("lock", "commit", "why"),
    [
        ("", "abc", "name no lock"),
        ("../other.lock.txt", "abc", "name no lock"),
        ("box-1.lock.txt", "", "outside of a git repository"),
        ("box-1.lock.txt", "abc-dirty", "with uncommitted changes"),
    ],
)
def test_a_row_that_can_have_no_environment_says_to_record_it_again(
    project: ReferenceProject, lock: str, commit: str, why: str
) -> None:
    row = project.row_of(lock, commit)
    said = str(project.store.find(row))
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
    assert "is not there. Build it" in str(project.store.find(row))
    return str(refused.value)


@pytest.mark.parametrize("why", ["No matching distribution found for nothing", "[Errno 28] No space left on device"])
def test_packages_that_can_not_be_installed_show_the_last_lines(project: ReferenceProject, why: str) -> None:
    said = refusal(project, "six==1.16.0", f"fail=={why}")
    assert f"  | ERROR: {why}\n" in said
    assert said.count("Looking in indexes") < 30
    assert "--tfperf-reference=PYTHON" in said.splitlines()[-1]


def test_a_python_that_is_not_there_is_named(project: ReferenceProject) -> None:
    said = refusal(project, python="3.98.2")
    assert "was recorded with Python 3.98.2" in said
    assert "no python3.98 on PATH" in said


def test_a_commit_that_is_gone_is_told_before_packages_are_installed(project: ReferenceProject) -> None:
    assert "has no commit deadbeefdead, at which" in refusal(project, "fail==too late", commit="deadbeefdead")


def test_of_a_shallow_clone_the_rest_is_to_be_fetched(tmp_path: Path, project: ReferenceProject) -> None:
    project.commit("def tiny(): ...  # again\n")
    project.git("clone", "--quiet", "--depth=1", project.folder.as_uri(), str(tmp_path / "clone"))
    row = project.row("six==1.16.0")
    project.folder, project.baselines = tmp_path / "clone", project.baselines
    with pytest.raises(TfperfError, match="Fetch the rest: git fetch --unshallow"):
        project.store.create(row, lambda _: None)


def test_without_a_repository_an_environment_can_be_named(project: ReferenceProject) -> None:
    shutil.rmtree(project.folder / ".git")
    assert "--tfperf-reference=PYTHON[:SOURCE_DIR]" in refusal(project)


def test_a_folder_that_can_not_be_written_is_named(project: ReferenceProject) -> None:
    (project.folder / ".tfperf").write_text("a file")
    assert ".tfperf/reference can't be written: " in refusal(project)


# What is listed and removed


def test_an_environment_is_listed_with_what_it_serves(project: ReferenceProject) -> None:
    environment = found(project, "tensorflow==2.21.0")
    row = project.row_of(environment.lock, environment.commit)
    (entry,) = project.store.entries([row, row, project.row_of(environment.lock, "other")])
    assert entry.manifest is not None
    assert (entry.state, entry.rows, entry.commits) == (State.OK, 2, (project.first,))
    assert (entry.manifest.python, entry.manifest.tensorflow, entry.manifest.bytes > 0) == ("3.99", "2.21.0", True)


def test_an_environment_that_no_row_needs_is_stale(project: ReferenceProject) -> None:
    name = found(project).name
    (entry,) = project.store.entries([])
    assert (entry.state, str(entry.fault).endswith(f"tfperf reference remove {name}")) == (State.STALE, True)


def test_what_is_removed_is_gone_from_disk_and_from_git(project: ReferenceProject) -> None:
    project.store.remove(found(project).name, lambda _: None)
    assert project.store.entries([]) == []
    assert len(project.git("worktree", "list").splitlines()) == 1


@pytest.mark.parametrize("name", ["../..", "box-1", ""])
def test_only_what_is_listed_can_be_removed(project: ReferenceProject, name: str) -> None:
    known = found(project).name
    with pytest.raises(TfperfError, match=f"unknown reference environment '{name}'.*Known: {known}"):
        project.store.remove(name, lambda _: None)


# One that somebody else keeps


def test_a_python_alone_runs_todays_code(tmp_path: Path) -> None:
    environment = parse_reference(sys.executable)
    assert (environment.python, environment.moved(tmp_path)) == (Path(sys.executable), {})


def test_a_source_folder_takes_the_place_of_rootdir(tmp_path: Path) -> None:
    environment = parse_reference(f"{sys.executable}:{tmp_path}")
    assert environment.moved(Path("/project")) == {Path("/project"): tmp_path}


def test_the_code_of_a_commit_takes_the_place_of_the_whole_repository(project: ReferenceProject) -> None:
    environment = found(project)
    assert environment.moved(project.folder / "tests") == {project.folder: environment.source}


@pytest.mark.parametrize("folder", ["perf", "newer"])
def test_workers_run_in_the_same_folder_of_the_other_code_or_in_its_top(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new" / folder).mkdir(parents=True)
    (tmp_path / "old" / "perf").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "new" / folder)
    expected = tmp_path / "old" / ("perf" if folder == "perf" else "")
    assert working_folder({tmp_path / "new": tmp_path / "old"}) == expected


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


@pytest.mark.parametrize("lock", ["", "box-1.lock.txt"])
def test_an_environment_without_tensorflow_says_what_mends_it(tmp_path: Path, lock: str) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho \'{"python": [3, 12, 1], "fault": "No module named tensorflow"}\'\n')
    python.chmod(0o755)
    environment = ReferenceEnvironment(name="box-1", python=python, lock=lock)
    problem = check(environment, [Workload(model="trivial", batch_size=1)], tmp_path).problem
    assert problem is not None
    assert "can't import TensorFlow: No module named tensorflow" in problem.fact
    assert ("tfperf reference remove box-1" if lock else "pip install --upgrade tensorflow") in problem.mend
