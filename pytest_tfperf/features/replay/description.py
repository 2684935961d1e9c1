"""The workload and topology of a log: the user names them, and the log's header must not contradict them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_tfperf.core.workload import AllReduce, Precision, VariableUpdate, Workload
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.replay import tf_cnn_header as header
from pytest_tfperf.features.replay.tf_cnn_header import Header
from pytest_tfperf.features.replay.tf_cnn_log import Log
from pytest_tfperf.workers import catalogue

_UPDATES = {update.value: update for update in VariableUpdate} | {
    "collective_all_reduce": VariableUpdate.COLLECTIVE,
    "distributed_all_reduce": VariableUpdate.COLLECTIVE,
}
"""tf_cnn_benchmarks' values with a name of ours."""


@dataclass(frozen=True, slots=True)
class LogDescription:
    """A log with its workload and topology.

    Args:
        log: the log.
        workload: the trained workload.
        topology: nodes x devices per node, as in "2x4".
    """

    log: Log
    workload: Workload
    topology: str

    @property
    def examples_per_step(self) -> int:
        """Batch size times devices, over all nodes."""
        return self.workload.batch_size * _device_count(self.topology)


def describe(log: Log, workload: Workload, topology: str | None) -> LogDescription:
    """Check the user's workload and topology against a log.

    Args:
        log: the log.
        workload: the user's; no header states all of it, such as the precision.
        topology: nodes x devices per node as the user gave them, checked before; None to use the header's.

    Raises:
        TfperfError: the log's header contradicts the user, or does not state the topology.
    """
    if faults := list(_contradictions(log.header, workload, topology)):
        raise TfperfError(f"{log.name} is of something else: {'; '.join(faults)}", next_step="Correct the options")
    topology = topology or log.header.topology
    if topology is None:
        raise TfperfError(
            f"{log.name} does not state how many nodes and devices it ran on", next_step="Give --topology=NxM"
        )
    return LogDescription(log, workload, topology)


def _contradictions(stated: Header, workload: Workload, topology: str | None) -> Iterator[str]:
    """Each fact on which the log and the user disagree, with both sides."""
    for name, ours, agree in _compared(stated, workload):
        if not agree:
            yield f"{stated.facts[name]}, --workload says {ours}"
    count = stated.device_count
    if topology is not None and count is not None and count != _device_count(topology):
        yield f"{_devices_stated(stated)}, --topology={topology} says {_device_count(topology)}"


def _compared(stated: Header, workload: Workload) -> Iterator[tuple[str, str, bool]]:
    """For each fact about the workload in the log: its name, our value, and whether they agree."""
    if model := stated.get(header.MODEL):
        yield header.MODEL, workload.model, _plain(model) == _plain(workload.model.rpartition(":")[2])
    if mode := stated.get(header.MODE):
        ours = header.FORWARD_ONLY if workload.forward_only else header.TRAINING
        yield header.MODE, ours, mode == ours
    if batch := stated.batch_per_device:
        yield header.BATCH, str(workload.batch_size), batch == workload.batch_size
    if update := stated.get(header.VARIABLES):
        yield header.VARIABLES, workload.variable_update.value, _UPDATES.get(update) is workload.variable_update
    exchanges = workload.variable_update is VariableUpdate.REPLICATED and stated.device_count != 1
    if exchanges:  # a single device has no all-reduce
        for name, nccl in ((header.ALL_REDUCE, "nccl"), (header.USE_NCCL, "True")):
            if sums := stated.get(name):
                ours = workload.all_reduce
                yield name, f"all_reduce={ours.value}", sums.startswith(nccl) is (ours is AllReduce.NCCL)
    for name, ours in ((header.SYNC, "True"), (header.STAGED, "False")):
        if (waits := stated.get(name)) and not workload.forward_only:
            yield name, "synchronous training", waits == ours
    if (optimizer := stated.get(header.OPTIMIZER)) and not workload.forward_only:
        yield header.OPTIMIZER, workload.optimizer.value, optimizer == workload.optimizer.value
    if dataset := stated.get(header.DATASET):
        yield header.DATASET, f"input_pipeline={workload.input_pipeline}", _same_data(dataset, workload)
    if fp16 := stated.get(header.FP16):
        ours = workload.precision
        yield header.FP16, ours.value, (fp16 == "True") is (ours is Precision.MIXED_FLOAT16)


def _same_data(dataset: str, workload: Workload) -> bool:
    """Whether the input agrees: tf_cnn_benchmarks' synthetic images are on the device; a user's may be anything."""
    pipeline = workload.input_pipeline
    if dataset.endswith("(synthetic)"):
        return pipeline not in catalogue.names("pipelines") or not catalogue.data_set_of(pipeline)
    return pipeline != "device"


def _devices_stated(stated: Header) -> str:
    name = header.DEVICES if stated.has_all_devices else header.GLOBAL_BATCH
    return f"line {stated.facts[name].line} says {stated.device_count} device(s)"


def _device_count(topology: str) -> int:
    nodes, devices = map(int, topology.split("x"))
    return nodes * devices


def _plain(model: str) -> str:
    """A model's name without punctuation: resnet50_v1.5 and resnet50-v1-5 are the same model."""
    return re.sub(r"[^a-z0-9]", "", model.lower())
