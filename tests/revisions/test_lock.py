"""Locks: which packages they name, whose they are, and which files are none."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.revisions.lock import Lock, contradiction, forget_locks, read_lock, write_lock


def package(packages: Path, name: str, version: str = "1.0", **direct_url: object) -> None:
    """A distribution as installers leave it."""
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    if direct_url:
        (info / "direct_url.json").write_text(json.dumps(direct_url))


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    folder = tmp_path / "venv" / "site-packages"
    (folder / "~ensorflow-2.20.0.dist-info").mkdir(parents=True)  # a broken installation left it
    return folder


def locked(tmp_path: Path, *search: Path) -> tuple[Lock, list[str]]:
    """What a lock of the packages in these folders says, and the requirements in it; for the project in /project."""
    path = tmp_path / write_lock(tmp_path, "box", root=Path("/project"), search=[*map(str, search)])
    return read_lock(path), [line for line in path.read_text().splitlines() if not line.startswith("#")]


def test_a_lock_names_python_and_each_package_with_its_version(tmp_path: Path, packages: Path) -> None:
    package(packages, "tensorflow", "2.21.0")
    package(packages, "Keras", "3.15.1")
    python = ".".join(map(str, sys.version_info[:3]))
    assert locked(tmp_path, packages) == (Lock(python, "2.21.0", ()), ["Keras==3.15.1", "tensorflow==2.21.0"])


def test_of_a_package_that_is_there_twice_the_one_that_is_imported_is_locked(tmp_path: Path, packages: Path) -> None:
    other = tmp_path / "other" / "site-packages"
    package(packages, "my_lib", "2.0")
    package(other, "My-Lib", "1.0")
    assert locked(tmp_path, packages, other)[1] == ["my_lib==2.0"]


GIT = {"vcs": "git", "commit_id": "abc"}


@pytest.mark.parametrize(
    ("name", "origin", "lines"),
    [
        (
            "mine",
            {"url": "https://h/r.git", "vcs_info": GIT, "subdirectory": "py"},
            ["mine @ git+https://h/r.git@abc#subdirectory=py"],
        ),
        (
            "mine",
            {"url": "file:///w/mine-1.0-py3-none-any.whl", "archive_info": {}},
            ["mine @ file:///w/mine-1.0-py3-none-any.whl"],
        ),
        ("project", {"url": "file:///project", "dir_info": {"editable": True}}, []),
        ("pip", {}, []),
        ("pytest_tfperf", {}, []),
    ],
    ids=["git", "wheel", "the project itself", "pip", "this package"],
)
def test_a_package_that_is_from_no_index_is_locked_by_its_address_and_one_that_comes_by_itself_is_not(
    name: str, origin: dict[str, object], lines: list[str], tmp_path: Path, packages: Path
) -> None:
    package(packages, name, **origin)
    lock, requirements = locked(tmp_path, packages)
    assert (requirements, lock.warnings) == (lines, ())


def test_packages_from_folders_are_left_out_with_one_warning(tmp_path: Path, packages: Path) -> None:
    package(packages, "mine", url="file:///home/me/my%20lib", dir_info={"editable": True})
    package(tmp_path / "src", "beside_its_source")  # an index may have another one of that name
    lock, requirements = locked(tmp_path, packages, tmp_path / "src")
    (warning,) = lock.warnings
    assert (requirements, "beside-its-source, mine" in warning) == ([], True)


def test_equal_packages_have_one_lock_which_is_not_written_again_and_others_another(
    tmp_path: Path, packages: Path
) -> None:
    package(packages, "six", "1.16.0")
    locked(tmp_path, packages)
    (path,) = tmp_path.glob("*.lock.txt")
    path.write_text("# python: 3.11.7\n")  # somebody took out what can't be installed
    assert locked(tmp_path, packages)[0].python == "3.11.7"
    package(packages, "seven")
    assert locked(tmp_path, packages)[1] == ["seven==1.0", "six==1.16.0"]


def test_locks_that_no_row_names_go_and_other_machines_stay(tmp_path: Path) -> None:
    keep = ["box-00000001.lock.txt", "box-2-00000002.lock.txt", "notes.lock.txt", "box-00000003.txt"]
    for name in (*keep, "box-00000004.lock.txt"):
        (tmp_path / name).touch()
    forget_locks(tmp_path, "box", [keep[0]])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(keep)


def test_a_lock_that_can_not_be_written_names_its_folder(tmp_path: Path, packages: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BaselineError, match=r"file/box-.*can't be written: a file is in its way"):
        locked(tmp_path / "file", packages)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\xfe", "it is not UTF-8"),
        (b"six==1.16.0\n", "has no line '# python: VERSION'"),
        (b"# python: banana\n", "has no line '# python: VERSION'"),
    ],
)
def test_a_file_that_is_no_lock_is_named(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "x.lock.txt").write_bytes(data)
    with pytest.raises(BaselineError, match=rf"x.lock.txt .*{why}.*Restore it from git"):
        read_lock(tmp_path / "x.lock.txt")


@pytest.mark.parametrize(
    ("environment", "lock", "says"),
    [
        ("tensorflow=2.21.0", Lock("3.11.7", "2.19.0", ()), "has tensorflow 2.19.0, and .* recorded with 2.21.0"),
        ("python=3.12.1 tensorflow=2.21.0", Lock("3.11.7", "2.21.0", ()), "has python 3.11.7, and .* with 3.12.1"),
        ("python=3.11.9 tensorflow=2.21.0", Lock("3.11.7", "2.21.0", ()), "^$"),
        ("tensorflow=2.22.0-dev20260101", Lock("3.11.7", "2.22.0.dev20260101", ()), "^$"),
        ("", Lock("3.11.7", "2.21.0", ()), "^$"),
        ("tensorflow=2.21.0", Lock("3.11.7", "", ()), "^$"),
    ],
)
def test_a_lock_that_was_edited_to_other_versions_than_its_row_has_contradicts_it(
    environment: str, lock: Lock, says: str
) -> None:
    row = Baseline(machine="box", key=Key("x", "1x1"), value=1.0, environment=environment, lock="box-1.lock.txt")
    assert re.search(says, contradiction(row, lock))


def test_no_lock_has_a_token(tmp_path: Path, packages: Path) -> None:
    package(packages, "mine", url="https://TOKEN@h/r.git", vcs_info=GIT)
    assert locked(tmp_path, packages)[1] == ["mine @ git+https://h/r.git@abc"]
