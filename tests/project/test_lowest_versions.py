"""`make test-lowest` installs exactly the lowest versions that pyproject.toml declares."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
INSTALLED = ("dev", "tensorflow")


def requirements(texts: list[str]) -> Iterator[Requirement]:
    """What is named, and what the extras of ours that are named stand for."""
    for requirement in map(Requirement, texts):
        if canonicalize_name(requirement.name) != PROJECT["name"]:
            yield requirement
        for extra in requirement.extras & PROJECT["optional-dependencies"].keys():
            yield from requirements(PROJECT["optional-dependencies"][extra])


def lowest() -> dict[str, Version]:
    ours = [*PROJECT["dependencies"], f"{PROJECT['name']}[{','.join(INSTALLED)}]"]
    return {
        canonicalize_name(requirement.name): Version(bound.version)
        for requirement in requirements(ours)
        for bound in requirement.specifier
        if bound.operator == ">="
    }


def pinned() -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints-lowest.txt").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): Version(version) for name, _, version in (line.partition("==") for line in lines)}


def test_the_lowest_versions_that_are_tested_are_those_that_are_declared() -> None:
    assert pinned() == lowest()


def test_make_installs_what_the_pins_are_for() -> None:
    assert f"-c constraints-lowest.txt -e '.[{','.join(INSTALLED)}]'" in (ROOT / "Makefile").read_text()
