"""A log or exported measurements in the place of training: judged to the same verdict, message and exit status."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.judging.common_drift import CommonDrift
from pytest_tfperf.judging.judge import Evidence, judge
from pytest_tfperf.judging.reference import Reference, reference_for
from pytest_tfperf.stores import measurement_file, tf_cnn_log
from pytest_tfperf.stores.baselines import BaselineStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDescription:
    """What a log does not say itself.

    Args:
        machine: the machine's name, as its baselines' file has it.
        workload: what was trained.
        topology: nodes x devices per node, as in "2x4".

    Raises:
        TfperfError: the topology is not two numbers from 1.
    """

    machine: str
    workload: Workload
    topology: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[1-9]\d{0,3}x[1-9]\d{0,3}", self.topology, re.ASCII):
            raise TfperfError(f"topology {self.topology!r}: write nodes x devices per node, as in 2x4")

    @property
    def examples_per_step(self) -> int:
        """Batch size times devices, over all nodes."""
        nodes, devices = map(int, self.topology.split("x"))
        return self.workload.batch_size * nodes * devices


def replay_log(
    log: Path, of: LogDescription, store: BaselineStore, *, tolerance: Tolerance | None = None, tests: int = 1
) -> Measurement:
    """Judge a tf_cnn_benchmarks log; it holds one run, so nothing can be measured again to confirm a slowdown.

    Args:
        log: the file.
        of: what it is the log of.
        store: the baselines.
        tolerance: the accepted change; None: the baseline's own, or the default.
        tests: logs that are judged together, among which false alarms are shared.

    Raises:
        DocumentError: the file holds no whole log; names file and line.
        BaselineError: the machine's file can't be read.
    """
    run = tf_cnn_log.read(log, of.examples_per_step)
    found = _reference(store, of.machine, Key(of.workload.id, of.topology), None)
    measurement = Measurement(
        test="",
        file=str(log),
        workload=of.workload,
        topology=of.topology,
        machine=of.machine,
        devices=of.topology,
        runs=(run,),
        throughput=summarise([run]),
        document=found.document,
    )
    accepted = found.tolerance(tolerance, Tolerance())
    return replace(measurement, verdict=_judged(measurement, found, accepted, max_runs=1, tests=tests))


def replay_export(
    path: Path, store: BaselineStore | None = None, *, machine: str = "", tolerance: Tolerance | None = None
) -> list[Measurement]:
    """Judge the measurements of a file that `tfperf history --export` wrote, from all of their runs.

    Args:
        path: the file.
        store: baselines to judge them against; None: the row that each was judged against when it was measured.
        machine: whose baselines of the store; "": those of the machine that measured.
        tolerance: the accepted change; None: the one of then, unless the store's row has its own.

    Raises:
        TfperfError: no such file, or not a whole export; names file, place and next step.
        BaselineError: the machine's file can't be read.
    """
    return [_replayed(one, str(path), store, machine, tolerance) for one in measurement_file.read(path)]


def next_step(measurement: Measurement, store: BaselineStore | None) -> str:
    """What to do where a replay found no baseline; "" where it found one.

    `store` is None where a measurement was judged against the row that it holds.
    """
    if measurement.verdict is None or measurement.verdict.outcome is not Outcome.NO_BASELINE:
        return ""
    if store is None:
        return "it was measured without a baseline: name a folder that has one with --baselines=DIR"
    rows = {f"{key.workload} on {key.topology}" for key in store.load(measurement.machine)}
    if not rows:
        machine = one_of("machine", measurement.machine, store.machines())
        return f"{machine} Or name another folder with --baselines=DIR"
    near = get_close_matches(f"{measurement.workload.id} on {measurement.topology}", rows, n=3, cutoff=0)
    return f"{measurement.machine} has {len(rows)} rows; the nearest are {', '.join(near)}"


def _replayed(
    recorded: Measurement, file: str, store: BaselineStore | None, machine: str, tolerance: Tolerance | None
) -> Measurement:
    then = recorded.verdict
    if store is not None:
        recorded = replace(recorded, machine=machine or recorded.machine)
        found = _reference(store, recorded.machine, recorded.key, recorded.gpu_fp32_tflops)
    elif then is not None:
        found = Reference(then.baseline, then.is_floor, then.noise, recorded.document)
    else:  # only measured, so there is nothing to judge again
        return replace(recorded, file=file)
    accepted = found.tolerance(tolerance, (then and then.tolerance) or Tolerance())
    measurement, verdict = _decided(recorded, found, accepted)
    return replace(measurement, file=file, document=found.document, verdict=verdict)


def _decided(recorded: Measurement, found: Reference, tolerance: Tolerance) -> tuple[Measurement, Verdict]:
    """The verdict, and the measurement with the runs that it rests on; no further run can be had."""
    if recorded.runs:
        verdict = _judged(recorded, found, tolerance)
        if verdict.is_decided:
            return replace(recorded, throughput=summarise(recorded.runs)), verdict
    undisturbed = tuple(run for run in recorded.runs if run.disturbance is None)
    gave_up = recorded.verdict is not None and recorded.verdict.reason is Reason.DISTURBED
    if gave_up or not undisturbed:
        return recorded, Verdict(outcome=Outcome.INVALID, reason=Reason.DISTURBED)
    measurement = replace(recorded, runs=undisturbed, throughput=summarise(undisturbed))
    return measurement, _judged(measurement, found, tolerance, max_runs=len(undisturbed))


def _reference(store: BaselineStore, machine: str, key: Key, gpu_fp32_tflops: float | None) -> Reference:
    published = store.published_like(key)
    return reference_for(store.load(machine), published, machine, key, gpu_fp32_tflops=gpu_fp32_tflops)


def _judged(
    measurement: Measurement, found: Reference, tolerance: Tolerance, *, max_runs: int | None = None, tests: int = 1
) -> Verdict:
    """The verdict on the measurement's runs; pairs and drift count only against the row that they were measured for."""
    then = measurement.verdict
    evidence = Evidence(
        throughput=summarise(measurement.runs), reference=found, tolerance=tolerance, tests=tests, max_runs=max_runs
    )
    if then is not None:
        evidence = replace(evidence, tests=then.tests, suspects=then.tests)
    if then is not None and then.baseline == found.baseline:
        evidence = replace(
            evidence,
            pairs=measurement.pairs,
            has_reference_environment=bool(measurement.pairs),
            drift=CommonDrift(then.common_drift, then.tests),
        )
    return judge(evidence)
