"""What `make` installs is pinned to the last package: cuDNN and NCCL decide speed as TensorFlow does."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_PINNED = {"examples", "profile", "ray"}  # no gate measures with what these bring
ASKED = [
    *PROJECT["project"]["dependencies"],
    *(
        text
        for kind in (PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"])
        for name in kind.keys() - NOT_PINNED
        for text in kind[name]
    ),
]


def pins() -> dict[str, str]:
    lines = (line.partition("#")[0].strip() for line in CONSTRAINTS.read_text().splitlines())
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines if line)}


def required() -> Iterator[Requirement]:
    """By us and, as far as it is installed in the version that is pinned, by what we need, and so on."""
    pinned, done = pins(), set()
    ahead = [need for need in map(Requirement, ASKED) if need.marker is None or need.marker.evaluate()]
    yield from ahead
    while ahead:
        asked = ahead.pop()
        name = canonicalize_name(asked.name)
        for extra in sorted({"", *asked.extras} - {e for n, e in done if n == name}):
            done.add((name, extra))
            needs = [Requirement(text) for text in _needs(name, pinned)]
            found = [need for need in needs if need.marker is None or need.marker.evaluate({"extra": extra})]
            yield from found
            ahead += found


def _needs(name: str, pinned: dict[str, str]) -> list[str]:
    """Its metadata, unless another version is installed: it may need others."""
    try:
        return (metadata.requires(name) or []) if metadata.version(name) == pinned.get(name) else []
    except metadata.PackageNotFoundError:
        return []


NEEDS = {str(need): need for need in required() if canonicalize_name(need.name) != "pytest-tfperf"}


def test_each_package_that_is_installed_is_pinned() -> None:
    assert {canonicalize_name(need.name) for need in NEEDS.values()} - pins().keys() == set()


def test_each_pin_is_a_version_that_who_needs_it_allows() -> None:
    pinned = pins()
    versions = {text: pinned.get(canonicalize_name(need.name)) for text, need in NEEDS.items()}
    assert [text for text, pin in versions.items() if pin and not NEEDS[text].specifier.contains(pin)] == []
