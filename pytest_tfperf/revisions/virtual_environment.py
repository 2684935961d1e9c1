"""Virtual environments built from locks, and those that users name by a lock, made once each in a folder of ours."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.revisions.lock import Lock, read_lock
from pytest_tfperf.revisions.uv import Uv, find_uv
from pytest_tfperf.workers.failures import last_lines

NAME_ONE: Final = "or name an environment that exists already: --tfperf-reference=PYTHON[:SOURCE_DIR]"

# Written last: an environment without them is incomplete.
_LOCK = "lock.txt"
_INSTALLED = "installed.txt"


def make_virtual_environment(folder: Path, requirements: Path, *, otherwise: str = NAME_ONE) -> None:
    """A virtual environment of the lock's Python, with its packages, in `folder`; a failure leaves no folder.

    Args:
        folder: its final place. It can't be moved later, because its scripts name the folder.
        requirements: the lock's file.
        otherwise: what messages offer instead.

    Raises:
        BaselineError: the lock can't be read.
        TfperfError: that Python is missing, or uv or pip fails; shows its last lines.
    """
    lock, uv = read_lock(requirements), find_uv()
    base = _interpreter(lock, requirements, otherwise, uv)
    (folder / _LOCK).unlink(missing_ok=True)
    try:
        if folder.exists():
            shutil.rmtree(folder)
        if uv is None:
            _with_pip(base, folder, requirements, otherwise)
        else:
            _with_uv(uv, base, folder, requirements, otherwise)
        (folder / _INSTALLED).write_text(_installed(folder), "utf-8")
        shutil.copyfile(requirements, folder / _LOCK)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


# Without dependencies: the lock is complete, and recorded versions may contradict what packages require.


def _with_pip(base: str, folder: Path, requirements: Path, otherwise: str) -> None:
    _run(
        [base, "-m", "venv", str(folder)],
        f"no virtual environment can be made in {folder}",
        f"Install what {base} lacks, such as its package venv, {otherwise}",
    )
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--no-input", "--no-deps"]
    _run(
        [*pip, "-r", str(requirements)],
        f"the packages of {requirements} can't be installed",
        f"Install what is missing, take a package that no model needs out of the lock, {otherwise}",
    )


def _with_uv(uv: Uv, base: str, folder: Path, requirements: Path, otherwise: str) -> None:
    _run(
        [uv.path, "venv", "--no-project", "--python", base, str(folder)],
        f"uv can't make a virtual environment of Python {base} in {folder}",
        f"Install that Python, {otherwise}",
        uv.variables,
    )
    # Compiled now, as pip does, and not by the first worker that imports them.
    install = [uv.path, "pip", "install", "--python", str(folder / "bin" / "python"), "--compile-bytecode", "--no-deps"]
    _run(
        [*install, "-r", str(requirements)],
        f"uv can't install the packages of {requirements}",
        "Install what is missing, take a package that no model needs out of the lock, take uv off PATH to install with "
        f"pip, {otherwise}",
        uv.variables,
    )


def fault_of(folder: Path, requirements: Path) -> str:
    """Why a virtual environment does not have exactly the packages of a lock's file; "" if it has."""
    if not folder.exists():
        return f"{folder} is not there"
    if not (folder / _LOCK).exists():
        return f"the creation of {folder} was interrupted"
    if not os.access(folder / "bin" / "python", os.X_OK):
        return f"{folder}/bin/python is gone, or the Python that it leads to"
    if (folder / _LOCK).read_text("utf-8") != requirements.read_text("utf-8"):
        return f"{requirements} has changed since {folder} was created"
    if (folder / _INSTALLED).read_text("utf-8") != _installed(folder):
        return f"packages in {folder} have changed since it was created"
    return ""


def lock_of(folder: Path) -> Lock | None:
    """The lock that a virtual environment was built from; None if its creation was interrupted."""
    return read_lock(folder / _LOCK) if (folder / _LOCK).exists() else None


def _installed(folder: Path) -> str:
    packages = [str(path) for path in (folder / "lib").glob("python*/site-packages")]
    return "".join(sorted(f"{found.name}=={found.version}\n" for found in distributions(path=packages)))


def _interpreter(lock: Lock, requirements: Path, otherwise: str, uv: Uv | None) -> str:
    """A Python of the lock's minor version: this one, one on PATH, or its number where uv may bring it."""
    minor, here = lock.python.rpartition(".")[0], platform.python_version()
    if minor == here.rpartition(".")[0]:
        return sys.executable
    found = shutil.which(f"python{minor}")
    why = "" if found is None else _not_python(found, minor)
    if uv is not None and (found is None or why):
        return minor
    if found is None or why:
        raise TfperfError(
            f"{requirements.name} was recorded with Python {lock.python}; this is Python {here}, and there is no "
            f"python{minor} on PATH{why}",
            next_step=f"Install Python {minor}, {otherwise}",
        )
    return found


def _not_python(found: str, minor: str) -> str:
    """What a program called pythonX.Y says if it is no such Python; "" if it is one.

    Version managers such as pyenv put shims on PATH, also for versions that are not installed or not chosen.
    """
    try:
        done = subprocess.run([found, "--version"], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        return f" ({found} can't be run: {error.strerror})"
    said = (done.stdout + done.stderr).strip()
    if done.returncode == 0 and said.startswith(f"Python {minor}."):
        return ""
    first_line = said.partition("\n")[0] or "nothing"
    return f" ({found} says: {first_line})"


def _run(command: list[str], fact: str, next_step: str, variables: Mapping[str, str] | None = None) -> None:
    """Run a command; where it fails, the error has its last lines and the next step."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command,
        env={**kept, **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        close_fds=False,  # it inherits the store's lock, so that others wait for it even if this process is killed
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise TfperfError(f"{fact}; the last lines:", *last_lines(done.stdout), next_step)


def environment_of(lock: Path, folder: Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """The Python of the environment with the packages of a lock; made where it is missing, which takes minutes.

    Args:
        lock: a complete list of requirements, as `pip freeze` and --update-baselines write it. Without a line
            "# python: VERSION" it is for this Python.
        folder: of the environments.
        say: shows a line before uv or pip begins.

    Raises:
        TfperfError: it can't be read, its Python is missing, uv or pip fails, or the disk is full.
    """
    try:
        text = lock.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise TfperfError(f"{lock} can't be read: {why}", next_step="Name a file with one requirement a line") from None
    if not re.search(r"^# python: ", text, re.MULTILINE):
        text = f"# python: {platform.python_version()}\n{text}"
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    home, requirements = folder.absolute() / name, folder.absolute() / f"{name}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".gitignore").write_text("*\n", "utf-8")
        with (folder / f"{name}.lock").open("a", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # two sessions may want the same one
            requirements.write_text(text, "utf-8")
            if fault_of(home, requirements):
                say(f"installing the packages of {lock} in {home}; this can take minutes")
                make_virtual_environment(home, requirements, otherwise="or name another lock")
    except OSError as error:
        raise TfperfError(
            f"{error.filename or folder} can't be written: {error.strerror}",
            next_step="Free some space, or name another folder with --tfperf-dir",
        ) from None
    return home / "bin" / "python"
