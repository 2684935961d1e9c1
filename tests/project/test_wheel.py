"""The wheel as users get it: built, installed into a folder of its own, and used in a project of theirs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pytest_tfperf import __version__
from tests.helpers.inner import Finished, Project

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]

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
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", f"--wheel-dir={folder}", str(REPOSITORY))
    (built,) = folder.glob("pytest_tfperf-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder that holds what the wheel installs."""
    pip("install", f"--target={wheel.parent / 'site'}", str(wheel))
    return wheel.parent / "site"


@pytest.fixture(scope="module")
def finished(shared: Project, installed: Path) -> Finished:
    shared.tests(TESTS)
    return shared.run("--tfperf-smoke", PYTHONPATH=str(installed))


def test_the_wheel_holds_the_package_and_neither_tests_nor_pictures(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"pytest_tfperf", f"pytest_tfperf-{__version__}.dist-info"}
    assert [name for name in names if "/pictures/" in name] == []


def test_its_readme_has_links_and_pictures_that_an_index_can_show(wheel: Path) -> None:
    metadata = zipfile.ZipFile(wheel).read(f"pytest_tfperf-{__version__}.dist-info/METADATA").decode()
    targets = re.findall(r"\]\(([^)]*)\)", metadata)
    tagged = rf"https://(github\.com/[\w-]+/pytest-tfperf/blob|raw\.githubusercontent\.com/[\w-]+/pytest-tfperf)/v{__version__}/"
    assert targets
    assert [target for target in targets if not re.match(tagged, target)] == []


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


def test_the_published_baselines_travel_with_it(installed: Path, azure_logs: Path, tmp_path: Path) -> None:
    of = ("--machine=azure-nc6-dsvm", "--topology=1x1", "--workload=resnet50-b64-horovod-device")
    said = subprocess.run(
        [installed / "bin" / "tfperf", "replay", azure_logs / "azure-test1.log", *of],
        env=os.environ | {"PYTHONPATH": str(installed)},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    assert "\n1 PASS\n" in said
