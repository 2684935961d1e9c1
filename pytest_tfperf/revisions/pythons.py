"""Other Pythons than the session's: found by name, tried before anything is measured in them, and built from locks.

They are built by uv where it is on PATH and can take over pip's settings, else by pip.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from pytest_tfperf.errors import TfperfError, worded
from pytest_tfperf.revisions.lock import Lock, read_lock
from pytest_tfperf.revisions.worktrees import FULL, alone_in
from pytest_tfperf.workers.failures import last_lines
from pytest_tfperf.workers.processes import IMPORT_SECONDS, Interpreter, packages_of, require_usable_import

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

    Returns TensorFlow's version, and the reason for each function ("package.module:function") that can't be
    imported.

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


# Built from a lock

NAME_ONE: Final = "or name an environment that exists already: --tfperf-reference=PYTHON[:SOURCE_DIR]"

# Written last: an environment without them is incomplete.
_LOCK = "lock.txt"
_INSTALLED = "installed.txt"


def make_virtual_environment(folder: Path, requirements: Path, *, otherwise: str = NAME_ONE) -> None:
    """Make a virtual environment of the lock's Python, with its packages; a failure leaves no folder.

    It can't be moved later, because its scripts name the folder. `otherwise` is another way out, for messages.

    Raises:
        BaselineError: the lock can't be read.
        TfperfError: that Python is missing, or uv or pip fails; shows its last lines.
    """
    lock, uv = read_lock(requirements), find_uv()
    base = _interpreter(lock, requirements, otherwise, has_uv=uv is not None)
    (folder / _LOCK).unlink(missing_ok=True)
    python = str(folder / "bin" / "python")
    # Without dependencies: the lock is complete, and recorded versions may contradict what packages require.
    packages = ["--no-deps", "-r", str(requirements)]
    try:
        if folder.exists():
            shutil.rmtree(folder)
        if uv is None:
            # The pip of pytest's Python installs there, where it has one: a pip of its own takes 5 s of CPU to make.
            has_pip = find_spec("pip") is not None
            pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
            _run(
                [base, "-m", "venv", *(["--without-pip"] if has_pip else []), str(folder)],
                f"no virtual environment can be made in {folder}",
                f"Install what {base} lacks, such as its package venv, {otherwise}",
            )
            _run(
                [*pip, "install", "--no-input", *packages],
                f"the packages of {requirements} can't be installed",
                f"Install what is missing, take a package that no model needs out of the lock, {otherwise}",
            )
        else:
            program, variables = uv
            _run(
                [program, "venv", "--no-project", "--python", base, str(folder)],
                f"uv can't make a virtual environment of Python {base} in {folder}",
                f"Install that Python, {otherwise}",
                variables,
            )
            # Compiled now, as pip does, and not by the first worker that imports them.
            _run(
                [program, "pip", "install", "--python", python, "--compile-bytecode", *packages],
                f"uv can't install the packages of {requirements}",
                "Install what is missing, take a package that no model needs out of the lock, take uv off PATH to "
                f"install with pip, {otherwise}",
                variables,
            )
        (folder / _INSTALLED).write_text(_installed(folder), "utf-8")
        shutil.copyfile(requirements, folder / _LOCK)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def fault_of(folder: Path, requirements: Path) -> str:
    """Why a virtual environment does not have exactly the packages of a lock's file; "" if it does."""
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
    return "".join(sorted(f"{package.name}=={package.version}\n" for package in distributions(path=packages)))


def _interpreter(lock: Lock, requirements: Path, otherwise: str, *, has_uv: bool) -> str:
    """A Python of the lock's minor version: this one, another on PATH, or its number where uv may install it."""
    minor, here = lock.python.rpartition(".")[0], platform.python_version()
    if minor == here.rpartition(".")[0]:
        return sys.executable
    path = shutil.which(f"python{minor}")
    why = "" if path is None else _not_python(path, minor)
    if has_uv and (path is None or why):
        return minor
    if path is None or why:
        raise TfperfError(
            f"{requirements.name} was recorded with Python {lock.python}; this is Python {here}, and there is no "
            f"python{minor} on PATH{why}",
            next_step=f"Install Python {minor}, {otherwise}",
        )
    return path


def _not_python(path: str, minor: str) -> str:
    """Why a program called pythonX.Y is no such Python, with its output; "" if it is.

    Version managers such as pyenv put shims on PATH, also for versions that are not installed or not chosen.
    """
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        return f" ({path} can't be run: {error.strerror})"
    said = (done.stdout + done.stderr).strip()
    if done.returncode == 0 and said.startswith(f"Python {minor}."):
        return ""
    first_line = said.partition("\n")[0] or "nothing"
    return f" ({path} says: {first_line})"


def _run(command: list[str], fact: str, next_step: str, variables: Mapping[str, str] | None = None) -> None:
    """Run a command; where it fails, the error has its last lines and the next step."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with worded(command[0], "run", next_step):
        done = subprocess.run(
            command,
            env={**kept, **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            close_fds=False,  # it inherits the lock of `alone_in`: others wait for it even if this process is killed
            text=True,
            errors="replace",
            check=False,
        )
    if done.returncode:
        if FULL.search(done.stdout):
            next_step = "Free space on that disk and the one of temporary files, and try it again"
        raise TfperfError(f"{fact}; the last lines:", *last_lines(done.stdout), next_step)


def environment_of(lock: Path, folder: Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """The Python of an environment with the packages of a lock; made if it is missing, which takes minutes.

    Args:
        lock: a complete list of requirements, as `pip freeze` and --update-baselines write it. Without a line
            "# python: VERSION" it is for this Python.

    Raises:
        TfperfError: it can't be read, its Python is missing, uv or pip fails, or the disk is full.
    """
    with worded(lock, "read", "Name a file with one requirement a line"):
        text = lock.read_text("utf-8")
    if not re.search(r"^# python: ", text, re.MULTILINE):
        text = f"# python: {platform.python_version()}\n{text}"
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    home, requirements = folder.absolute() / name, folder.absolute() / f"{name}.txt"
    way_out = "Make it writable, or name another folder with --tfperf-dir"
    waiting = f"waiting for another session, or the installer that it left, at work in {home}"
    with worded(folder, "written", way_out), alone_in(folder, lambda: say(waiting), lock=f"{name}.lock"):
        requirements.write_text(text, "utf-8")
        if fault_of(home, requirements):
            say(f"installing the packages of {lock} in {home}; this can take minutes")
            make_virtual_environment(home, requirements, otherwise="or name another lock")
    return home / "bin" / "python"


# uv in pip's place

# uv doesn't read pip.conf and PIP_*, but must use a company's index, too: pip's setting -> uv's variable, and the
# separator of several values there.
_FOR_UV: Final = {
    "index-url": ("UV_INDEX_URL", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "constraint": ("UV_CONSTRAINT", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "timeout": ("UV_HTTP_TIMEOUT", " "),
    "default-timeout": ("UV_HTTP_TIMEOUT", " "),
}
# Settings that don't change which packages pip installs.
_IGNORED: Final = frozenset(
    {
        *("break-system-packages", "cache-dir", "config-file", "disable-pip-version-check", "no-cache-dir"),
        *("no-color", "no-input", "prefer-binary", "progress-bar", "quiet", "require-virtualenv", "retries"),
        *("root-user-action", "verbose"),
    }
)
_SECTIONS: Final = ("global", "install", ":env:")  # the later one wins


def find_uv() -> tuple[str, Mapping[str, str]] | None:
    """The uv on PATH, and the variables that give it pip's settings; None without it.

    None also where pip has settings that uv lacks, such as a proxy. The user's own settings of uv come before pip's.
    """
    path = shutil.which("uv")
    settings = _pip_settings() if path else None
    if path is None or settings is None or not settings.keys() <= _FOR_UV.keys() | _IGNORED:
        return None
    variables: dict[str, str] = {}
    if settings.keys() & {"extra-index-url", "find-links"}:  # as with pip, the version may be in any of them
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    for name, value in settings.items():
        if name in _FOR_UV:
            variable, between = _FOR_UV[name]
            variables[variable] = between.join(value.split())
    return path, {name: value for name, value in variables.items() if name not in os.environ}


def _pip_settings() -> dict[str, str] | None:
    """The settings of pip.conf and PIP_* for `pip install`; None where pip can't read them.

    None apply in an environment without pip: uv made it, and has settings of its own.
    """
    if find_spec("pip") is None:
        return {}
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    lines = re.findall(rf"^({'|'.join(_SECTIONS)})\.([\w-]+)=(.+)$", done.stdout, re.MULTILINE)
    lines.sort(key=lambda line: _SECTIONS.index(line[0]))
    return None if done.returncode else {name: str(ast.literal_eval(value)) for _, name, value in lines}
