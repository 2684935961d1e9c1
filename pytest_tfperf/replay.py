"""A log in the place of training: from a tf_cnn_benchmarks log to the same verdict, message and exit status."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pytest_tfperf.baseline import Key
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.record import Record
from pytest_tfperf.reference import reference_for
from pytest_tfperf.stores import tf_cnn_log
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.throughput import summarise
from pytest_tfperf.trial import Trial
from pytest_tfperf.verdict import Tolerance, judge
from pytest_tfperf.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a log is the log of.

    Args:
        machine: the machine's name, as its baselines' file has it.
        workload: what was trained.
        nodes: machines that trained together.
        devices: GPUs (or CPU devices) of each node.
        tolerance: the accepted change; None: the baseline's own, or the default.
    """

    machine: str
    workload: Workload
    nodes: int
    devices: int
    tolerance: Tolerance | None = None

    @property
    def topology(self) -> str:
        """Nodes x devices per node."""
        return f"{self.nodes}x{self.devices}"


def shape(text: str) -> tuple[int, int]:
    """ "2x4" as nodes and devices per node.

    Raises:
        TfperfError: it isn't two numbers from 1.
    """
    match = re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", text)
    if match is None:
        raise TfperfError(f"topology {text!r}: write nodes x devices per node, as in 2x4")
    return int(match[1]), int(match[2])


def replay(log: Path, of: Replay, store: BaselineStore, *, tests: int = 1) -> Record:
    """Judge what a log says; a log is one run, so nothing can be measured again to confirm it.

    Args:
        log: a tf_cnn_benchmarks log.
        of: what it is the log of.
        store: the baselines.
        tests: logs that are judged together, which share the false alarms.

    Raises:
        DocumentError: no such log in the file; names file and line.
        BaselineError: the machine's file can't be read.
    """
    parsed = tf_cnn_log.read(log)
    trial = Trial((parsed.attempt(of.workload.batch_size * of.nodes * of.devices),))
    throughput = summarise(trial)
    found = reference_for(store, of.machine, Key(of.workload.id, of.topology), gpu_fp32_tflops=None)
    accepted = found.tolerance(of.tolerance, Tolerance())
    return Record(
        test=str(log),
        workload=of.workload,
        topology=of.topology,
        machine=of.machine,
        devices=of.topology,
        trial=trial,
        throughput=throughput,
        verdict=judge(throughput, found.baseline, accepted, found.noise, tests=tests, most_runs=1),
        document=found.document,
    )
