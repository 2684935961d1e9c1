"""Adds the batch size and the machine's memory to an out-of-memory error."""

from __future__ import annotations

import resource

from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.gpu import gib
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.workload import Workload
from pytest_tfperf.errors import OutOfMemory


def explained(error: OutOfMemory, where: str, topology: Topology, *workloads: Subject) -> OutOfMemory:
    """A worker's out-of-memory error with the batch size and the memory before it.

    Args:
        error: the worker's.
        where: workloads and devices, for the message.
        topology: what the workloads ran on.
        workloads: the one that was measured, or both sides of a comparison.
    """
    batches = " and ".join(dict.fromkeys(str(one.batch_size) for one in workloads if isinstance(one, Workload)))
    each = f" on each of {topology.devices.count} devices" if topology.devices and topology.devices.count > 1 else ""
    return OutOfMemory(
        f"out of memory with batch_size {batches}{each}",
        f"  memory      {_memory(topology)}",
        "  next        use a smaller batch_size, or a machine with more memory",
        error.fact,
        *error.below,
        where=where,
    )


def _memory(topology: Topology) -> str:
    """The machine's memory, used or not: "16 GiB + 16 GiB of the GPUs; 64 GiB of the host"."""
    host = f"{gib(topology.host.memory_bytes)} of the host"
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        host += f", limited to {gib(limit)} for each process (ulimit -v)"
    if not topology.gpus:
        return host
    split = f", split into {topology.devices.count}" if topology.devices and topology.devices.split else ""
    return " + ".join(gib(gpu.memory_bytes) for gpu in topology.gpus) + f" of the GPUs{split}; {host}"
