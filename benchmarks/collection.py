"""What the plugin costs beside bare pytest: median of paired differences, in wall time and in CPU time.

    python benchmarks/collection.py [PAIRS]

The same files are run twice, in whole processes that alternate: with the plugin, and with `-p no:tfperf`. First one
ordinary test of a project that measures nothing, also where Python may write no bytecode; then the collection of our
own tests, where a stand-in for `pytest_tfperf` and a conftest.py make it possible without the plugin. CPU time hardly
depends on what else a machine does.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAIRS = 20
_Side = Callable[[], tuple[int, float, float]]

_STAND_IN = """
class Workload:
    def __init__(self, **values):
        self.values = values
        self.id = "-".join(map(str, values.values()))

    def with_(self, **values):
        return Workload(**{**self.values, **values})
"""

_CONFTEST = """
import pytest

def pytest_configure(config):
    for marker in ("gpu", "cpu", "multinode", "slow"):
        config.addinivalue_line("markers", marker)

def pytest_make_parametrize_id(val):
    return getattr(val, "id", None)

@pytest.fixture
def input_pipeline(request):
    return getattr(request, "param", "device")

@pytest.fixture
def gpu_topology():
    return None

@pytest.fixture
def throughput(benchmark):
    return benchmark
"""


def main() -> None:
    """Print a line for wall time and one for CPU time of each case."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    print(f"{pairs} pairs, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    _one_ordinary_test(pairs)
    _our_tests(pairs)


def _one_ordinary_test(pairs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_it.py").write_text("def test_it():\n    pass\n")
        for name, variables in (("", {}), (", no bytecode written", {"PYTHONDONTWRITEBYTECODE": "1"})):
            sides = [partial(_run, Path(folder), *options, **variables) for options in ((), ("-p", "no:tfperf"))]
            _print(f"one ordinary test{name}", *sides, pairs=pairs)


def _our_tests(pairs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours, bare = Path(folder) / "ours", Path(folder) / "bare"
        for side in (ours, bare):
            shutil.copytree(ROOT / "perf_tests", side / "perf_tests", ignore=shutil.ignore_patterns("__pycache__"))
            (side / "pytest.ini").write_text("[pytest]\n")
        (bare / "pytest_tfperf.py").write_text(_STAND_IN)
        (bare / "conftest.py").write_text(_CONFTEST)
        # The first folder of the path decides whether `import pytest_tfperf` means the package or its stand-in.
        collect = ("perf_tests", "--collect-only")
        sides = (
            partial(_run, ours, *collect, PYTHONPATH=str(ROOT)),
            partial(_run, bare, *collect, "-p", "no:tfperf", PYTHONPATH=str(bare)),
        )
        counts = {side()[0] for side in sides}
        assert len(counts) == 1, f"both sides have to collect the same tests: {counts}"
        _print(f"{counts.pop()} tests collected", *sides, pairs=pairs)


def _print(name: str, ours: _Side, bare: _Side, *, pairs: int) -> None:
    ours(), bare()  # compile bytecode
    taken = [(ours()[1:], bare()[1:]) for _ in range(pairs)]
    for at, clock in enumerate(("wall", "CPU")):
        with_plugin, without = ([pair[side][at] for pair in taken] for side in (0, 1))
        differences = sorted(a - b for a, b in zip(with_plugin, without, strict=True))
        print(
            f"{name}: {clock:5} {statistics.median(with_plugin):.3f} s, bare {statistics.median(without):.3f} s: "
            f"{statistics.median(differences):+.3f} s ({differences[0]:+.3f} to {differences[-1]:+.3f})"
        )


def _run(folder: Path, *options: str, **variables: str) -> tuple[int, float, float]:
    """How many tests pytest lists there, and the seconds of the wall and of the CPU that it took."""
    command = [sys.executable, "-m", "pytest", "-q", *options]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | variables
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    listed = subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return sum("::" in line for line in listed.splitlines()), wall, spent


if __name__ == "__main__":
    main()
