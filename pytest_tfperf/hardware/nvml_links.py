"""The link between each pair of GPUs, from NVML: NVLinks counted, else the PCIe path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_tfperf.core.links import Link, LinkKind, Matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def pci_address(pci: Any) -> tuple[int, int, int]:
    """Domain, bus and device of NVML's PCI info: the numbers, as the text's form differs between its versions."""
    return pci.domain, pci.bus, pci.device


def read_links(nvml: Any, ask: Callable[..., Any], handles: Sequence[Any]) -> Matrix:
    """Row i, column j: the best path between GPUs i and j."""
    own = [ask("nvmlDeviceGetPciInfo", handle) for handle in handles]
    places = {pci_address(pci): i for i, pci in enumerate(own) if pci}
    ends = [_nvlink_ends(nvml, ask, handle, pci, places) for handle, pci in zip(handles, own, strict=True)]
    size = range(len(handles))
    return tuple(tuple(None if i == j else _link(nvml, ask, handles, ends, i, j) for j in size) for i in size)


# Where the other end of a GPU's NVLink is, besides the places of the other GPUs.
_SWITCH = -1


def _link(nvml: Any, ask: Callable[..., Any], handles: Sequence[Any], ends: list[list[int]], i: int, j: int) -> Link:
    # Either end may be silent about a link that the other one shows.
    direct = max(ends[i].count(j), ends[j].count(i))
    # All GPUs on the switches reach each other with all the links that they have to them.
    switched = min(ends[i].count(_SWITCH), ends[j].count(_SWITCH))
    if direct + switched:
        return Link(LinkKind.NVLINK, direct + switched)
    paths = {
        nvml.NVML_TOPOLOGY_INTERNAL: LinkKind.PIX,  # two GPUs on one board, as on a K80, share its PCIe switch
        nvml.NVML_TOPOLOGY_SINGLE: LinkKind.PIX,
        nvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.PXB,
        nvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.PHB,
        nvml.NVML_TOPOLOGY_NODE: LinkKind.NODE,
        nvml.NVML_TOPOLOGY_SYSTEM: LinkKind.SYS,
    }
    # Asked in one order only, so that the matrix is symmetric whatever the driver answers.
    ancestor = ask("nvmlDeviceGetTopologyCommonAncestor", handles[min(i, j)], handles[max(i, j)])
    return Link(paths.get(ancestor, LinkKind.UNKNOWN))


def _nvlink_ends(
    nvml: Any, ask: Callable[..., Any], handle: Any, own: Any, places: dict[tuple[int, int, int], int]
) -> list[int]:
    """Where each active NVLink of a GPU ends: another GPU's place, or a switch."""
    ends = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if ask("nvmlDeviceGetNvLinkState", handle, link) != nvml.NVML_FEATURE_ENABLED:
            continue
        remote = ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        if remote and pci_address(remote) in places:
            ends.append(places[pci_address(remote)])
        elif _ends_at_switch(nvml, ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link), remote, own):
            ends.append(_SWITCH)
    return ends


def _ends_at_switch(nvml: Any, kind: int | None, remote: Any, own: Any) -> bool:
    if kind not in (None, nvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN):
        return bool(kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH)
    # Drivers before R470 don't tell the kind. A GPU of our model that we can't see (another container's) is no switch;
    # any other unseen end is taken for one, as NCCL does, since virtual machines hide the switches.
    return not (remote and own and remote.pciDeviceId == own.pciDeviceId)
