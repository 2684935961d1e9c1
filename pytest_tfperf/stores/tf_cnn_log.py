"""The lines that tf_cnn_benchmarks prints: read from any log that holds them, and written as it writes them.

Formats: tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py. The speeds of a step line are cumulated
since the first timed step, and they are one worker's; a total is over all workers. Under Horovod every worker prints
all of it, unlabelled and interleaved. Losses of synthetic runs need not fall (labels are redrawn, the rate warms up).
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
_RULE: Final = "-" * 64
_DECIMAL: Final = 0.05  # half of the last digit that "%.1f" prints

_REAL = r"[+-]?(?:\d{1,15}(?:\.\d{1,15})?|nan|inf)"
# A launcher may put its label before the step, as mpirun's "[1,0]<stdout>:", or a time.
_STEP_START = re.compile(r"(?:^|[\s:>\]])(?P<number>[1-9]\d{0,11})\s+images/sec:", re.ASCII)
_STEP = re.compile(
    rf"\s*(?P<images_per_sec>{_REAL})\s*\+/-\s*(?P<uncertainty>{_REAL})\s*\(jitter\s*=\s*(?P<jitter>{_REAL})\)"
    r"(?P<rest>.*)",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
_TOTAL = re.compile(r"\btotal images/sec:\s*(?P<total>\S*)", re.ASCII)
_HEADER = re.compile(r"\bStep\s+Img/sec\s+(?:total_)?loss\b(?P<accuracy>.*top_1)?", re.ASCII)
_ACCURACY = re.compile(r"0\.\d{3}|1\.000", re.ASCII)


@dataclass(frozen=True, slots=True)
class Step:
    """One step line of one worker.

    Args:
        number: the step, counted from 1 after the warm-up.
        images_per_sec: this worker's speed over all steps so far.
        uncertainty: standard error of the steps' speeds.
        jitter: 1.4826 times the median absolute deviation of the steps' speeds.
        loss: total loss of this step; None where the line ends before it.
        top_1: accuracy of this step, where the program was asked for it.
        top_5: the same among five.
        extra: what a wrapper appended, field by field.
        line: the line's number in the log, from 1.
    """

    number: int
    images_per_sec: float
    uncertainty: float
    jitter: float
    loss: float | None = None
    top_1: float | None = None
    top_5: float | None = None
    extra: tuple[str, ...] = ()
    line: int = 0


@dataclass(frozen=True, slots=True)
class Total:
    """One footer: images per second over all workers, printing included."""

    images_per_sec: float
    line: int = 0


@dataclass(frozen=True, slots=True)
class Log:
    """What one run printed, in the order of the lines; `steps` is empty where a log was cut down to its totals."""

    name: str
    steps: tuple[Step, ...]
    totals: tuple[Total, ...]

    @property
    def workers(self) -> int:
        """How many workers printed into this log: the number of lines of the first step."""
        first = min((step.number for step in self.steps), default=0)
        return sum(step.number == first for step in self.steps) or 1

    @property
    def images_per_sec(self) -> float:
        """The total: the median over workers, because each one prints the global figure by its own clock."""
        return median(total.images_per_sec for total in self.totals)

    def attempt(self, images_per_step: int) -> Run:
        """The run as a measurement.

        The printed speeds have one decimal, so the windows are coarse; the total is the attempt's value. A log
        without step lines becomes one window of one step, since it does not say how many there were.

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
    """Read a log; lines of other programs are passed over.

    Args:
        text: the log, with spaces or tabs, with or without header, of one or several workers.
        name: the file, for messages and for `Run.log`.

    Raises:
        DocumentError: nothing that was printed, no total, a line that is broken, or speeds and total that can't belong
            to one run. Names file and line.
    """
    steps: list[Step] = []
    totals: list[Total] = []
    accuracy: bool | None = None  # until a header says so, the columns' form tells
    for number, line in enumerate(text.split("\n"), start=1):
        if columns := _HEADER.search(line):
            accuracy = columns["accuracy"] is not None
        elif total := _TOTAL.search(line):
            totals.append(_total(total["total"], number, name))
        elif start := _STEP_START.search(line):
            steps.append(_step(start, line, accuracy, number, name))
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


def header(*, accuracy: bool = False) -> str:
    """The line above the first step line."""
    return "Step\tImg/sec\ttotal_loss" + ("\ttop_1\ttop_5" if accuracy else "")


def line(
    step: int,
    images_per_sec: float,
    uncertainty: float,
    jitter: float,
    loss: float | None,
    *,
    top_1: float | None = None,
    top_5: float | None = None,
) -> str:
    r"""One step line.

    >>> line(10, 56.9, 0.1, 0.2, 7.848)
    '10\timages/sec: 56.9 +/- 0.1 (jitter = 0.2)\t7.848'
    """
    speed = f"images/sec: {images_per_sec:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})"
    fields = [f"{value:.3f}" for value in (loss, top_1, top_5) if value is not None]
    return "\t".join([str(step), speed, *fields])


def footer(total: float) -> str:
    """The three lines below the last step line; `total` is in images per second over all workers."""
    return f"{_RULE}\ntotal images/sec: {total:.2f}\n{_RULE}"


def _step(start: re.Match[str], line: str, accuracy: bool | None, number: int, name: str) -> Step:
    match = _STEP.match(line, start.end())
    if match is None:
        raise DocumentError(
            f"{name}, line {number}: a broken step line, {line.strip()[:80]!r}. A whole one reads {_EXAMPLE!r}: "
            "take the log as the program wrote it"
        )
    speed = float(match["images_per_sec"])
    if not (math.isfinite(speed) and speed >= 0):
        raise DocumentError(
            f"{name}, line {number}: {speed} images/sec is no speed. Replay a run that went well to its end"
        )
    fields = match["rest"].split()
    loss = float(fields.pop(0)) if fields and re.fullmatch(_REAL, fields[0], re.ASCII | re.IGNORECASE) else None
    top_1, top_5, extra = _accuracy(fields, accuracy)
    return Step(
        number=int(start["number"]),
        images_per_sec=speed,
        uncertainty=float(match["uncertainty"]),
        jitter=float(match["jitter"]),
        loss=loss,
        top_1=top_1,
        top_5=top_5,
        extra=extra,
        line=number,
    )


def _accuracy(fields: list[str], stated: bool | None) -> tuple[float | None, float | None, tuple[str, ...]]:
    """Take the accuracy columns off the fields that follow the loss: they have three decimals and are at most 1."""
    there = stated is not False and len(fields) >= 2 and all(_ACCURACY.fullmatch(field) for field in fields[:2])
    if not there:
        return None, None, tuple(fields)
    return float(fields[0]), float(fields[1]), tuple(fields[2:])


def _total(text: str, number: int, name: str) -> Total:
    value = float(text) if re.fullmatch(_REAL, text, re.ASCII | re.IGNORECASE) else math.nan
    if not (math.isfinite(value) and value > 0):
        raise DocumentError(
            f"{name}, line {number}: total images/sec: {text[:40]!r} is no throughput. "
            "Replay a run that went well to its end"
        )
    return Total(value, number)


def _no_total(steps: list[Step], name: str) -> DocumentError:
    if not steps:
        return DocumentError(
            f"{name}: no line is one of tf_cnn_benchmarks'. A step line reads {_EXAMPLE!r} and the last one "
            "'total images/sec: 56.57': give the log of its output"
        )
    return DocumentError(
        f"{name}, line {steps[-1].line}: the log ends at step {steps[-1].number} without 'total images/sec:': "
        "give the log of a run that went to its end"
    )


def _check_one_run(log: Log) -> None:
    """The workers' last speeds must add up to about the total; it is lower by what the loop spends on printing."""
    if not log.steps:
        return
    last = _points(log.steps)[-1]
    line = log.steps[-1].line
    if not math.isfinite(last.seconds_per_image):
        raise DocumentError(
            f"{log.name}, line {line}: 0.0 images/sec at step {last.number} says no more than 'very slow': "
            "the windows can't be recovered from it"
        )
    speed = last.number / last.seconds_per_image
    low, high = (log.workers * (speed + sign * _DECIMAL) for sign in (-1, 1))
    if not 0.6 * low <= log.images_per_sec <= 1.5 * high:
        raise DocumentError(
            f"{log.name}, line {log.totals[-1].line}: the total says {log.images_per_sec:g} images/sec, but "
            f"{log.workers} worker(s) at {speed:g} make {log.workers * speed:g}. Are there several runs in this log, "
            "or only some workers of one? Give all lines of one run"
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
    """The points that are further apart than the rounding of their speeds, the last one always.

    Time so far is n / v, and v is rounded to one decimal: with slow models and many steps the difference of two
    neighbours is mostly rounding, and can even be negative. Their windows are then joined.
    """
    *earlier, last = points
    kept = [last]
    for point in reversed(earlier):
        apart = kept[-1].seconds_per_image - point.seconds_per_image
        if apart > kept[-1].rounding + point.rounding and point.seconds_per_image > 0:
            kept.append(point)
    return kept[::-1]
