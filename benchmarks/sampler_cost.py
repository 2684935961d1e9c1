"""What the sampler costs this machine: its thread's CPU time as a share of a core.

    python benchmarks/sampler_cost.py [--seconds 20] [--processes 120] [GPU-uuid ...]

`--processes` adds sleeping processes, to look like a desktop.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time

import psutil

from pytest_tfperf.hardware.sampler import Sampler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=120)
    parser.add_argument("uuids", nargs="*")
    arguments = parser.parse_args()
    sleepers = [subprocess.Popen(["sleep", "1000"]) for _ in range(arguments.processes)]
    try:
        measure(arguments.seconds, arguments.uuids)
    finally:
        for process in sleepers:
            process.kill()
            process.wait()


def measure(seconds: float, uuids: list[str]) -> None:
    sampler = Sampler(uuids)
    sampler.start()
    time.sleep(seconds)
    telemetry = sampler.stop()
    print(f"{os.cpu_count()} cores, {len(psutil.pids())} processes, {len(uuids)} GPUs, {seconds:g} s")
    print(f"{sampler.cpu_seconds / seconds:.2%} of a core")
    print(telemetry)


if __name__ == "__main__":
    main()
