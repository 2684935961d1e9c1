"""`tfperf replay`: logs and exported measurements, judged as if they were measured now."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

from pytest_tfperf.console.arguments import Commands, add_command, checked
from pytest_tfperf.console.output import show, warn, width
from pytest_tfperf.console.session_settings import folder_setting
from pytest_tfperf.core import setting as parse
from pytest_tfperf.core.baseline import require_topology
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED, EXIT_USAGE
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.settings import Settings
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Consequence, Outcome, Reason, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, one_of
from pytest_tfperf.features.replay import tf_cnn_log
from pytest_tfperf.features.replay.tf_cnn_log import Log
from pytest_tfperf.judging.evidence import Evidence
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.session_effects import CommonDrift
from pytest_tfperf.judging.target import Target, require_same_unit, target_for
from pytest_tfperf.judging.validity import ALL_DISTURBED
from pytest_tfperf.lines import rendered
from pytest_tfperf.reports.measurement_table import counts, measurement_table
from pytest_tfperf.reports.message import message
from pytest_tfperf.stores import files as stored
from pytest_tfperf.stores import measurement_file
from pytest_tfperf.stores.baseline_file import BaselineStore


def add_to(commands: Commands) -> None:
    """Add the command."""
    command = add_command(
        commands,
        _run,
        "replay: judge logs or exported measurements as if measured now. The logs are those of tf_cnn_benchmarks",
        examples=(
            "tfperf replay run.log --machine=azure-nc6-dsvm --workload=resnet50-b64-horovod-device --topology=1x1",
            "kubectl logs my-pod | tfperf replay - --machine=dgx1-p100 --workload=resnet50-b64-replicated-device",
            "tfperf replay session.json --baselines=baselines",
        ),
        statuses={
            EXIT_GREEN: "all are PASS, IMPROVED or INCONCLUSIVE",
            EXIT_REGRESSED: "one is REGRESSED",
            EXIT_NOT_MEASURED: "none is REGRESSED; one is INVALID or TOO_NOISY, has no baseline or could not be read",
        },
    )
    command.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="FILE",
        help="logs as text or JSON lines, or files of `tfperf history --export`, also gzipped; - for standard input",
    )
    command.add_argument("--machine", metavar="NAME", help="judge against this machine's baselines (required for logs)")
    command.add_argument(
        "--workload",
        metavar="ID",
        help="workload of the logs, as in resnet50-b64-horovod-device (required for logs; their headers must agree)",
    )
    command.add_argument(
        "--topology",
        metavar="NxM",
        help="nodes x devices per node of the logs, as in 2x4 (default: what the log's header states, if on one node)",
    )
    command.add_argument("--only", choices=["training"], help="leave out evaluations that the logs also hold")
    command.add_argument(
        "--tolerance",
        type=checked(parse.tolerance),
        metavar="FRACTION",
        help="accepted change (default: the baseline's)",
    )
    command.add_argument(
        "--baselines",
        type=Path,
        metavar="DIR",
        help="folder of baselines (default: for logs the variable TFPERF_BASELINES, pytest's ini value "
        "tfperf_baselines, or baselines/; for exported measurements the recorded baseline)",
    )


def _run(arguments: argparse.Namespace) -> int:
    request = _request(arguments)
    measurements, refused = replay(arguments.files, request)
    for error in refused:
        warn(str(error))
    status = _status(measurements, is_refused=bool(refused))
    if measurements:
        try:
            show(*_report(measurements, len(refused), request.store))
        except OSError:
            if status != EXIT_REGRESSED:
                raise
            warn("the report can't be written, but one is REGRESSED")
    return status


def _request(arguments: argparse.Namespace) -> Request:
    folder: Path | None = arguments.baselines
    if folder is not None and not folder.is_dir():
        raise TfperfError(
            f"--baselines={folder}: there is no such folder",
            next_step="Name one that holds MACHINE.csv, or leave --baselines out",
        )
    # With neither, exported measurements are judged against the baselines that they were recorded with.
    named = folder or arguments.machine
    return Request(
        machine=arguments.machine or "",
        workload=Workload.parse(arguments.workload) if arguments.workload else None,
        topology=arguments.topology,
        store=BaselineStore(folder or folder_setting(Settings.baselines)) if named else None,
        tolerance=None if arguments.tolerance is None else Tolerance.of(arguments.tolerance),
        only_training=arguments.only is not None,
    )


def _report(measurements: Sequence[Measurement], refused: int, store: BaselineStore | None) -> list[str]:
    columns = width()
    texts: list[str] = []
    for measurement in measurements:
        if measurement.verdict:
            texts += [*rendered(message(measurement, hint=next_step(measurement, store)), columns), ""]
    count = counts(measurements) + (f", {refused} not judged" if refused else "")
    return [*texts, *map(str, measurement_table(measurements, columns)), "", count]


def _status(measurements: Sequence[Measurement], *, is_refused: bool) -> int:
    verdicts = [measurement.verdict for measurement in measurements if measurement.verdict]
    outcomes = {verdict.outcome for verdict in verdicts if verdict.if_slower is Consequence.FAILS}
    # Figures keep the verdicts that they were recorded with.
    outcomes |= {figure.outcome for measurement in measurements for figure in measurement.figures if figure.outcome}
    if Outcome.REGRESSED in outcomes:
        return EXIT_REGRESSED
    if is_refused and not measurements:
        return EXIT_USAGE
    unmeasured = {Outcome.INVALID, Outcome.NO_BASELINE, Outcome.TOO_NOISY}
    return EXIT_NOT_MEASURED if is_refused or outcomes & unmeasured else EXIT_GREEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The user's options for files to judge.

    Raises:
        TfperfError: the topology is not two numbers from 1.
    """

    machine: str = ""  # whose baselines count; "" for the machine that measured. A log does not name it
    workload: Workload | None = None  # of the logs; None without logs, because no log states all of it
    topology: str | None = None  # nodes x devices per node of the logs, as in "2x4"; None to use their headers'
    store: BaselineStore | None = None  # None: the row that each measurement was judged against when it was measured
    tolerance: Tolerance | None = None  # None: that of the store's row, then the measurement's, then the default
    only_training: bool = False  # leave out an evaluation's lines in a log

    def __post_init__(self) -> None:
        if self.topology is not None:
            require_topology(self.topology)


def replay(files: Iterable[Path], request: Request) -> tuple[list[Measurement], list[TfperfError]]:
    """Judge each measurement and log in the order of the files; returns them, and the errors of those that can't be."""
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
    """The log of a file, or its measurements."""
    text, name = stored.read(path), stored.shown(path)
    if measurement_file.is_measurement_file(text):
        return [
            replace(measurement, file=name) for measurement in measurement_file.parse(text, name, with_windows=True)
        ]
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
    workload, topology, store = request.workload, request.topology or log.topology, request.store
    assert workload is not None, "_read has refused a log without one"
    assert topology is not None, "_read has refused a log without one"
    assert store, "with a machine there is one"
    run = log.run(workload.batch_size * _device_count(topology))
    measurement = Measurement(
        test="",
        file=log.name,
        workload=workload,
        topology=topology,
        machine=request.machine,
        devices=topology,
        runs=(run,),
        throughput=summarise([run]),
    )
    target = _target(store, measurement)
    if log.on_cpus and target.baseline is not None and target.baseline.gpu:
        raise TfperfError(
            f"{log.name}: {log.on_cpus}, and the baseline of {request.machine} is of {target.baseline.gpu}",
            next_step="Name the machine that the log is of with --machine=NAME",
        )
    accepted = target.tolerance(request.tolerance, Tolerance())
    verdict = _judged(measurement, target, accepted, max_runs=1, tests=tests)
    return replace(measurement, document=target.document, verdicts=(verdict,))


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
        target = _target(store, recorded)
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
        return recorded, ALL_DISTURBED
    measurement = replace(recorded, runs=undisturbed, throughput=summarise(undisturbed))
    return measurement, _judged(measurement, target, tolerance, max_runs=len(undisturbed))


def _target(store: BaselineStore, m: Measurement) -> Target:
    """The baseline to judge against; of a log the GPUs' rates are not known, which a floor needs."""
    return target_for(
        store.load(m.machine),
        store.published(m.key),
        m.machine,
        m.key,
        gpu_fp32_tflops=m.gpu_fp32_tflops,
        gpu_memory_gb_per_sec=m.gpu_memory_gb_per_sec,
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
