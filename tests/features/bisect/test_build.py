"""`tfperf bisect --build`: the project is built in each checkout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.states import commit_states
from tests.helpers.inner import Project
from tests.helpers.repositories import Repository, git

TEST = "perf_tests/test_it.py::test_loop"
FOUND = 0


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    for number in (0, 1):
        (folder / "source").write_text(str(number))
        git(folder, "add", "source")
        git(folder, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", str(number))
    return folder


def built(repository: Path, build: str) -> list[Path]:
    """The checkouts of both commits, each asked for twice."""
    with ExitStack() as opened:
        states = commit_states(repository, "HEAD~1", "HEAD", repository.parent / "dir", opened, build)
        checkouts = [states.state(index).checkout for index in (0, 1, 0, 1)]
        return [checkout.folder for checkout in checkouts if checkout is not None]


def test_each_checkout_is_built_once_from_its_own_code(repository: Path) -> None:
    folders = built(repository, "cat source >> program")
    assert [(folder / "program").read_text() for folder in folders[:2]] == ["0", "1"]


@pytest.mark.parametrize("build", ["", "cat source >> program"])
def test_a_tracked_file_that_a_program_changed_is_restored_before_it_is_measured_again(
    repository: Path, build: str
) -> None:
    with ExitStack() as opened:
        state = commit_states(repository, "HEAD~1", "HEAD", repository.parent / "dir", opened, build).state
        for _ in range(2):
            checkout = state(0).checkout
            assert checkout is not None
            assert [file.read_text() for file in checkout.folder.glob("[sp]*")] == ["0"] * (2 if build else 1)
            (checkout.folder / "source").write_text("written by the program")


def test_a_process_that_a_build_leaves_behind_is_not_waited_for(repository: Path) -> None:
    [folder, *_] = built(repository, "sleep 600 & echo $! > left")
    os.kill(int((folder / "left").read_text()), signal.SIGKILL)  # there is still one


def test_a_build_that_fails_says_so_with_its_output(repository: Path) -> None:
    with pytest.raises(TfperfError, match=r"ended with status 3 in (?s:.*)no compiler"):
        built(repository, "echo no compiler; exit 3")


def test_a_build_knows_no_secret_of_the_session(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFPERF_GITHUB_TOKEN", "hunter2")
    [folder, *_] = built(repository, "env > program")
    assert "hunter2" not in (folder / "program").read_text()


@pytest.mark.slow
def test_the_commit_is_found_by_a_program_that_each_checkout_must_build(project: Project) -> None:
    repository = Repository(project)
    project.write("pytest.ini", (project.folder / "pytest.ini").read_text().replace("steps = 15", "steps = 1"))
    loop = (project.folder / "loop.py").read_text()
    (project.folder / "loop.py").write_text(loop.replace("from cost import", "from built import"))
    project.write(".gitignore", (project.folder / ".gitignore").read_text() + "built.py\n")
    good = repository.commit("built")
    repository.cost(0.012)
    bad = repository.commit("slower")
    done = subprocess.run(
        [sys.executable, "-m", "pytest_tfperf.cli", "bisect", TEST, "--good", good, "--build", "cp cost.py built.py"],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == FOUND, done.stdout
    assert f"{bad[:12]} is the first slow one: -1" in done.stdout
