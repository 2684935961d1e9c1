"""What the gate itself costs: collection, a worker's start, the driver's share of a window. Prints one table.

    python benchmarks/overheads.py

Run it on a machine that does nothing else. Collection is compared with bare pytest in alternating runs, and the
driver's clock with the worker's over the same windows, so both figures hold on a shared machine too.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pytest_tfperf import Workload
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.workers.local import LocalLauncher

ROOT = Path(__file__).parent.parent
ROUNDS = 9

_BARE = "import pytest\n@pytest.mark.parametrize('n', range({count}))\ndef test_bare(n):\n    pass\n"


def collection_seconds() -> tuple[float, float, int]:
    """Median seconds of `pytest perf_tests --collect-only`, of bare pytest on as many tests, and how many those are."""
    ours = [sys.executable, "-m", "pytest", "--collect-only", "-q", "perf_tests"]
    listed = subprocess.run(ours, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    count = sum("::" in line for line in listed.splitlines())
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "test_bare.py").write_text(_BARE.format(count=count), encoding="utf-8")
        (Path(folder) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        bare = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:tfperf", "-p", "no:benchmark"]
        pairs = [(_seconds(ours, ROOT), _seconds(bare, Path(folder))) for _ in range(ROUNDS)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs), count


def worker_start_seconds() -> tuple[float, float]:
    """Seconds until the first worker may build its model, and the median of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = LocalLauncher(logs=Path(folder), silence_seconds=120)
        job = Job(workload=Workload(model="trivial", batch_size=1), devices=Devices(kind=DeviceKind.CPU, count=1))
        starts = []
        for _ in range(ROUNDS):
            phases: dict[str, float] = {}
            launcher.start(job, lambda name, phases=phases: phases.setdefault(name, time.perf_counter())).close()
            starts.append(phases["model"] - phases["start"])
        launcher.close()
    return starts[0], statistics.median(starts[1:])


def driver_overhead(model: str, batch_size: int, steps: int, windows: int) -> float:
    """The driver's seconds for `windows` windows, one queued ahead, over the worker's own sum, minus one."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = LocalLauncher(logs=Path(folder), silence_seconds=120)
        devices = Devices(kind=DeviceKind.CPU, count=1)
        job = Job(workload=Workload(model=model, batch_size=batch_size), devices=devices)
        run = launcher.start(job, lambda _: None)
        for _ in range(3):
            run.request(steps)
        run.receive()
        run.receive()  # from here on a window is always queued
        started = time.perf_counter()
        inside = 0.0
        for _ in range(windows):
            run.request(steps)
            inside += run.receive().seconds
        outside = time.perf_counter() - started
        run.close()
        launcher.close()
    return outside / inside - 1


def _seconds(command: list[str], folder: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    ours, bare, count = collection_seconds()
    first, later = worker_start_seconds()
    print(f"collect-only, {count} tests  {ours:.3f} s, bare pytest {bare:.3f} s: {ours - bare:+.3f} s")
    print(f"worker ready to build   first {first:.2f} s, later {later:.4f} s")
    for model, batch, steps in (("trivial", 32, 20), ("resnet20", 32, 4)):
        overhead = driver_overhead(model, batch, steps, 60)
        print(f"driver over worker      {model} b{batch}, {steps} steps a window: {overhead:+.2%}")


if __name__ == "__main__":
    main()
