"""`make test-lowest` installs exactly the lowest versions that pyproject.toml declares."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
EXTRAS = "data,pandas,postgres,sharing,tensorflow"


def requirements(texts: list[str], python: str) -> Iterator[Requirement]:
    """What is named for this Python, and what the extras of ours that are named stand for."""
    for requirement in map(Requirement, texts):
        if requirement.marker is not None and not requirement.marker.evaluate({"python_version": python}):
            continue
        if canonicalize_name(requirement.name) != PROJECT["name"]:
            yield requirement
        for extra in requirement.extras & PROJECT["optional-dependencies"].keys():
            yield from requirements(PROJECT["optional-dependencies"][extra], python)


def lowest(python: str) -> dict[str, Version]:
    ours = [*PROJECT["dependencies"], f"{PROJECT['name']}[{EXTRAS}]", *PYPROJECT["dependency-groups"]["dev"]]
    found: dict[str, Version] = {}
    for requirement in requirements(ours, python):
        bounds = [Version(bound.version) for bound in requirement.specifier if bound.operator == ">="]
        for bound in bounds:
            name = canonicalize_name(requirement.name)
            found[name] = max(bound, found.get(name, bound))
    return found


def pinned(python: str) -> dict[str, Version]:
    lines = [line for line in (ROOT / "constraints-lowest.txt").read_text().splitlines() if not line.startswith("#")]
    pins = [(pin.name, version.version) for pin in requirements(lines, python) for version in pin.specifier]
    assert len(dict(pins)) == len(pins)
    return {canonicalize_name(name): Version(version) for name, version in pins}


PYTHONS = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["classifiers"]
    if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", classifier)
]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lowest_versions_that_are_tested_are_those_that_are_declared(python: str) -> None:
    assert pinned(python) == lowest(python)


def test_make_installs_what_the_pins_are_for() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert f"TESTED_EXTRAS := {EXTRAS}\n" in makefile
    assert "-c constraints-lowest.txt -e '.[$(TESTED_EXTRAS)]' --group dev" in makefile
