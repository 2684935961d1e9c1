"""The machine: GPUs, the links between them, the host; and which of its devices a test takes.

Discovery is in `hardware/`. These are frozen values that can be saved as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pytest_tfperf.core import machine_key
from pytest_tfperf.core.gpu import Gpu as Gpu
from pytest_tfperf.core.gpu import Link as Link
from pytest_tfperf.core.gpu import LinkKind as LinkKind
from pytest_tfperf.core.gpu import Matrix, best_linked, count_names, equal_groups, link_class
from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import NotEnoughDevices, NotEnoughNodes, TfperfError

JSON_VERSION = 1

LOCAL_LINK = "local"
"""What connects nodes that are only processes of this machine."""

MOST_LOGICAL_DEVICES = 64
"""Of one CPU or one split GPU. TensorFlow makes as many as are asked for; thousands take all memory before a step."""


class DeviceKind(StrEnum):
    """TensorFlow's device types."""

    CPU = "CPU"
    GPU = "GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a worker sees: real GPUs by UUID, a split GPU, or virtual CPU devices.

    Args:
        kind: CPU or GPU.
        count: logical devices (replicas) per node; 0 until `Topology.take` sets it.
        gpu_uuids: the physical GPUs to make visible, in this order; empty on CPUs.
        split: True where one physical GPU is split into `count` logical ones.
    """

    kind: DeviceKind
    count: int
    gpu_uuids: tuple[str, ...] = ()
    split: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host; cores are logical CPUs (hardware threads).

    Args:
        cpu_model: as the kernel writes it.
        usable_cores: what affinity and cgroup quota leave to this process, the quota rounded up.
        total_cores: what the kernel shows.
        physical_cores: without hardware threads; None where the kernel does not report them.
        memory_bytes: the RAM, or the cgroup's limit where it is lower.
        kernel: the release, "6.1.0-28-amd64".
        hostname: recorded, but no part of the machine's key.
    """

    cpu_model: str
    usable_cores: int
    total_cores: int
    physical_cores: int | None = None
    memory_bytes: int | None = None
    kernel: str = ""
    hostname: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """GPUs, links and host, as discovered or loaded; `take` narrows it to what one test uses.

    Args:
        host: CPUs and memory.
        gpus: those that CUDA_VISIBLE_DEVICES shows, in its order; after `take`, those taken.
        links: row i, column j: the link between GPUs i and j; None on the diagonal.
        driver_version, cuda_version: of the NVIDIA driver, "" without one; CUDA as "12.4".
        node_count: machines like this one that train together.
        most_nodes: how many of them there are; None where only what starts training there knows.
        node_link: what connects them, "10gbe" or "local" for processes of one machine; "" where it is not known.
        devices: what is taken; None before `take`, or with a count of 0 after `on_cpu` and `split`.
        why_no_gpus: the reason where there are none.
        driver_fault: whether the reason is a driver that is installed and fails.
        notes: hidden, lost or unusable GPUs.
        gpu_key: the GPU part of the machine's key, where `gpus` are not all of the machine's.
        machine_name: replaces the key (`--tfperf-machine`).
    """

    host: Host
    gpus: tuple[Gpu, ...] = ()
    links: Matrix = ()
    driver_version: str = ""
    cuda_version: str = ""
    node_count: int = 1
    most_nodes: int | None = 1
    node_link: str = ""
    devices: Devices | None = None
    why_no_gpus: str = ""
    driver_fault: bool = False
    notes: tuple[str, ...] = ()
    gpu_key: str = ""
    machine_name: str = ""

    @property
    def machine(self) -> str:
        """The key: a file name that depends on hardware only.

        GPU models, count and link class, then CPU model and usable cores; the host's part alone for CPU devices. A
        vGPU's or MIG device's profile is part of its name. A GPU that we split ourselves adds "split". Several nodes
        begin with their number and what connects them, "2-nodes-10gbe".
        """
        if self.machine_name:
            return self.machine_name
        nodes = machine_key.nodes_part(self.node_count, self.node_link)
        host = machine_key.host_part(self.host.cpu_model, self.host.usable_cores)
        if self.on_cpus or not self.gpus:
            return machine_key.joined([nodes, host])
        return machine_key.joined([nodes, self._gpu_key, "split" if self._is_split else "", host])

    @property
    def shape(self) -> str:
        """Nodes x devices per node, "1x4": the topology part of a baseline's key."""
        count = self.devices.count if self.devices else 0
        return f"{self.node_count}x{count or max(1, len(self.gpus))}"

    @property
    def is_taken(self) -> bool:
        """Whether `take` has set the number of devices."""
        return self.devices is not None and self.devices.count > 0

    @property
    def on_cpus(self) -> bool:
        """Whether its devices are virtual CPU devices."""
        return self.devices is not None and self.devices.kind is DeviceKind.CPU

    def nodes(self, n: int) -> Topology:
        """`n` machines like this one: `take` then takes devices on each of them.

        Raises:
            NotEnoughNodes: there are fewer.
            TfperfError: n is below 1, or another number was given before.
        """
        _require_count("nodes", n)
        if self.node_count not in (1, n):
            raise TfperfError(f"nodes={n} after nodes({self.node_count}): give the number of nodes once")
        if self.most_nodes is not None and n > self.most_nodes:
            raise NotEnoughNodes(
                f"needs {n} nodes, and --tfperf-launcher knows of {self.most_nodes}",
                next_step="Name more hosts there, or ask for a larger allocation",
            )
        return replace(self, node_count=n)

    def take(self, n: int, *, nodes: int | None = None) -> Topology:
        """The best linked `n` equal GPUs; after `on_cpu` or `split`, `n` logical devices.

        Best: the worst pair's link, then all links in total, then the highest peak rate, then the lowest indices. Of
        several machines each takes the first `n` of a kind, because the links of the others are not known here.

        Args:
            n: devices on each node.
            nodes: as `.nodes(nodes)` before; None leaves their number as it is.

        Raises:
            NotEnoughDevices: too few nodes or equal GPUs, or more than 64 logical devices; says what is needed and what
                there is.
            TfperfError: n or nodes is below 1, or `.nodes` gave another number before.
        """
        _require_count("devices", n)
        if nodes is not None:
            return self.nodes(nodes).take(n)
        if self.node_link == LOCAL_LINK and self.node_count > 1 and not self.on_cpus:
            return self._take_parts(n)
        if self.devices is not None and (self.on_cpus or self._is_split):
            if n > MOST_LOGICAL_DEVICES:
                kind = "virtual CPU devices" if self.on_cpus else "parts of a GPU"
                raise NotEnoughDevices(f"needs {n:,} {kind}, and a test can take at most {MOST_LOGICAL_DEVICES}")
            return replace(self, devices=replace(self.devices, count=n))
        groups = self._groups()
        if self.node_count > 1:
            groups = [group[:n] for group in groups]
        chosen = best_linked(self.gpus, self.links, groups, n)
        if chosen is None:
            raise self._too_few(n, wanted=n)
        uuids = tuple(self.gpus[i].uuid for i in chosen)
        return self._only(chosen, Devices(kind=DeviceKind.GPU, count=n, gpu_uuids=uuids))

    def _take_parts(self, n: int) -> Topology:
        """GPUs for several processes of this machine, each of which stands for a node."""
        if self._is_split:
            raise NotEnoughDevices(f"needs {self.node_count} nodes, and parts of one GPU can't stand for nodes")
        taken = replace(self, node_count=1).take(n * self.node_count)
        assert taken.devices is not None, "take sets them"
        return replace(taken, node_count=self.node_count, devices=replace(taken.devices, count=n))

    def on_cpu(self) -> Topology:
        """The same host without its GPUs: `take(n)` then gives n virtual CPU devices."""
        why = self.why_no_gpus or "the test runs on the CPU"
        return replace(self._only((), Devices(kind=DeviceKind.CPU, count=0)), why_no_gpus=why)

    def split(self) -> Topology:
        """The fastest GPU alone: `take(n)` then splits it into n logical ones, to try multi-GPU code on one GPU.

        Raises:
            NotEnoughDevices: there is no GPU.
        """
        chosen = best_linked(self.gpus, self.links, self._groups(), 1)
        if chosen is None:
            raise self._too_few(1)
        uuids = tuple(self.gpus[i].uuid for i in chosen)
        return self._only(chosen, Devices(kind=DeviceKind.GPU, count=0, gpu_uuids=uuids, split=True))

    def showing(self, indices: Sequence[int], why: str = "") -> Topology:
        """Only these GPUs, in this order, with the whole machine's key; `why` the others are hidden."""
        shown = self._only(indices, self.devices)
        if not indices:
            return replace(shown, why_no_gpus=why)
        return replace(shown, notes=(*self.notes, why) if why else self.notes)

    def describe(self) -> str:
        """One short line: "8x Tesla P100-SXM2-16GB", "2 of 2 cores of AMD EPYC", "2 nodes, each with ..."."""
        nodes = f"{self.node_count} nodes, each with " if self.node_count > 1 else ""
        count = self.devices.count if self.devices else 0
        if self.gpus:
            own = self.gpus[:count] if count else self.gpus  # nodes that are processes of one machine share those taken
            return nodes + count_names(own) + (f", split into {count}" if self._is_split and count else "")
        virtual = f"{count} virtual CPU devices on " if count > 1 else ""
        return f"{nodes}{virtual}{self.host.usable_cores} of {self.host.total_cores} cores of {self.host.cpu_model}"

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the format's version and the machine's key."""
        facts: dict[str, Any] = plain(self)
        return {"version": JSON_VERSION, "machine": self.machine} | facts

    @property
    def _is_split(self) -> bool:
        return self.devices is not None and self.devices.split

    @property
    def _gpu_key(self) -> str:
        return self.gpu_key or machine_key.gpu_part([gpu.name for gpu in self.gpus], link_class(self.links))

    def _only(self, indices: Sequence[int], devices: Devices | None) -> Topology:
        return replace(
            self,
            gpus=tuple(self.gpus[i] for i in indices),
            links=tuple(tuple(self.links[i][j] for j in indices) for i in indices),
            devices=devices,
            gpu_key=self._gpu_key,
        )

    def _groups(self) -> list[list[int]]:
        """Indices of the GPUs that may be taken together."""
        # CUDA gives a process one MIG device, whatever CUDA_VISIBLE_DEVICES lists.
        mig = [[i] for i, gpu in enumerate(self.gpus) if gpu.mig]
        return mig + equal_groups(self.gpus, [i for i, gpu in enumerate(self.gpus) if not gpu.mig])

    def _too_few(self, n: int, *, wanted: int = 0) -> NotEnoughDevices:
        notes = "".join(f" ({note})" for note in self.notes)
        needs = f"needs {n} {'GPU' if n == 1 else 'equal GPUs'}, and this machine has"
        if not self.gpus:
            return NotEnoughDevices(f"{needs} none: {self.why_no_gpus or 'the reason is not known'}{notes}", wanted)
        more = "`tfperf topology` shows them"
        if any(gpu.mig for gpu in self.gpus):
            more = "A process can use only one MIG device; turn MIG off to train on several GPUs"
        return NotEnoughDevices(f"{needs} {len(self.gpus)}: {count_names(self.gpus)}{notes}", wanted, next_step=more)


def _require_count(what: str, n: object) -> None:
    if type(n) is not int or n < 1:
        raise TfperfError(f"{what}={n!r} must be a whole number of at least 1")
