"""What the gate itself costs: a worker's start, the driver's share of a window. Prints one table.

    python benchmarks/overheads.py

Run it on a machine that does nothing else. The driver's clock is compared with the worker's over the same windows, so
that figure holds on a shared machine too. What collecting costs is in collection.py.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from pytest_tfperf import Workload
from pytest_tfperf.core.job import Job
from pytest_tfperf.core.topology import DeviceKind, Devices
from pytest_tfperf.workers.local import LocalLauncher

ROUNDS = 9


def worker_start_seconds() -> tuple[float, float]:
    """Seconds until the first worker may build its model, and the median of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        launcher = LocalLauncher(logs=Path(folder), silence_seconds=120)
        job = Job(workload=Workload(model="trivial", batch_size=1), devices=Devices(kind=DeviceKind.CPU, count=1))
        starts = []
        for _ in range(ROUNDS):
            phases: dict[str, float] = {}

            def begun(name: str, phases: dict[str, float] = phases) -> None:
                phases.setdefault(name, time.perf_counter())

            launcher.start(job, begun).close()
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


def main() -> None:
    first, later = worker_start_seconds()
    print(f"worker ready to build   first {first:.2f} s, later {later:.4f} s")
    for model, batch, steps in (("trivial", 32, 20), ("resnet20", 32, 4)):
        overhead = driver_overhead(model, batch, steps, 60)
        print(f"driver over worker      {model} b{batch}, {steps} steps a window: {overhead:+.2%}")


if __name__ == "__main__":
    main()
