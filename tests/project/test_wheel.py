"""What is published: built, looked through, installed into a folder of its own, and used in a user's project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from pytest_tfperf import __version__
from tests.helpers.inner import Finished, Project
from tools.documents import DOCUMENTS

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


def run(*arguments: str) -> None:
    """Without an index: the group `dev` has what a build takes, and nothing else is needed."""
    subprocess.run([sys.executable, "-m", *arguments], check=True)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sdist, and of the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run("build", "--no-isolation", f"--outdir={folder}", str(REPOSITORY))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (built,) = dist.glob("pytest_tfperf-*.whl")
    return built


@pytest.fixture(scope="module")
def contents(dist: Path, wheel: Path) -> dict[str, dict[str, bytes]]:
    """Kind of archive -> name -> content."""
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive, zipfile.ZipFile(wheel) as zipped:
        files = {member: archive.extractfile(member) for member in archive.getmembers() if member.isfile()}
        return {
            "sdist": {member.name.partition("/")[2]: file.read() for member, file in files.items() if file},
            "wheel": {name: zipped.read(name) for name in zipped.namelist()},
        }


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder that holds what the wheel installs."""
    quiet = ("--quiet", "--no-index", "--no-deps", "--disable-pip-version-check")
    run("pip", "install", f"--target={wheel.parent / 'site'}", str(wheel), *quiet)
    return wheel.parent / "site"


@pytest.fixture(scope="module")
def finished(shared: Project, installed: Path) -> Finished:
    shared.tests(TESTS)
    return shared.run("--tfperf-smoke", PYTHONPATH=str(installed))


def test_the_wheel_holds_the_package_and_neither_tests_nor_pictures(contents: dict[str, dict[str, bytes]]) -> None:
    names = contents["wheel"]
    assert {name.partition("/")[0] for name in names} == {"pytest_tfperf", f"pytest_tfperf-{__version__}.dist-info"}
    assert [name for name in names if "/pictures/" in name] == []


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_no_text_of_others_is_published(contents: dict[str, dict[str, bytes]], kind: str) -> None:
    """Neither by a document's name, nor as a log of tf_cnn_benchmarks."""
    found = [
        name
        for name, content in contents[kind].items()
        if Path(name).name in DOCUMENTS or re.search(rb"(\d+\s+images/sec: [\d.]+ \+/- .*\n){3}", content)
    ]
    assert found == []


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_bundled_code_of_others_has_its_licence_beside_it_and_in_the_metadata(
    contents: dict[str, dict[str, bytes]], kind: str
) -> None:
    names = contents[kind]
    bundled = {re.sub(r"(\.iife)?\.min\.\w+$", "", name) for name in names if ".min." in Path(name).name}
    assert bundled
    licences = {f"{name}.LICENSE" for name in bundled}
    assert licences <= names.keys()
    (metadata,) = (names[name].decode() for name in names if Path(name).name in ("PKG-INFO", "METADATA"))
    assert {*re.findall(r"^License-File: (.*)$", metadata, re.MULTILINE)} == {"LICENSE", *licences}


def test_its_readme_has_links_and_pictures_that_an_index_can_show(wheel: Path) -> None:
    metadata = zipfile.ZipFile(wheel).read(f"pytest_tfperf-{__version__}.dist-info/METADATA").decode()
    targets = re.findall(r"\]\(([^)]*)\)", metadata)
    tagged = rf"https://(github\.com/[\w-]+/pytest-tfperf/blob|raw\.githubusercontent\.com/[\w-]+/pytest-tfperf)/v{__version__}/"
    assert targets
    badge = r"https://(img\.shields\.io/badge/|github\.com/[\w-]+/pytest-tfperf/actions/workflows/)"
    assert [target for target in targets if not re.match(f"{tagged}|{badge}", target)] == []


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
