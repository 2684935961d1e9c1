"""The Pythons that run workers: where another one is, and whether its TensorFlow is recent enough."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pytest_tfperf.errors import MeasurementError, TfperfError
from pytest_tfperf.workers.failures import last_lines
from pytest_tfperf.workers.import_paths import import_paths, python_path, working_folder

_PACKAGE = str(Path(__file__).parents[1] / "__init__.py")

# Runs under any Python, also 2.7. It imports TensorFlow instead of looking it up, because a broken one must show now.
# It imports as a worker does: pytest_tfperf is the driver's, and the user's own code comes after what is installed.
_PROBE = """
import sys
sys.path[:] = [path for path in sys.path if path]
import json
package, paths, functions = json.load(sys.stdin)
found = {"python": list(sys.version_info[:3]), "faults": {}}
if sys.version_info >= (3, 11):
    import importlib.util
    spec = importlib.util.spec_from_file_location("pytest_tfperf", package)
    sys.modules["pytest_tfperf"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        import tensorflow, keras
        found["tensorflow"] = tensorflow.__version__
        found["keras"] = keras.__version__
    except Exception as error:
        found["fault"] = "%s: %s" % (type(error).__name__, error)
    sys.path += [path for path in paths if path not in sys.path]
    for target in functions:
        name, _, function = target.partition(":")
        try:
            if not callable(getattr(importlib.import_module(name), function, None)):
                found["faults"][target] = "module %r has no function %r" % (name, function)
        except BaseException as error:
            found["faults"][target] = "importing %r raises %s: %s" % (name, type(error).__name__, error)
sys.stdout.write("\\n" + json.dumps(found) + "\\n")
"""
_PROBE_SECONDS = 300  # a cold network disk
_PROBE_ENVIRONMENT = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}

_NOTHING_MOVED: Mapping[Path, Path] = MappingProxyType({})


def find_python(text: str) -> Path:
    """The interpreter named by its path, by its name on PATH, or by its virtual environment's folder.

    Links are not followed: a virtual environment's `bin/python` is one, and its target has other packages.

    Raises:
        ValueError: there is none, or it cannot be executed.
    """
    try:
        path = Path(text).expanduser()
        path = path / "bin" / "python" if (is_folder := path.is_dir()) else path
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
    python: Path, functions: Collection[str] = (), moved: Mapping[Path, Path] = _NOTHING_MOVED
) -> tuple[str, dict[str, str]]:
    """Have `python` import TensorFlow, and then the user's own functions; takes as long as the imports.

    Returns TensorFlow's version, and for each function that can't be imported why.

    Args:
        python: the interpreter.
        functions: "package.module:function" each.
        moved: as in `LocalLauncher`.

    Raises:
        TfperfError: it is no Python, its TensorFlow cannot be imported, or one of the two is too old.
    """
    found = _probe(python, functions, moved)
    version = ".".join(map(str, found["python"]))
    if tuple(found["python"]) < (3, 11):
        raise TfperfError(f"{python} is Python {version}; workers need 3.11 or newer")
    if problem := _problem(f"{python} (Python {version})", python, found):
        raise TfperfError(f"{problem} (pytest-tfperf need not be installed there)")
    return str(found["tensorflow"]), found["faults"]


def require_usable_import(message: Mapping[str, Any], python: str) -> None:
    """Check what a server or a fresh worker sends about its import of TensorFlow; other messages pass.

    Raises:
        MeasurementError: TensorFlow cannot be imported, or is too old.
    """
    found = {"fault": message["failed"]} if "failed" in message else message.get("imported", {})
    if problem := _problem(python, python, found):
        raise MeasurementError(problem)


def _problem(name: str, python: Path | str, found: Mapping[str, Any]) -> str:
    """Why workers cannot use these packages, and what to install; "" if they can, or if nothing is known."""
    problem = f"{name} can't import TensorFlow: {found['fault']}" if "fault" in found else ""
    for package, least in (("TensorFlow", (2, 16)), ("Keras", (3, 0))):
        version = str(found.get(package.lower(), ""))
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is not None and tuple(map(int, numbers.groups())) < least:
            problem = f"{name} has {package} {version}; workers need TensorFlow 2.16 or newer, with Keras 3"
    if not problem:
        return ""
    return (
        f"{problem}\nInstall one: {python} -m pip install --upgrade tensorflow (without GPUs: tensorflow-cpu; for "
        "NVIDIA's: 'tensorflow[and-cuda]'), or a nightly or vendor's build"
    )


def _probe(python: Path, functions: Collection[str], moved: Mapping[Path, Path]) -> dict[str, Any]:
    """What this Python prints about its versions and imports."""
    try:
        done = subprocess.run(
            [str(python), "-c", _PROBE],
            input=json.dumps([_PACKAGE, import_paths(moved), sorted(functions)]),
            cwd=working_folder(moved),
            env={**os.environ, **_PROBE_ENVIRONMENT, "PYTHONPATH": python_path(moved)},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except OSError as error:
        raise TfperfError(f"{python} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise TfperfError(f"{python} did not import TensorFlow within {_PROBE_SECONDS} s") from None
    try:
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found | {"python": [int(part) for part in found["python"]]}
    except (IndexError, ValueError, TypeError, KeyError):
        raise TfperfError(
            f"{python} does not answer like a Python: it ended with status {done.returncode}\n"
            f"{last_lines(done.stderr or done.stdout)}"
        ) from None
