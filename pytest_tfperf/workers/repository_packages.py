"""What was installed from the user's repository as a copy, which every checkout would share."""

from __future__ import annotations

from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pytest_tfperf.workers.lock import direct_url


@cache
def copies_from(repository: Path, packages: Path) -> dict[str, str]:
    """Top-level names that a folder of packages has as copies from the repository -> the package's name."""
    copies = (found for found in distributions(path=[str(packages)]) if _is_copy(found, repository))
    return {name: found.name for found in copies for name in _names(found)}


def _is_copy(found: Distribution, repository: Path) -> bool:
    """Whether it was installed from the repository's folder or from a wheel in it, and is not editable."""
    origin = direct_url(found)
    url = urlsplit(origin.get("url", ""))
    if url.scheme != "file" or origin.get("dir_info", {}).get("editable"):
        return False
    if found.name == "pytest-tfperf":  # workers run the driver's copy of it
        return False
    return Path(unquote(url.path)).resolve().is_relative_to(repository)


def _names(found: Distribution) -> set[str]:
    """The top-level names that a package gives; its own name where it does not say."""
    if said := (found.read_text("top_level.txt") or "").split():
        return set(said)
    parts = {file.parts[0].removesuffix(".py") for file in found.files or () if file.suffix == ".py"}
    return {part for part in parts if part.isidentifier()} or {found.name.replace("-", "_")}
