"""Another Python than the session's: found by the user's name for it, and tried before anything is measured in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.failures import last_lines
from pytest_tfperf.workers.interpreters import IMPORT_SECONDS, Interpreter, packages_of, require_usable_import

_WITHOUT_GPUS: Final = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def require_python(python: Path) -> None:
    """Return if this interpreter can be run, which is enough for a user's own command.

    Raises:
        TfperfError: it can't.
    """
    if "python" not in packages_of(str(python)):
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
        program, exists = shutil.which(path), path.exists()
    except (OSError, RuntimeError) as error:  # a name that is too long, an unreadable folder, no such user's home
        raise ValueError(f"must be a Python or a virtual environment: {error}") from None
    if program is not None:
        return Path(os.path.abspath(program))  # noqa: PTH100  # resolve() would follow the link
    if exists:
        raise ValueError("must be a Python or a virtual environment: this file is not executable")
    problem = "this folder has no bin/python" if is_folder else "there is no such file"
    raise ValueError(f"must be a Python or a virtual environment: {problem}")


def try_imports(interpreter: Interpreter, functions: Collection[str] = ()) -> tuple[str, dict[str, str]]:
    """Let a Python import TensorFlow and then the user's own functions, which may take minutes.

    Returns TensorFlow's version, and the reason for each function that can't be imported.

    Args:
        interpreter: the Python, and where it finds the functions.
        functions: names as "package.module:function".

    Raises:
        TfperfError: it can't be run, its TensorFlow can't be imported, or one of the two is too old.
    """
    python = interpreter.python
    try:
        done = subprocess.run(
            [*interpreter.command("pytest_tfperf.training.process"), "--try-imports"],
            input=json.dumps({"import_paths": interpreter.import_paths(), "functions": sorted(functions)}),
            cwd=interpreter.folder(),
            env={**interpreter.environment(), **_WITHOUT_GPUS},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=IMPORT_SECONDS,
            check=False,
        )
        message = json.loads(done.stdout.splitlines()[-1])
        faults = dict(message["faults"])
    except OSError as error:
        raise TfperfError(f"{python} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise TfperfError(f"{python} did not import TensorFlow within {IMPORT_SECONDS} s") from None
    except (IndexError, ValueError, TypeError, KeyError):
        output = (done.stderr or done.stdout).strip()
        why = output.rpartition("\n")[2] or f"it ended with status {done.returncode}"
        raise TfperfError(f"{python} can't run workers: {why}", *last_lines(output)) from None
    require_usable_import(message, python)
    return str(message["imported"]["tensorflow"]), faults
