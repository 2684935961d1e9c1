"""`make test-install`: use a wheel and an sdist as strangers do, in environments of their own.

    python -m tools.install_check dist
    python -m tools.install_check dist readme      # `make test-readme`: README, from its first line to a red test

Nothing there knows this checkout. Each runs commands of the first pages in an empty folder. A Python that is not to be
had is named and left out; all else has to work.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
README = (ROOT / "README.md").read_text()
FIRST_PAGES = "".join([README, *((ROOT / "docs" / name).read_text() for name in ("install.md", "tutorial.md"))])
PINNED = ("--constraint", str(ROOT / "constraints.txt"))
LOWEST = ("--constraint", str(ROOT / "constraints-lowest.txt"))
QUICK_TESTS = ("tests/core", "tests/judging", "tests/console")  # of the sdist: `make test` runs all of the checkout's

# Our own variables, and those of the environment that runs this, must not reach a stranger's.
ENVIRON = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PYTEST"))
}
ENVIRON["TFPERF_BUSY"] = "1"  # a shared machine may be busy with anything

TEST_OF_A_MODEL = """
from pytest_tfperf import Workload


def test_resnet(throughput, gpu_topology):
    throughput.check(Workload(model="resnet20", batch_size=8), on=gpu_topology.take(1))
"""

# The reader's own program: a small network on random images, whose steps are long enough to be measured anywhere.
TRAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
images, labels = torch.randn(4096, 3, 32, 32), torch.randint(10, (4096,))
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(32, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(64 * 8 * 8, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(1000):
    for batch, targets in DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
"""


class Failed(Exception):
    """A command whose result is not a stranger's due; the text is what it printed."""


@dataclass(frozen=True)
class Place:
    """An environment with the package in it, and an empty folder.

    Args:
        bin: the folder of its commands.
        folder: the project's.
    """

    bin: Path
    folder: Path

    def run(self, command: str, status: tuple[int, ...] = (0,), says: str = "") -> str:
        """Run a command of the first pages in the folder.

        Raises:
            Failed: no page has it, it ends with another status, or it does not say this in a line.
        """
        if f"$ {command} " not in FIRST_PAGES.replace("\n", " "):
            raise Failed(f"neither README.md nor docs/install.md nor docs/tutorial.md has `{command}`")
        return _run(*command.split(), cwd=self.folder, path=self.bin, status=status, says=says)


def without_tensorflow(place: Place) -> None:
    """The program that `tfperf init` wrote is measured, and a test of a model says in one line what to install."""
    _first_steps(place)
    place.run("pytest perf_tests", says="1 measured")
    (place.folder / "perf_tests" / "test_speed.py").write_text(TEST_OF_A_MODEL)
    place.run("pytest perf_tests", status=(6,), says="pip install --upgrade tensorflow")


def with_tensorflow(place: Place) -> None:
    """The test that `tfperf init` wrote is measured, and the extra has what a DataFrame needs."""
    _first_steps(place)
    place.run("pytest perf_tests", says="1 measured")
    _run("python", "-c", "import pytest_tfperf as t; assert len(t.load_history())", cwd=place.folder, path=place.bin)


def with_only(name: str) -> Callable[[Place], None]:
    """Return the check that gates the program of examples/own_script in this framework, as it is."""

    def check(place: Place) -> None:
        without_tensorflow(place)
        for file in ("test_speed.py", f"train_{name}.py"):
            shutil.copy(ROOT / "examples" / "own_script" / file, place.folder)
        _run("pytest", "test_speed.py", "-k", name, "--tfperf-smoke", cwd=place.folder, path=place.bin, says="1 passed")

    return check


def reads_readme(noun: str) -> Callable[[Place], None]:
    """Return the check that types README from its first line to the first test that fails, with a program or a model.

    What installs is left out, since that is done. The program is `TRAIN`.
    """

    def check(place: Place) -> None:
        (place.folder / "train.py").write_text(TRAIN)
        tests = re.findall(r"^```python\n(# (\S+)\n.*?)^```", README, re.MULTILINE | re.DOTALL)
        ((text, name),) = (found for found in tests if f"import {noun}\n" in found[0])
        (place.folder / name).parent.mkdir()
        (place.folder / name).write_text(text)
        *green, red = re.findall(r"^\$ (pytest .*?) +#", README, re.MULTILINE)
        for command in green:
            place.run(command)
        place.run(red, status=(1,), says="REGRESSED")

    return check


def command_only(place: Place) -> None:
    """`tfperf` alone on PATH, as pipx installs it."""
    _first_steps(place)
    _run("tfperf", "--help", cwd=place.folder, path=place.bin)


def _first_steps(place: Place) -> None:
    place.run("tfperf init", says="wrote   perf_tests/test_speed.py")
    place.run("tfperf doctor", status=(0, 8), says="it to measure")


@dataclass(frozen=True)
class Stranger:
    """A way to install the package.

    Args:
        name: shown.
        check: what is done then.
        python: its version.
        extra: of the package, in brackets.
        beside: what else the installer is given.
        installer: "pip" of the environment, "uv pip", or "uv tool".
    """

    name: str
    check: Callable[[Place], None]
    python: str = "3.11"
    extra: str = ""
    beside: tuple[str, ...] = ()
    installer: str = "uv pip"


# The largest come first, so that both processes end together. pip takes torch where a machine has it for CPUs only.
STRANGERS = (
    Stranger("lowest versions, Python 3.13", with_tensorflow, "3.13", extra="[tensorflow]", beside=LOWEST),
    Stranger("PyTorch alone", with_only("pytorch"), beside=("torch", "--no-compile", *PINNED), installer="pip"),
    Stranger("JAX alone", with_only("jax"), beside=("jax", *PINNED)),
    Stranger("pip", without_tensorflow, installer="pip"),
    *(Stranger(f"uv, Python {version}", without_tensorflow, version) for version in ("3.12", "3.14")),
    Stranger("pytest 8.2", without_tensorflow, beside=("pytest==8.2.*",)),
    Stranger("uv tool, as pipx", command_only, installer="uv tool"),
)


# They record baselines, which a machine that does something else refuses: nothing runs beside them.
READERS = (
    Stranger("README with PyTorch", reads_readme("Command"), beside=("torch", *PINNED), installer="pip"),
    Stranger("README with Keras", reads_readme("Workload"), extra="[tensorflow]", beside=PINNED, installer="pip"),
)


def main() -> int:
    """Let each stranger have what the folder holds; prints a line for each, and what failed."""
    (wheel,), (sdist,) = (list(Path(sys.argv[1]).resolve().glob(kind)) for kind in ("*.whl", "*.tar.gz"))
    if sys.argv[2:] == ["readme"]:
        with tempfile.TemporaryDirectory() as made:
            visits = [_visit(reader, wheel, Path(made) / str(i)) for i, reader in enumerate(READERS)]
            return int(not all(visits))
    with tempfile.TemporaryDirectory() as made, ThreadPoolExecutor(2) as pool:
        folder = Path(made)
        for file in (wheel, sdist):
            print(f"tried  {file.name}, {_mib(file.stat().st_size)}", flush=True)
        jobs = [pool.submit(_visit, stranger, wheel, folder / f"{i}") for i, stranger in enumerate(STRANGERS)]
        jobs.append(pool.submit(_tests_of, sdist, folder / "sdist"))
        return int(not all(job.result() for job in jobs))


def _visit(stranger: Stranger, wheel: Path, folder: Path) -> bool:
    """Install and check, and print how that went; returns whether it was well."""
    began = time.monotonic()
    project, environment = folder / "project", folder / "environment"
    project.mkdir(parents=True)
    if (python := _python(stranger.python)) is None:
        print(f"none   {stranger.name}: no Python {stranger.python} is here, and uv can't bring it", flush=True)
        return True
    try:
        bin = _install(stranger, python, f"{wheel}{stranger.extra}", environment)
        installed = time.monotonic()
        stranger.check(Place(bin, project))
    except Failed as error:
        print(f"FAILED {stranger.name}: {error}", flush=True)
        return False
    size = _mib(sum(file.stat().st_size for file in environment.rglob("*") if file.is_file() and not file.is_symlink()))
    seconds = f"installed in {installed - began:.0f} s, checked in {time.monotonic() - installed:.0f} s"
    print(f"ok     {stranger.name}: {seconds}; {size}", flush=True)
    return True


def _install(stranger: Stranger, python: str, wheel: str, environment: Path) -> Path:
    """Return the folder of the installed commands."""
    uv, cwd = str(BIN / "uv"), environment.parent
    if stranger.installer == "uv tool":
        os_environ = {"UV_TOOL_DIR": str(environment), "UV_TOOL_BIN_DIR": str(environment / "bin")}
        _run(uv, "tool", "install", "--python", python, wheel, cwd=cwd, more=os_environ)
    elif stranger.installer == "pip":
        _run(python, "-m", "venv", str(environment), cwd=cwd)
        _run(str(environment / "bin" / "pip"), "install", "--quiet", wheel, *stranger.beside, cwd=cwd)
    else:
        _run(uv, "venv", "--python", python, str(environment), cwd=cwd)
        own = ("--python", str(environment / "bin" / "python"))
        _run(uv, "pip", "install", *own, wheel, *stranger.beside, cwd=cwd)
    return environment / "bin"


def _python(version: str) -> str | None:
    """Return a Python of this version: the one that runs this, one that uv finds or brings, or one of pyenv's."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return str(Path(sys.base_prefix) / "bin" / "python3")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for path in sorted(pyenv.glob(f"{version}.*/bin/python3")):
        return str(path)
    for command in ("find", "install"):
        found = subprocess.run([BIN / "uv", "python", command, version], capture_output=True, text=True, check=False)
        if found.returncode == 0:
            return found.stdout.strip() if command == "find" else version
    return None


def _tests_of(sdist: Path, folder: Path) -> bool:
    """Whether the unpacked sdist passes the quick tests of its own."""
    began = time.monotonic()
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    try:
        _run(sys.executable, "-m", "pytest", "-q", *QUICK_TESTS, cwd=tree)
    except Failed as error:
        print(f"FAILED tests of the sdist: {error}", flush=True)
        return False
    print(f"ok     tests of the sdist, in {time.monotonic() - began:.0f} s", flush=True)
    return True


def _run(
    *command: str,
    cwd: Path,
    path: Path = BIN,
    status: tuple[int, ...] = (0,),
    says: str = "",
    more: dict[str, str] | None = None,
) -> str:
    environ = ENVIRON | {"PATH": f"{path}{os.pathsep}{ENVIRON['PATH']}"} | (more or {})
    program = shutil.which(command[0], path=environ["PATH"]) or command[0]
    done = subprocess.run(
        [program, *command[1:]],
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode not in status:
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stdout}")
    if not any(says in line for line in done.stdout.splitlines() or [""]):
        raise Failed(f"`{' '.join(command)}` does not say {says!r} in a line:\n{done.stdout}")
    return done.stdout


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


if __name__ == "__main__":
    sys.exit(main())
