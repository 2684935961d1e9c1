"""The target of a measurement: the machine's own row, a document's figure as a floor, or earlier sessions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.measurement import BY_OUTPUT, MEASURED, recorded_with
from pytest_tfperf.core.past import EarlierMeasurement
from pytest_tfperf.core.rerun_command import recording_option
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.topology import DeviceKind, Topology, gpu_model
from pytest_tfperf.core.verdict import Against, Noise, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.noise import mean_square, noise_of, with_assumption, without_slow_runs


@dataclass(frozen=True, slots=True)
class Target:
    """The baseline that a measurement is judged against, and its noise."""

    baseline: Baseline | None = None  # the row; None where there is none
    is_floor: bool = False  # the row is a document's figure for a weaker machine
    noise: Noise | None = None  # between-run noise to allow for; None without a baseline
    # A published figure for the same workload and topology, this machine's own if there is one, else the highest of any
    # machine; only shown.
    document: Baseline | None = None

    def tolerance(self, asked: Tolerance | None, default: Tolerance) -> Tolerance:
        """Return the test's own tolerance, else the tolerance of the baseline's row, else the default."""
        return asked or (default.within(self.baseline) if self.baseline else default)

    @property
    def against(self) -> Against | None:
        """The kind of the baseline; None without a baseline."""
        return Against.of(self.baseline, is_floor=self.is_floor)

    @property
    def is_own_row(self) -> bool:
        """Whether the baseline is of the machine's own file, with common drift, history and reference environment."""
        return self.against is Against.BASELINE


def target_for(
    rows: Mapping[Key, Baseline],
    published: Sequence[Baseline],
    machine: str,
    key: Key,
    *,
    gpu_fp32_tflops: float | None,
    gpu_memory_gb_per_sec: float | None = None,
    provisional: Mapping[Key, Baseline] = MappingProxyType({}),
) -> Target:
    """Return the machine's own row, else the highest figure of a document for weaker GPUs, else earlier sessions'.

    Earlier sessions come last, because a floor can fail a test, and they can only warn.

    Only synthetic device data makes a floor, because the throughput of a real pipeline depends on the host. A GPU must
    reach the document's GPU in both rates: an L4 computes 2.8 times as fast as a P100, but has less than half of its
    memory rate, on which batch normalisation and activations depend.

    Args:
        rows: the machine's own rows.
        published: published rows of any machine; rows with another key are ignored.
        gpu_fp32_tflops: the peak rate of one GPU here; None where no floor can hold (CPUs, a split or partial GPU, a
            rate that isn't known).
        gpu_memory_gb_per_sec: the peak rate of its memory; None where it isn't known, and then not compared.
        provisional: the baselines from earlier sessions of this machine.
    """
    alike = [row for row in published if row.key == key]
    document = max(alike, key=lambda row: (row.machine == machine, row.value), default=None)
    baseline, is_floor = rows.get(key), False
    if baseline is None and gpu_fp32_tflops is not None and _is_on_device_data(key.workload):
        weaker = [row for row in alike if _is_weaker(row, gpu_fp32_tflops, gpu_memory_gb_per_sec)]
        baseline = max(weaker, key=lambda row: row.value, default=None)
        is_floor = baseline is not None
    if baseline is None and key in provisional:
        baseline = provisional[key]
        return Target(baseline, noise=_provisional_noise(baseline, rows, provisional), document=document)
    return Target(baseline, is_floor, noise_of(baseline, rows.values()) if baseline else None, document)


# In 10^9 bytes/s, from NVIDIA's data sheets; a K80 has two GPUs, each with this rate.
_MEMORY_OF_DOCUMENTS = {"Tesla K80": 240.0, "Tesla P100-SXM2-16GB": 732.0, "GeForce GTX 1080 Ti": 484.0}
_ROUNDING = 1.01  # of a data sheet's figure, and of NVML's whole MHz


def _is_weaker(row: Baseline, fp32_tflops: float, memory_gb_per_sec: float | None) -> bool:
    """Whether a document's GPU is no stronger than a GPU with these rates."""
    if row.gpu_fp32_tflops is None or row.gpu_fp32_tflops > fp32_tflops:
        return False
    return memory_gb_per_sec is None or _MEMORY_OF_DOCUMENTS.get(row.gpu, 0.0) <= memory_gb_per_sec * _ROUNDING


def _provisional_noise(row: Baseline, rows: Mapping[Key, Baseline], provisional: Mapping[Key, Baseline]) -> Noise:
    """Return the noise of all runs on the machine, recorded or not, pooled with the noise assumed for any machine.

    It is never less than the noise of the row's own runs: a false suspicion costs two further runs.
    """
    known = noise_of(row, {**provisional, **rows}.values())
    pooled = with_assumption(known.between_runs**2, known.degrees_of_freedom if known.rows else 0.0)
    return replace(pooled, between_runs=max(pooled.between_runs, row.between_runs or 0.0), rows=known.rows)


def _is_on_device_data(id: str) -> bool:
    subject = parse_subject(id)
    return isinstance(subject, Workload) and subject.input_pipeline == "device"


def refuse_other_devices(row: Baseline, topology: Topology) -> None:
    """Refuse a row of other devices: the machine has the same name, but a GPU may be gone or replaced.

    Raises:
        BaselineError: the row was measured on GPUs, and the topology is of CPUs or of another model.
    """
    if not row.gpu:
        return
    if topology.on_cpus:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} was measured on {row.gpu}, and this test runs "
            f"on CPUs: {topology.why_no_gpus or 'it took no GPU'}",
            next_step="`tfperf topology` says more",
        )
    here = {gpu.name for gpu in topology.gpus}
    if row.is_measured and here and {gpu_model(name) for name in here} != {gpu_model(row.gpu)}:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} was measured on {row.gpu}, and this machine, "
            f"which has the same name, has {' and '.join(sorted(here))}",
            next_step="Give it a name of its own "
            "(--tfperf-machine NAME) and record its baselines, or delete the old rows",
        )


def require_same_unit(row: Baseline, unit: str) -> None:
    """Refuse a row that counts another unit than the measurement, which counts `unit`.

    Raises:
        BaselineError: the units differ.
    """
    if row.provenance is Provenance.PROVISIONAL:
        return
    if row.unit != unit:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} is in {row.unit}/s, and this test measures "
            f"{unit}/s",
            next_step=f"Record the row again with {recording_option()}, or delete it",
        )


def require_same_way(row: Baseline, environment: Mapping[str, str]) -> None:
    """Refuse a row of a program that was measured in another way than now, by its steps or by its output.

    Raises:
        BaselineError: the ways differ: evaluation and pauses count in one of them only.
    """
    then, now = recorded_with(row).get(MEASURED), environment.get(MEASURED)
    if then and now and (then == BY_OUTPUT) != (now == BY_OUTPUT) and row.provenance is not Provenance.PROVISIONAL:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} was measured by {then}, and this test measures "
            f"it by {now}",
            next_step=f"Record the row again with {recording_option()}, or delete it",
        )


def peak_rates(topology: Topology) -> tuple[float | None, float | None]:
    """Return the lowest peak FP32 rate of the GPUs taken, in TFLOP/s, and memory rate, in 10^9 bytes/s.

    None where a rate isn't known, as on CPUs; and for an FP32 rate where no document's floor can hold.
    """
    gpus, devices = topology.gpus, topology.devices
    if not gpus:
        return None, None
    memory = min(gpu.memory_gb_per_sec or 0.0 for gpu in gpus) or None  # an unknown rate is the lowest
    fp32 = min(gpu.fp32_tflops or 0.0 for gpu in gpus) or None
    has_whole_gpus = devices is not None and devices.kind is DeviceKind.GPU and not devices.split
    if not has_whole_gpus or any(gpu.mig for gpu in gpus):
        fp32 = None
    return fp32, memory


MOST_MEASUREMENTS = 10
"""How many of a workload's latest measurements a provisional baseline uses."""

MOST_RUNS = 3
"""Fresh runs, in all, for a suspected slowdown against a provisional baseline.

Two more runs tell a slow run from a slow test. The eight runs of rule 2 guard against failing a test by mistake, and a
provisional baseline fails no test.
"""


def provisional_baselines(
    machine: str, earlier: Mapping[Key, Sequence[EarlierMeasurement]], *, gpu: str
) -> dict[Key, Baseline]:
    """Return the rows from a machine's earlier sessions, for keys without a recorded row.

    They show a new user how the gate works from the second session on. They warn and never fail, because nobody has
    confirmed that those sessions were right.

    `earlier` are their measurements, oldest first. `gpu` is the GPUs' name today, "" on CPUs: a machine with a name of
    its own may have got other GPUs.
    """
    alike = {key: [past for past in measured if past.gpu == gpu] for key, measured in earlier.items()}
    return {key: provisional_baseline(machine, key, measured) for key, measured in alike.items() if measured}


def provisional_baseline(machine: str, key: Key, earlier: Sequence[EarlierMeasurement]) -> Baseline:
    """Return the row of all undisturbed runs' Hodges-Lehmann median, without slow runs, as in a recorded baseline.

    `earlier` has at least one measurement, oldest first; measurements in other units than the latest are left out.
    """
    latest = earlier[-1]
    used = [measurement for measurement in earlier if measurement.unit == latest.unit]
    runs = [run for measurement in used for run in measurement.runs]
    kept = without_slow_runs([run.log_rate for run in runs])
    sessions = len({measurement.session for measurement in used})
    return Baseline(
        machine=machine,
        key=key,
        value=math.exp(hodges_lehmann(kept)),
        unit=latest.unit,
        provenance=Provenance.PROVISIONAL,
        source=f"{sessions} earlier session{'' if sessions == 1 else 's'} here",
        date=" to ".join(dict.fromkeys((used[0].date, latest.date))),
        runs=len(kept),
        between_runs=_between_runs(kept, [run.error for run in runs]),
        gpu=latest.gpu,
        commit=latest.commit,
        environment=" ".join(f"{name}={value}" for name, value in sorted(latest.environment.items())),
    )


def _between_runs(log_rates: Sequence[float], errors: Sequence[float]) -> float | None:
    """Return the standard deviation between runs; never below their standard error from their own windows.

    A single run shows no more than that, and two or three runs that agree by chance must not make every later run
    suspect.
    """
    within = mean_square(errors)
    known = [] if within is None else [math.sqrt(within)]
    if len(log_rates) > 1:
        known.append(statistics.stdev(log_rates))
    return max(known, default=None)


# The ratio of two published figures is required on GPUs like the document's; elsewhere a lower one is only a warning.

ALIKE = 1.5
"""A GPU is like a document's if the FP32 rate of neither is more than this many times that of the other."""


@dataclass(frozen=True, slots=True)
class PublishedRatio:
    """The published figures of both sides, of one document."""

    a: Baseline
    b: Baseline

    @property
    def value(self) -> float:
        """The ratio b / a."""
        return self.b.value / self.a.value

    def binds(self, topology: Topology) -> bool:
        """Whether this machine must reach the ratio: its GPUs are like the document's, or the document has none.

        Today's GPUs compute many times as fast, and their links and hosts have not become faster by as much: a model
        that scaled 7.0 times on eight P100 may scale less without a fault.
        """
        then = self.b.gpu_fp32_tflops
        if then is None:
            return True
        rates = [gpu.fp32_tflops for gpu in topology.gpus]
        is_split = topology.devices is not None and topology.devices.split
        return bool(rates) and not is_split and all(now and max(now / then, then / now) <= ALIKE for now in rates)

    def is_not_required(self, ratio: float, topology: Topology) -> str:
        """Return the warning about a lower ratio of GPUs unlike the document's."""
        return (
            f"{_named(self.b.key)} over {_named(self.a.key)}: {ratio:.3f}, below the {self.value:.3f} of "
            f"{self.b.machine} ({self.b.gpu}). It is not required here, because {topology.describe()} is not like that "
            f"GPU (FP32 rates within {ALIKE:g} times)"
        )


def published_ratio(published: Sequence[Baseline], a: Key, b: Key) -> PublishedRatio:
    """Return the lowest ratio of two published figures; the lowest, because it has to hold on other machines.

    Both figures are of one machine, or if no machine has both, of two machines with the same GPU in one document, as
    Azure's NC6 and NC12.

    Raises:
        BaselineError: no document has both figures.
    """
    pairs = [
        PublishedRatio(of_a, of_b)
        for of_a in published
        for of_b in published
        if (of_a.key, of_b.key) == (a, b) and (_document(of_a), of_a.gpu) == (_document(of_b), of_b.gpu)
    ]
    ratios = [pair for pair in pairs if pair.a.machine == pair.b.machine] or pairs
    if not ratios:
        raise BaselineError(
            f"no document gives both {_named(b)} and {_named(a)}; give a limit of your own, as in at_least=3.6, or "
            "compare them with a tolerance"
        )
    return min(ratios, key=lambda ratio: ratio.value)


def _document(row: Baseline) -> str:
    return row.source.partition(",")[0]


def _named(key: Key) -> str:
    return f"{key.workload} on {key.topology}"
