"""What `tfperf make-imagenet` and `tfperf make-tokens` run in a process of their own, which can load TensorFlow."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_USAGE
from pytest_tfperf.errors import TfperfError


def run(make: Callable[[Path, int, int, int], str], folder: str, *counts: str) -> int:
    """Write a data set and say what was written; returns the exit status, 4 if nothing was written.

    Args:
        make: writes it, and returns a sentence about it.
        folder: where to.
        counts: examples, shards and seed, as the command line has them.
    """
    try:
        print(make(Path(folder), *map(int, counts)))
    except TfperfError as error:
        print(f"tfperf: {error}", file=sys.stderr)
        return EXIT_USAGE
    print(f"use it: pytest perf_tests --tfperf-data-dir={Path(folder).resolve()}")
    return EXIT_GREEN
