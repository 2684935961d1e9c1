"""The link between each pair of GPUs, from NVML: NVLinks counted, else the PCIe path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_tfperf.core.links import Link, LinkKind, Matrix
from pytest_tfperf.hardware.nvml import ask

# The far end of an NVLink that is no GPU's index.
_SWITCH = -1


def pci_address(pci: Any) -> tuple[int, int, int]:
    """Domain, bus and device of NVML's PCI info: as numbers, because the text's form differs between its versions."""
    return pci.domain, pci.bus, pci.device


def read_links(nvml: Any, handles: Sequence[Any]) -> Matrix:
    """Row i, column j: the best path between GPUs i and j."""
    infos = [ask(nvml, "nvmlDeviceGetPciInfo", handle) for handle in handles]
    indices = {pci_address(info): i for i, info in enumerate(infos) if info}
    ends = [_nvlink_ends(nvml, handle, indices) for handle in handles]

    def link(i: int, j: int) -> Link:
        # One end may not report a link that the other end reports.
        direct = max(ends[i].count(j), ends[j].count(i))
        # All GPUs on the switches reach each other with all the links that they have to them.
        switched = min(ends[i].count(_SWITCH), ends[j].count(_SWITCH))
        if direct + switched:
            return Link(LinkKind.NVLINK, direct + switched)
        # Asked in one order only, so that the matrix is symmetric whatever the driver answers.
        return Link(_pcie_path(nvml, handles[min(i, j)], handles[max(i, j)]))

    size = range(len(handles))
    return tuple(tuple(None if i == j else link(i, j) for j in size) for i in size)


def _pcie_path(nvml: Any, one: Any, other: Any) -> LinkKind:
    paths = {
        nvml.NVML_TOPOLOGY_INTERNAL: LinkKind.PIX,  # two GPUs on one board, as on a K80, share its PCIe switch
        nvml.NVML_TOPOLOGY_SINGLE: LinkKind.PIX,
        nvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.PXB,
        nvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.PHB,
        nvml.NVML_TOPOLOGY_NODE: LinkKind.NODE,
        nvml.NVML_TOPOLOGY_SYSTEM: LinkKind.SYS,
    }
    return paths.get(ask(nvml, "nvmlDeviceGetTopologyCommonAncestor", one, other), LinkKind.UNKNOWN)


def _nvlink_ends(nvml: Any, handle: Any, indices: dict[tuple[int, int, int], int]) -> list[int]:
    """Where each active NVLink of a GPU ends: the index of another GPU, or a switch."""
    # Virtual machines hide the switches, so an end of unknown kind counts as one, as in NCCL.
    switches = (nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, nvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN)
    ends = []
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        if ask(nvml, "nvmlDeviceGetNvLinkState", handle, number) != nvml.NVML_FEATURE_ENABLED:
            continue
        remote = ask(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, number)
        if remote and pci_address(remote) in indices:
            ends.append(indices[pci_address(remote)])
        elif ask(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, number) in switches:
            ends.append(_SWITCH)
    return ends
