"""What is said of a loss that is no number: since when, and what to look at. Pure."""

from __future__ import annotations

import math

from pytest_tfperf.core.throughput import Throughput
from pytest_tfperf.core.workload import Optimizer, Precision, Workload


def no_number(throughput: Throughput, of: str = "the") -> str:
    """The fact and the place, "the loss is nan by step 45, in window 3: ..."; "" where the loss is one."""
    loss, since = throughput.loss, throughput.diverged
    if loss is None or math.isfinite(loss):
        return ""
    place = ""
    if since is not None:
        window = f"window {since.window}" if since.window else "the warm-up"
        place = f" by step {since.step:,}, in {window}" + (f" of run {since.run}" if len(throughput.runs) > 1 else "")
    return f"{of} loss is {loss}{place}: what it trains is not a model"


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
