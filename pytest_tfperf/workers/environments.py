"""Virtual environments for locks that users name, made once each in a folder of ours."""

from __future__ import annotations

import fcntl
import hashlib
import platform
import re
from pathlib import Path

from pytest_tfperf.errors import TfperfError
from pytest_tfperf.workers.virtual_environment import fault_of, make_virtual_environment


def environment_of(lock: Path, folder: Path) -> Path:
    """The Python of the environment with the packages of a lock; made where it is missing, which takes minutes.

    Args:
        lock: a complete list of requirements, as `pip freeze` and --update-baselines write it. Without a line
            "# python: VERSION" it is for this Python.
        folder: of the environments.

    Raises:
        TfperfError: it can't be read, its Python is missing, pip fails, or the disk is full.
    """
    try:
        text = lock.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise TfperfError(f"{lock} can't be read: {why}. Name a file with one requirement a line") from None
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
                make_virtual_environment(home, requirements, otherwise="or name another lock")
    except OSError as error:
        raise TfperfError(
            f"{error.filename or folder} can't be written: {error.strerror}. Free some space, or name another folder "
            "with --tfperf-dir"
        ) from None
    return home / "bin" / "python"
