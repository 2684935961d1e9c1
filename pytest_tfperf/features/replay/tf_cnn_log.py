"""The lines of tf_cnn_benchmarks, read from any log that holds them, or refused.

Formats: tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py. The speeds of a step line are one worker's,
averaged since the first timed step; a total is over all workers. Under Horovod every worker prints all lines, without a
label and interleaved. An evaluation prints its accuracy and then a total of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, NamedTuple

from pytest_tfperf.core import bounded_decoding
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import worst_loss
from pytest_tfperf.errors import DocumentError
from pytest_tfperf.features.replay.tf_cnn_header import (
    EVALUATION,
    MODE,
    TRAINING_AND_EVALUATION,
    Fact,
    Header,
    facts_of,
    header_of,
)
from pytest_tfperf.lines import shortened
from pytest_tfperf.programs.formats import TF_CNN_STEP
from pytest_tfperf.programs.reading import to_float

if TYPE_CHECKING:
    from collections.abc import Iterator

# Control sequences (colours, cursor movements), and those that set a terminal's title or a link.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "line")


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each printed line, with the number of its line in the log, from 1."""
    text = text.replace("\0", "")  # a log that was emptied while a program wrote to it begins with zeros
    for number, line in enumerate(_LINE_ENDS.split(text), start=1):
        for printed in _LINE_ENDS.split(_unwrapped(line)):
            yield number, _ESCAPES.sub("", printed)


def _unwrapped(line: str) -> str:
    """The message in a JSON object of a log; any other line as it is."""
    if not line.lstrip().startswith("{"):
        return line
    try:
        value = bounded_decoding.from_json(line)
    except ValueError:
        return line
    if not isinstance(value, dict):
        return line
    message = next((value[key] for key in _MESSAGES if isinstance(value.get(key), str)), None)
    return line if message is None else message.rstrip("\r\n")


_REAL = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{1,15})?|nan|inf)", re.ASCII | re.IGNORECASE)
_LOSS = re.compile(r"[+-]?\d{1,310}(?:\.\d{1,15})?(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = re.compile(r"(?<![\w-])[+-]?(?:nan|inf)(?![\w-])", re.ASCII | re.IGNORECASE)
# A launcher may add a label or a time before it.
_STEP = re.compile(rf"{TF_CNN_STEP}(?P<rest>.*)".replace("UNIT", "images"), re.ASCII | re.IGNORECASE)
# A part of a step line is enough: one that was wrapped or changed could hide a loss that is NaN.
_LIKE_A_STEP = re.compile(r"\d\s+images/sec:|images/sec:.*(?:\+/-|±)|\(jitter\s*=")
_FIELD = re.compile(r"[\s\[(]*(?:(?:total_)?loss\s*[=:]?\s*)?[\[(]*(?P<loss>[^\s)\]]*)", re.IGNORECASE)
_TOTAL = re.compile(r"(?P<label>.*?)\btotal images/sec:\s*(?P<total>\S*)(?P<rest>.*)", re.ASCII)
_SENTENCE = re.compile(r" [^\W\d]")  # goes on after a figure; a wrapper's fields come after a tab or several spaces
_ACCURACY = re.compile(r"\b(?:Accuracy|Precision) @ 1 = |^\s*\d+\t\d+\.\d+ examples/sec\s*$", re.ASCII)
_OUT_OF_MEMORY = re.compile(
    r"ResourceExhaustedError|OOM when allocating|std::bad_alloc|MemoryError|CUDA_ERROR_OUT_OF_MEMORY"
    r"|out of memory(?!.*not a failure)|\bOut of memory: Kill|^\s*Killed\s*$",
)
_LONG = 10_000  # characters of a line in which a reason is looked for
_SAME_RUN = 1.05  # workers stop their clocks within a step or two of each other
_RULE = "-" * 64

# The last step line and the total are the same figure, a mean since the first timed step, of a worker or of all. They
# differ for these reasons only:
_CLOCKS = 0.02  # each worker has its own total, and some may be missing: a step or two of 100
_BETWEEN_STEPS = 0.05  # only the total's clock runs while lines are printed: 0.1 % in Azure's logs, more in short steps
_UNEVEN = 0.25  # how much faster or slower the steps after the last line may be; they count in the total alone
_ROUNDED = 0.05  # a worker's rate has one decimal, and a total two


@dataclass(frozen=True, slots=True)
class Log:
    """A run, as its log describes it.

    Args:
        name: the file, for messages.
        header: the run's facts.
        examples_per_sec: the printed total.
        last_step: the last step that has a line; 1 of a log that was cut down to its totals.
        loss: the last loss, or the first that is not finite; None where the log has none.
    """

    name: str
    header: Header
    examples_per_sec: float
    last_step: int
    loss: float | None

    def run(self, examples_per_step: int) -> Run:
        """The run with a single window, whose throughput is the printed total; a step's examples are all workers'."""
        seconds = self.last_step * examples_per_step / self.examples_per_sec
        return Run(
            windows=(Window(self.last_step, seconds, self.loss),),
            examples_per_step=examples_per_step,
            stated_examples_per_sec=self.examples_per_sec,
            log=self.name,
        )


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    examples_per_sec: float
    loss: float | None
    label: str


@dataclass(frozen=True, slots=True)
class _Total:
    examples_per_sec: float
    line: int
    is_evaluation: bool

    def __str__(self) -> str:
        return f"{self.examples_per_sec:g} (line {self.line})"


def parse(text: str, name: str, *, only_training: bool = False) -> Log:
    """Read a log; lines of other programs are ignored.

    Args:
        text: the log, with spaces or tabs, with or without header, of one or several workers, also inside JSON.
            Columns after the loss (accuracy, a wrapper's fields) are ignored.
        name: the file, for messages.
        only_training: leave out an evaluation's lines.

    Raises:
        DocumentError: no total, a total that is not a throughput, totals or rates that can't belong to one run, a
            step line that can't be read, or an evaluation; names the line and the next step.
    """
    lines = _read(text, name)
    steps = lines.steps
    header = header_of(lines.facts, name, only_training=only_training)
    totals = _totals_of(lines, name)
    if not totals:
        raise DocumentError(f"{name}: {_why_no_total(text, header, steps)}")
    totals = _of_one_run(totals, steps, name, only_training=only_training)
    if steps:
        _check_rates([total.examples_per_sec for total in totals], steps, name)
    return Log(
        name,
        header,
        median(total.examples_per_sec for total in totals),  # each worker's own clock, one global figure
        last_step=max((step.number for step in steps), default=1),
        loss=worst_loss([step.loss for step in steps if step.loss is not None]),
    )


class _Lines(NamedTuple):
    """The lines of a log that count; a total with its line, and whether an evaluation printed it."""

    steps: list[_Step]
    totals: list[tuple[int, re.Match[str], bool]]
    facts: list[Fact]


def _read(text: str, name: str) -> _Lines:
    lines = _Lines([], [], [])
    evaluates, begun, without_loss = False, "", False
    for number, line in numbered_lines(text):
        begun += line
        stated = list(facts_of(begun, number))
        begun = _unfinished(begun)
        modes = [fact.value for fact in stated if fact.name == MODE]
        evaluates = modes[-1] == EVALUATION if modes else evaluates or bool(_ACCURACY.search(line))
        lines.facts.extend(stated)
        is_step = _LIKE_A_STEP.search(line) or (without_loss and _is_figure(line))
        if is_step:
            lines.steps.append(_step(line, number, name))
            evaluates = False
        elif total := _TOTAL.match(line):
            lines.totals.append((number, total, evaluates))
        without_loss = bool(is_step) and line.rstrip().endswith(")")
    return lines


def _totals_of(lines: _Lines, name: str) -> list[_Total]:
    """The totals that stand alone or have the label of a step line; others are sentences about a total."""
    labels = {"", *(step.label for step in lines.steps)}
    totals = [
        _Total(_examples_per_sec(total, number, name), number, is_evaluation)
        for number, total, is_evaluation in lines.totals
        if _label(total["label"]) in labels and not _SENTENCE.match(total["rest"])
    ]
    if lines.totals and not totals:
        number, total, _ = lines.totals[0]
        raise DocumentError(
            f"{name}, line {number}: {shortened(total[0].strip(), 80)!r} is a sentence, or has a label that no step "
            "line has, and there is no other total",
            next_step="Give the whole log, as tf_cnn_benchmarks prints it",
        )
    return totals


def _unfinished(command: str) -> str:
    """A command line that a backslash continues in the next line; "" for a finished one."""
    text = command[:_LONG].rstrip()
    return f"{text[:-1]} " if text.endswith("\\") else ""


def _step(line: str, number: int, name: str) -> _Step:
    """Read a line of rates, or refuse it: a line that is passed over could hide a loss that is NaN."""
    match = _STEP.search(line) if line.count("images/sec") == 1 else None
    if match is None:
        raise DocumentError(
            f"{name}, line {number}: {shortened(line.strip(), 80)!r} has rates or a loss, but is not as "
            "tf_cnn_benchmarks prints it: '10 images/sec: 50.0 +/- 0.1 (jitter = 0.2) 7.500'",
            next_step="Remove what stands before it, join a wrapped line, or part joined ones",
        )
    label, rate = _label(line[: match.start("step")]), to_float(match["mean_rate"])
    return _Step(int(match["step"]), rate, _loss(match["rest"], number, name), label)


def _loss(rest: str, number: int, name: str) -> float | None:
    """The loss in the text behind the rates, also as "[nan]" or "loss=7.4"; None in a log without losses."""
    field = _FIELD.match(rest)
    loss = field["loss"] if field else ""
    if _LOSS.fullmatch(loss):
        return float(loss)
    if loss.lstrip("+-")[:1].isdigit():
        raise DocumentError(
            f"{name}, line {number}: the loss {loss[:40]!r} is not a number", next_step="Repair the line"
        )
    not_finite = _NOT_FINITE.search(rest)
    return float(not_finite[0]) if not_finite else None  # a wrapper's field is no loss


def _is_figure(line: str) -> bool:
    """Whether a line is only a loss, which was wrapped off its step line."""
    return bool(_LOSS.fullmatch(line.strip()) or _NOT_FINITE.fullmatch(line.strip(" \t[]()")))


def _label(text: str) -> str:
    """The shape of a launcher's label before a line: "[1,0]<stdout>:" of any rank is "[w]<w>:"."""
    return " ".join(re.sub(r"[\w.,+-]+", "w", text.replace(_RULE, "")).split())


def _examples_per_sec(total: re.Match[str], number: int, name: str) -> float:
    is_whole = _REAL.fullmatch(total["total"]) and "images/sec" not in total["rest"]
    value = float(total["total"]) if is_whole else math.nan
    if not 0 < value < math.inf:
        raise DocumentError(
            f"{name}, line {number}: {shortened(total[0].strip(), 80)!r} is not a throughput",
            next_step="Replay a run that completed",
        )
    return value


def _of_one_run(totals: Sequence[_Total], steps: Sequence[_Step], name: str, *, only_training: bool) -> list[_Total]:
    """The totals of the log's only training (or forward-only run), one for each worker that printed it."""
    evaluated = [total for total in totals if total.is_evaluation]
    trained = [total for total in totals if not total.is_evaluation]
    if not trained:
        raise DocumentError(
            f"{name}, line {evaluated[0].line}: the total is an evaluation's, which no workload is",
            next_step="Give the log of training or of --forward_only",
        )
    if evaluated and not only_training:
        raise DocumentError(
            f"{name}: the total {trained[0]} is of training, and {evaluated[0]} of an evaluation",
            next_step="Leave the evaluation out with --only=training",
        )
    low, high = (pick(trained, key=lambda total: total.examples_per_sec) for pick in (min, max))
    if high.examples_per_sec > _SAME_RUN * low.examples_per_sec:
        raise DocumentError(
            f"{name}: the totals {low} and {high} images/sec can't be of one run",
            next_step="Give each run's log as a file of its own",
        )
    last_step = max((step.number for step in steps), default=0)
    workers = sum(step.number == last_step for step in steps)
    if steps and len(trained) > workers:
        raise DocumentError(
            f"{name}: {len(trained)} totals, {trained[0]} to {trained[-1]}, but {workers} line(s) of the last step, "
            f"{last_step}: the log holds several runs",
            next_step="Give each run's log as a file of its own",
        )
    return trained


def _check_rates(totals: Sequence[float], steps: Sequence[_Step], name: str) -> None:
    """Refuse a log in which the workers' rates at the last step don't add up to the total."""
    numbers = sorted({step.number for step in steps})
    last = numbers[-1]
    speeds = [step.examples_per_sec for step in steps if step.number == last]
    unseen = last - numbers[-2] - 1 if len(numbers) > 1 else 9  # after the last line; lines are display_every apart
    slack = _CLOCKS + _UNEVEN * unseen / (last + unseen)
    total, rate, rounded = fmean(totals), sum(speeds), _ROUNDED * (len(speeds) + 0.1)
    if not rate * (1 - slack - _BETWEEN_STEPS) - rounded <= total <= rate * (1 + slack) + rounded:
        raise DocumentError(
            f"{name}: the total is {total:g} images/sec, but the steps' own rates add up to {rate:g} at step {last}, "
            "and both are means since the first step",
            next_step="The log may hold several runs, or only some workers of one: give all lines of one run",
        )


def _why_no_total(text: str, header: Header, steps: Sequence[_Step]) -> str:
    """Why the log has no total: the last step that it shows, and the cause of the end, if it shows it."""
    lines = [(number, line.strip()) for number, line in numbered_lines(text) if line.strip()]
    if not lines:
        return "empty. Give the log of a run that completed"
    if header.get(MODE) == TRAINING_AND_EVALUATION:
        return (
            f"{header.facts[MODE]}, and then tf_cnn_benchmarks prints no total. Replay a run without "
            "--eval_during_training_*"
        )
    if memory := next(((number, line) for number, line in lines if _OUT_OF_MEMORY.search(line[:_LONG])), None):
        return (
            f"the run ended early, and ran out of memory (line {memory[0]}: {shortened(memory[1], 160)!r}). Replay a "
            "run that completed, such as one with a smaller batch"
        )
    number, line = lines[-1]
    if steps or header.facts:
        came = f"its last step line is of step {steps[-1].number}" if steps else "it has a header, but no rates"
        return (
            f"the run ended early, or its log is cut off: {came}, and there is no line 'total images/sec:'. The last "
            f"line, {number}, is {shortened(line, 160)!r}. Replay a run that completed"
        )
    return (
        "no line 'total images/sec: 56.57', which tf_cnn_benchmarks prints last, and no export of pytest-tfperf. Give "
        "the whole log of a run that completed"
    )
