"""Judges logs and exported measurements as if they had just been measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from pytest_tfperf.core.baseline import Key, require_topology
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.features.replay import tf_cnn_log
from pytest_tfperf.features.replay.tf_cnn_log import Log
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.session_effects import CommonDrift
from pytest_tfperf.judging.target import Target, require_same_unit, target_for
from pytest_tfperf.judging.validity import invalid
from pytest_tfperf.stores import files as stored
from pytest_tfperf.stores import measurement_file
from pytest_tfperf.stores.baseline_file import BaselineStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The user's options for files to judge.

    Args:
        machine: name of the machine whose baselines count; "" for the machine that measured. A log does not name it.
        workload: of the logs; None without logs, because no log states all of it.
        topology: nodes x devices per node of the logs, as in "2x4"; None to use their headers'.
        store: the baselines; None to use the row that each measurement was judged against when it was measured.
        tolerance: the accepted change; None to use that of the store's row, then the measurement's, then the default.
        only_training: leave out an evaluation's lines in a log.

    Raises:
        TfperfError: the topology is not two numbers from 1.
    """

    machine: str = ""
    workload: Workload | None = None
    topology: str | None = None
    store: BaselineStore | None = None
    tolerance: Tolerance | None = None
    only_training: bool = False

    def __post_init__(self) -> None:
        if self.topology is not None:
            require_topology(self.topology)


def replay(files: Iterable[Path], request: Request) -> tuple[list[Measurement], list[TfperfError]]:
    """Judge each measurement and log, in the order of the files; returns them, and the errors of those that can't be.

    Args:
        files: text logs, or exported measurements.
        request: as `Request` says.
    """
    found: list[Log | Measurement] = []
    judged: list[Measurement] = []
    refused: list[TfperfError] = []
    for path in files:
        try:
            found += _read(path, request)
        except TfperfError as error:
            refused.append(error)
    logs = sum(isinstance(entry, Log) for entry in found)
    for entry in found:
        try:
            match entry:
                case Log():
                    judged.append(_judged_log(entry, request, tests=logs))
                case Measurement():
                    judged.append(_judged_again(entry, request))
        except TfperfError as error:
            refused.append(error)
    return judged, refused


def _read(path: Path, request: Request) -> Sequence[Log | Measurement]:
    """The log of a file, or its measurements.

    Raises:
        TfperfError: neither can be read, or the log is not that of the request's workload and topology.
    """
    text, name = stored.read(path), stored.shown(path)
    if measurement_file.is_measurement_file(text):
        return [replace(measurement, file=name) for measurement in measurement_file.parse(text, name)]
    log = tf_cnn_log.parse(text, name, only_training=request.only_training)
    if not request.machine:
        raise TfperfError(f"{name} is a log, which does not name its machine: give --machine=NAME")
    if request.workload is None:
        raise TfperfError(
            f"{name} is a log, which does not state all that it trained with, such as the precision: give "
            "--workload=ID, as in resnet50-b64-horovod-device"
        )
    devices = None if request.topology is None else _device_count(request.topology)
    if faults := "; ".join(log.contradictions(request.workload, devices)):
        raise TfperfError(f"{name} is of something else: {faults}", next_step="Correct the options")
    if request.topology is None and log.topology is None:
        raise TfperfError(
            f"{name} does not state how many nodes and devices it ran on", next_step="Give --topology=NxM"
        )
    return [log]


def _device_count(topology: str) -> int:
    return math.prod(map(int, topology.split("x")))


def _judged_log(log: Log, request: Request, *, tests: int) -> Measurement:
    """Judge a log. It holds a single run, and nothing can be measured again to confirm a slowdown.

    `tests` is the number of logs that are judged together, which share the false-alarm rate.
    """
    topology = request.topology or log.topology
    assert topology, "_read has refused a log without one"
    assert request.workload, "_read has refused a log without one"
    assert request.store, "with a machine there is one"
    run = log.run(request.workload.batch_size * _device_count(topology))
    target = _target(request.store, request.machine, Key(request.workload.id, topology))
    if log.on_cpus and target.baseline is not None and target.baseline.gpu:
        raise TfperfError(
            f"{log.name}: {log.on_cpus}, and the baseline of {request.machine} is of {target.baseline.gpu}",
            next_step="Name the machine that the log is of with --machine=NAME",
        )
    measurement = Measurement(
        test="",
        file=log.name,
        workload=request.workload,
        topology=topology,
        machine=request.machine,
        devices=topology,
        runs=(run,),
        throughput=summarise([run]),
        document=target.document,
    )
    accepted = target.tolerance(request.tolerance, Tolerance())
    return replace(measurement, verdicts=(_judged(measurement, target, accepted, max_runs=1, tests=tests),))


def next_step(measurement: Measurement, store: BaselineStore | None) -> str:
    """The next step for a measurement without a baseline; "" with one.

    `store` is None if the measurement was judged against the row that it holds.
    """
    if measurement.verdict is None or measurement.verdict.outcome is not Outcome.NO_BASELINE:
        return ""
    if store is None:
        return "it was measured without a baseline: name a folder that has one with --baselines=DIR"
    rows = store.load(measurement.machine)
    if not rows:
        known = one_of("machine", measurement.machine, store.machines())
        return f"{known} Or name another folder with --baselines=DIR"
    wanted = f"{measurement.workload.id} on {measurement.topology}"
    near = get_close_matches(wanted, [f"{row.workload} on {row.topology}" for row in rows], n=3, cutoff=0)
    return f"{measurement.machine} has {len(rows)} rows; the nearest are {', '.join(near)}"


def _judged_again(recorded: Measurement, request: Request) -> Measurement:
    """Judge an exported measurement again, from all of its runs; without a verdict it stays as it is."""
    then, store = recorded.verdict, request.store
    if store is not None:
        recorded = replace(recorded, machine=request.machine or recorded.machine)
        target = _target(store, recorded.machine, recorded.key, recorded)
    elif then is not None:
        target = Target(then.baseline, then.is_floor, then.noise, recorded.document)
    else:
        return recorded
    accepted = target.tolerance(request.tolerance, (then and then.tolerance) or Tolerance())
    measurement, verdict = _decided(recorded, target, accepted)
    return replace(measurement, document=target.document, verdicts=(verdict, *recorded.figures))


def _decided(recorded: Measurement, target: Target, tolerance: Tolerance) -> tuple[Measurement, Verdict]:
    """The verdict, and the measurement with the runs that it is based on; no further run is possible."""
    if recorded.runs:
        verdict = _judged(recorded, target, tolerance)
        if verdict.is_decided:
            return replace(recorded, throughput=summarise(recorded.runs)), verdict
    undisturbed = tuple(run for run in recorded.runs if run.disturbance is None)
    gave_up = recorded.verdict is not None and recorded.verdict.reason is Reason.DISTURBED
    if gave_up or not undisturbed:
        return recorded, invalid(None)
    measurement = replace(recorded, runs=undisturbed, throughput=summarise(undisturbed))
    return measurement, _judged(measurement, target, tolerance, max_runs=len(undisturbed))


def _target(store: BaselineStore, machine: str, key: Key, of: Measurement | None = None) -> Target:
    """The baseline to judge against. Only a measurement has its GPUs' rates, which a floor needs."""
    return target_for(
        store.load(machine),
        store.published(key),
        machine,
        key,
        gpu_fp32_tflops=None if of is None else of.gpu_fp32_tflops,
        gpu_memory_gb_per_sec=None if of is None else of.gpu_memory_gb_per_sec,
    )


def _judged(
    measurement: Measurement, target: Target, tolerance: Tolerance, *, max_runs: int | None = None, tests: int = 1
) -> Verdict:
    """The verdict on the measurement's runs; pairs and drift count only if it is judged against the same row again."""
    then = measurement.verdict
    if target.baseline is not None:
        require_same_unit(target.baseline, measurement.throughput.unit)
    evidence = Evidence(
        throughput=summarise(measurement.runs), target=target, tolerance=tolerance, tests=tests, max_runs=max_runs
    )
    if then is not None:
        evidence = replace(evidence, tests=then.tests, suspects=then.tests)
    if then is not None and then.baseline == target.baseline:
        evidence = replace(
            evidence,
            pairs=measurement.pairs,
            has_reference_environment=bool(measurement.pairs),
            drift=CommonDrift(then.common_drift, then.tests),
        )
    return judge(evidence)
