"""The Pythons that workers run under: where another one lies, and whether its TensorFlow will do."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_tfperf.errors import MeasurementError, TfperfError

LEAST_PYTHON = (3, 11)
LEAST_TENSORFLOW = (2, 16)
LEAST_KERAS = (3,)

# For whatever Python it is, 3.5 or 2.7 too. TensorFlow is imported, not looked up: a broken one must show now.
_PROBE = """
import json, sys
found = {"python": list(sys.version_info[:3])}
if sys.version_info >= (3, 11):
    try:
        import tensorflow, keras
        found["tensorflow"] = tensorflow.__version__
        found["keras"] = keras.__version__
    except Exception as error:
        found["fault"] = "%s: %s" % (type(error).__name__, error)
sys.stdout.write("\\n" + json.dumps(found) + "\\n")
"""

_PROBE_SECONDS = 300  # a cold network disk


def find_python(text: str) -> Path:
    """The interpreter that is meant: its path, its name on PATH, or a virtual environment's folder.

    Links are not followed: a virtual environment's `bin/python` is one, and what it leads to has other packages.

    Raises:
        ValueError: it isn't there or can't be executed.
    """
    try:
        path = Path(text).expanduser()
        is_folder = path.is_dir()
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise ValueError(f"must be a Python or a virtual environment: {error.strerror}") from None
    except RuntimeError:
        raise ValueError("must be a Python or a virtual environment, and nobody has that home") from None
    if is_folder:
        path = path / "bin" / "python"
        if not path.exists():
            raise ValueError("must be a Python or a virtual environment: this folder has no bin/python")
    found = shutil.which(path)
    if found is not None:
        return Path(os.path.abspath(found))  # noqa: PTH100  # resolve() would follow the link
    if path.exists():
        raise ValueError("must be a Python or a virtual environment: this file is not executable")
    raise ValueError("must be a Python or a virtual environment: there is no such file")


def require_tensorflow(python: Path) -> str:
    """The TensorFlow version that `python` imports; takes as long as the import.

    Raises:
        TfperfError: it is no Python, it has no TensorFlow that can be imported, or either is too old.
    """
    found = _probe(python)
    version = ".".join(map(str, found["python"]))
    if tuple(found["python"]) < LEAST_PYTHON:
        raise TfperfError(f"{python} is Python {version}; workers need {_dotted(LEAST_PYTHON)} or newer")
    if "fault" in found:
        raise TfperfError(
            f"{python} (Python {version}) can't import TensorFlow: {found['fault']}\n"
            f"{_install(python)} (pytest-tfperf need not be there)"
        )
    if said := _too_old(python, found):
        raise TfperfError(said)
    return str(found["tensorflow"])


def refuse_tensorflow(message: Mapping[str, Any], python: Path | str) -> None:
    """What a process that imports TensorFlow tells of it; nothing where it will do.

    Raises:
        MeasurementError: it can't be imported, or is too old.
    """
    if "failed" in message:
        raise MeasurementError(f"{python} can't import TensorFlow: {message['failed']}\n{_install(python)}")
    if "imported" in message and (said := _too_old(python, message["imported"])):
        raise MeasurementError(said)


def _too_old(python: Path | str, found: Mapping[str, Any]) -> str:
    """Why these versions won't do; "" where they will, or are not known."""
    for package, name, least in (("tensorflow", "TensorFlow", LEAST_TENSORFLOW), ("keras", "Keras", LEAST_KERAS)):
        version = re.match(r"(\d+)\.(\d+)", str(found.get(package, "")))
        if version is not None and tuple(map(int, version.groups())) < least:
            return (
                f"{python} has {name} {found[package]}; workers need TensorFlow {_dotted(LEAST_TENSORFLOW)} or newer, "
                f"with Keras {_dotted(LEAST_KERAS)}\n{_install(python)}"
            )
    return ""


def _install(python: Path | str) -> str:
    return (
        f"Install one: {python} -m pip install --upgrade tensorflow (tensorflow-cpu where there are no GPUs, "
        "'tensorflow[and-cuda]' for NVIDIA's), or a nightly or vendor's build"
    )


def _probe(python: Path) -> dict[str, Any]:
    environment = os.environ | {
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "KERAS_BACKEND": "tensorflow",
    }
    try:
        done = subprocess.run(
            [str(python), "-c", _PROBE],
            cwd="/",  # `-c` looks for modules in the current folder first
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except OSError as error:
        raise TfperfError(f"{python} can't be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise TfperfError(f"{python} did not import TensorFlow within {_PROBE_SECONDS} s") from None
    try:
        found = json.loads(done.stdout.splitlines()[-1])
        return {"python": [int(part) for part in found["python"]], **{k: v for k, v in found.items() if k != "python"}}
    except (IndexError, ValueError, TypeError, KeyError):
        said = "\n".join(f"  | {line}" for line in (done.stderr or done.stdout).splitlines()[-5:])
        raise TfperfError(
            f"{python} does not answer like a Python: it ended with status {done.returncode}\n{said}".rstrip()
        ) from None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
