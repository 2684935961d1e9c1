"""What a test's author needs when memory runs out: the batch, what was asked for, and what there is."""

from __future__ import annotations

import math
import re
import resource

from pytest_tfperf.core.gpu import gib
from pytest_tfperf.core.topology import Topology
from pytest_tfperf.core.workload import Workload

_SHAPE = re.compile(r"with shape ?[\[(](?P<shape>\d+(?:, ?\d+)*),?[\])] and (?:data )?type (?P<type>\w+)")
_BYTES = re.compile(r"trying to allocate (?P<bytes>\d+) bytes")
_ITEM_BYTES = {
    **dict.fromkeys(("uint8", "int8", "bool"), 1),
    **dict.fromkeys(("half", "float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("float", "float32", "int32"), 4),
    **dict.fromkeys(("double", "float64", "int64"), 8),
}


def explained(text: str, topology: Topology, *workloads: Workload) -> str:
    """A worker's out-of-memory error with the batch size and the memory before it.

    Args:
        text: the worker's error.
        topology: what the workloads ran on.
        workloads: the one that was measured, or both sides of a comparison.
    """
    batches = " and ".join(dict.fromkeys(str(workload.batch_size) for workload in workloads))
    each = f" on each of {topology.devices.count} devices" if topology.devices and topology.devices.count > 1 else ""
    lines = [f"out of memory with batch_size {batches}{each}", f"  memory      {_memory(topology)}"]
    if (requested := requested_bytes(text)) is not None:
        lines.append(f"  asked for   {requested / 2**30:,.1f} GiB in one allocation")
    return "\n".join([*lines, "  next        use a smaller batch_size, or a machine with more memory", text])


def requested_bytes(text: str) -> int | None:
    """The largest allocation that an error of TensorFlow, XLA or NumPy names; None if it names none.

    >>> requested_bytes("OOM when allocating tensor with shape[9000000,224,224,3] and type float on /job:localhost")
    5419008000000
    """
    found = [int(match["bytes"]) for match in _BYTES.finditer(text)]
    arrays = [(match["shape"].split(","), _ITEM_BYTES.get(match["type"])) for match in _SHAPE.finditer(text)]
    found += [math.prod(map(int, shape)) * size for shape, size in arrays if size]
    return max(found, default=None)


def _memory(topology: Topology) -> str:
    """All memory there is, used or not: "16 GiB + 16 GiB of the GPUs; 64 GiB of the host"."""
    host = f"{gib(topology.host.memory_bytes)} of the host"
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        host += f", limited to {gib(limit)} for each process (ulimit -v)"
    if not topology.gpus:
        return host
    split = f", split into {topology.devices.count}" if topology.devices and topology.devices.split else ""
    return " + ".join(gib(gpu.memory_bytes) for gpu in topology.gpus) + f" of the GPUs{split}; {host}"
