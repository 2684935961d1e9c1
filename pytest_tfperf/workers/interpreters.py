"""The Pythons that run workers: how they run our modules, find the user's, and whether their TensorFlow is usable."""

from __future__ import annotations

import json
import os
import re
import shutil
import site
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_tfperf.core.command import Command
from pytest_tfperf.core.history_url import VARIABLE
from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.workers.failures import last_lines
from pytest_tfperf.workers.git_worktree import is_ignored
from pytest_tfperf.workers.paths_in_text import replace_paths

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
found = {"python": platform.python_version()}
for name in ("tensorflow", "tensorflow-cpu", "keras", "torch", "jax", "jaxlib", "numpy"):
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""
_COVERAGE = ("COV_CORE_", "COVERAGE_PROCESS_")  # pytest-cov and coverage would trace workers and slow them down
_WITHOUT_GPUS = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}

IMPORT_SECONDS = 300
"""How long TensorFlow may take to import: from a cold network disk it takes minutes."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that runs workers, and where they look for the user's modules.

    Args:
        python: its path.
        moved: folders of the user's code that workers take from another place, old -> new: the project's folder ->
            its checkout at the reference environment's commit.
    """

    python: str
    moved: Mapping[Path, Path] = field(default_factory=dict)

    def command(self, module: str) -> list[str]:
        """The command that runs a module of this copy of the package, which need not be installed for that Python."""
        return [self.python, "-c", _BOOTSTRAP, _PACKAGE, module]

    def folder(self) -> Path:
        """Where workers run: pytest's folder, or the same folder of the other checkout, or that checkout's top."""
        here = Path(self._move(str(Path.cwd())))
        return here if here.is_dir() else next(new for new in self.moved.values() if here.is_relative_to(new))

    def user_command(self, argv: Sequence[str]) -> list[str]:
        """A user's command with this Python instead of pytest's.

        >>> Interpreter("/venv/bin/python").user_command([sys.executable, "train.py"])
        ['/venv/bin/python', 'train.py']
        """
        return [self.python if word == sys.executable else word for word in argv]

    def user_folder(self, folder: str) -> Path:
        """Where a user's command runs: this folder, or the same folder of the other checkout."""
        return Path(self._move(folder)) if folder else self.folder()

    def facts(self, command: Command) -> dict[str, str]:
        """What a user's command runs with: its digest and, if this Python runs it, versions of packages that train."""
        packages = _packages(self.python) if command.runs_this_python else {}
        return {"command": command.digest, **packages}

    def environment(self) -> dict[str, str]:
        """This process's environment variables, whose paths lead into the other checkout where it has them.

        PYTHONPATH leads there in any case. Left out are the history's password and what starts coverage in
        subprocesses.
        """
        folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        kept = {
            name: self._with_own_paths(name, value)
            for name, value in os.environ.items()
            if name != VARIABLE and not name.startswith(_COVERAGE)
        }
        return {**kept, "PYTHONPATH": os.pathsep.join(self._move(folder) for folder in folders if folder)}

    def import_paths(self) -> list[str]:
        """Folders in which pytest finds the tests' own modules, in its order, and then the working folder.

        Folders of installed packages are left out: this interpreter has its own.
        """
        libraries = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
        installed = [Path(path) for path in (*libraries, *site.getsitepackages(), site.getusersitepackages()) if path]
        ours = (
            path for path in sys.path if path and not any(Path(path).is_relative_to(folder) for folder in installed)
        )
        return list(dict.fromkeys(self._move(path) for path in (*ours, str(Path.cwd()))))

    def _with_own_paths(self, name: str, value: str) -> str:
        """A variable as the user exported it, such as PROJECT, PATH or NODE_PATH, for this interpreter's checkout."""
        if name == "HOME" or os.sep not in value:  # a home is no code, even if the repository is in its place
            return value
        for old, new in self.moved.items():
            value = replace_paths(value, old, partial(self._own_path, new))
        return value

    def _own_path(self, new: Path, path: str) -> str:
        """The path in the checkout `new`; what it lacks or git ignores, such as data and environments, stays."""
        there = self._move(path)
        has_it = there != path and os.path.exists(there) and not is_ignored(Path(there), new)  # noqa: PTH110  # may be too long
        return there if has_it else path

    def _move(self, path: str) -> str:
        for old, new in self.moved.items():
            if Path(path).resolve().is_relative_to(old.resolve()):
                return str(new / Path(path).resolve().relative_to(old.resolve()))
        return path


@cache
def _packages(python: str) -> dict[str, str]:
    """The installed versions of packages that a program may train with; empty if this Python can't be run."""
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run([python, "-c", _VERSIONS], capture_output=True, timeout=IMPORT_SECONDS, check=False)
        return {str(name): str(version) for name, version in json.loads(done.stdout).items()}
    return {}


def require_python(python: Path) -> None:
    """Return if this interpreter can be run, which is all that a user's own command needs.

    Raises:
        TfperfError: it does not.
    """
    if "python" not in _packages(str(python)):
        raise TfperfError(f"{python} can't be run as a Python", next_step="Name another one")


def find_python(text: str) -> Path:
    """The interpreter named by its path, by its name on PATH, or by its virtual environment's folder.

    Links are not followed: a virtual environment's `bin/python` is one, and its target has other packages.

    Raises:
        ValueError: there is no such interpreter, or it cannot be executed.
    """
    try:
        path = Path(text).expanduser()
        is_folder = path.is_dir()
        if is_folder:
            path = path / "bin" / "python"
        found, exists = shutil.which(path), path.exists()
    except (OSError, RuntimeError) as error:  # a name that is too long, an unreadable folder, no such user's home
        raise ValueError(f"must be a Python or a virtual environment: {error}") from None
    if found is not None:
        return Path(os.path.abspath(found))  # noqa: PTH100  # resolve() would follow the link
    if exists:
        raise ValueError("must be a Python or a virtual environment: this file is not executable")
    problem = "this folder has no bin/python" if is_folder else "there is no such file"
    raise ValueError(f"must be a Python or a virtual environment: {problem}")


def try_imports(
    python: Path, functions: Collection[str] = (), moved: Mapping[Path, Path] | None = None
) -> tuple[str, dict[str, str]]:
    """Let `python` import TensorFlow and then the user's own functions, which may take minutes.

    Returns TensorFlow's version, and the reason for each function that can't be imported.

    Args:
        python: the interpreter.
        functions: names as "package.module:function".
        moved: as in `Interpreter`.

    Raises:
        TfperfError: it can't be run, its TensorFlow can't be imported, or one of the two is too old.
    """
    interpreter = Interpreter(str(python), moved or {})
    try:
        done = subprocess.run(
            interpreter.command("pytest_tfperf.training.try_imports"),
            input=json.dumps({"import_paths": interpreter.import_paths(), "functions": sorted(functions)}),
            cwd=interpreter.folder(),
            env={**interpreter.environment(), **_WITHOUT_GPUS},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_SECONDS,
            check=False,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        faults = dict(found["faults"])
    except OSError as error:
        raise TfperfError(f"{python} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise TfperfError(f"{python} did not import TensorFlow within {IMPORT_SECONDS} s") from None
    except (IndexError, ValueError, TypeError, KeyError):
        said = (done.stderr or done.stdout).strip()
        why = said.rpartition("\n")[2] or f"it ended with status {done.returncode}"
        raise TfperfError(f"{python} can't run workers: {why}", *last_lines(said)) from None
    require_usable_import(found, python)
    return str(found["imported"]["tensorflow"]), faults


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
