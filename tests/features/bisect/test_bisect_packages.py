"""`tfperf bisect --packages`: which of several upgrades was it? With real environments of stand-in packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.states import States, package_states
from tests.helpers.inner import Project
from tests.helpers.repositories import Repository
from tests.helpers.wheels import wheel

pytestmark = pytest.mark.slow

TEST = "perf_tests/test_it.py::test_loop"
FOUND = 0


def cost(seconds: float) -> str:
    return f"COST = {seconds}\n"


def test_the_package_is_found_and_environments_are_made_once(project: Project, tmp_path: Path) -> None:
    Repository(project)
    (project.folder / "cost.py").unlink()  # it is a package now
    project.write("pytest.ini", (project.folder / "pytest.ini").read_text().replace("steps = 15", "steps = 1"))
    wheels = tmp_path / "wheels"
    fast = [wheel(wheels, "cost", "1.0", cost(0.01)), wheel(wheels, "arrays", "1.0", "")]
    slow = [
        wheel(wheels, "cost", "2.0", cost(0.012)),
        wheel(wheels, "arrays", "2.0", ""),
        wheel(wheels, "zips", "2.0", ""),
    ]
    project.write("fast.lock", "\n".join(fast))
    project.write("slow.lock", "\n".join(slow))
    done = subprocess.run(
        [sys.executable, "-m", "pytest_tfperf.cli", "bisect", TEST, "--packages", "fast.lock", "slow.lock"],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == FOUND, done.stdout
    assert f"package  {fast[0]} -> {slow[0]}" in done.stdout
    # The fast one, the slow one, and with arrays or with arrays and cost upgraded: at most four.
    assert 3 <= len(list((project.folder / ".tfperf" / "environments").glob("*/bin"))) <= 4


def states(tmp_path: Path, fast: str, slow: str) -> States:
    for name, text in (("fast", fast), ("slow", slow)):
        (tmp_path / name).write_text(text)
    return package_states(tmp_path / "fast", tmp_path / "slow", tmp_path)


def test_each_state_has_one_more_package_of_the_slow_lock(tmp_path: Path) -> None:
    made = states(tmp_path, "a==1\nb==1\nC.d==1\n", "a==1\nb==2\nc-d==2\ne==1\n")
    assert made.names == ["the fast lock", "up to b==1 -> b==2", "up to C.d==1 -> c-d==2", "the slow lock"]


def test_each_state_is_for_the_python_of_the_locks(tmp_path: Path) -> None:
    made = states(tmp_path, "# python: 3.11.7\na==1\n", "# python: 3.11.9\na==2\n")
    assert [lock.partition("\n")[0] for lock in made.key] == ["# python: 3.11.7"] * 2


@pytest.mark.parametrize(
    ("fast", "slow", "said"),
    [
        ("a==1\n", "# by hand\na==1\n", "name the same packages"),
        ("# python: 3.11.7\na==1\n", "# python: 3.12.1\na==2\n", "are for two Pythons, 3.11 and 3.12"),
    ],
)
def test_locks_that_can_not_be_searched_are_refused(tmp_path: Path, fast: str, slow: str, said: str) -> None:
    with pytest.raises(TfperfError, match=said):
        states(tmp_path, fast, slow)
