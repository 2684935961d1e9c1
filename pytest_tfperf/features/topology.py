"""The GPUs of this machine, the links between them, and its host, as pytest's header does not show them.

For users who want to know what a test's devices are, or what names their machine.
`tfperf topology` shows them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from pytest_tfperf.console.arguments import Commands, add_command
from pytest_tfperf.console.output import show, show_json
from pytest_tfperf.core.exit_status import EXIT_GREEN
from pytest_tfperf.core.topology import Gpu, Topology
from pytest_tfperf.reports.numbers import size
from pytest_tfperf.reports.table import aligned, paragraphs


def add_to(commands: Commands) -> None:
    """Add the command."""
    topology = add_command(
        commands,
        _run,
        "topology: show GPUs, the links between them, and the host",
        examples=("tfperf topology", "tfperf topology --json > machine.json"),
    )
    topology.add_argument("--json", action="store_true", help="as JSON, to keep as a snapshot")


def _run(arguments: argparse.Namespace) -> int:
    from pytest_tfperf.hardware.discovery import discover

    machine = discover()
    if arguments.json:
        show_json(machine.to_json())
    else:
        show(*render(machine), "")
    return EXIT_GREEN


# nvidia-smi's words and order, worst path first.
_LEGEND = (
    ("X", "the GPU itself"),
    ("SYS", "PCIe and the link between NUMA nodes (QPI, UPI, Infinity Fabric)"),
    ("NODE", "PCIe and the link between the host bridges of one NUMA node"),
    ("PHB", "PCIe and one host bridge (usually the CPU)"),
    ("PXB", "several PCIe bridges, no host bridge"),
    ("PIX", "at most one PCIe bridge"),
    ("NV#", "# NVLinks together"),
    ("?", "not reported by the driver, or not usable by CUDA (MIG)"),
)


def render(topology: Topology) -> list[str]:
    """Machine and host, GPUs, the matrix with CPU and NUMA affinity, and a legend; without GPUs, the reason."""
    if not topology.gpus:
        return _head(topology)
    gpus = aligned([[label, *_facts(gpu)] for label, gpu in zip(_labels(topology.gpus), topology.gpus, strict=True)])
    legend = ["Legend", *(f"  {word:<4} = {meaning}" for word, meaning in _LEGEND)]
    return paragraphs(_head(topology), gpus, _matrix(topology), legend)


def _head(topology: Topology) -> list[str]:
    host = topology.host
    name = f"{host.hostname}: " if host.hostname else ""
    physical = f" ({host.physical_cores} physical)" if host.physical_cores else ""
    memory = f", {size(host.memory_bytes)}" if host.memory_bytes is not None else ""
    cuda = f", CUDA {topology.cuda_version}" if topology.cuda_version else ""
    kernel = f", Linux {host.kernel}" if host.kernel else ""
    cores = f"{host.usable_cores} of {host.total_cores} cores usable{physical}"
    lines = [
        ("machine", topology.machine),
        ("host", f"{name}{host.cpu_model}, {cores}{memory}{kernel}"),
        ("driver", f"{topology.driver_version}{cuda}" if topology.driver_version else "none"),
        ("GPUs", topology.describe() if topology.gpus else f"none: {topology.why_no_gpus}"),
        *(("note", note) for note in topology.notes),
    ]
    return [f"{label:<8} {text}" for label, text in lines]


def _facts(gpu: Gpu) -> list[str]:
    capability = ".".join(map(str, gpu.compute_capability)) if gpu.compute_capability else "?"
    rate = "?" if gpu.fp32_tflops is None else f"{gpu.fp32_tflops:.1f}"
    pcie = f"PCIe {gpu.pcie_generation or '?'} x{gpu.pcie_width or '?'}"
    return [gpu.name, size(gpu.memory_bytes), f"compute {capability}", f"{rate} TFLOP/s FP32", pcie, gpu.uuid]


def _matrix(topology: Topology) -> list[str]:
    labels = _labels(topology.gpus)
    rows = [["", *labels, "CPU Affinity", "NUMA Affinity"]]
    for label, gpu, links in zip(labels, topology.gpus, topology.links, strict=True):
        node = "N/A" if gpu.numa_node is None else str(gpu.numa_node)
        rows.append([label, *(" X" if link is None else str(link) for link in links), gpu.cpu_affinity or "N/A", node])
    return aligned(rows)


def _labels(gpus: Sequence[Gpu]) -> list[str]:
    """ "GPU0", with NVML's index; "GPU0.1" for a MIG device of a GPU."""
    counts: Counter[int] = Counter()
    labels = []
    for gpu in gpus:
        labels.append(f"GPU{gpu.index}.{counts[gpu.index]}" if gpu.mig else f"GPU{gpu.index}")
        counts[gpu.index] += 1
    return labels
