"""The machine: GPUs, the links between them, the host; and which of its devices a test takes.

Discovery lives in `hardware/`; this file is the noun: frozen values that can be saved to JSON and loaded again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from pytest_tfperf.core import machine_key
from pytest_tfperf.core.gpu import Gpu as Gpu
from pytest_tfperf.core.gpu import count_names, equal_groups
from pytest_tfperf.core.links import Link as Link
from pytest_tfperf.core.links import LinkKind as LinkKind
from pytest_tfperf.core.links import Matrix, best_linked, link_class
from pytest_tfperf.core.plain_json import build
from pytest_tfperf.errors import NotEnoughDevices, TfperfError

if TYPE_CHECKING:
    from pathlib import Path

JSON_VERSION = 1


class DeviceKind(StrEnum):
    """TensorFlow's device types."""

    CPU = "CPU"
    GPU = "GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """What a worker is to see: real GPUs by UUID, a split GPU, or virtual CPU devices.

    Args:
        kind: CPU or GPU.
        count: logical devices (replicas) per node; 0 before `take` has said how many.
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
        total_cores: what the kernel sees.
        physical_cores: without hardware threads; None where the kernel does not tell.
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
        nodes: machines like this one that train together.
        devices: what is taken; None before `take`, or of a count of 0 after `on_cpu` and `split`.
        why_no_gpus: the reason, where there are none.
        driver_fault: the reason is a driver that is installed and fails.
        notes: what else a reader must know: hidden, lost or unusable GPUs.
        gpu_key: the GPU part of the machine's key, where `gpus` are not all of the machine's.
        machine_name: replaces the key (`--tfperf-machine`).

    Raises:
        TfperfError: links that are not a symmetric matrix over the GPUs, two GPUs with one UUID, or fewer than
            one node or usable core.
    """

    host: Host
    gpus: tuple[Gpu, ...] = ()
    links: Matrix = ()
    driver_version: str = ""
    cuda_version: str = ""
    nodes: int = 1
    devices: Devices | None = None
    why_no_gpus: str = ""
    driver_fault: bool = False
    notes: tuple[str, ...] = ()
    gpu_key: str = ""
    machine_name: str = ""

    def __post_init__(self) -> None:
        size = range(len(self.gpus))
        if len(self.links) != len(self.gpus) or any(len(row) != len(self.gpus) for row in self.links):
            raise TfperfError(f"links: {len(self.gpus)} GPUs need {len(self.gpus)} rows of as many links")
        if any(
            (self.links[i][j] is None) != (i == j) or self.links[i][j] != self.links[j][i] for i in size for j in size
        ):
            raise TfperfError("links: need the same link from i to j as from j to i, and X (none) on the diagonal only")
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus):
            raise TfperfError("gpus: two of them have the same uuid")
        if min(self.nodes, self.host.usable_cores, self.host.total_cores) < 1:
            raise TfperfError("nodes, host.usable_cores and host.total_cores must be at least 1")

    @property
    def machine(self) -> str:
        """The key: a file name that depends on hardware only.

        GPU models, count and link class, then CPU model and usable cores; the host's part alone for CPU devices. A
        vGPU's profile is part of its name, as a MIG device's is; a GPU that we split ourselves adds "split".
        """
        if self.machine_name:
            return self.machine_name
        host = machine_key.host_part(self.host.cpu_model, self.host.usable_cores)
        if self.on_cpus or not self.gpus:
            return machine_key.joined([host])
        split = "split" if self.devices is not None and self.devices.split else ""
        return machine_key.joined([self._gpu_key, split, host])

    @property
    def shape(self) -> str:
        """Nodes x devices per node, "1x4": the topology part of a baseline's key."""
        count = self.devices.count if self.devices else 0
        return f"{self.nodes}x{count or max(1, len(self.gpus))}"

    @property
    def is_taken(self) -> bool:
        """Whether `take` has said how many devices."""
        return self.devices is not None and self.devices.count > 0

    def take(self, n: int, *, nodes: int = 1, unequal: bool = False) -> Self:
        """The best linked `n` equal GPUs (any, where unequal); after `on_cpu` or `split`, `n` logical devices.

        Best: the worst pair's link, then all links in total, then the lowest places. `n` is for each of `nodes`.

        Raises:
            NotEnoughDevices: too few, or too few equal ones, or several nodes, which can't be driven yet; says what
                is needed and what there is.
            TfperfError: n or nodes is below 1.
        """
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise TfperfError(f"take({n!r}): ask for a whole number of devices from 1")
        if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
            raise TfperfError(f"take({n}, nodes={nodes!r}): ask for a whole number of nodes from 1")
        if nodes > 1:
            raise NotEnoughDevices(
                f"needs {nodes} nodes, and training over several is not built yet; `tfperf replay` judges logs of it"
            )
        if self.devices is not None and (self.on_cpus or self.devices.split):
            return replace(self, devices=replace(self.devices, count=n))
        chosen = best_linked(self.links, self._groups(unequal), n)
        if chosen is None:
            raise NotEnoughDevices(self._too_few(n, unequal), wanted=n)
        return self._only(
            chosen, Devices(kind=DeviceKind.GPU, count=n, gpu_uuids=tuple(self.gpus[i].uuid for i in chosen))
        )

    @property
    def on_cpus(self) -> bool:
        """Whether what was taken are virtual CPU devices."""
        return self.devices is not None and self.devices.kind is DeviceKind.CPU

    def on_cpu(self) -> Self:
        """The same host without its GPUs: `take(n)` then gives n virtual CPU devices."""
        why = self.why_no_gpus or "only the CPUs were asked for"
        return replace(self._only((), Devices(kind=DeviceKind.CPU, count=0)), why_no_gpus=why)

    def split(self) -> Self:
        """The first GPU alone: `take(n)` then splits it into n logical ones, to try multi-GPU paths on one.

        Raises:
            NotEnoughDevices: there is no GPU.
        """
        if not self.gpus:
            raise NotEnoughDevices(self._too_few(1, unequal=True))
        return self._only((0,), Devices(kind=DeviceKind.GPU, count=0, gpu_uuids=(self.gpus[0].uuid,), split=True))

    def showing(self, places: Sequence[int], why: str = "") -> Self:
        """Only these GPUs, in this order, on what stays the same machine; `why` the others are hidden."""
        shown = self._only(places, self.devices)
        if not places:
            return replace(shown, why_no_gpus=why)
        return replace(shown, notes=(*self.notes, why) if why else self.notes)

    def named(self, machine_name: str) -> Self:
        """The same, under this machine key."""
        return replace(self, machine_name=machine_name)

    def describe(self) -> str:
        """One short line: "8x Tesla P100-SXM2-16GB", "2 of 2 cores of AMD EPYC"."""
        if not self.gpus:
            cores = f"{self.host.usable_cores} of {self.host.total_cores} cores of {self.host.cpu_model}"
            several = self.devices is not None and self.devices.count > 1 and self.devices.count
            return f"{several} virtual CPU devices on {cores}" if several else cores
        split = f", split into {self.devices.count}" if self.is_taken and self.devices and self.devices.split else ""
        return count_names(self.gpus) + split

    def to_json(self) -> dict[str, Any]:
        """Plain values for `from_json`; `machine`, `shape` and `fp32_tflops` are there to be read, not read back."""
        gpus = [asdict(gpu) | {"fp32_tflops": gpu.fp32_tflops} for gpu in self.gpus]
        links = [["X" if link is None else str(link) for link in row] for row in self.links]
        derived = {"version": JSON_VERSION, "machine": self.machine, "shape": self.shape}
        # Through JSON's own types: tuples become lists, enums their values.
        plain: dict[str, Any] = json.loads(json.dumps(derived | asdict(self) | {"gpus": gpus, "links": links}))
        return plain

    @classmethod
    def from_json(cls, value: object, where: str = "topology") -> Self:
        """The topology that `to_json` wrote.

        Raises:
            TfperfError: another version, an unknown or missing field, a wrong value; names the place.
        """
        if not isinstance(value, Mapping) or not isinstance(value.get("version"), int):
            raise TfperfError(
                f"{where}: no topology: expected an object with a version; `tfperf topology --json` writes one"
            )
        if value["version"] != JSON_VERSION:
            raise TfperfError(
                f"{where}: version {value['version']}, and this pytest-tfperf reads version {JSON_VERSION}: "
                "upgrade it, or write the file again with `tfperf topology --json`"
            )
        known = {k: v for k, v in value.items() if k not in ("version", "machine", "shape")}
        if isinstance(gpus := known.get("gpus"), list):
            known["gpus"] = [_without("fp32_tflops", gpu) for gpu in gpus]
        if isinstance(rows := known.get("links"), list):
            known["links"] = [[None if c == "X" else c for c in row] if isinstance(row, list) else row for row in rows]
        return build(cls, known, where)

    @classmethod
    def load(cls, path: Path) -> Self:
        """The topology in a file that `tfperf topology --json` wrote.

        Raises:
            TfperfError: no readable file, no JSON, or no topology; names file and line.
        """
        try:
            return cls.from_json(json.loads(path.read_text("utf-8")), str(path))
        except OSError as error:
            raise TfperfError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise TfperfError(f"{path}: not JSON: {error}") from None

    @property
    def _gpu_key(self) -> str:
        return self.gpu_key or machine_key.gpu_part([gpu.name for gpu in self.gpus], link_class(self.links))

    def _only(self, places: Sequence[int], devices: Devices | None) -> Self:
        return replace(
            self,
            gpus=tuple(self.gpus[i] for i in places),
            links=tuple(tuple(self.links[i][j] for j in places) for i in places),
            devices=devices,
            gpu_key=self._gpu_key,
        )

    def _groups(self, unequal: bool) -> list[list[int]]:
        """Places of the GPUs that may be taken together."""
        # CUDA gives a process one MIG device, whatever CUDA_VISIBLE_DEVICES lists.
        slices = [[i] for i, gpu in enumerate(self.gpus) if gpu.mig]
        whole = [i for i, gpu in enumerate(self.gpus) if not gpu.mig]
        return slices + ([whole] if unequal else equal_groups(self.gpus, whole))

    def _too_few(self, n: int, unequal: bool) -> str:
        notes = "".join(f" ({note})" for note in self.notes)
        needs = f"needs {n} {'GPU' if n == 1 else 'GPUs' if unequal else 'equal GPUs'}, and this machine has"
        if not self.gpus:
            return f"{needs} none: {self.why_no_gpus or 'no reason is known'}{notes}"
        most = max(map(len, self._groups(unequal)))
        fact = f"{needs} {len(self.gpus)}: {count_names(self.gpus)}{notes}"
        if any(gpu.mig for gpu in self.gpus):
            return f"{fact}. A process can use one MIG device only; turn MIG off to train on several GPUs"
        if most < len(self.gpus) and n <= len(self.gpus):
            return f"{fact}. At most {most} are equal; take({n}, unequal=True) takes them as they are"
        return f"{fact}. `tfperf topology` shows them"


def _without(field: str, value: object) -> object:
    return {k: v for k, v in value.items() if k != field} if isinstance(value, dict) else value
