"""How much of the package a passing check enters, and a session of one test: what someone who follows them must read.

    python tools/entered.py          # a table
    python tools/entered.py --list   # and the files, by room

pytest runs in this process, and its workers play their steps. A file is entered when one of its functions is called,
other than by an import. Worker processes are not traced.
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
from contextlib import chdir, contextmanager, redirect_stdout
from io import StringIO
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "pytest_tfperf"
PLAYED_TRAINING: Final = ROOT / "tests" / "helpers" / "played_training"

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


class Tracer:
    """The package's functions that a session calls, and of them those that its check calls, by their code."""

    def __init__(self) -> None:
        self.session: set[CodeType] = set()
        self.check: set[CodeType] = set()
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
        self.session.add(code)
        if self._checking is not None:
            self.check.add(code)


def traced_session() -> Tracer:
    """Trace a session of one test that has a committed baseline."""
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
    return tracer


def files(functions: Iterable[CodeType]) -> set[Path]:
    """The files of functions."""
    return {Path(code.co_filename) for code in functions}


def imported() -> set[Path]:
    """The package's files that this process has imported."""
    names = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return {Path(name) for name in names if name and PACKAGE in Path(name).parents}


def classes() -> tuple[int, int]:
    """How many classes the package has, and how many of them are dataclasses."""
    trees = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return len(nodes), sum(any("dataclass" in ast.unparse(name) for name in node.decorator_list) for node in nodes)


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
    tracer = traced_session()
    entered = {"a passing check": tracer.check, "a session of one test": tracer.session}
    print(f"{'':<24}{'files':>8}{'functions':>12}")
    for name, functions in entered.items():
        print(f"{name:<24}{len(files(functions)):>8}{len(functions):>12}")
    print(f"{'imported, not entered':<24}{len(imported() - files(tracer.session)):>8}")
    sources = list(PACKAGE.rglob("*.py"))
    lines = sum(len(path.read_text().splitlines()) for path in sources)
    all_classes, dataclasses = classes()
    print(f"the package: {len(sources)} files, {lines:,} lines, {all_classes} classes ({dataclasses} dataclasses)")
    if wants_list:
        for name, functions in entered.items():
            print("", f"{name} enters", *listing(files(functions)), sep="\n")


if __name__ == "__main__":
    main()
