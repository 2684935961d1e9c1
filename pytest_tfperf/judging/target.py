"""What a measurement is judged against: the machine's own row, a document's figure as a floor, or earlier sessions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pytest_tfperf.core.baseline import Baseline, Key, Provenance
from pytest_tfperf.core.command import parse_subject
from pytest_tfperf.core.past import EarlierMeasurement
from pytest_tfperf.core.throughput import hodges_lehmann
from pytest_tfperf.core.topology import DeviceKind, Topology, gpu_model
from pytest_tfperf.core.verdict import Against, Consequence, Noise, Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.noise import mean_square, noise_of, with_assumption, without_slow_runs


@dataclass(frozen=True, slots=True)
class Target:
    """What a measurement is judged against, and how.

    Args:
        baseline: the row; None where there is none.
        is_floor: the row is a document's figure for a weaker machine.
        noise: between-run noise to allow for; None without a baseline.
        document: a published figure for the same workload and topology, this machine's own where it has one, else the
            highest of any machine; only shown.
    """

    baseline: Baseline | None = None
    is_floor: bool = False
    noise: Noise | None = None
    document: Baseline | None = None

    def tolerance(self, asked: Tolerance | None, default: Tolerance) -> Tolerance:
        """The test's own, else the baseline's row, else the default."""
        return asked or (default.within(self.baseline) if self.baseline else default)

    @property
    def against(self) -> Against | None:
        """What the baseline is; None where there is none."""
        return Against.of(self.baseline, is_floor=self.is_floor) if self.baseline else None

    @property
    def if_slower(self) -> Consequence:
        """What a confirmed slowdown does to the test."""
        return self.against.if_slower if self.against else Consequence.FAILS

    @property
    def is_own_row(self) -> bool:
        """Whether it is a row of the machine's file: common drift, history and reference environment belong to it."""
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
    """The machine's own row, else the highest figure of a document for weaker GPUs, else earlier sessions here.

    Earlier sessions come last, because a floor can fail a test and they can't.

    Only synthetic device data makes a floor, because what a real pipeline gives depends on the host. A GPU has to reach
    the document's in both rates: an L4 computes 2.8 times as fast as a P100, and has less than half of its memory's
    rate, on which batch normalisation and activations depend.

    Args:
        rows: the machine's own rows.
        published: published rows of any machine; those with another key are ignored.
        machine: the machine's key.
        key: workload and topology.
        gpu_fp32_tflops: the peak rate of one GPU here; None where no floor can hold (CPUs, a split or partial GPU, a
            rate that isn't known).
        gpu_memory_gb_per_sec: the peak rate of its memory; None where that isn't known, and is not asked for.
        provisional: what earlier sessions of this machine give.
    """
    alike = [row for row in published if row.key == key]
    document = max(alike, key=lambda row: (row.machine == machine, row.value), default=None)
    own, is_floor = rows.get(key), False
    if own is None and gpu_fp32_tflops is not None and _is_on_device_data(key.workload):
        weaker = [row for row in alike if _is_weaker(row, gpu_fp32_tflops, gpu_memory_gb_per_sec)]
        own = max(weaker, key=lambda row: row.value, default=None)
        is_floor = own is not None
    if own is None and key in provisional:
        own = provisional[key]
        return Target(own, noise=_provisional_noise(own, rows, provisional), document=document)
    return Target(own, is_floor, noise_of(own, rows.values()) if own else None, document)


# Of the documents' GPUs, in 10^9 bytes/s, from NVIDIA's data sheets; of a K80, which has two, each one's.
_MEMORY_OF_DOCUMENTS = {"Tesla K80": 240.0, "Tesla P100-SXM2-16GB": 732.0, "GeForce GTX 1080 Ti": 484.0}
_ROUNDING = 1.01  # of a data sheet's figure, and of NVML's whole MHz


def _is_weaker(row: Baseline, fp32_tflops: float, memory_gb_per_sec: float | None) -> bool:
    """Whether a document's GPU is no stronger than one of these rates."""
    if row.gpu_fp32_tflops is None or row.gpu_fp32_tflops > fp32_tflops:
        return False
    return memory_gb_per_sec is None or _MEMORY_OF_DOCUMENTS.get(row.gpu, 0.0) <= memory_gb_per_sec * _ROUNDING


def _provisional_noise(row: Baseline, rows: Mapping[Key, Baseline], provisional: Mapping[Key, Baseline]) -> Noise:
    """The noise of all runs on the machine, recorded or not, pooled with what is assumed for any machine.

    It is never less than what the row's own runs tell: a false suspicion costs two further runs.
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
    if row.gpu and topology.on_cpus:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} was measured on {row.gpu}, and this test runs "
            f"on CPUs: {topology.why_no_gpus or 'it took no GPU'}",
            next_step="`tfperf topology` says more",
        )
    here = {gpu.name for gpu in topology.gpus}
    if row.gpu and row.is_measured and here and {gpu_model(name) for name in here} != {gpu_model(row.gpu)}:
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
    if row.unit != unit and row.provenance is not Provenance.PROVISIONAL:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} is in {row.unit}/s, and this test measures "
            f"{unit}/s",
            next_step="Record the row again with --update-baselines, or delete it",
        )


def floor_rate(topology: Topology) -> float | None:
    """The peak FP32 rate of the weakest GPU taken; None where a document's floor can't hold."""
    devices = topology.devices
    if devices is None or devices.kind is not DeviceKind.GPU or devices.split or any(gpu.mig for gpu in topology.gpus):
        return None
    return _least([gpu.fp32_tflops for gpu in topology.gpus])


def memory_rate(topology: Topology) -> float | None:
    """The peak memory rate of the GPU taken that has the slowest, in 10^9 bytes/s; None on CPUs and if not known."""
    return _least([gpu.memory_gb_per_sec for gpu in topology.gpus])


def _least(rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return min(known) if known and len(known) == len(rates) else None


MOST_MEASUREMENTS = 10
"""How many of a workload's latest measurements a provisional baseline uses."""

MOST_RUNS = 3
"""Fresh runs that a suspected slowdown gets in all.

Two more runs tell a slow run from a slow test. The eight of rule 2 guard against failing a test by mistake, and a
provisional baseline fails none.
"""


def provisional_baselines(
    machine: str, earlier: Mapping[Key, Sequence[EarlierMeasurement]], *, gpu: str
) -> dict[Key, Baseline]:
    """The rows that earlier sessions give for a machine, where no row was recorded.

    They show a new user how the gate works from the second session on. They warn and never fail, because nobody has
    confirmed that those sessions were right.

    Args:
        machine: the machine's key.
        earlier: what they measured, oldest first.
        gpu: the GPUs' name today, "" on CPUs; a machine with a name of its own may have got other GPUs.
    """
    alike = {key: [one for one in measured if one.gpu == gpu] for key, measured in earlier.items()}
    return {key: provisional_baseline(machine, key, measured) for key, measured in alike.items() if measured}


def provisional_baseline(machine: str, key: Key, earlier: Sequence[EarlierMeasurement]) -> Baseline:
    """The Hodges-Lehmann median of all undisturbed runs, slow ones left out as in a recorded baseline.

    `earlier` has at least one measurement, oldest first; what counts other units than the latest is left out.
    """
    latest = earlier[-1]
    used = [one for one in earlier if one.unit == latest.unit]
    runs = [run for one in used for run in one.runs]
    kept = without_slow_runs([run.log_rate for run in runs])
    sessions = len({one.session for one in used})
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
    """The standard deviation between runs; never below what their own windows leave uncertain.

    A single run says no more than that, and two or three that agree by chance must not suspect every later one.
    """
    within = mean_square(errors)
    known = [] if within is None else [math.sqrt(within)]
    if len(log_rates) > 1:
        known.append(statistics.stdev(log_rates))
    return max(known, default=None)
