"""The machine: its GPUs, the links between them, the host, the devices that a test takes, and the machine's name.

Discovery is in `hardware/`. To add a fact about a GPU, add a field with the default None to `Gpu`, and read it from
NVML in `hardware/discovery.py:read_gpu`; JSON needs no change. To show it in `tfperf topology`, add it to
`cli/__init__.py:_facts`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, combinations
from operator import attrgetter
from typing import Any

from pytest_tfperf.core.plain_json import plain
from pytest_tfperf.errors import BaselineError, NotEnoughDevices, NotEnoughNodes, TfperfError, one_of

JSON_VERSION = 1

LOCAL_LINK = "local"
"""The `node_link` of nodes that are processes of this machine."""

MOST_LOGICAL_DEVICES = 64
"""The most logical devices of a CPU or a split GPU. TensorFlow makes any number, and thousands exhaust the memory."""

# File systems allow 255 bytes; the suffix of baselines, locks and temporary files needs some of them.
_LONGEST = 180

# Words of a CPU's model that say nothing about its speed, or repeat another part of the key.
_CPU_NOISE = re.compile(
    r"""\((?:R|TM|C)\)              # trade marks
      | \b\d+(?:st|nd|rd|th)\ Gen\b  # "13th Gen Intel(R) Core(TM) i9-13900K"
      | @\s*[\d.]+\s*GHz            # the base clock, which the model number implies
      | \b\w+-Core\b               # the whole chip's cores; the usable ones end the key
      | \bwith\ Radeon\b.*
      | \b(?:CPU|Processor|Intel)\b  # Xeon and Core are names that only Intel uses
    """,
    re.IGNORECASE | re.VERBOSE,
)

# A machine's name is also a file's name and an option's value: no separators, no leading dot or dash.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or one MIG device of a GPU; None where the driver does not report the fact."""

    index: int  # NVML's index, in the order of PCI bus ids; a MIG device has its GPU's
    uuid: str  # "GPU-..." or "MIG-...", as CUDA_VISIBLE_DEVICES takes it
    name: str  # as the driver writes it, MIG profile included
    memory_bytes: int | None = None
    compute_capability: tuple[int, int] | None = None  # major and minor
    cores: int | None = None  # CUDA cores (FP32 lanes)
    max_sm_clock_mhz: int | None = None  # the maximum that NVML reports; on GeForce cards above the advertised boost
    # memory_bus_bits, max_memory_clock_mhz: of its own memory
    memory_bus_bits: int | None = None
    max_memory_clock_mhz: int | None = None
    # pcie_generation, pcie_width: the maximum of card and slot together
    pcie_generation: int | None = None
    pcie_width: int | None = None
    pci_bus_id: str | None = None  # as in sysfs, "0000:06:00.0"
    numa_node: int | None = None  # the nearest node of the host's memory
    cpu_affinity: str | None = None  # the nearest CPUs of the host, "0-19,40-59"
    mig_profile: str | None = None  # "1g.18gb" on a MIG device
    # its index in CUDA_VISIBLE_DEVICES under CUDA_DEVICE_ORDER=PCI_BUS_ID; None where only the UUID is sure to name it:
    # with a GPU in MIG mode, or a lost one, on the machine
    cuda_index: int | None = None

    @property
    def mig(self) -> bool:
        """Whether this is a MIG device."""
        return self.mig_profile is not None

    @property
    def fp32_tflops(self) -> float | None:
        """Peak rate in 10^12 FLOP/s: each core completes one fused multiply-add, 2 FLOP, per clock."""
        if self.cores is None or self.max_sm_clock_mhz is None:
            return None
        return self.cores * 2 * self.max_sm_clock_mhz / 1e6

    @property
    def memory_gb_per_sec(self) -> float | None:
        """Peak rate of its own memory in 10^9 bytes/s, with two transfers a clock, as NVML counts clocks.

        It gives the data sheets' 732 of a P100 (4,096 bits, 715 MHz), 300 of an L4 (192 bits, 6,251 MHz) and 3,352 of
        an H100 (5,120 bits, 2,619 MHz).
        """
        if self.memory_bus_bits is None or self.max_memory_clock_mhz is None:
            return None
        return self.memory_bus_bits / 8 * 2 * self.max_memory_clock_mhz / 1000


def count_names(gpus: Sequence[Gpu]) -> str:
    """Return the number of GPUs of each name: "2x A + 1x B"."""
    return " + ".join(f"{count}x {name}" for name, count in Counter(gpu.name for gpu in gpus).items())


class LinkKind(StrEnum):
    """The path between two GPUs in `nvidia-smi`'s words, best first."""

    NVLINK = "NV"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NODE = "NODE"
    SYS = "SYS"
    UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Link:
    """The best path between two GPUs; it prints as `nvidia-smi topo -m` does: "NV4", "PIX", "SYS"."""

    kind: LinkKind  # NVLink, or how far the PCIe path reaches
    nvlinks: int = 0  # the number of bonded NVLinks; 0 for any other kind

    @property
    def quality(self) -> int:
        """A rank: one NVLink (20 GB/s each way on a P100) is better than any PCIe path (PCIe 3 about 12)."""
        if self.kind is LinkKind.NVLINK:
            return 10 * self.nvlinks + len(LinkKind)
        return len(LinkKind) - 1 - list(LinkKind).index(self.kind)

    @classmethod
    def parse(cls, text: str) -> Link:
        """Return the link that prints as this text.

        Raises:
            TfperfError: unknown link; lists the known links.
        """
        if nvlink := re.fullmatch(r"NV([1-9]\d{0,3})", text):
            return cls(LinkKind.NVLINK, int(nvlink[1]))
        pcie = set(LinkKind) - {LinkKind.NVLINK}
        if text not in pcie:
            raise TfperfError(one_of("link", text, ["NV1", "NV2", *pcie]))
        return cls(LinkKind(text))

    def __str__(self) -> str:
        return f"NV{self.nvlinks}" if self.kind is LinkKind.NVLINK else self.kind.value


# Row i, column j: the link between GPUs i and j; None on the diagonal.
Matrix = tuple[tuple[Link | None, ...], ...]


def best_linked(
    gpus: Sequence[Gpu], links: Matrix, groups: Iterable[Sequence[int]], count: int
) -> tuple[int, ...] | None:
    """Return the `count` GPUs of a group whose worst link is best, then all links in total; None if no group suffices.

    Ties go to the GPUs with the highest peak rate, so that a single GPU is never a small card for a display, then to
    the lowest indices. All sets are tried: 16 GPUs have at most 12,870 sets of a size.
    """
    quality = [[0 if link is None else link.quality for link in row] for row in links]

    def rank(indices: Sequence[int]) -> tuple[int, int, float, list[int]]:
        pairs = [quality[i][j] for i, j in combinations(indices, 2)]
        slowest = min(gpus[i].fp32_tflops or 0.0 for i in indices)
        return min(pairs, default=0), sum(pairs), slowest, [-i for i in indices]

    sets = (indices for group in groups for indices in combinations(sorted(group), count))
    return max(sets, key=rank, default=None)


def link_class(links: Matrix) -> str:
    """Return "nvlink" where there are NVLinks, else the worst link's kind; "" for a single GPU or an unknown link."""
    known = list(filter(None, chain.from_iterable(links)))
    if LinkKind.NVLINK in map(attrgetter("kind"), known):
        return "nvlink"
    worst = min(known, key=attrgetter("quality"), default=Link(LinkKind.UNKNOWN)).kind
    return "" if worst is LinkKind.UNKNOWN else worst.lower()


class DeviceKind(StrEnum):
    """TensorFlow's device types."""

    CPU = "CPU"
    GPU = "GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices of a worker: GPUs by UUID, parts of a split GPU, or virtual CPU devices."""

    kind: DeviceKind
    count: int  # logical devices (replicas) per node; 0 until `Topology.take` sets it
    gpu_uuids: tuple[str, ...] = ()  # the physical GPUs to make visible, in this order; empty on CPUs
    gpu_indices: tuple[int, ...] = ()  # their `Gpu.cuda_index`; empty where one has none
    split: bool = False  # whether one physical GPU is split into `count` logical GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host; cores are logical CPUs (hardware threads)."""

    cpu_model: str  # as the kernel writes it
    usable_cores: int  # cores that affinity and cgroup quota leave to this process, the quota rounded up
    total_cores: int  # all cores that the kernel reports
    physical_cores: int | None = None  # cores without hardware threads; None where the kernel does not report them
    memory_bytes: int | None = None  # the RAM, or the cgroup's limit where it is lower
    kernel: str = ""  # the release, "6.1.0-28-amd64"
    hostname: str = ""  # recorded, but no part of the machine's key


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """GPUs, links and host, as discovered or loaded; `take` narrows it to the devices of a test.

    Args:
        host: CPUs and memory.
        gpus: the GPUs that CUDA_VISIBLE_DEVICES shows, in its order; after `take`, the GPUs taken.
        links: row i, column j: the link between GPUs i and j; None on the diagonal.
        driver_version: of the NVIDIA driver; "" without one.
        cuda_version: the newest CUDA that the driver supports, as "12.4"; "" without a driver.
        node_count: the number of machines like this one that train together.
        most_nodes: the number of machines that there are; None where only the launcher's system knows.
        node_link: the network between them, "10gbe", or "local" for processes of one machine; "" where it is not known.
        devices: the devices taken; None before `take`, or with a count of 0 after `on_cpu` and `split`.
        why_no_gpus: the reason why there are no GPUs.
        driver_fault: whether the reason is an installed driver that fails.
        notes: hidden, lost or unusable GPUs.
        lost: the notes on GPUs that the driver counts and that no longer answer.
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
    lost: tuple[str, ...] = ()
    gpu_key: str = ""
    machine_name: str = ""

    @property
    def machine(self) -> str:
        """The machine's key, which names its file of baselines and depends on hardware only.

        GPU models, count and link class, then CPU model and usable cores; only the host's part for CPU devices. A
        vGPU's or MIG device's profile is part of its name. A GPU that is split into logical GPUs adds "split". The key
        of several nodes begins with their number and their network, "2-nodes-10gbe".
        """
        if self.machine_name:
            return self.machine_name
        nodes = joined([f"{self.node_count}-nodes", self.node_link]) if self.node_count > 1 else ""
        host = host_part(self.host.cpu_model, self.host.usable_cores)
        if self.on_cpus or not self.gpus:
            return joined([nodes, host])
        return joined([nodes, self._gpu_key, "split" if self._is_split else "", host])

    @property
    def shape(self) -> str:
        """Nodes x devices per node, as in "1x4", which is the topology part of a baseline's key."""
        count = self.devices.count if self.devices else 0
        return f"{self.node_count}x{count or max(1, len(self.gpus))}"

    @property
    def slowest_link(self) -> str:
        """The worst link between two of its GPUs, "NV12"; "" for a single GPU. It changes if NVLinks fail."""
        return str(min(filter(None, chain.from_iterable(self.links)), key=attrgetter("quality"), default=""))

    @property
    def is_taken(self) -> bool:
        """Whether `take` has set the number of devices."""
        return self.devices is not None and self.devices.count > 0

    @property
    def on_cpus(self) -> bool:
        """Whether its devices are virtual CPU devices."""
        return self.devices is not None and self.devices.kind is DeviceKind.CPU

    def nodes(self, n: int) -> Topology:
        """Return `n` machines like this one; `take` then takes devices on each of them.

        Raises:
            NotEnoughNodes: there are fewer nodes.
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
        """Return the `n` equal GPUs with the best links; after `on_cpu` or `split`, `n` logical devices.

        The best are those with the best link of the worst pair, then with the best links in total, then with the
        highest peak rate, then with the lowest indices. On several nodes each takes the first `n` equal GPUs, because
        the other nodes' links are not known here.

        Args:
            n: devices on each node.
            nodes: the number of nodes, as if `nodes(...)` were called first; None keeps it.

        Raises:
            NotEnoughDevices: too few nodes or equal GPUs, or more than 64 logical devices; names the devices that are
                needed and those that there are.
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
        return self._only(chosen, self._gpus_taken(chosen, n))

    def _take_parts(self, n: int) -> Topology:
        """Return GPUs for several processes of this machine, each of which stands for a node."""
        if self._is_split:
            raise NotEnoughDevices(f"needs {self.node_count} nodes, and parts of one GPU can't stand for nodes")
        taken = replace(self, node_count=1).take(n * self.node_count)
        assert taken.devices is not None, "take sets them"
        return replace(taken, node_count=self.node_count, devices=replace(taken.devices, count=n))

    def on_cpu(self) -> Topology:
        """Return the host without its GPUs; `take(n)` then gives n virtual CPU devices."""
        why = self.why_no_gpus or "the test runs on the CPU"
        return replace(self, gpus=(), links=(), devices=Devices(kind=DeviceKind.CPU, count=0), why_no_gpus=why)

    def split(self) -> Topology:
        """Return the fastest GPU alone; `take(n)` then splits it into n logical GPUs, to try multi-GPU code on one GPU.

        Raises:
            NotEnoughDevices: there is no GPU.
        """
        chosen = best_linked(self.gpus, self.links, self._groups(), 1)
        if chosen is None:
            raise self._too_few(1)
        return self._only(chosen, replace(self._gpus_taken(chosen, 0), split=True))

    def showing(self, indices: Sequence[int], why: str = "") -> Topology:
        """Return only these GPUs, in this order, with the whole machine's key; `why` says why the others are hidden."""
        shown = self._only(indices, self.devices)
        if not indices:
            return replace(shown, why_no_gpus=why)
        return replace(shown, notes=(*self.notes, why) if why else self.notes)

    def named_as_whole(self, is_known: Callable[[str], bool]) -> Topology:
        """Return it with the key from before it lost GPUs, so that its tests on one GPU keep their baselines.

        Which GPUs were lost, and how they were linked, is not known. So the key is the one that is known, of those
        that another GPU like the others gives; the key stays if there is none, or more than one.
        """
        host = host_part(self.host.cpu_model, self.host.usable_cores)
        names = [gpu.name for gpu in self.gpus]
        links = ["", "nvlink", *(kind.lower() for kind in LinkKind)]
        parts = {gpu_part([*names, *[name] * len(self.lost)], link) for name in names for link in links}
        known = [part for part in sorted(parts) if is_known(joined([part, host]))]
        return replace(self, gpu_key=known[0]) if len(known) == 1 else self

    def describe(self) -> str:
        """Return a short description, such as "8x Tesla P100-SXM2-16GB" or "2 of 2 cores of AMD EPYC"."""
        nodes = f"{self.node_count} nodes, each with " if self.node_count > 1 else ""
        count = self.devices.count if self.devices else 0
        if self.gpus:
            own = self.gpus[:count] if count else self.gpus  # nodes that are processes of one machine share those taken
            return nodes + count_names(own) + (f", split into {count}" if self._is_split and count else "")
        virtual = f"{count} virtual CPU devices on " if count > 1 else ""
        return f"{nodes}{virtual}{self.host.usable_cores} of {self.host.total_cores} cores of {self.host.cpu_model}"

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the format's version and the machine's key."""
        facts: dict[str, Any] = plain(self)
        return {"version": JSON_VERSION, "machine": self.machine} | facts

    @property
    def _is_split(self) -> bool:
        return self.devices is not None and self.devices.split

    @property
    def _gpu_key(self) -> str:
        return self.gpu_key or gpu_part([gpu.name for gpu in self.gpus], link_class(self.links))

    def _gpus_taken(self, chosen: Sequence[int], count: int) -> Devices:
        gpus = [self.gpus[i] for i in chosen]
        indices = tuple(gpu.cuda_index for gpu in gpus if gpu.cuda_index is not None)
        return Devices(
            kind=DeviceKind.GPU,
            count=count,
            gpu_uuids=tuple(gpu.uuid for gpu in gpus),
            gpu_indices=indices if len(indices) == len(gpus) else (),
        )

    def _only(self, indices: Sequence[int], devices: Devices | None) -> Topology:
        return replace(
            self,
            gpus=tuple(self.gpus[i] for i in indices),
            links=tuple(tuple(self.links[i][j] for j in indices) for i in indices),
            devices=devices,
            gpu_key=self._gpu_key,
        )

    def _groups(self) -> list[list[int]]:
        """Return groups of indices of GPUs that may be taken together: of the same name and memory size.

        Sizes are compared in whole GiB: a card that drives a display or has retired ECC rows reports a few MiB less.
        """
        groups: dict[object, list[int]] = {}
        for i, gpu in enumerate(self.gpus):
            # CUDA gives a process one MIG device, whatever CUDA_VISIBLE_DEVICES lists.
            key = i if gpu.mig else (gpu.name, round((gpu.memory_bytes or 0) / 2**30))
            groups.setdefault(key, []).append(i)
        return list(groups.values())

    def _too_few(self, n: int, *, wanted: int = 0) -> NotEnoughDevices:
        notes = "".join(f" ({note})" for note in self.notes)
        needs = f"needs {n} {'GPU' if n == 1 else 'equal GPUs'}, and this machine has"
        if not self.gpus:
            on_cpus = "" if self.driver_fault else "A test without the mark `gpu` takes CPUs here"
            why = self.why_no_gpus or "the reason is not known"
            return NotEnoughDevices(f"{needs} none: {why}{notes}", wanted, next_step=on_cpus)
        more = "`tfperf topology` shows them"
        if any(gpu.mig for gpu in self.gpus):
            more = "A process can use only one MIG device; turn MIG off to train on several GPUs"
        return NotEnoughDevices(f"{needs} {len(self.gpus)}: {count_names(self.gpus)}{notes}", wanted, next_step=more)


def _require_count(what: str, n: object) -> None:
    if type(n) is not int or n < 1:
        raise TfperfError(f"{what}={n!r} must be a whole number of at least 1")


# The parts of a machine's name, which its baselines file has, too. Equal hardware has the same name, whatever the
# driver, software, UUIDs or host name.


def is_name(machine: str) -> bool:
    """Whether `machine` can name a file of baselines."""
    return _NAME.fullmatch(machine) is not None


def check_name(machine: str) -> None:
    """Check that `machine` can name a file of baselines.

    Raises:
        BaselineError: it cannot.
    """
    if not is_name(machine):
        raise BaselineError(
            f"{machine!r} cannot be a machine's name, because a file is named after it",
            next_step="Use letters, digits, '.', '_', '+' and '-', starting with a letter or digit, "
            "200 characters at most",
        )


# A number, as in "Xeon(R) Platinum 8481C"; a name in brackets, "(Skylake, IBRS)"; or one behind a dash, "EPYC-Milan".
_TELLS_GENERATION = re.compile(r"\d|\([A-Z]|\w-\w")


def with_generation(brand: str, family: str, model: str) -> str:
    """Return a CPU's brand, with family and model where it does not tell the generation.

    >>> with_generation("Intel(R) Xeon(R) CPU @ 2.20GHz", "6", "85")
    'Intel(R) Xeon(R) CPU @ 2.20GHz family 6 model 85'
    """
    tells = _TELLS_GENERATION.search(_CPU_NOISE.sub(" ", brand)) is not None
    return brand if tells else f"{brand} family {family} model {model}"


def host_part(cpu_model: str, usable_cores: int) -> str:
    """Return the CPU's model and the usable logical cores.

    >>> host_part("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", 80)
    'xeon-e5-2698-v4-80c'
    """
    model = _words(_CPU_NOISE.sub(" ", cpu_model)) or _words(cpu_model) or "unknown-cpu"
    return f"{model}-{usable_cores}c"


def gpu_part(names: Sequence[str], link_class: str) -> str:
    """Return count and name of each model, most frequent first, then the class of the links; "" without GPUs.

    >>> gpu_part(["Tesla P100-SXM2-16GB"] * 8, "nvlink")
    '8x-tesla-p100-sxm2-16gb-nvlink'
    """
    models = Counter(gpu_model(name) for name in names)
    counted = sorted(models.items(), key=lambda item: (-item[1], item[0]))
    return joined([*(f"{count}x-{model}" for model, count in counted), link_class])


def gpu_model(name: str) -> str:
    """Return a model's name, the same from all drivers: from R465 on they write "NVIDIA GeForce", before "GeForce".

    >>> gpu_model("NVIDIA GeForce RTX 2080 Ti")
    'geforce-rtx-2080-ti'
    """
    return _words(re.sub(r"^NVIDIA\b", "", name)) or "unknown-gpu"


def joined(parts: Iterable[str]) -> str:
    """Join the parts that are not empty with dashes, and cut a name that is too long for a file."""
    return "-".join(filter(None, parts))[:_LONGEST]


def _words(text: str) -> str:
    # A point stays only inside a number or word: "1g.18gb", "2.5".
    return re.sub(r"(?:[^a-z0-9.]|(?<![a-z0-9])\.|\.(?![a-z0-9]))+", "-", text.lower()).strip("-")
