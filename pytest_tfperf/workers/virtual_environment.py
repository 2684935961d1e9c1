"""Virtual environments built from locks."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.reference_lock import Lock

NAME_ONE: Final = "or name an environment that exists already: --tfperf-reference=PYTHON[:SOURCE_DIR]"
_LAST_LINES = 12


def make_virtual_environment(folder: Path, lock: Lock, requirements: Path, held: int) -> None:
    """A virtual environment of the lock's Python with its packages in `folder`; a failure leaves no folder.

    Args:
        folder: where it stays: its scripts name the folder, and would not survive a move.
        lock: what is in the file `requirements`.
        requirements: the lock's file, for pip or uv.
        held: a descriptor that what is started inherits, open until the last of it has ended.

    Raises:
        TfperfError: there is no such Python, or pip fails; with the last lines that it wrote.
    """
    base, python = _interpreter(lock, requirements), str(folder / "bin" / "python")
    uv = shutil.which("uv") if _is_made_by_uv() else None
    new = [uv, "venv", "--python", base, str(folder)] if uv else [base, "-m", "venv", str(folder)]
    install = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install", "--no-input"]
    try:
        _run(new, held, f"no virtual environment can be made in {folder}", f"Install what is missing, {NAME_ONE}")
        _run(
            # The lock is complete, and what was recorded may contradict what packages ask for.
            [*install, "--no-deps", "-r", str(requirements)],
            held,
            f"the packages of {requirements} can't be installed",
            f"Make them available to {'uv' if uv else 'pip'}, take the line out of the lock where no model needs it, "
            f"{NAME_ONE}",
        )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def installed(folder: Path) -> dict[str, str]:
    """Name to version of what a virtual environment has; {} where there is none."""
    folders = [str(packages) for packages in (folder / "lib").glob("python*/site-packages")]
    return {found.name: found.version for found in distributions(path=folders)}


def minor(version: str) -> str:
    """ "3.11.7" -> "3.11"."""
    return ".".join(version.split(".")[:2])


def _interpreter(lock: Lock, requirements: Path) -> str:
    """A Python of the lock's minor version: this one, or one on PATH."""
    if minor(lock.python) == minor(platform.python_version()):
        return sys.executable
    found = shutil.which(f"python{minor(lock.python)}")
    if found is None:
        raise TfperfError(
            f"{requirements.name} was recorded with Python {lock.python}; this is Python {platform.python_version()}, "
            f"and there is no python{minor(lock.python)} on PATH. Install Python {minor(lock.python)}, {NAME_ONE}"
        )
    return found


def _is_made_by_uv() -> bool:
    """Whether uv made the environment that runs this: then the index settings are uv's, and there may be no pip."""
    with suppress(OSError):
        return "\nuv = " in (Path(sys.prefix) / "pyvenv.cfg").read_text("utf-8")
    return False


def _run(command: Sequence[str], held: int, fact: str, mend: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(held,),
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise TfperfError(f"{fact}: {command[0]}: {error.strerror}. {mend}") from None
    if done.returncode:
        said = "\n".join(f"  | {line}" for line in done.stdout.strip().splitlines()[-_LAST_LINES:])
        raise TfperfError(f"{fact}; the last lines:\n{said}\n{mend}")
