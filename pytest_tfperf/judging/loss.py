"""Whether the loss of a measurement is a finite number, and what to say where it isn't."""

from __future__ import annotations

import math

from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.workload import Optimizer, Precision, Workload


def is_diverged(throughput: Throughput) -> bool:
    """Whether a loss is NaN or infinite; the throughput of such training means nothing."""
    return throughput.loss is not None and not math.isfinite(throughput.loss)


def diverged_fact(throughput: Throughput, of: str = "the") -> str:
    """The fact and its place: "the loss became nan by step 45, in window 3: ..."; "" where the loss is finite."""
    if not is_diverged(throughput):
        return ""
    since, where = throughput.diverged, ""
    if since is not None:
        window = f"window {since.window}" if since.window else "the warm-up"
        where = f" by step {since.step:,}, in {window}" + (f" of run {since.run}" if len(throughput.runs) > 1 else "")
    return f"{of} loss became {throughput.loss}{where}: the throughput of a diverged run is not reported"


def advice(workload: Workload) -> str:
    """What to try and to look at, the likeliest first."""
    named = [
        *(["precision='float32', because float16 ends at 65,504"] if _is_half(workload) else []),
        *(["optimizer='sgd', which takes smaller steps"] if workload.optimizer is Optimizer.MOMENTUM else []),
        "the pipeline: a NaN among the images, a label that the model has no class for",
        "the model: whether it trains at this learning rate, 0.01, in a loop of your own",
    ]
    return "; ".join(named)


def _is_half(workload: Workload) -> bool:
    return workload.precision is Precision.MIXED_FLOAT16
