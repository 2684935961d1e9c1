"""A command of another checkout: which paths lead there, which stay, and what it lacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from inner import Project
from repositories import Repository

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.errors import NotCompared
from pytest_tfperf.workers.checkout_launcher import Checkout, CheckoutLauncher
from pytest_tfperf.workers.git_worktree import Checkouts
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import PreparedCommand
from pytest_tfperf.workers.local import LocalLauncher

CPU = Devices(kind=DeviceKind.CPU, count=1)


class Sides:
    """A repository, and the launcher of its first commit."""

    def __init__(self, project: Project) -> None:
        self.here = project.folder.resolve()
        repository = Repository(project)
        project.write(".gitignore", ".tfperf/\ndata/\n")
        self.there = Checkouts(self.here, self.here / ".tfperf" / "checkouts").get(repository.git("rev-parse", "HEAD"))
        checkout = Checkout(repository=self.here, folder=self.there.resolve(), name="main (1a2b)")
        interpreter = Interpreter(sys.executable, checkout.moved)
        self._local = LocalLauncher(logs=self.here / ".tfperf" / "logs", silence_seconds=1, interpreter=interpreter)
        self._launcher = CheckoutLauncher(self._local, interpreter, checkout)

    def prepared(self, *argv: str, folder: Path | None = None, **environment: str) -> PreparedCommand:
        command = Command.of(
            [sys.executable, *argv],
            name="it",
            unit="examples/s",
            folder=str(self.here if folder is None else folder),
            environment=environment,
        )
        return self._launcher.prepare_command(command, CPU, 1)

    def close(self) -> None:
        self._local.close()


@pytest.fixture
def sides(project: Project) -> Iterator[Sides]:
    made = Sides(project)
    yield made
    made.close()


def test_relative_paths_begin_in_the_checkout(sides: Sides) -> None:
    prepared = sides.prepared("loop.py", "--config=cost.py")
    assert (prepared.argv[1:], prepared.folder) == (["loop.py", "--config=cost.py"], sides.there)


def test_absolute_paths_of_the_repository_lead_into_the_checkout(sides: Sides) -> None:
    prepared = sides.prepared(str(sides.here / "loop.py"), f"--config={sides.here / 'cost.py'}")
    assert prepared.argv[1:] == [str(sides.there / "loop.py"), f"--config={sides.there / 'cost.py'}"]


def test_from_elsewhere_a_relative_path_is_made_absolute(sides: Sides) -> None:
    prepared = sides.prepared(f"{sides.here.name}/loop.py", folder=sides.here.parent)
    assert prepared.argv[1:] == [str(sides.there / "loop.py")]


def test_variables_of_the_command_lead_there_too(sides: Sides) -> None:
    prepared = sides.prepared("loop.py", CONFIG=str(sides.here / "cost.py"), TEXT="cost.py")
    assert (prepared.environment["CONFIG"], prepared.environment["TEXT"]) == (str(sides.there / "cost.py"), "cost.py")


def test_data_that_git_ignores_are_those_of_the_repository(sides: Sides) -> None:
    (sides.here / "data").mkdir()
    (sides.here / "data" / "tokens").touch()
    assert sides.prepared("loop.py", "data/tokens").argv[2] == str(sides.here / "data" / "tokens")


@pytest.mark.parametrize("argument", ["new.py", "./new.py", "--config=new.py", "{here}/new.py", "new/inside.py"])
def test_a_path_that_the_checkout_lacks_is_new(sides: Sides, argument: str) -> None:
    (sides.here / "new").mkdir()
    for name in ("new.py", "new/inside.py"):
        (sides.here / name).touch()
    with pytest.raises(NotCompared, match=r"NEW: main \(1a2b\) has no new"):
        sides.prepared("loop.py", argument.format(here=sides.here))


def test_a_word_that_is_also_a_new_folder_is_no_path(sides: Sides) -> None:
    (sides.here / "train").mkdir()
    assert sides.prepared("loop.py", "train").argv[2] == "train"


def test_a_folder_that_the_checkout_lacks_is_new(sides: Sides) -> None:
    (sides.here / "new").mkdir()
    with pytest.raises(NotCompared, match="has no folder new"):
        sides.prepared("-c", "pass", folder=sides.here / "new")


def test_a_command_without_anything_of_the_repository_would_be_the_same_twice(sides: Sides, tmp_path: Path) -> None:
    with pytest.raises(NotCompared, match="nothing of this repository is in it"):
        sides.prepared("-c", "pass", folder=tmp_path / "elsewhere")
