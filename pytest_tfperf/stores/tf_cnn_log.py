"""The lines that tf_cnn_benchmarks prints, read from any log that holds them.

Formats: tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py. The speeds of a step line are one worker's,
averaged since the first timed step; a total is over all workers. Under Horovod every worker prints all lines, without a
label and interleaved.
"""

from __future__ import annotations

import math
import re
from statistics import median
from typing import TYPE_CHECKING

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import DocumentError

if TYPE_CHECKING:
    from pathlib import Path

_REAL = r"[+-]?(?:\d{1,15}(?:\.\d{1,15})?|nan|inf)"
# "10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848"; a launcher may put a label or a time before it.
_STEP = re.compile(
    rf"(?:^|[\s:>\]])(?P<number>[1-9]\d{{0,11}})\s+images/sec:\s*(?P<examples_per_sec>{_REAL})\s*\+/-"
    rf"[^)]*\)\s*(?P<loss>{_REAL}(?!\S))?",
    re.ASCII | re.IGNORECASE,
)
_TOTAL = re.compile(r"\btotal images/sec:\s*(?P<total>\S*)", re.ASCII)


def read(path: Path, examples_per_step: int) -> Run:
    """`parse` a file, in whatever encoding the programs around it wrote; raises DocumentError where there is none."""
    try:
        return parse(path.read_bytes().decode("utf-8", errors="replace"), str(path), examples_per_step)
    except OSError as error:
        raise DocumentError(f"{path} can't be read: {error.strerror}. Give the path of a log") from None


def parse(text: str, name: str, examples_per_step: int) -> Run:
    """A log as a run of one window, whose throughput is the printed total; lines of other programs are ignored.

    Args:
        text: the log, with spaces or tabs, with or without header, of one or several workers. Columns after the loss
            (accuracy, what a wrapper appends) are ignored. A log that was cut down to its totals has one step.
        name: the file, for messages and for `Run.log`.
        examples_per_step: over all workers.

    Raises:
        DocumentError: no total, a total that is not a throughput, or speeds and total that can't belong to one run.
    """
    steps: list[re.Match[str]] = []
    totals: list[float] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if total := _TOTAL.search(line):
            totals.append(_total(total["total"], number, name))
        elif step := _STEP.search(line):
            steps.append(step)
    if not totals:
        raise DocumentError(
            f"{name}: no line 'total images/sec: 56.57', which tf_cnn_benchmarks prints last: give the whole log of a "
            "run that completed"
        )
    examples_per_sec = median(totals)  # each worker prints the global figure by its own clock
    last_step = max((int(step["number"]) for step in steps), default=1)
    if steps:
        speeds = [float(step["examples_per_sec"]) for step in steps if int(step["number"]) == last_step]
        _check_one_run(examples_per_sec, sum(speeds), last_step, name)
    losses = [float(step["loss"]) for step in steps if step["loss"]]
    broken = [loss for loss in losses if not math.isfinite(loss)]
    loss = [*broken, *losses[-1:]][0] if losses else None
    return Run(
        windows=(Window(last_step, last_step * examples_per_step / examples_per_sec, loss),),
        examples_per_step=examples_per_step,
        stated_examples_per_sec=examples_per_sec,
        log=name,
    )


def _total(text: str, line: int, name: str) -> float:
    value = float(text) if re.fullmatch(_REAL, text, re.ASCII | re.IGNORECASE) else math.nan
    if not 0 < value < math.inf:
        raise DocumentError(
            f"{name}, line {line}: total images/sec: {text[:40]!r} is not a throughput. Replay a run that completed"
        )
    return value


def _check_one_run(examples_per_sec: float, speeds: float, last_step: int, name: str) -> None:
    """The workers' last speeds must add up to about the total; it is lower by what the loop spends on printing."""
    if not 0.6 * speeds <= examples_per_sec <= 1.5 * speeds:
        raise DocumentError(
            f"{name}: the total is {examples_per_sec:g} images/sec, but the workers' speeds at step {last_step} add up "
            f"to {speeds:g}. The log may hold several runs, or only some workers of one: give all lines of one run"
        )
