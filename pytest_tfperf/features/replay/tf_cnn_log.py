"""A log of tf_cnn_benchmarks, read or refused: its total, the lines that must agree with it, and its header.

Formats: tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py. The speeds of a step line are one worker's,
averaged since the first timed step; a total is over all workers. Under Horovod every worker prints all lines, without a
label and interleaved. An evaluation prints its accuracy and then a total of its own. `print_info` prints the header;
the precision is not in it, but in the command line, where the log shows that, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from pytest_tfperf.core.plain_json import from_json
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import worst_loss
from pytest_tfperf.core.workload import Precision, VariableUpdate, Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.lines import shortened
from pytest_tfperf.programs.formats import TF_CNN_STEP
from pytest_tfperf.programs.reading import to_float
from pytest_tfperf.workers import catalogue

# Control sequences (colours, cursor movements), and those that set a terminal's title or a link.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_LINE_ENDS = re.compile(r"\r\n|\n|\r")
_MESSAGES = ("log", "message", "msg", "MESSAGE", "textPayload", "text", "line")

_EVALUATION, _TRAINING, _FORWARD_ONLY = "evaluation", "training", "forward only"
_MODEL, _MODE, _BATCH, _DEVICES, _VARIABLES = "Model", "Mode", "Batch size per device", "Devices", "Variables"
_DATASET, _FP16, _OPTIMIZER, _SYNC, _STAGED = "Dataset", "--use_fp16", "Optimizer", "Sync", "Staged vars"
# Several workers' lines can run into each other: a value ends before the next label.
_END = r"(?=[\s\"\\]|$|[A-Z])"
_FACTS = {
    _MODEL: rf"\bModel:[ \t]+([a-z][a-z0-9_.]*){_END}",
    _DATASET: rf"\bDataset:[ \t]+([a-z][a-z0-9_]*(?: \(synthetic\))?){_END}",
    _MODE: rf"\bMode:[ \t]+(training \+ evaluation|training|evaluation|forward[- ]only){_END}",
    _BATCH: r"(?<![\w.])(\d{1,9})(?:\.0)? per device\b",
    _DEVICES: r"\bDevices:[ \t]+(\[[^\]]+\])",
    _VARIABLES: rf"\bVariables:[ \t]+([a-z][a-z0-9_]*){_END}",
    _OPTIMIZER: rf"\bOptimizer:[ \t]+([a-z][a-z0-9_]*){_END}",
    _SYNC: r"\bSync:[ \t]+(True|False)",  # where it has several jobs
    _STAGED: r"\bStaged vars:[ \t]+(True|False)",
    # Of a command line, not of a sentence that names the program.
    _FP16: r"(?:\btf_cnn_benchmarks\.py|-m\W+[\w.]*\btf_cnn_benchmarks|/tf_cnn_benchmarks)\b"
    r".*?[\s'\"](--?(?:no)?use_fp16\b(?:[= ]'?\"?\w+)?)",
}
_PATTERNS = {name: re.compile(pattern, re.ASCII) for name, pattern in _FACTS.items()}
_LIKE_A_FACT = re.compile(
    r"(?:Model|Dataset|Mode|Devices|Variables|Optimizer|Sync|Staged vars):[ \t]|per device|tf_cnn_benchmarks"
)
_NO_FP16 = re.compile(r"--?nouse|[= ]['\"]*(?:0|f|false|n|no)$", re.IGNORECASE)
_UPDATES = {update.value: update for update in VariableUpdate} | {
    "collective_all_reduce": VariableUpdate.COLLECTIVE,
    "distributed_all_reduce": VariableUpdate.COLLECTIVE,
}
"""tf_cnn_benchmarks' values of `Variables` that have a name of ours."""

# A launcher may add a label or a time before it.
_STEP = re.compile(rf"{TF_CNN_STEP}(?P<rest>.*)".replace("UNIT", "images"), re.ASCII | re.IGNORECASE)
# A part of a step line is enough: one that was wrapped or changed could hide a loss that is NaN.
_LIKE_A_STEP = re.compile(r"\d\s+images/sec:|images/sec:.*(?:\+/-|±)|\(jitter\s*=")
_LOSS = re.compile(r"[\s\[(]*(?:(?:total_)?loss\s*[=:]?\s*)?[\[(]*(?P<loss>[^\s)\]]*)", re.IGNORECASE)
_FINITE = re.compile(r"[+-]?\d{1,310}(?:\.\d{1,15})?(?:e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)
_NOT_FINITE = re.compile(r"(?<![\w-])[+-]?(?:nan|inf)(?![\w-])", re.ASCII | re.IGNORECASE)
_LOSS_ALONE = re.compile(r"[\s\[\]()+-]*(?:\d[\d.]*(?:e[+-]?\d+)?|nan|inf)[\s\[\]()]*", re.ASCII | re.IGNORECASE)
_TOTAL = re.compile(r"(?P<label>.*?)\btotal images/sec:\s*(?P<total>\S*)(?P<rest>.*)", re.ASCII)
_REAL = re.compile(r"\d{1,15}(?:\.\d{1,15})?", re.ASCII)
_SENTENCE = re.compile(r" [^\W\d]")  # goes on after a figure; a wrapper's fields come after a tab or several spaces
_ACCURACY = re.compile(r"\b(?:Accuracy|Precision) @ 1 = |^\s*\d+\t\d+\.\d+ examples/sec\s*$", re.ASCII)
_LONG = 100_000  # characters of a line: the names of 4,000 devices
_SAME_RUN = 1.05  # workers stop their clocks within a step or two of each other
_RULE = "-" * 64
_ONE_RUN = "Give each run's log as a file of its own"
_WITHOUT_EVALUATION = "Leave the evaluation out with --only=training"

# The last step line and the total are the same figure, a mean since the first timed step, of a worker or of all. They
# differ for these reasons only:
_CLOCKS = 0.02  # each worker has its own total, and some may be missing: a step or two of 100
_BETWEEN_STEPS = 0.05  # only the total's clock runs while lines are printed: 0.1 % in Azure's logs, more in short steps
_UNEVEN = 0.25  # how much faster or slower the steps after the last line may be; they count in the total alone
_ROUNDED = 0.05  # a worker's rate has one decimal, and a total two


class Fact(NamedTuple):
    """A fact of the header, and its line in the log."""

    name: str
    value: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line} says {self.name}: {self.value}"


@dataclass(frozen=True, slots=True)
class Log:
    """A run, as its log describes it."""

    name: str  # of the file
    facts: Mapping[str, Fact]  # those of its header and command line, by name
    examples_per_sec: float  # the printed total
    last_step: int  # that has a line; 1 of a log that was cut down to its totals
    loss: float | None  # the last one, or the first that is not finite; None where the log has none

    def run(self, examples_per_step: int) -> Run:
        """The run with a single window, whose throughput is the printed total; a step's examples are all workers'."""
        seconds = self.last_step * examples_per_step / self.examples_per_sec
        return Run(
            windows=(Window(self.last_step, seconds, self.loss),),
            examples_per_step=examples_per_step,
            stated_examples_per_sec=self.examples_per_sec,
            log=self.name,
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """TensorFlow's names of all devices of the run; none where the header may state those of one worker only."""
        names, update = _names_in(self.facts.get(_DEVICES)), self.facts.get(_VARIABLES)
        is_a_workers = any("job:" in name for name in names) or (update is not None and update.value == "horovod")
        return () if is_a_workers and not all("horovod" in name for name in names) else names

    @property
    def on_cpus(self) -> Fact | None:
        """The fact that all stated devices are CPUs; None without it."""
        fact = self.facts.get(_DEVICES)
        names = _names_in(fact)
        return fact if names and all("cpu" in name.lower() for name in names) else None

    @property
    def topology(self) -> str | None:
        """ "1x4" if all of the run's devices are stated and on one node; None if there may be more nodes."""
        may_be_many = len(self.devices) > 1 and "horovod" in self.devices[0]
        return f"1x{len(self.devices)}" if self.devices and _VARIABLES in self.facts and not may_be_many else None

    def contradictions(self, workload: Workload, devices: int | None) -> Iterator[str]:
        """Each fact on which the log and the user's options disagree, with both sides.

        `devices` is the number that the user's topology has, over all nodes; None without a topology.
        """
        for name, ours, agrees in self._compared(workload):
            if not agrees:
                yield f"{self.facts[name]}, --workload says {ours}"
        if self.devices and devices is not None and devices != len(self.devices):
            yield f"line {self.facts[_DEVICES].line} says {len(self.devices)} device(s), --topology says {devices}"

    def _compared(self, workload: Workload) -> Iterator[tuple[str, str, bool]]:
        """For each fact about the workload in the log: its name, our value, and whether they agree."""
        stated = {name: fact.value for name, fact in self.facts.items()}
        if model := stated.get(_MODEL):
            yield _MODEL, workload.model, _plain(model) == _plain(workload.model.rpartition(":")[2])
        if mode := stated.get(_MODE):
            ours = _FORWARD_ONLY if workload.forward_only else _TRAINING
            yield _MODE, ours, mode.replace("-", " ") == ours
        # Old versions divided the batch of several workers wrongly.
        if self.devices and (batch := stated.get(_BATCH)):
            yield _BATCH, str(workload.batch_size), int(batch) in (0, workload.batch_size)
        if update := stated.get(_VARIABLES):
            yield _VARIABLES, workload.variable_update, _UPDATES.get(update) is workload.variable_update
        if not workload.forward_only:
            for name, ours in ((_SYNC, "True"), (_STAGED, "False")):
                if waits := stated.get(name):
                    yield name, "synchronous training", waits == ours
            if optimizer := stated.get(_OPTIMIZER):
                yield _OPTIMIZER, workload.optimizer, optimizer == workload.optimizer
        if dataset := stated.get(_DATASET):
            yield _DATASET, f"input_pipeline={workload.input_pipeline}", _same_data(dataset, workload.input_pipeline)
        if fp16 := stated.get(_FP16):
            yield _FP16, workload.precision, fp16 == str(workload.precision is Precision.MIXED_FLOAT16)


def _names_in(devices: Fact | None) -> tuple[str, ...]:
    return tuple(re.findall(r"'([^']*)'", devices.value)) if devices else ()


def _same_data(dataset: str, pipeline: str) -> bool:
    """Whether the input agrees: tf_cnn_benchmarks' synthetic images are on the device; a user's may be anything."""
    if dataset.endswith("(synthetic)"):
        return pipeline not in catalogue.names("pipelines") or not catalogue.data_set_of(pipeline)
    return pipeline != "device"


def _plain(model: str) -> str:
    """A model's name without punctuation: resnet50_v1.5 and resnet50-v1-5 are the same model."""
    return re.sub(r"[^a-z0-9]", "", model.lower())


class _Step(NamedTuple):
    number: int
    examples_per_sec: float
    loss: float | None
    label: str


class _Total(NamedTuple):
    examples_per_sec: float
    line: int
    is_evaluation: bool

    def __str__(self) -> str:
        return f"{self.examples_per_sec:g} (line {self.line})"


def parse(text: str, name: str, *, only_training: bool = False) -> Log:
    """Read a log; lines of other programs are ignored, and with `only_training` those of an evaluation.

    It may have spaces or tabs, no header, and the lines of several workers, also inside JSON. Columns after the loss
    (accuracy, a wrapper's fields) are ignored.

    Raises:
        TfperfError: no total, a total that is not a throughput, totals or rates that can't belong to one run, a
            step line that can't be read, or an evaluation; names the line and the next step.
    """
    lines = list(_printed_lines(text))
    steps: list[_Step] = []
    totals: list[tuple[int, re.Match[str], bool]] = []
    stated: list[Fact] = []
    command, evaluates, lacks_loss = "", False, False
    for number, line in lines:
        command += line
        facts = list(_facts_in(command, number))
        # A backslash continues a command line in the next one.
        command = f"{command[:_LONG].rstrip()[:-1]} " if command[:_LONG].rstrip().endswith("\\") else ""
        stated += facts
        modes = [fact.value for fact in facts if fact.name == _MODE]
        evaluates = modes[-1] == _EVALUATION if modes else evaluates or bool(_ACCURACY.search(line))
        is_step = bool(_LIKE_A_STEP.search(line) or (lacks_loss and _LOSS_ALONE.fullmatch(line)))
        if is_step:
            steps.append(_step(line, f"{name}, line {number}"))
            evaluates = False
        elif total := _TOTAL.match(line):
            totals.append((number, total, evaluates))
        lacks_loss = is_step and line.rstrip().endswith(")")
    by_name = _of_one_run(stated, name, only_training=only_training)
    rates = _of_training(_alone(totals, steps, name), name, only_training=only_training)
    if not rates:
        raise TfperfError(f"{name}: {_why_no_total(lines, by_name, steps)}")
    _require_agreement(rates, steps, name)
    return Log(
        name,
        by_name,
        median(total.examples_per_sec for total in rates),  # each worker's own clock, one global figure
        last_step=max((step.number for step in steps), default=1),
        loss=worst_loss([step.loss for step in steps if step.loss is not None]),
    )


def _printed_lines(text: str) -> Iterator[tuple[int, str]]:
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
        fields = from_json(line)
    except ValueError:
        return line
    messages = [fields[key] for key in _MESSAGES if isinstance(fields.get(key), str)]
    return messages[0].rstrip("\r\n") if messages else line


def _facts_in(line: str, number: int) -> Iterator[Fact]:
    """The facts in a line; several where workers' lines ran into each other."""
    if not _LIKE_A_FACT.search(line):
        return
    for name, pattern in _PATTERNS.items():
        for match in pattern.finditer(line[:_LONG]):
            yield Fact(name, match[1] if name != _FP16 else str(_NO_FP16.search(match[1]) is None), number)


def _of_one_run(stated: Sequence[Fact], name: str, *, only_training: bool) -> Mapping[str, Fact]:
    """The facts of a run by name, from those of all its workers; a header begins with the model's name."""
    headers: list[list[Fact]] = [[]]
    for fact in stated:
        if fact.name == _MODEL:
            headers.append([])
        headers[-1].append(fact)
    by_name: dict[str, Fact] = {}
    for header in headers:
        if only_training and _EVALUATION in [fact.value for fact in header]:
            continue
        for fact in header:
            first = by_name.setdefault(fact.name, fact)
            # Each worker of a job names its devices by its own task.
            if len({re.sub(r"task:?\d+", "task", either.value) for either in (first, fact)}) > 1:
                is_evaluated = {first.value, fact.value} == {_TRAINING, _EVALUATION}
                raise TfperfError(
                    f"{name}: {first}, and {fact}: the log holds several runs",
                    next_step=_WITHOUT_EVALUATION if is_evaluated else _ONE_RUN,
                )
    return by_name


def _step(line: str, place: str) -> _Step:
    """Read a line of rates, or refuse it: a line that is passed over could hide a loss that is NaN."""
    match = _STEP.search(line) if line.count("images/sec") == 1 else None
    loss = _LOSS.match(match["rest"])["loss"] if match else ""  # type: ignore[index]  # it also matches ""
    if match is None or (loss.lstrip("+-")[:1].isdigit() and not _FINITE.fullmatch(loss)):
        raise TfperfError(
            f"{place}: {shortened(line.strip(), 80)!r} has rates or a loss, but is not as tf_cnn_benchmarks prints it: "
            "'10 images/sec: 50.0 +/- 0.1 (jitter = 0.2) 7.500'",
            next_step="Remove what stands before it, join a wrapped line, or part joined ones",
        )
    not_finite = _NOT_FINITE.search(match["rest"])
    number = float(loss) if _FINITE.fullmatch(loss) else float(not_finite[0]) if not_finite else None
    return _Step(int(match["step"]), to_float(match["mean_rate"]), number, _label(line[: match.start("step")]))


def _label(text: str) -> str:
    """The shape of a launcher's label before a line: "[1,0]<stdout>:" of any rank is "[w]<w>:"."""
    return " ".join(re.sub(r"[\w.,+-]+", "w", text.replace(_RULE, "")).split())


def _alone(lines: Sequence[tuple[int, re.Match[str], bool]], steps: Sequence[_Step], name: str) -> list[_Total]:
    """The totals that stand alone or have the label of a step line; others are sentences about a total."""
    labels = {"", *(step.label for step in steps)}
    totals = []
    for number, total, is_evaluation in lines:
        if _label(total["label"]) not in labels or _SENTENCE.match(total["rest"]):
            continue
        rate = float(total["total"]) if _REAL.fullmatch(total["total"]) and "images/sec" not in total["rest"] else 0.0
        if rate == 0:
            raise TfperfError(
                f"{name}, line {number}: {shortened(total[0].strip(), 80)!r} is not a throughput",
                next_step="Replay a run that completed",
            )
        totals.append(_Total(rate, number, is_evaluation))
    if lines and not totals:
        number, total, _ = lines[0]
        raise TfperfError(
            f"{name}, line {number}: {shortened(total[0].strip(), 80)!r} is a sentence, or has a label that no step "
            "line has, and there is no other total",
            next_step="Give the whole log, as tf_cnn_benchmarks prints it",
        )
    return totals


def _of_training(totals: Sequence[_Total], name: str, *, only_training: bool) -> list[_Total]:
    """The totals of training or of a forward-only run, as each worker printed it."""
    trained = [total for total in totals if not total.is_evaluation]
    evaluated = [total for total in totals if total.is_evaluation]
    if evaluated and not trained:
        raise TfperfError(
            f"{name}, line {evaluated[0].line}: the total is an evaluation's, which no workload is",
            next_step="Give the log of training or of --forward_only",
        )
    if evaluated and not only_training:
        raise TfperfError(
            f"{name}: the total {trained[0]} is of training, and {evaluated[0]} of an evaluation",
            next_step=_WITHOUT_EVALUATION,
        )
    return trained


def _require_agreement(totals: Sequence[_Total], steps: Sequence[_Step], name: str) -> None:
    """Refuse a log of several runs: their totals differ, are too many, or are no sum of the workers' last rates."""
    low, high = (pick(totals, key=lambda total: total.examples_per_sec) for pick in (min, max))
    if high.examples_per_sec > _SAME_RUN * low.examples_per_sec:
        raise TfperfError(f"{name}: the totals {low} and {high} images/sec can't be of one run", next_step=_ONE_RUN)
    if not steps:
        return
    *before, last = sorted({step.number for step in steps})
    speeds = [step.examples_per_sec for step in steps if step.number == last]
    if len(totals) > len(speeds):
        raise TfperfError(
            f"{name}: {len(totals)} totals, {totals[0]} to {totals[-1]}, but {len(speeds)} line(s) of the last step, "
            f"{last}: the log holds several runs",
            next_step=_ONE_RUN,
        )
    unseen = last - before[-1] - 1 if before else 9  # after the last line; lines are display_every apart
    slack = _CLOCKS + _UNEVEN * unseen / (last + unseen)
    mean = fmean(total.examples_per_sec for total in totals)
    rate, rounded = sum(speeds), _ROUNDED * (len(speeds) + 0.1)
    if not rate * (1 - slack - _BETWEEN_STEPS) - rounded <= mean <= rate * (1 + slack) + rounded:
        raise TfperfError(
            f"{name}: the total is {mean:g} images/sec, but the steps' own rates add up to {rate:g} at step {last}, "
            "and both are means since the first step",
            next_step="The log may hold several runs, or only some workers of one: give all lines of one run",
        )


def _why_no_total(lines: Sequence[tuple[int, str]], facts: Mapping[str, Fact], steps: Sequence[_Step]) -> str:
    """Why the log has no total: its mode, or its last line."""
    mode = facts.get(_MODE)
    if mode is not None and mode.value == "training + evaluation":
        return f"{mode}, and then tf_cnn_benchmarks prints no total. Replay a run without --eval_during_training_*"
    if not steps and not facts:
        return (
            "no line 'total images/sec: 56.57', which tf_cnn_benchmarks prints last, and no export of pytest-tfperf. "
            "Give the whole log of a run that completed"
        )
    number, line = next(pair for pair in reversed(lines) if pair[1].strip())
    return (
        "the run ended early, or its log is cut off: there is no line 'total images/sec:'. The last line, "
        f"{number}, is {shortened(line.strip(), 160)!r}. Replay a run that completed"
    )
