"""The Python that runs workers: its commands, folders and variables, and whether its TensorFlow is usable."""

from __future__ import annotations

import json
import os
import re
import site
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.history_url import VARIABLE
from pytest_tfperf.errors import MeasurementError

_PACKAGE = str(Path(__file__).parents[1] / "__init__.py")

# Runs a module of this copy of the package, without its folder or the working folder on the path. Any Python can parse
# it, even 2.7.
_BOOTSTRAP = """
import sys
sys.path[:] = [path for path in sys.path if path]
if sys.version_info < (3, 11):
    sys.exit("it is Python %d.%d.%d; workers need 3.11 or newer" % sys.version_info[:3])
import importlib.util, runpy
spec = importlib.util.spec_from_file_location("pytest_tfperf", sys.argv[1])
sys.modules["pytest_tfperf"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
module = sys.argv[2]
del sys.argv[1:3]
runpy.run_module(module, run_name="__main__")
"""

_VERSIONS = """
import json, platform
from importlib import metadata
versions = {"python": platform.python_version()}
for name in ("tensorflow", "tensorflow-cpu", "keras", "torch", "jax", "jaxlib", "numpy"):
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""
_SECRET = (VARIABLE, "TFPERF_NOTIFY", "TFPERF_GITHUB_TOKEN")
_COVERAGE = ("COV_CORE_", "COVERAGE_PROCESS_")  # pytest-cov and coverage would trace workers and slow them down

IMPORT_SECONDS = 300
"""The most that importing TensorFlow may take: from a cold network disk it takes minutes."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that runs workers, and where they look for the user's modules.

    Args:
        python: its path.
        moved: folders whose code workers take from another folder, old -> new: the project's -> its checkout at the
            reference environment's commit.
        variable: returns the value of an environment variable for workers, from its name and its value here.
    """

    python: str
    moved: Mapping[Path, Path] = field(default_factory=dict)
    variable: Callable[[str, str], str] = lambda _, value: value

    def command(self, module: str) -> list[str]:
        """The command that runs a module of this copy of the package, which need not be installed for that Python."""
        return [self.python, "-c", _BOOTSTRAP, _PACKAGE, module]

    def folder(self) -> Path:
        """The working folder of workers: pytest's, the same folder of the other checkout, or that checkout's top."""
        here = Path(self._move(str(Path.cwd())))
        return here if here.is_dir() else next(new for new in self.moved.values() if here.is_relative_to(new))

    def user_command(self, argv: Sequence[str]) -> list[str]:
        """A user's command with this Python instead of pytest's.

        >>> Interpreter("/venv/bin/python").user_command([sys.executable, "train.py"])
        ['/venv/bin/python', 'train.py']
        """
        return [self.python if word == sys.executable else word for word in argv]

    def user_folder(self, folder: str) -> Path:
        """The working folder of a user's command: this folder, or the same folder of the other checkout."""
        return Path(self._move(folder)) if folder else self.folder()

    def facts(self, command: Command) -> dict[str, str]:
        """A user command's digest and, if this Python runs it, the versions of packages that it may train with."""
        packages = packages_of(self.python) if command.runs_this_python else {}
        return {"command": command.digest, **packages}

    def environment(self) -> dict[str, str]:
        """This process's environment variables, as `variable` gives them, with PYTHONPATH leading into moved folders.

        Left out are our own passwords and tokens, and the variables that start coverage in subprocesses.
        """
        folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        kept = {
            name: self.variable(name, value)
            for name, value in os.environ.items()
            if name not in _SECRET and not name.startswith(_COVERAGE)
        }
        return {**kept, "PYTHONPATH": os.pathsep.join(self._move(folder) for folder in folders if folder)}

    def imports(self) -> dict[str, Any]:
        """The items of a worker's first message from which it finds the user's modules."""
        moved = {str(old.resolve()): str(new.resolve()) for old, new in self.moved.items()}
        return {"import_paths": self.import_paths(), "moved": moved}

    def import_paths(self) -> list[str]:
        """The folders of pytest's import path with the tests' own modules, and then the working folder.

        Folders of installed packages are left out: workers have their interpreter's.
        """
        paths = sysconfig.get_paths()
        libraries = [paths["stdlib"], paths["platstdlib"], paths["purelib"], paths["platlib"]]
        installed = set(map(Path, filter(None, [*libraries, *site.getsitepackages(), site.getusersitepackages()])))
        ours = [path for path in sys.path if path and installed.isdisjoint([Path(path), *Path(path).parents])]
        return list(dict.fromkeys(map(self._move, [*ours, str(Path.cwd())])))

    def _move(self, path: str) -> str:
        for old, new in self.moved.items():
            if Path(path).resolve().is_relative_to(old.resolve()):
                return str(new / Path(path).resolve().relative_to(old.resolve()))
        return path


@cache
def packages_of(python: str) -> dict[str, str]:
    """The installed versions of packages that a program may train with; empty if this Python can't be run."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run([python, "-c", _VERSIONS], capture_output=True, timeout=IMPORT_SECONDS, check=False)
        return {str(name): str(version) for name, version in json.loads(done.stdout).items()}
    return {}


def require_usable_import(message: Mapping[str, Any], python: Path | str) -> None:
    """Check a worker's message about its import of TensorFlow; other messages pass.

    Raises:
        MeasurementError: TensorFlow cannot be imported, or is too old.
    """
    problem = f"can't import TensorFlow: {message['failed']}" if "failed" in message else ""
    for package, least in (("TensorFlow", (2, 16)), ("Keras", (3, 0))):
        version = str(message.get("imported", {}).get(package.lower(), ""))
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is not None and tuple(map(int, numbers.groups())) < least:
            problem = f"has {package} {version}; workers need TensorFlow 2.16 or newer, with Keras 3"
    if problem:
        raise MeasurementError(
            f"{python} {problem}",
            f"Install one: {python} -m pip install --upgrade tensorflow (without GPUs: "
            "tensorflow-cpu; for NVIDIA's: 'tensorflow[and-cuda]'), or a nightly or vendor's build",
        )
