"""What .ci/run does where something can't be installed. The programs that it calls are replaced: they take an hour."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
BUILD_HOROVOD = RUN.parents[1] / "tools" / "build_horovod.sh"


class Checkout:
    """A copy of .ci/run among programs that only say that they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "programs"
        self.calls = folder / "calls"
        for program in ("make", "apt-get", "cmake", "g++", "python3"):
            self.place(program)
        self.place("id", "echo 0")
        self.place("python", folder=folder / ".venv" / "bin")
        (folder / ".ci").mkdir()
        shutil.copy(RUN, folder / ".ci" / "run")
        for program in ("bash", "dirname", "timeout"):  # and nothing else of this machine
            (self.programs / program).symlink_to(str(shutil.which(program)))

    def place(self, program: str, script: str = "", folder: Path | None = None) -> None:
        path = (folder or self.programs) / program
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "{program} $*" >> {self.calls}\n{script}\n')
        path.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.programs), "HOME": str(self.folder)}
        command = [str(shutil.which("bash")), ".ci/run"]
        return subprocess.run(command, cwd=self.folder, env=environment, text=True, capture_output=True, check=False)

    def called(self, prefix: str) -> list[str]:
        return [call for call in self.calls.read_text().splitlines() if call.startswith(prefix)]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_run_installs_and_tests_everything(checkout: Checkout) -> None:
    finished = checkout.run()
    assert (finished.returncode, finished.stdout) == (0, "")
    suites = ["test", "test-slow", "test-services", "test-nodes", "test-lowest"]
    assert checkout.called("make ") == [f"make {goal}" for goal in ["lint", "horovod", *suites, "mutants SAMPLE=100"]]


def test_lint_comes_first(checkout: Checkout) -> None:
    checkout.place("make", "exit 2")
    assert checkout.run().returncode == 2
    assert checkout.calls.read_text() == "make lint\n"


@pytest.mark.parametrize("failing", ["apt-get update", "apt-get install", "make horovod"])
def test_what_can_be_installed_and_is_not_is_a_failure(checkout: Checkout, failing: str) -> None:
    program, command = failing.split()
    checkout.place(program, f'[ "$1" != {command} ]')
    assert checkout.run().returncode == 1
    assert checkout.called("make test") == []


@pytest.mark.parametrize("extra", ["ray", "profile"])
def test_an_extra_that_can_not_be_installed_is_a_failure(checkout: Checkout, extra: str) -> None:
    checkout.place("python", f'case "$*" in *"[{extra}]"*) exit 1;; esac', checkout.folder / ".venv" / "bin")
    assert checkout.run().returncode == 1
    assert checkout.called("make test") == []


def test_who_is_not_root_installs_no_packages_and_is_told(checkout: Checkout) -> None:
    checkout.place("id", "echo 1000")
    finished = checkout.run()
    assert finished.returncode == 0
    assert "packages for several nodes, PostgreSQL and Chromium are not installed here" in finished.stdout
    assert checkout.called("apt-get") == []


@pytest.mark.parametrize("missing", ["cmake", "g++"])
def test_without_a_compiler_horovod_is_not_built(checkout: Checkout, missing: str) -> None:
    (checkout.programs / missing).unlink()
    finished = checkout.run()
    assert finished.returncode == 0
    assert "Horovod is not built here" in finished.stdout
    assert checkout.called("make horovod") == []


def test_a_python_without_the_lowest_tensorflow_is_told(checkout: Checkout) -> None:
    checkout.place("python3", "exit 1")
    finished = checkout.run()
    assert finished.returncode == 0
    assert "the lowest versions are not tested here" in finished.stdout
    assert checkout.called("make test-lowest") == []


PLAYED_PYTHON = """#!/bin/sh
case "$*" in
  *"pip"*download*) mkdir -p horovod-0.28.1/horovod/tensorflow
    touch horovod-0.28.1/horovod/__init__.py horovod-0.28.1/horovod/tensorflow/CMakeLists.txt
    tar czf horovod-0.28.1.tar.gz horovod-0.28.1;;
  *"setup.py"*) mkdir dist && touch dist/horovod.whl;;
  *"import horovod.tensorflow"*) [ ! -e horovod ] || { echo "the unbuilt Horovod was imported"; exit 1; };;
  *) echo 1.0;;
esac
"""


def test_a_horovod_that_was_just_built_is_imported_from_where_it_was_installed(tmp_path: Path) -> None:
    for name, script in {"python": PLAYED_PYTHON, "cmake": "", "g++": ""}.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [str(BUILD_HOROVOD), str(tmp_path / "python")]
    finished = subprocess.run(command, cwd=tmp_path, env=environment, text=True, capture_output=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.endswith("is installed\n")
