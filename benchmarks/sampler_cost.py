"""What the sampler costs this machine: its thread's CPU time as a share of a core, and how often it looked.

    python benchmarks/sampler_cost.py [--seconds 20] [--processes 120] [--busy 1] [GPU-uuid ...]

`--processes` adds sleeping processes, to look like a desktop; `--busy` adds computing ones, which are not "ours", so
that the sampler has to find out who they are.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path

from pytest_tfperf.core.samples import disturbance
from pytest_tfperf.hardware.processes import read_processes
from pytest_tfperf.hardware.sampler import Sampler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--processes", type=int, default=120)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("uuids", nargs="*")
    asked = parser.parse_args()
    sleepers = [subprocess.Popen(["sleep", "1000"]) for _ in range(asked.processes)]
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(asked.busy)]
    try:
        # Only init is "ours" in name: everything else is to be looked at, this process and the busy ones too.
        measure(asked.seconds, asked.uuids)
    finally:
        for process in sleepers + busy:
            process.kill()
            process.wait()


def measure(seconds: float, uuids: list[str]) -> None:
    sampler = Sampler(lambda: (), uuids)
    sampler.start()
    time.sleep(seconds)
    sampler.stop()
    samples = sampler.since(0)
    share = sampler.cpu_seconds / seconds
    print(f"{os.cpu_count()} cores, {len(read_processes(Path('/proc')))} processes, {len(uuids)} GPUs")
    print(f"{len(samples)} samples in {seconds:g} s, {sampler.cpu_seconds / max(1, len(samples)) * 1e3:.2f} ms each")
    print(f"{share:.2%} of a core")
    print(disturbance(samples) or "no disturbance")


if __name__ == "__main__":
    main()
