"""Logs and exported measurements in the place of training: judged to the same verdict and message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_tfperf.bench.log_description import LogDescription, described, nearest, require_topology
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import NoBaseline, TfperfError, one_of
from pytest_tfperf.judging.common_drift import CommonDrift
from pytest_tfperf.judging.judge import Evidence, judge
from pytest_tfperf.judging.reference import Reference, reference_for, require_same_unit
from pytest_tfperf.stores import measurement_file, text_file, tf_cnn_log
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.tf_cnn_header import FP16
from pytest_tfperf.stores.tf_cnn_log import Log

_CHOSEN = (
    "this is the machine's only baseline that fits the log's header. The header does not state the precision: if it "
    "differs, give --workload=ID --topology=NxM"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How files are judged.

    Args:
        machine: whose baselines count, by name; "": those of the machine that measured, which a log does not name.
        workload: what the logs are of; None: what their headers say.
        topology: nodes x devices per node of the logs, as in "2x4"; None as above.
        store: the baselines; None: the row that each exported measurement was judged against when it was measured.
        tolerance: the accepted change; None: the one of then, or the default, unless the store's row has its own.
        only_training: leave out what an evaluation printed into a log.

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


@dataclass(frozen=True, slots=True)
class Judged:
    """A replayed measurement, and the next step that only the replay knows; "" for none."""

    measurement: Measurement
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of the files, in their order, and why some could not be judged."""

    judged: tuple[Judged, ...]
    refused: tuple[TfperfError, ...]


def replay(files: Iterable[Path], request: Request) -> Replay:
    """Judge logs and exported measurements; each file is read once, so that pipes can be replayed.

    Raises:
        TfperfError: nothing can be judged: a log without a machine, or baselines that can't be read.
    """
    read: list[Log | tuple[Measurement, ...] | TfperfError] = []
    for path in files:
        try:
            read.append(_read(path, request))
        except TfperfError as error:
            read.append(error)
    keys = _keys(next((item for item in read if isinstance(item, Log)), None), request)
    found = [_described(item, keys, request) if isinstance(item, Log) else item for item in read]
    logs = sum(isinstance(item, _DescribedLog) for item in found)
    done = [one for item in found for one in _judged_all(item, request, logs)]
    return Replay(
        tuple(one for one in done if isinstance(one, Judged)),
        tuple(one for one in done if isinstance(one, TfperfError)),
    )


@dataclass(frozen=True, slots=True)
class _DescribedLog:
    log: Log
    of: LogDescription


def _read(path: Path, request: Request) -> Log | tuple[Measurement, ...]:
    text, name = text_file.read(path), text_file.shown(path)
    if measurement_file.is_measurement_file(text):
        return tuple(replace(one, file=name) for one in measurement_file.parse(text, name))
    return tf_cnn_log.parse(text, name, only_training=request.only_training)


def _keys(log: Log | None, request: Request) -> Collection[Key]:
    """The machine's rows where there is a log to judge."""
    if log is None:
        return ()
    if not request.machine or request.store is None:
        raise TfperfError(f"{log.name} is a log, which does not name its machine: give --machine=NAME")
    return request.store.load(request.machine)


def _described(log: Log, keys: Collection[Key], request: Request) -> _DescribedLog | TfperfError:
    if not keys and (request.workload is None or request.topology is None) and request.store is not None:
        return NoBaseline(f"{log.name}: {_no_rows(request.machine, request.store)}")
    try:
        of = described(log, keys, machine=request.machine, workload=request.workload, topology=request.topology)
    except TfperfError as error:
        return error
    return _DescribedLog(log, of)


def _judged_all(
    item: _DescribedLog | tuple[Measurement, ...] | TfperfError, request: Request, logs: int
) -> Iterator[Judged | TfperfError]:
    """What comes of one file; a measurement that can't be judged does not hide the file's others."""
    if isinstance(item, TfperfError):
        yield item
        return
    for one in item if isinstance(item, tuple) else [item]:
        try:
            if isinstance(one, _DescribedLog):
                yield _judged_log(one, request, tests=logs)
            else:
                again = _replayed(one, request)
                yield Judged(again, _next_step(again, request.store))
        except TfperfError as error:
            yield error


def _judged_log(item: _DescribedLog, request: Request, *, tests: int) -> Judged:
    """Judge a log; it holds one run, so nothing can be measured again to confirm a slowdown.

    `tests` are the logs that are judged together, among which false alarms are shared.
    """
    assert request.store is not None, "_keys has refused a log without baselines"
    of, run = item.of, item.log.run(item.of.examples_per_step)
    found = _reference(request.store, of.machine, Key(of.workload.id, of.topology), None)
    measurement = Measurement(
        test="",
        file=item.log.name,
        workload=of.workload,
        topology=of.topology,
        machine=of.machine,
        devices=of.topology,
        runs=(run,),
        throughput=summarise([run]),
        document=found.document,
    )
    accepted = found.tolerance(request.tolerance, Tolerance())
    measurement = replace(measurement, verdict=_judged(measurement, found, accepted, max_runs=1, tests=tests))
    chosen = _CHOSEN if of.is_chosen and item.log.header.get(FP16) is None else ""
    return Judged(measurement, _next_step(measurement, request.store) or chosen)


def _next_step(measurement: Measurement, store: BaselineStore | None) -> str:
    """What to do where a replay found no baseline; "" where it found one.

    `store` is None where a measurement was judged against the row that it holds.
    """
    if measurement.verdict is None or measurement.verdict.outcome is not Outcome.NO_BASELINE:
        return ""
    if store is None:
        return "it was measured without a baseline: name a folder that has one with --baselines=DIR"
    rows = store.load(measurement.machine)
    if not rows:
        return _no_rows(measurement.machine, store)
    return nearest(measurement.machine, rows, f"{measurement.workload.id} on {measurement.topology}")


def _no_rows(machine: str, store: BaselineStore) -> str:
    return f"{one_of('machine', machine, store.machines())} Or name another folder with --baselines=DIR"


def _replayed(recorded: Measurement, request: Request) -> Measurement:
    """An exported measurement judged again from all of its runs; one that was only measured stays as it is."""
    then, store = recorded.verdict, request.store
    if store is not None:
        recorded = replace(recorded, machine=request.machine or recorded.machine)
        found = _reference(store, recorded.machine, recorded.key, recorded.gpu_fp32_tflops)
    elif then is not None:
        found = Reference(then.baseline, then.is_floor, then.noise, recorded.document)
    else:
        return recorded
    accepted = found.tolerance(request.tolerance, (then and then.tolerance) or Tolerance())
    measurement, verdict = _decided(recorded, found, accepted)
    return replace(measurement, document=found.document, verdict=verdict)


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
    if found.baseline is not None:
        require_same_unit(found.baseline, measurement.throughput)
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
