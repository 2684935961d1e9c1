"""What a measurement is held against: the machine's own row, or a document's figure as a floor."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_tfperf.core.baseline import Baseline, Key
from pytest_tfperf.core.machine_key import gpu_model
from pytest_tfperf.core.topology import DeviceKind, Topology
from pytest_tfperf.core.verdict import Tolerance
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import BaselineError
from pytest_tfperf.judging.noise import Noise, noise_of
from pytest_tfperf.stores.baselines import BaselineStore


@dataclass(frozen=True, slots=True)
class Reference:
    """What a measurement is held against, and how.

    Args:
        baseline: the row; None where there is none.
        floor: the row is a document's figure for a weaker machine.
        noise: between-run spread to reckon with; None without a baseline.
        document: a published figure for the same workload and topology, this machine's own where it has one, else the
            highest of any machine; only shown.
    """

    baseline: Baseline | None
    floor: bool
    noise: Noise | None
    document: Baseline | None

    def tolerance(self, asked: Tolerance | None, default: Tolerance) -> Tolerance:
        """The test's own, else the baseline's row, else the default."""
        return asked or (default.within(self.baseline) if self.baseline else default)


def reference_for(store: BaselineStore, machine: str, key: Key, *, gpu_fp32_tflops: float | None) -> Reference:
    """The machine's own row; without one, the highest figure that a document has for the same work on weaker GPUs.

    Only synthetic device data makes a floor, because what a real pipeline gives depends on the host.
    `gpu_fp32_tflops` is the peak rate of one GPU here, None where no floor can hold (CPUs, a split or partial GPU, a
    rate that isn't known). Other machines' files that can't be read are passed over: they must not cost this machine's
    verdict.

    Raises:
        BaselineError: this machine's file can't be read whole.
    """
    rows = store.load(machine)
    published = store.published_like(key, readable=True)
    document = max(published, key=lambda row: (row.machine == machine, row.reference), default=None)
    own, floor = rows.get(key), False
    if own is None and gpu_fp32_tflops is not None and Workload.parse(key.workload).input_pipeline == "device":
        weaker = [r for r in published if r.gpu_fp32_tflops is not None and r.gpu_fp32_tflops <= gpu_fp32_tflops]
        own = max(weaker, key=lambda row: row.reference, default=None)
        floor = own is not None
    return Reference(own, floor, noise_of(own, rows.values()) if own else None, document)


def refuse_other_devices(row: Baseline, topology: Topology) -> None:
    """A name promises equal hardware, but nobody checks it: a driver is gone, another GPU is in the host.

    Raises:
        BaselineError: the row was measured on GPUs, and the topology is of CPUs or of another model.
    """
    if row.gpu and topology.on_cpus:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} was measured on {row.gpu}, and this test runs "
            f"on CPUs: {topology.why_no_gpus or 'it took no GPU'}. `tfperf topology` says more"
        )
    here = {gpu.name for gpu in topology.gpus}
    if row.gpu and row.is_measured and here and {gpu_model(name) for name in here} != {gpu_model(row.gpu)}:
        raise BaselineError(
            f"{row.machine}.csv: {row.key.workload} {row.key.topology} was measured on {row.gpu}, and this machine, "
            f"which bears the same name, has {' and '.join(sorted(here))}. Give it a name of its own "
            "(--tfperf-machine NAME) and record its baselines, or delete the old rows"
        )


def floor_rate(topology: Topology) -> float | None:
    """The peak FP32 rate of the weakest GPU taken; None where a document's floor can't hold."""
    devices = topology.devices
    if devices is None or devices.kind is not DeviceKind.GPU or devices.split or any(gpu.mig for gpu in topology.gpus):
        return None
    rates = [gpu.fp32_tflops for gpu in topology.gpus]
    return min((rate for rate in rates if rate is not None), default=None) if None not in rates else None
