"""The work of a worker, or of each rank of several, as the driver sends it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_tfperf.core.topology import Devices
from pytest_tfperf.core.workload import VariableUpdate, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The work of one worker, or of several ranks together."""

    workload: Workload
    devices: Devices  # the devices of each node, or of a single worker
    nodes: int = 1  # how many machines train together
    seed: int = 0  # of the initial weights and synthetic data
    slowdown: float = 0.0  # fraction of its throughput that the worker loses on purpose, 0 to below 1
    data_dir: str = ""  # folder of the TFRecords that a pipeline reads; "" where none was named
    cores: int | None = None  # the cores that affinity and quota leave; None: each rank reads its own
    # users' own models and pipelines, kind -> name -> "package.module:function" (`catalogue.registered`)
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    reports_modules: bool = False  # whether the worker says which files its modules were loaded from
    cold_caches: bool = False  # whether caches of compiled programs are switched off, as for the figure `first_step`
    counts_traces: bool = False  # whether the traces of functions are counted, as for the figure `compilations`

    @property
    def ranks_per_node(self) -> int:
        """Processes on each node: with Horovod one for each device, otherwise one for all devices."""
        return self.devices.count if self.workload.variable_update is VariableUpdate.HOROVOD else 1

    @property
    def ranks(self) -> int:
        """Processes that train together."""
        return self.nodes * self.ranks_per_node

    @property
    def is_distributed(self) -> bool:
        """Whether its processes exchange gradients, even if there is only one of them."""
        return self.ranks > 1 or self.workload.variable_update is VariableUpdate.HOROVOD

    def for_rank(self, local_rank: int) -> Job:
        """Return the job of one rank: the same with its share of the GPUs."""
        count = self.devices.count // self.ranks_per_node
        uuids = self.devices.gpu_uuids[local_rank * count : (local_rank + 1) * count]
        return replace(self, devices=replace(self.devices, count=count, gpu_uuids=uuids))


def digest() -> str:
    """Return ten hexadecimal digits that change with any module of this package."""
    package = Path(__file__).parent.parent
    hashed = hashlib.blake2s()
    for file in sorted(package.rglob("*.py")):
        hashed.update(str(file.relative_to(package)).encode() + file.read_bytes())
    return hashed.hexdigest()[:10]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The other ranks, as the driver names them to a rank when all have connected."""

    rank: int  # this process's rank, from 0
    addresses: tuple[str, ...]  # "host:port" by rank; each rank has reserved its own
    hosts: tuple[str, ...]  # the hosts' names, by rank
    timeout_seconds: float  # the time after which an exchange of gradients fails

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.addresses)

    @property
    def local_rank(self) -> int:
        """This rank's index among the ranks of its host, from 0."""
        return self.hosts[: self.rank].count(self.hosts[self.rank])

    @property
    def local_size(self) -> int:
        """The number of ranks on this rank's host."""
        return self.hosts.count(self.hosts[self.rank])
