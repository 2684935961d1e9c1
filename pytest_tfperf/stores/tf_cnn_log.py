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
from typing import TYPE_CHECKING, Final

from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.errors import DocumentError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_EXAMPLE: Final = "10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848"
_DECIMAL: Final = 0.05  # half of the last digit that "%.1f" prints

_REAL = r"[+-]?(?:\d{1,15}(?:\.\d{1,15})?|nan|inf)"
# A launcher may put its label before the step, as mpirun's "[1,0]<stdout>:", or a time.
_STEP_START = re.compile(r"(?:^|[\s:>\]])(?P<number>[1-9]\d{0,11})\s+images/sec:", re.ASCII)
_STEP = re.compile(
    rf"\s*(?P<images_per_sec>{_REAL})\s*\+/-\s*{_REAL}\s*\(jitter\s*=\s*{_REAL}\)\s*(?P<loss>{_REAL}(?!\S))?",
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
        line: the line's number in the log, from 1.
    """

    number: int
    images_per_sec: float
    loss: float | None = None
    line: int = 0


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
    def workers(self) -> int:
        """How many workers printed into this log: the number of lines of the first step."""
        first = min((step.number for step in self.steps), default=0)
        return sum(step.number == first for step in self.steps) or 1

    @property
    def images_per_sec(self) -> float:
        """The total: the median over workers, because each one prints the global figure by its own clock."""
        return median(self.totals)

    def run(self, images_per_step: int) -> Run:
        """The log as a run, whose throughput is the printed total.

        The printed speeds have one decimal, so the windows are coarse. A log without step lines becomes one window of
        one step, because it does not say how many steps there were.

        Args:
            images_per_step: over all workers.
        """
        assert images_per_step > 0
        return Run(
            windows=self._windows(images_per_step),
            images_per_step=images_per_step,
            stated_images_per_sec=self.images_per_sec,
            log=self.name,
        )

    def _windows(self, images_per_step: int) -> tuple[Window, ...]:
        if not self.steps:
            return (Window(steps=1, seconds=images_per_step / self.images_per_sec),)
        per_worker = images_per_step / self.workers
        windows = []
        then = _Point(0, 0.0, 0.0, None)
        for now in _advancing(_points(self.steps)):
            seconds = per_worker * (now.seconds_per_image - then.seconds_per_image)
            windows.append(Window(now.number - then.number, seconds, now.loss))
            then = now
        return tuple(windows)


@dataclass(frozen=True, slots=True)
class _Point:
    """Where the workers stood at one step: n / v is the time so far, for a batch of one image."""

    number: int
    seconds_per_image: float
    rounding: float
    loss: float | None


def parse(text: str, name: str) -> Log:
    """Read a log; lines of other programs are ignored.

    Args:
        text: the log, with spaces or tabs, with or without header, of one or several workers.
        name: the file, for messages and for `Run.log`.

    Raises:
        DocumentError: no line of tf_cnn_benchmarks, no total, a broken line, or speeds and total that can't belong to
            one run; names file and line.
    """
    steps: list[Step] = []
    totals: list[float] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if total := _TOTAL.search(line):
            totals.append(_total(total["total"], number, name))
        elif start := _STEP_START.search(line):
            steps.append(_step(start, line, number, name))
    if not totals:
        raise _no_total(steps, name)
    log = Log(name, tuple(steps), tuple(totals))
    _check_one_run(log)
    return log


def read(path: Path) -> Log:
    """`parse` a file, in whatever encoding the programs around it wrote; raises DocumentError where there is none."""
    try:
        return parse(path.read_bytes().decode("utf-8", errors="replace"), str(path))
    except OSError as error:
        raise DocumentError(f"{path} can't be read: {error.strerror}. Give the path of a log") from None


def _step(start: re.Match[str], line: str, number: int, name: str) -> Step:
    match = _STEP.match(line, start.end())
    if match is None:
        raise DocumentError(
            f"{name}, line {number}: a broken step line, {line.strip()[:80]!r}. A whole one reads {_EXAMPLE!r}: "
            "take the log as the program wrote it"
        )
    speed = float(match["images_per_sec"])
    if not (math.isfinite(speed) and speed >= 0):
        raise DocumentError(f"{name}, line {number}: {speed} images/sec is not a speed. Replay a run that completed")
    return Step(int(start["number"]), speed, float(match["loss"]) if match["loss"] else None, number)


def _total(text: str, number: int, name: str) -> float:
    value = float(text) if re.fullmatch(_REAL, text, re.ASCII | re.IGNORECASE) else math.nan
    if not (math.isfinite(value) and value > 0):
        raise DocumentError(
            f"{name}, line {number}: total images/sec: {text[:40]!r} is not a throughput. Replay a run that completed"
        )
    return value


def _no_total(steps: list[Step], name: str) -> DocumentError:
    if not steps:
        return DocumentError(
            f"{name}: no line was printed by tf_cnn_benchmarks. A step line reads {_EXAMPLE!r} and the last one "
            "'total images/sec: 56.57': give the log of its output"
        )
    return DocumentError(
        f"{name}, line {steps[-1].line}: the log ends at step {steps[-1].number} without 'total images/sec:': "
        "give the log of a run that completed"
    )


def _check_one_run(log: Log) -> None:
    """The workers' last speeds must add up to about the total; it is lower by what the loop spends on printing."""
    if not log.steps:
        return
    last = _points(log.steps)[-1]
    line = log.steps[-1].line
    if not math.isfinite(last.seconds_per_image):
        raise DocumentError(
            f"{log.name}, line {line}: 0.0 images/sec at step {last.number}: it was rounded, so the "
            "windows can't be computed. Replay a run of at least 0.1 images/sec"
        )
    speed = last.number / last.seconds_per_image
    low, high = (log.workers * (speed + sign * _DECIMAL) for sign in (-1, 1))
    if not 0.6 * low <= log.images_per_sec <= 1.5 * high:
        raise DocumentError(
            f"{log.name}, line {line}: the total is {log.images_per_sec:g} images/sec, but "
            f"{log.workers} worker(s) at {speed:g} make {log.workers * speed:g}. The log may hold several runs, or "
            "only some workers of one: give all lines of one run"
        )


def _points(steps: tuple[Step, ...]) -> list[_Point]:
    """The median worker at each step that was printed, in order."""
    at: dict[int, list[Step]] = {}
    for step in steps:
        at.setdefault(step.number, []).append(step)
    return [_point(number, at[number]) for number in sorted(at)]


def _point(number: int, steps: list[Step]) -> _Point:
    speed = median(step.images_per_sec for step in steps)
    if speed == 0:
        return _Point(number, math.inf, math.inf, None)
    return _Point(number, number / speed, number / speed * _DECIMAL / speed, _median_loss(steps))


def _median_loss(steps: list[Step]) -> float | None:
    losses = [step.loss for step in steps if step.loss is not None]
    if any(math.isnan(loss) for loss in losses):
        return math.nan
    return median(losses) if losses else None


def _advancing(points: Iterable[_Point]) -> list[_Point]:
    """The points that are further apart than the rounding of their speeds, and always the last one.

    Time so far is n / v, and v is rounded to one decimal. With slow models and many steps the difference of two
    neighbours is mostly rounding, and can even be negative: such windows are joined.
    """
    *earlier, last = points
    kept = [last]
    for point in reversed(earlier):
        apart = kept[-1].seconds_per_image - point.seconds_per_image
        if apart > kept[-1].rounding + point.rounding and point.seconds_per_image > 0:
            kept.append(point)
    return kept[::-1]
