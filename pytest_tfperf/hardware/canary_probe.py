"""Run as a program: times a matrix product and a memory copy, prints one line of JSON.

A process of its own, so that neither the driver nor a worker lends it threads, memory or a warm cache.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import numpy as np

_SECONDS = 0.5  # each
_SIDE = 1024  # 4 MiB a matrix: large enough for full speed, small enough for 20 products in the time on two cores
_BYTES = 128 * 2**20  # beyond the caches that most cores can reach


def _median_seconds(work: Callable[[], object]) -> float:
    work()  # pages are mapped and threads started
    taken: list[float] = []
    end = time.perf_counter() + _SECONDS
    while not taken or time.perf_counter() < end:
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def main() -> None:
    """Print {"matrix_product_gflops": ..., "memory_copy_gigabytes": ...}."""
    rng = np.random.default_rng(1)
    a, b = (rng.random((_SIDE, _SIDE), dtype=np.float32) for _ in range(2))
    product = np.empty_like(a)
    source = np.ones(_BYTES, np.uint8)
    target = np.zeros_like(source)
    rates = {
        "matrix_product_gflops": 2 * _SIDE**3 / _median_seconds(lambda: np.matmul(a, b, out=product)) / 1e9,
        "memory_copy_gigabytes": _BYTES / _median_seconds(lambda: np.copyto(target, source)) / 1e9,
    }
    print(json.dumps(rates))


if __name__ == "__main__":
    main()
