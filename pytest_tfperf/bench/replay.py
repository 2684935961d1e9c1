"""A log or a recorded trial in the place of training: to the same verdict, message and exit status."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.breakdown import breakdown
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.run import Trial
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.verdict import Outcome, Tolerance, Verdict
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import TfperfError, WorkloadError, one_of
from pytest_tfperf.judging.common_drift import NO_SHIFT, Shift
from pytest_tfperf.judging.judge import judge
from pytest_tfperf.judging.reference import Reference, reference_for
from pytest_tfperf.stores import tf_cnn_log, trial_file
from pytest_tfperf.stores.baselines import BaselineStore
from pytest_tfperf.stores.recording import Recording

_RUNS = "the log's one run"


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


def replay(log: Path, of: Replay, store: BaselineStore, *, tests: int = 1) -> Measurement:
    """Judge what a log says; a log is one run, so nothing can be measured again to confirm it.

    Args:
        log: a tf_cnn_benchmarks log.
        of: what it is the log of.
        store: the baselines.
        tests: logs that are judged together, which share the false alarms.

    Raises:
        DocumentError: no such log in the file; names file and line.
        WorkloadError: a model or an input pipeline that neither we nor the machine's rows know.
        BaselineError: the machine's file can't be read.
    """
    _check_names(of.workload, store.load(of.machine))
    parsed = tf_cnn_log.read(log)
    trial = Trial((parsed.attempt(of.workload.batch_size * of.nodes * of.devices),))
    throughput = summarise(trial)
    found = reference_for(store, of.machine, Key(of.workload.id, of.topology), gpu_fp32_tflops=None)
    accepted = found.tolerance(of.tolerance, Tolerance())
    return Measurement(
        test="",
        file=str(log),
        workload=of.workload,
        topology=of.topology,
        machine=of.machine,
        devices=of.topology,
        trial=trial,
        throughput=throughput,
        verdict=judge(throughput, found.baseline, accepted, found.noise, tests=tests, most_runs=1, runs_are=_RUNS),
        document=found.document,
    )


def _check_names(workload: Workload, rows: Iterable[Key]) -> None:
    """A log says nothing of its workload, so a name that nobody knows is a typing error.

    Raises:
        WorkloadError: no model or input pipeline of ours, and of none of the machine's rows; lists the known ones.
    """
    known = [Workload.parse(key.workload) for key in rows]  # users' names that their conftest.py registered
    for field, ours in (("model", catalogue.models()), ("input_pipeline", catalogue.pipelines())):
        name, good = getattr(workload, field), {*ours, *(getattr(row, field) for row in known)}
        if ":" not in name and name not in good:
            raise WorkloadError(f"{workload.id!r}: {one_of(field, name, good)}")


def files_of(paths: Iterable[Path]) -> list[Path]:
    """The files that are named, and the trials' files of each folder that is, in the order of their names.

    Raises:
        TfperfError: a folder that holds no trial.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise TfperfError(f"{path}: this folder holds no trial (*.json): name the one of --tfperf-save-trials")
        files += found
    return files


def replay_trial(
    path: Path, store: BaselineStore | None = None, *, machine: str = "", tolerance: Tolerance | None = None
) -> Measurement:
    """Judge a recorded trial as its night did: run by run, until its verdict wants no more or no more were recorded.

    Args:
        path: a file that `--tfperf-save-trials` wrote.
        store: baselines to judge it against; None: the row that it was judged against.
        machine: whose baselines of the store; "": those of the machine that it was recorded on.
        tolerance: the accepted change; None: what the test asked for, or the row, or the night's default.

    Raises:
        TfperfError: no such file, or not a whole recording; names file, place and next step.
        BaselineError: the machine's file can't be read.
    """
    recorded = trial_file.read(path)
    if store is None:
        machine = recorded.machine
        found = Reference(recorded.baseline, recorded.floor, recorded.noise, recorded.document)
    else:
        machine = machine or recorded.machine
        key = Key(recorded.workload.id, recorded.topology)
        found = reference_for(store, machine, key, gpu_fp32_tflops=recorded.gpu_fp32_tflops)
    accepted = found.tolerance(tolerance or recorded.tolerance, recorded.default_tolerance)
    trial, verdict = _judged(recorded, found, accepted)
    throughput = summarise(trial if trial.attempts else Trial(trial.set_aside))
    return Measurement(
        test=recorded.test,
        file=str(path),
        workload=recorded.workload,
        topology=recorded.topology,
        machine=machine,
        devices=recorded.devices,
        trial=trial,
        throughput=throughput,
        verdict=verdict,
        document=found.document,
        breakdown=breakdown(trial, throughput.images_per_sec, recorded.workload, recorded.device_data_images_per_sec),
        environment=recorded.environment,
        commit=recorded.commit,
        time=recorded.time,
        seconds=recorded.seconds,
    )


def where_baselines_are(record: Measurement, store: BaselineStore | None) -> str:
    """The next step where a replay found no baseline; "" where it found one.

    `store` is None where a trial was judged against what it had recorded.
    """
    if record.verdict is None or record.verdict.outcome is not Outcome.NO_BASELINE:
        return ""
    if store is None:
        return "it was recorded without one: name a folder that has one with --baselines=DIR (and --machine=NAME)"
    rows = store.load(record.machine)
    if not rows:
        found = one_of("machine", record.machine, store.machines())
        return f"{found} They lie in {store.places}: give one of them, or another folder with --baselines=DIR"
    found = f"{record.machine} has {len(rows)} rows in {store.places}, none of them {' '.join(record.key)}; "
    anew = "or record the row there with --update-baselines"
    if elsewhere := [key.topology for key in rows if key.workload == record.key.workload]:
        return f"{found}it has this workload on {', '.join(elsewhere)}: give one as --topology, {anew}"
    near = get_close_matches(record.key.workload, {key.workload for key in rows}, n=3, cutoff=0)
    return f"{found}the nearest are {', '.join(near)}: give one as --workload, {anew}"


def _judged(recorded: Recording, found: Reference, accepted: Tolerance) -> tuple[Trial, Verdict]:
    """The trial as far as the gate would have taken it, and what it would have said."""
    nights = recorded.nights if found.baseline == recorded.baseline else ()  # they were held against that row

    def verdict_on(trial: Trial, most_runs: int | None = None) -> Verdict:
        return judge(
            summarise(trial),
            found.baseline,
            accepted,
            found.noise,
            floor=found.floor,
            tests=recorded.tests,
            most_runs=most_runs,
            shift=NO_SHIFT if found.floor else Shift(recorded.credited, recorded.tests),
            nights=nights,
            hold=recorded.hold,
        )

    trial = Trial((), recorded.trial.set_aside)
    for attempt in recorded.trial.attempts:
        believed = trial.believed()  # a first run that was disturbed counts only as long as nothing more is wanted
        trial = Trial((*believed.attempts, attempt), believed.set_aside)
        verdict = verdict_on(trial)
        if verdict.runs_wanted <= len(trial.attempts):
            return trial, verdict
    trial = trial.believed()
    if recorded.invalid or not trial.attempts:
        reason = recorded.invalid or trial.set_aside[-1].disturbance
        return trial, Verdict(outcome=Outcome.INVALID, reason=f"INVALID: {reason}")
    return trial, verdict_on(trial, most_runs=len(trial.attempts))
