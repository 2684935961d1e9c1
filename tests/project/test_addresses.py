"""Whoever publishes this puts one name in place of OWNER: no file may have another."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from pytest_tfperf import __version__

ROOT = Path(__file__).parents[2]
ADDRESS = re.compile(
    r"(?:github|raw\.githubusercontent)\.com/([\w.-]+)/pytest-tfperf\b|([\w-]+)\.github\.io/pytest-tfperf\b"
)


def test_each_address_of_the_repository_has_the_owner_of_pyproject() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("an unpacked sdist: git can't tell which files are the repository's")
    files = subprocess.run(
        ["git", "grep", "-lI", "pytest-tfperf"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    owner = urls()["Source"].split("/")[-2]
    found = {
        (name, one or other)
        for name in files.stdout.splitlines()
        for one, other in ADDRESS.findall((ROOT / name).read_text())
    }
    assert {(name, other) for name, other in found if other != owner} == set()


def urls() -> dict[str, str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return dict(project["urls"])


@pytest.mark.parametrize("file", ["docs/github-action.md", "templates/against-base.yml"])
def test_the_release_that_is_named_is_the_version_of_the_package(file: str) -> None:
    named = re.findall(r"pytest-tfperf(?:/against-base)?@(v[\w.]+)", (ROOT / file).read_text())
    assert named
    assert {*named} == {f"v{__version__}"}
