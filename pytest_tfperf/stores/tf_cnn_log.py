"""The lines that tf_cnn_benchmarks prints, read from any log that holds them.

Formats: tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py. The speeds of a step line are one worker's,
averaged since the first timed step; a total is over all workers. Under Horovod every worker prints all lines, without a
label and interleaved.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import DocumentError

if TYPE_CHECKING:
    from pathlib import Path

_REAL = r"[+-]?(?:\d{1,15}(?:\.\d{1,15})?|nan|inf)"
# "10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848"; a launcher may put a label or a time before it.
_STEP = re.compile(
    rf"(?:^|[\s:>\]])(?P<number>[1-9]\d{{0,11}})\s+images/sec:\s*(?P<images_per_sec>{_REAL})\s*\+/-"
    rf"[^)]*\)\s*(?P<loss>{_REAL}(?!\S))?",
    re.ASCII | re.IGNORECASE,
)
_TOTAL = re.compile(r"\btotal images/sec:\s*(?P<total>\S*)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Step:
    """One step line of one worker; columns after the loss (accuracy, what a wrapper appends) are ignored.

    Args:
        number: the step, counted from 1 after the warm-up.
        images_per_sec: this worker's speed over all steps so far.
        loss: total loss of this step; None where the line ends before it.
    """

    number: int
    images_per_sec: float
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class Log:
    """What one run printed.

    Args:
        name: the file.
        steps: in the order of the lines; empty where a log was cut down to its totals.
        totals: images per second over all workers, printing included, as each worker printed it.
    """

    name: str
    steps: tuple[Step, ...]
    totals: tuple[float, ...]

    @property
    def images_per_sec(self) -> float:
        """The total: the median over workers, because each one prints the global figure by its own clock."""
        return median(self.totals)

    @property
    def last_step(self) -> int:
        """How many steps the run had; 1 where the log does not say."""
        return max((step.number for step in self.steps), default=1)

    @property
    def loss(self) -> float | None:
        """The last loss, or the first that is not a finite number; None in a log without one."""
        losses = [step.loss for step in self.steps if step.loss is not None]
        broken = [loss for loss in losses if not math.isfinite(loss)]
        return [*broken, *losses[-1:]][0] if losses else None

    def run(self, images_per_step: int) -> Run:
        """The log as a run of one window, whose throughput is the printed total.

        Args:
            images_per_step: over all workers.
        """
        assert images_per_step > 0
        seconds = self.last_step * images_per_step / self.images_per_sec
        return Run(
            windows=(Window(self.last_step, seconds, self.loss),),
            images_per_step=images_per_step,
            stated_images_per_sec=self.images_per_sec,
            log=self.name,
        )


def parse(text: str, name: str) -> Log:
    """Read a log; lines of other programs are ignored.

    Args:
        text: the log, with spaces or tabs, with or without header, of one or several workers.
        name: the file, for messages and for `Run.log`.

    Raises:
        DocumentError: no total, a total that is not a throughput, or speeds and total that can't belong to one run.
    """
    steps: list[Step] = []
    totals: list[float] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if total := _TOTAL.search(line):
            totals.append(_total(total["total"], number, name))
        elif step := _STEP.search(line):
            loss = float(step["loss"]) if step["loss"] else None
            steps.append(Step(int(step["number"]), float(step["images_per_sec"]), loss))
    if not totals:
        raise DocumentError(
            f"{name}: no line 'total images/sec: 56.57', which tf_cnn_benchmarks prints last: give the whole log of a "
            "run that completed"
        )
    log = Log(name, tuple(steps), tuple(totals))
    if log.steps:
        _check_one_run(log)
    return log


def read(path: Path) -> Log:
    """`parse` a file, in whatever encoding the programs around it wrote; raises DocumentError where there is none."""
    try:
        return parse(path.read_bytes().decode("utf-8", errors="replace"), str(path))
    except OSError as error:
        raise DocumentError(f"{path} can't be read: {error.strerror}. Give the path of a log") from None


def _total(text: str, line: int, name: str) -> float:
    value = float(text) if re.fullmatch(_REAL, text, re.ASCII | re.IGNORECASE) else math.nan
    if not 0 < value < math.inf:
        raise DocumentError(
            f"{name}, line {line}: total images/sec: {text[:40]!r} is not a throughput. Replay a run that completed"
        )
    return value


def _check_one_run(log: Log) -> None:
    """The workers' last speeds must add up to about the total; it is lower by what the loop spends on printing."""
    speed = sum(step.images_per_sec for step in log.steps if step.number == log.last_step)
    if not 0.6 * speed <= log.images_per_sec <= 1.5 * speed:
        raise DocumentError(
            f"{log.name}: the total is {log.images_per_sec:g} images/sec, but the workers' speeds at step "
            f"{log.last_step} add up to {speed:g}. The log may hold several runs, or only some workers of one: give "
            "all lines of one run"
        )
