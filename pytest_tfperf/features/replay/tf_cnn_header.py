"""The header of tf_cnn_benchmarks' logs: model, mode, batch size, devices, variables.

Format: tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py, `print_info`. Under Horovod every worker
prints it. The precision is not in it, but in the command line, where the log shows that, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pytest_tfperf.errors import DocumentError

EVALUATION = "evaluation"
TRAINING = "training"
TRAINING_AND_EVALUATION = "training + evaluation"
FORWARD_ONLY = "forward only"

MODEL, DATASET, MODE, BATCHES = "Model", "Dataset", "Mode", "Num batches"
BATCH, GLOBAL_BATCH = "Batch size per device", "Batch size, global"
DEVICES, OPTIMIZER, FP16 = "Devices", "Optimizer", "--use_fp16"
VARIABLES, ALL_REDUCE, USE_NCCL = "Variables", "AllReduce", "Use NCCL"
SYNC, STAGED = "Sync", "Staged vars"

# Several workers' lines can run into each other: a value ends before the next label.
_END = r"(?=[\s\"\\]|$|[A-Z])"
_VALUES = {
    MODEL: rf"\bModel:[ \t]+([a-z][a-z0-9_.]*){_END}",
    DATASET: rf"\bDataset:[ \t]+([a-z][a-z0-9_]*(?: \(synthetic\))?){_END}",
    MODE: rf"\bMode:[ \t]+(training \+ evaluation|training|evaluation|forward[- ]only){_END}",
    GLOBAL_BATCH: r"\bBatch size:[ \t]+(\d{1,9})(?:\.0)? global\b",
    BATCH: r"(?<![\w.])(\d{1,9})(?:\.0)? per device\b",
    BATCHES: r"\bNum batches:[ \t]+(\d{1,12})",
    DEVICES: r"\bDevices:[ \t]+(\[[^\]]+\])",
    OPTIMIZER: rf"\bOptimizer:[ \t]+([a-z][a-z0-9_]*){_END}",
    VARIABLES: rf"\bVariables:[ \t]+([a-z][a-z0-9_]*){_END}",
    ALL_REDUCE: r"\bAllReduce:[ \t]+([A-Za-z][\w#:/-]*)",
    USE_NCCL: r"\bUse NCCL:[ \t]+(True|False)",  # in 2017
    SYNC: r"\bSync:[ \t]+(True|False)",  # where it has several jobs
    STAGED: r"\bStaged vars:[ \t]+(True|False)",
    # Of a command line, not of a sentence that names the program.
    FP16: r"(?:\btf_cnn_benchmarks\.py|-m\W+[\w.]*\btf_cnn_benchmarks|/tf_cnn_benchmarks)\b"
    r".*?[\s'\"]--?(no)?use_fp16\b(?:[= ]'?\"?(\w+))?",
}
_PATTERNS = {name: re.compile(pattern, re.ASCII) for name, pattern in _VALUES.items()}
_LIKELY = re.compile(
    r"(?:Model|Dataset|Mode|Batch size|Num batches|Devices|Optimizer|Variables|AllReduce|Use NCCL|Sync|Staged vars)"
    r":[ \t]|per device|tf_cnn_benchmarks"
)
_LONG = 100_000  # characters of a line: the names of 4,000 devices
_FALSE = ("0", "f", "false", "n", "no")


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of the header, and its line in the log."""

    name: str
    value: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line} says {self.name}: {self.value}"


@dataclass(frozen=True, slots=True)
class Header:
    """The facts that a log states about its run; none without a header."""

    facts: Mapping[str, Fact] = field(default_factory=dict)

    def get(self, name: str) -> str | None:
        """The value of that name; None where the log does not state it."""
        fact = self.facts.get(name)
        return fact.value if fact else None

    @property
    def devices(self) -> tuple[str, ...]:
        """TensorFlow's names of the devices: all of a Horovod job, else those of one worker."""
        return tuple(re.findall(r"'([^']*)'", self.get(DEVICES) or ""))

    @property
    def has_all_devices(self) -> bool:
        """Whether `devices` are all of the run; with parameter servers they are a single worker's."""
        over_all = all("horovod" in device for device in self.devices)
        local = not any("job:" in device for device in self.devices) and self.get(VARIABLES) != "horovod"
        return bool(self.devices) and (over_all or local)

    @property
    def on_cpus(self) -> bool:
        """Whether the devices that it states are CPUs."""
        return bool(self.devices) and all("cpu" in device.lower() for device in self.devices)

    @property
    def topology(self) -> str | None:
        """ "1x4" if all of the run's devices are stated and on one node; None if there may be more nodes."""
        may_be_many = len(self.devices) > 1 and "horovod" in self.devices[0]
        is_stated = self.has_all_devices and self.get(VARIABLES) is not None
        return f"1x{len(self.devices)}" if is_stated and not may_be_many else None

    @property
    def device_count(self) -> int | None:
        """Devices over all nodes; None where it can't be known."""
        if self.has_all_devices:
            return len(self.devices)
        batch, over_all = self.batch_per_device, self.get(GLOBAL_BATCH)
        if batch is None or over_all is None:
            return None
        count = int(over_all) // batch
        return count if count > len(self.devices) else None

    @property
    def batch_per_device(self) -> int | None:
        """Images per device and step; None where it is not stated, or by an old version that divided wrongly."""
        stated = self.get(BATCH)
        if stated is None or int(stated) == 0 or not (self.has_all_devices or self.get(BATCHES)):
            return None
        return int(stated)


def facts_of(line: str, number: int) -> Iterator[Fact]:
    """The facts in a line; several where workers' lines ran into each other."""
    if not _LIKELY.search(line):
        return
    for name, pattern in _PATTERNS.items():
        for match in pattern.finditer(line[:_LONG]):
            yield Fact(name, _plain(name, match), number)


def header_of(facts: Iterable[Fact], name: str, *, only_training: bool = False) -> Header:
    """The header of a run, from the facts of all workers in the order of their lines.

    Args:
        facts: by `facts_of`.
        name: the log, for messages.
        only_training: leave out a header whose mode is evaluation.

    Raises:
        DocumentError: two facts contradict each other, so the file holds several runs; names both lines.
    """
    by_name: dict[str, Fact] = {}
    for block in _blocks(facts):
        if only_training and {fact.value for fact in block if fact.name == MODE} == {EVALUATION}:
            continue
        for fact in block:
            first = by_name.setdefault(fact.name, fact)
            if _comparable(first.value) != _comparable(fact.value):
                raise DocumentError(
                    f"{name}: {first}, and {fact}: the log holds several runs", next_step=_one_run(first, fact)
                )
    return Header(by_name)


def _blocks(facts: Iterable[Fact]) -> list[list[Fact]]:
    """The facts of each header, which begins with the model's name."""
    blocks: list[list[Fact]] = [[]]
    for fact in facts:
        if fact.name == MODEL:
            blocks.append([])
        blocks[-1].append(fact)
    return blocks


def _plain(name: str, match: re.Match[str]) -> str:
    if name == MODE:
        return match[1].replace("-", " ")
    if name == FP16:
        return str(not (match[1] or (match[2] or "").lower() in _FALSE))
    return match[1]


def _comparable(value: str) -> str:
    """A value without task numbers: each worker of a job names its devices by its own."""
    return re.sub(r"task:?\d+", "task", value)


def _one_run(*facts: Fact) -> str:
    if {fact.value for fact in facts} == {TRAINING, EVALUATION}:
        return "Leave the evaluation out with --only=training"
    return "Give each run's log as a file of its own"
