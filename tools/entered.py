"""How large the house is, and how much of it a passing check enters: what someone who follows it must read.

    python tools/entered.py          # a table, and exit status 1 where a figure is above its limit
    python tools/entered.py --list   # and the files that are entered, by room

pytest runs in this process, and its workers play their steps. A file is entered when one of its functions is called,
other than by an import; worker processes are not traced. The smallest of three tries counts, because a busy machine
makes a session do more. The spine is what is left without `features/` and without what only features import.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir, contextmanager, redirect_stdout
from io import StringIO
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "pytest_tfperf"
PLAYED_TRAINING: Final = ROOT / "tests" / "helpers" / "played_training"
TRIES: Final = 3

LIMITS: Final = {
    "spine, lines": 35_450,
    "spine, files": 180,
    "package, lines": 50_830,
    "package, files": 285,
    "package, classes": 376,
    "passing check, files": 58,
    "passing check, functions": 585,
    "session of one test, files": 84,
    "session of one test, functions": 960,
    "settings": 38,
}
"""Above one of these, `make lint` fails. A change that needs more raises it in its own commit, which says why."""

# The machine may be busy with anything, and a check in doubt or disturbed enters more files.
INI: Final = """
[pytest]
addopts = -p no:cacheprovider -p no:hypothesispytest -p no:xdist
tfperf_machine = box
tfperf_busy = 1
"""
TEST: Final = """
import pytest
from pytest_tfperf import Workload


@pytest.mark.cpu
def test_trivial(throughput, gpu_topology):
    on = gpu_topology.take(1)
    throughput.check(Workload(model="trivial", batch_size=1), on=on, tolerance=0.5)
"""


Function = tuple[str, int, str]
"""Its file, its first line and its name."""


class Tracer:
    """The package's functions that a session calls, and of them those that its check calls."""

    def __init__(self) -> None:
        self.session: set[Function] = set()
        self.check: set[Function] = set()
        self._checking: FrameType | None = None
        self._imports = threading.local()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Trace this thread, and those that are started meanwhile."""
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(f"{PACKAGE}{os.sep}"):
            return
        if code.co_name == "<module>":
            self._imports.depth = self._import_depth + (1 if event == "call" else -1)
        elif event == "call":
            self._call(frame)
        elif frame is self._checking:
            self._checking = None

    @property
    def _import_depth(self) -> int:
        return getattr(self._imports, "depth", 0)

    def _call(self, frame: FrameType) -> None:
        code = frame.f_code
        # What an import calls, such as decorators, is part of the import; and the body of a class is no function.
        if self._import_depth or not code.co_flags & inspect.CO_OPTIMIZED:
            return
        if code.co_name == "check" and frame.f_back is not None and frame.f_back.f_code.co_name == "test_trivial":
            self._checking = frame
        function = (code.co_filename, code.co_firstlineno, code.co_qualname)
        self.session.add(function)
        if self._checking is not None:
            self.check.add(function)


def traced_session() -> tuple[set[Function], set[Function]]:
    """Trace a session of one test that has a committed baseline; returns the functions of its check, and all."""
    tracer = Tracer()
    for name in [name for name in os.environ if name.startswith(("TFPERF_", "PYTEST_", "GITHUB_"))]:
        del os.environ[name]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(PLAYED_TRAINING), str(ROOT)])
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()) as text:
        Path("pytest.ini").write_text(INI)
        Path("test_it.py").write_text(TEST)
        record = [sys.executable, "-m", "pytest", "--update-baselines"]
        recorded = subprocess.run(record, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        with tracer.running():
            status = pytest.main([])
    if recorded.returncode or status or not tracer.check:
        raise SystemExit(f"no passing check was traced\n{recorded.stdout}\n{text.getvalue()}")
    return tracer.check, tracer.session


def entered() -> tuple[set[Function], set[Function]]:
    """The functions that a check and a session enter, of the tries those with the fewest; each has its own process."""
    with ProcessPoolExecutor(1, max_tasks_per_child=1) as pool:
        tries = [pool.submit(traced_session).result() for _ in range(TRIES)]
    checks, sessions = zip(*tries, strict=True)
    return min(checks, key=len), min(sessions, key=len)


def files(functions: Iterable[Function]) -> set[Path]:
    """The files of functions."""
    return {Path(path) for path, _, _ in functions}


def spine() -> set[Path]:
    """The package's files, less the features and less what only features import."""
    paths = {_module(path): path for path in PACKAGE.rglob("*.py")}
    imports = {name: _imports(path) & paths.keys() for name, path in paths.items()}
    left_out = {name for name in paths if name.startswith("pytest_tfperf.features")}
    while True:
        importers = {name: {other for other in paths if name in imports[other] - {other}} for name in paths}
        more = {
            name
            for name in paths.keys() - left_out
            if importers[name] and importers[name] <= left_out and paths[name].name != "__init__.py"
        }
        if not more:
            return {paths[name] for name in paths.keys() - left_out}
        left_out |= more


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imports(path: Path) -> set[str]:
    """The modules that a file imports, anywhere in it, and names that may be modules of a package."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def lines(paths: Iterable[Path]) -> int:
    """The lines of files, with their comments, docstrings and empty lines."""
    return sum(len(path.read_text().splitlines()) for path in paths)


def classes() -> int:
    """How many classes the package has."""
    trees = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]
    return sum(isinstance(node, ast.ClassDef) for tree in trees for node in ast.walk(tree))


def settings() -> int:
    """The number of settings that are declared: an option, its ini value and its variable are one."""
    code = """
from pytest_tfperf.core.settings import OF_THE_SPINE
from pytest_tfperf.features import settings_of_features
print(len(OF_THE_SPINE) + len(settings_of_features()))
"""
    command = [sys.executable, "-c", code]
    return int(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout)


def figures(check: set[Function], session: set[Function]) -> dict[str, int]:
    """Each figure that has a limit, from the functions that a check and a session enter."""
    of_spine, package = spine(), list(PACKAGE.rglob("*.py"))
    return {
        "spine, lines": lines(of_spine),
        "spine, files": len(of_spine),
        "package, lines": lines(package),
        "package, files": len(package),
        "package, classes": classes(),
        "passing check, files": len(files(check)),
        "passing check, functions": len(check),
        "session of one test, files": len(files(session)),
        "session of one test, functions": len(session),
        "settings": settings(),
    }


def listing(entered: Iterable[Path]) -> Iterator[str]:
    """A line for each room: its name, and its files of these."""
    paths = sorted(path.relative_to(PACKAGE) for path in entered)
    for room, inside in groupby(sorted(paths, key=lambda path: path.parent), key=lambda path: path.parent):
        yield f"  {room}: {', '.join(path.stem for path in inside)}"


def main() -> None:
    """Print the table, and the files where they are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="name the files that are entered, by room")
    wants_list = parser.parse_args().list
    own = ROOT / ".venv" / "bin" / "python"  # another Python may lack what the package needs
    if own.exists() and Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        os.execv(own, [str(own), *sys.argv])
    check, session = entered()
    found = figures(check, session)
    print(f"{'':<34}{'is':>8}{'at most':>10}")
    for name, limit in LIMITS.items():
        print(f"{name:<34}{found[name]:>8,}{limit:>10,}{'  too many' if found[name] > limit else ''}")
    print(f"{'tests, lines':<34}{lines((ROOT / 'tests').rglob('*.py')):>8,}")
    if wants_list:
        for name, functions in {"a passing check": check, "a session of one test": session}.items():
            print("", f"{name} enters", *listing(files(functions)), sep="\n")
    if any(found[name] > limit for name, limit in LIMITS.items()):
        raise SystemExit(f"{Path(__file__).name}: take something out, or raise the limit and say why in the commit")


if __name__ == "__main__":
    main()
