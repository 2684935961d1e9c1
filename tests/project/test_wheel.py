"""The wheel as users get it: built, installed into a folder of its own, and used in a project of theirs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.inner import Finished, Project

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
LOG = REPOSITORY / "tests" / "data" / "logs" / "azure-test1.log"

TESTS = """
    from pathlib import Path

    import pytest_tfperf

    def test_trivial(throughput, on):
        throughput.check(Workload(model="trivial", batch_size=1), on=on)

    def test_location():
        pytest.skip(str(Path(pytest_tfperf.__file__).parents[1]))
"""


def pip(*arguments: str) -> None:
    """Without an index: the dev extra has what a build takes, and nothing else is needed."""
    quiet = ("--quiet", "--no-index", "--no-deps", "--disable-pip-version-check")
    subprocess.run([sys.executable, "-m", "pip", *arguments, *quiet], check=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds what the wheel installs."""
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", f"--wheel-dir={folder}", str(REPOSITORY))
    (wheel,) = folder.glob("pytest_tfperf-*.whl")
    pip("install", f"--target={folder / 'site'}", str(wheel))
    return folder / "site"


@pytest.fixture(scope="module")
def finished(shared: Project, installed: Path) -> Finished:
    shared.tests(TESTS)
    return shared.run("--tfperf-smoke", PYTHONPATH=str(installed))


def test_the_wheels_plugin_is_the_one_that_runs(finished: Finished, installed: Path) -> None:
    assert finished.cases["test_location"].message == str(installed)


def test_a_users_project_trains_with_it(finished: Finished) -> None:
    assert finished.cases["test_trivial"].kind == "passed", finished.text


def test_the_pages_that_messages_name_travel_with_it(installed: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        [installed / "bin" / "tfperf", "--help"],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    assert (installed / "pytest_tfperf" / "docs").as_uri() in "".join(said.split())
    assert (installed / "pytest_tfperf" / "docs" / "cluster.md").is_file()


def test_the_published_baselines_travel_with_it(installed: Path, tmp_path: Path) -> None:
    of = ("--machine=azure-nc6-dsvm", "--topology=1x1", "--workload=resnet50-b64-horovod-device")
    said = subprocess.run(
        [installed / "bin" / "tfperf", "replay", LOG, *of],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    assert "\n1 PASS\n" in said
