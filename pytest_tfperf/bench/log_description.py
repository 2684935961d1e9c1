"""Finds out what a log is of: its header, the command line and the machine's baselines must agree."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.workload import AllReduce, Precision, VariableUpdate, Workload
from pytest_tfperf.errors import NoBaseline, TfperfError
from pytest_tfperf.stores import tf_cnn_header as header
from pytest_tfperf.stores.tf_cnn_header import Header
from pytest_tfperf.stores.tf_cnn_log import Log

_UPDATES = {update.value: update for update in VariableUpdate} | {
    "collective_all_reduce": VariableUpdate.COLLECTIVE,
    "distributed_all_reduce": VariableUpdate.COLLECTIVE,
}
"""Our names for tf_cnn_benchmarks' values; we have no name for its other ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    """What a log is of.

    Args:
        log: the log.
        workload: what was trained.
        topology: nodes x devices per node, as in "2x4".
        is_chosen: the user did not name the workload; it is that of the only baseline that fits the log's header.
    """

    log: Log
    workload: Workload
    topology: str
    is_chosen: bool = False

    @property
    def examples_per_step(self) -> int:
        """Batch size times devices, over all nodes."""
        return self.workload.batch_size * _device_count(self.topology)


def describe(
    log: Log, rows: Collection[Key], *, machine: str, workload: Workload | None = None, topology: str | None = None
) -> LogDescription:
    """The description of a log. What the user does not give is taken from the only baseline that fits the log.

    The header alone is not enough: it lacks the precision, and the number of nodes if Horovod was used.

    Args:
        log: the log.
        rows: the keys of the machine's baselines.
        machine: the machine's name.
        workload: what the user says was trained; None to choose.
        topology: nodes x devices per node as the user gave them, checked before; None to choose.

    Raises:
        TfperfError: the log's header contradicts the user, or says too little to choose, or several baselines fit.
        NoBaseline: no baseline fits.
    """
    if found := list(_contradictions(log.header, workload, topology)):
        raise TfperfError(
            f"{log.name} is of something else: {'; '.join(found)}. Correct the options, or leave them out where the "
            "log's header has it all"
        )
    if workload is not None and topology is None:
        topology = _on_one_node(log.header)
    if workload is not None and topology is not None:
        return LogDescription(log=log, workload=workload, topology=topology)
    given = Key(workload.id if workload else "", topology or "")
    _require_header(log, given)
    fits = [row for row in rows if _fits(log.header, row, given)]
    if len(fits) == 1:
        chosen = Workload.parse(fits[0].workload)
        return LogDescription(log=log, workload=chosen, topology=fits[0].topology, is_chosen=workload is None)
    if fits:
        shown = ", ".join(f"{row.workload} on {row.topology}" for row in fits)
        raise TfperfError(f"{log.name} fits {len(fits)} baselines of {machine}: {shown}. {_give(given)}")
    raise NoBaseline(
        f"{log.name} fits no baseline: its header says {_summary(log.header)}. "
        f"{nearest(machine, rows, _wanted(log))}. {_give(given)}, or another folder with --baselines=DIR"
    )


def nearest(machine: str, rows: Collection[Key], wanted: str) -> str:
    """The machine's rows that resemble the wanted one most: "box has 2 rows; the nearest are ..."."""
    near = get_close_matches(wanted, [f"{row.workload} on {row.topology}" for row in rows], n=3, cutoff=0)
    return f"{machine} has {len(rows)} rows; the nearest are {', '.join(near)}"


def _contradictions(stated: Header, workload: Workload | None, topology: str | None) -> Iterator[str]:
    """Each fact on which the log and the user disagree, with both sides."""
    if workload is not None:
        for name, ours, agree in _compared(stated, workload):
            if not agree:
                yield f"{stated.facts[name]}, --workload says {ours}"
    count = stated.device_count
    if topology is not None and count is not None and count != _device_count(topology):
        yield f"{_devices_stated(stated)}, --topology={topology} says {_device_count(topology)}"


def _compared(stated: Header, workload: Workload) -> Iterator[tuple[str, str, bool]]:
    """For each fact about the workload in the log: its name, our value, and whether the two agree."""
    if model := stated.get(header.MODEL):
        yield header.MODEL, workload.model, _plain(model) == _plain(workload.model.rpartition(":")[2])
    if mode := stated.get(header.MODE):
        ours = header.FORWARD_ONLY if workload.forward_only else header.TRAINING
        yield header.MODE, ours, mode == ours
    if batch := stated.batch_per_device:
        yield header.BATCH, str(workload.batch_size), batch == workload.batch_size
    if update := stated.get(header.VARIABLES):
        yield header.VARIABLES, workload.variable_update.value, _UPDATES.get(update) is workload.variable_update
    if (
        workload.variable_update is VariableUpdate.REPLICATED and stated.device_count != 1
    ):  # one device has no all-reduce
        for name, nccl in ((header.ALL_REDUCE, "nccl"), (header.USE_NCCL, "True")):
            if sums := stated.get(name):
                ours = workload.all_reduce
                yield name, f"all_reduce={ours.value}", sums.startswith(nccl) is (ours is AllReduce.NCCL)
    if (optimizer := stated.get(header.OPTIMIZER)) and not workload.forward_only:
        yield header.OPTIMIZER, workload.optimizer.value, optimizer == workload.optimizer.value
    if dataset := stated.get(header.DATASET):
        yield header.DATASET, f"input_pipeline={workload.input_pipeline}", _same_data(dataset, workload)
    if fp16 := stated.get(header.FP16):
        ours = workload.precision
        yield header.FP16, ours.value, (fp16 == "True") is (ours is Precision.MIXED_FLOAT16)


def _same_data(dataset: str, workload: Workload) -> bool:
    """tf_cnn_benchmarks makes synthetic images once, on the device; a user's own pipeline may read anything."""
    pipeline = workload.input_pipeline
    if dataset.endswith("(synthetic)"):
        return pipeline not in catalogue.pipelines() or not catalogue.data_set_of(pipeline)
    return pipeline != "device"


def _fits(stated: Header, row: Key, given: Key) -> bool:
    if given.workload not in ("", row.workload) or given.topology not in ("", row.topology):
        return False
    subject = _subject(row.workload)
    return isinstance(subject, Workload) and not any(_contradictions(stated, subject, row.topology))


_subject = cache(parse_subject)
"""Thousands of logs are compared with the same rows."""


def _require_header(log: Log, given: Key) -> None:
    """Require the whole header, because a part of it could lead to the wrong baseline.

    Raises:
        TfperfError: names what the log does not state.
    """
    wanted = [header.MODEL, header.MODE, header.BATCH, header.DEVICES, header.VARIABLES]
    stated = log.header.facts.keys() - ([header.BATCH] if log.header.batch_per_device is None else [])
    missing = [name for name in wanted if name not in stated]
    if len(missing) == len(wanted):
        raise TfperfError(f"{log.name} has no header that says what it is of. {_give(given)}")
    if missing:
        raise TfperfError(f"{log.name}: its header does not state {', '.join(missing)}. {_give(given)}")


def _give(given: Key) -> str:
    missing = [] if given.workload else ["--workload=ID"]
    missing += [] if given.topology else ["--topology=NxM"]
    return f"Give {' and '.join(missing)}"


def _summary(stated: Header) -> str:
    """ "alexnet, forward only, 64 per device, 8 device(s), replicated, imagenet"."""
    facts = [stated.get(header.MODEL), stated.get(header.MODE), f"{stated.batch_per_device} per device"]
    facts += [f"{stated.device_count or 'unknown'} device(s)", stated.get(header.VARIABLES), stated.get(header.DATASET)]
    return ", ".join(filter(None, facts))


def _wanted(log: Log) -> str:
    """The name that a row for the log would have, to find similar ones."""
    stated = log.header
    update = stated.get(header.VARIABLES)
    return f"{stated.get(header.MODEL)}-b{stated.batch_per_device}-{update}-device on 1x{stated.device_count}"


def _on_one_node(stated: Header) -> str | None:
    """The topology if all of the log's devices are on one node; None if there may be more nodes."""
    count = len(stated.devices)
    may_be_many = count > 1 and "horovod" in stated.devices[0]
    return f"1x{count}" if stated.has_all_devices and not may_be_many else None


def _devices_stated(stated: Header) -> str:
    name = header.DEVICES if stated.has_all_devices else header.GLOBAL_BATCH
    return f"line {stated.facts[name].line} says {stated.device_count} device(s)"


def _device_count(topology: str) -> int:
    nodes, devices = map(int, topology.split("x"))
    return nodes * devices


def _plain(model: str) -> str:
    """A model's name without punctuation: resnet50_v1.5 and resnet50-v1-5 are the same model."""
    return re.sub(r"[^a-z0-9]", "", model.lower())
