"""What a Python has installed from the user's repository, and where it would load those modules from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.failures import last_lines
from pytest_tfperf.workers.interpreters import IMPORT_SECONDS
from pytest_tfperf.workers.lock import direct_url, source_folder

# What each module would be loaded from, by a Python that begins as the user's program does.
_ORIGINS = """
import importlib.util, json, sys
first, *names = sys.argv[1:]
sys.path[0] = first
found = {}
for name in names:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    found[name] = spec.origin or next(iter(spec.submodule_search_locations or ()), "") if spec else ""
print(json.dumps(found))
"""


@cache
def packages_from(repository: Path, python: str) -> dict[str, str]:
    """Top-level names of what a Python has from the repository, editable or copied -> the package's name."""
    return {name: found.name for found in _installed_from(repository, python) for name in _names(found)}


@cache
def copies_from(repository: Path, python: str) -> dict[str, str]:
    """Those of `packages_from` whose files lie among the installed packages."""
    copied = (
        found
        for found in _installed_from(repository, python)
        if not direct_url(found).get("dir_info", {}).get("editable")
    )
    return {name: found.name for found in copied for name in _names(found)}


def _installed_from(repository: Path, python: str) -> list[Distribution]:
    """What was installed from the repository; also by a lock with "." or "-e ." in it."""
    search = sys.path if python == sys.executable else paths_of(python)
    return [found for found in distributions(path=list(search)) if _comes_from(found, repository)]


def _comes_from(found: Distribution, repository: Path) -> bool:
    source = source_folder(direct_url(found))
    if source is None or found.name == "pytest-tfperf":  # workers run the driver's copy of it
        return False
    return source.is_relative_to(repository)


def _names(found: Distribution) -> set[str]:
    """The top-level names that a package gives; its own name where it does not say."""
    if said := (found.read_text("top_level.txt") or "").split():
        return set(said)
    parts = {file.parts[0].removesuffix(".py") for file in found.files or () if file.suffix == ".py"}
    return {part for part in parts if part.isidentifier()} or {found.name.replace("-", "_")}


@cache
def paths_of(python: str) -> tuple[str, ...]:
    """Where a Python looks for modules, without its working folder and PYTHONPATH."""
    program = "import json, sys; print(json.dumps({'path': sys.path[1:]}))"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return tuple(_answer(python, program, folder=Path("/"), environment=environment)["path"])


def origins_of(
    modules: Collection[str], python: str, first: str, folder: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The file that each module would be loaded from, "" for none.

    Args:
        modules: top-level names.
        python: the interpreter.
        first: the first folder on its path: the script's.
        folder: where it runs.
        environment: its variables.

    Raises:
        TfperfError: it does not say so.
    """
    return _answer(python, _ORIGINS, first, *modules, folder=folder, environment=environment)


def _answer(python: str, program: str, *arguments: str, folder: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object in the last line that a program prints; a `sitecustomize` may print lines before.

    Raises:
        TfperfError: the program failed, so nothing proves that both sides are two.
    """
    why, output = "", ""
    try:
        done = subprocess.run(
            [python, "-c", program, *arguments],
            cwd=folder,
            env=dict(environment),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_SECONDS,
            check=False,
        )
        output = done.stdout + done.stderr
        if done.returncode == 0:
            return dict(json.loads(done.stdout.splitlines()[-1]))
        why = f"it ended with status {done.returncode}"
    except OSError as error:
        why = f"it can't be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        why = f"it did not end within {IMPORT_SECONDS} s"
    except (IndexError, ValueError, TypeError):
        why = "it printed something else"
    raise TfperfError(
        f"{python} does not say where it finds packages, so nothing proves that two sides are compared: {why}",
        *last_lines(output),
        next_step=f"Correct what `{python} -c pass` shows in {folder}, with the variables of the command",
    )
