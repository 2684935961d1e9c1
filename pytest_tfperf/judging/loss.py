"""Whether training diverged, so that its throughput means nothing."""

from __future__ import annotations

import math

from pytest_tfperf.core.throughput import Throughput


def is_diverged(throughput: Throughput) -> bool:
    """Whether a loss is NaN or infinite."""
    return throughput.loss is not None and not math.isfinite(throughput.loss)
