"""GPUs as NVIDIA's management library (NVML) tells them, through nvidia-ml-py.

NVML opens no CUDA context, so that asking leaves the GPUs as they are. What one driver can't tell is None; where
nothing can be told, the reason is the result.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.hardware import mig
from pytest_tfperf.hardware.kernel_files import line_of
from pytest_tfperf.hardware.nvml_links import pci_address, read_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_tfperf.core.links import Matrix

ROOT = Path("/")

_left: list[subprocess.Popen[bytes]] = []
_ANSWER_SECONDS = 60.0  # a driver that wakes eight sleeping GPUs without persistence takes some

# By the end of NVML's error names: what it means, and what to do.
_CAUSES = {
    "LIBRARY_NOT_FOUND": "there is no libnvidia-ml.so.1: no NVIDIA driver is installed, or this container was started "
    "without its GPUs (docker run --gpus all)",
    "DRIVER_NOT_LOADED": "NVIDIA's library is here, but its kernel module is not loaded or has no GPU: "
    "see `modprobe nvidia` and `dmesg | grep -i nvrm`",
    "NO_PERMISSION": "no permission to open the GPUs' device files: "
    "see `ls -l /dev/nvidia*` and the groups that `id` names",
    "LIB_RM_VERSION_MISMATCH": "NVIDIA's library and kernel module are of different versions, as after an update of "
    "the driver: reboot, or reload the module (`rmmod nvidia_uvm nvidia; modprobe nvidia`)",
    "FUNCTION_NOT_FOUND": "the NVIDIA driver is too old for nvidia-ml-py: install a newer driver",
}


class NvmlError(TfperfError):
    """NVML can't be asked at all; the text says why.

    Args:
        text: for the user.
        fault: a driver is installed, and fails: this is no machine without GPUs.
    """

    def __init__(self, text: str, *, fault: bool = False) -> None:
        super().__init__(text)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Card:
    """A physical GPU and what of it can be used: itself, or its MIG devices (none, where none were made)."""

    gpu: Gpu
    usable: tuple[Gpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All cards in NVML's order, the links between them, the driver; or why there are none."""

    cards: tuple[Card, ...] = ()
    links: Matrix = ()
    driver_version: str = ""
    cuda_version: str = ""
    why_no_gpus: str = ""
    driver_fault: bool = False
    notes: tuple[str, ...] = ()


@contextmanager
def session() -> Iterator[Any]:
    """pynvml, initialised; shut down again whatever happens. Sessions may be nested: NVML counts them.

    Raises:
        NvmlError: no nvidia-ml-py, library, driver or permission; says which.
    """
    try:
        import pynvml
    except ImportError:
        raise NvmlError("the package nvidia-ml-py is not installed: pip install nvidia-ml-py") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        fault = error.value != pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        raise NvmlError(cause(pynvml, error), fault=fault) from None
    try:
        yield pynvml
    except pynvml.NVMLError as error:
        raise NvmlError(cause(pynvml, error), fault=True) from None
    finally:
        with suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def cause(nvml: Any, error: Any) -> str:
    """What an NVML error means for the user, and what to do."""
    known = {getattr(nvml, f"NVML_ERROR_{name}"): text for name, text in _CAUSES.items()}
    return known.get(error.value, f"NVML says {str(error)!r} (error {error.value})")


def find_gpus(root: Path = ROOT) -> Found:
    """Every GPU that NVML shows to this process, whatever CUDA_VISIBLE_DEVICES says; none is no error."""
    if _hangs(root):
        why = "the NVIDIA driver does not answer; dmesg may say why (NVRM: Xid), and mostly it takes a reboot"
        return Found(why_no_gpus=why, driver_fault=True)
    try:
        with session() as nvml:
            return _find(nvml, root)
    except NvmlError as error:
        return Found(why_no_gpus=str(error), driver_fault=error.fault)


def _hangs(root: Path) -> bool:
    """Whether a driver is there that does not answer a process of its own: it would hold us for ever, too."""
    if not (root / "dev/nvidiactl").exists():
        return False
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    asking = subprocess.Popen([sys.executable, "-c", "import pynvml; pynvml.nvmlInit()"], **quiet)
    try:
        asking.wait(_ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        asking.kill()
        _left.append(asking)  # and not waited for: its end is the driver's to allow
        return True
    return False


def _find(nvml: Any, root: Path) -> Found:
    def ask(function: str, *args: Any) -> Any:
        # An older driver lacks the function, another GPU the feature: this fact is then unknown, and no more.
        # AttributeError: the abandoned package pynvml, whose module has the same name, lacks later functions.
        with suppress(nvml.NVMLError, AttributeError):
            return getattr(nvml, function)(*args)
        return None

    driver = ask("nvmlSystemGetDriverVersion") or ""
    cuda = ask("nvmlSystemGetCudaDriverVersion")
    handles, cards, notes = [], [], []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            card, note = _card(nvml, ask, handle, index, root)
        except nvml.NVMLError as error:
            notes.append(f"GPU {index} can't be used: {cause(nvml, error)}")
            continue
        handles.append(handle)
        cards.append(card)
        notes += [note] if note else []
    no_gpus = "; ".join(notes) or f"the NVIDIA driver {driver} finds no GPU"
    return Found(
        cards=tuple(cards),
        links=read_links(nvml, ask, handles),
        driver_version=driver,
        cuda_version=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else "",
        why_no_gpus="" if any(card.usable for card in cards) else no_gpus,
        notes=tuple(notes) if any(card.usable for card in cards) else (),
    )


def _card(nvml: Any, ask: Callable[..., Any], handle: Any, index: int, root: Path) -> tuple[Card, str]:
    gpu = _gpu(nvml, ask, handle, index, root)
    mode = ask("nvmlDeviceGetMigMode", handle)
    if not mode or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        return Card(gpu, (gpu,)), ""
    slices = mig.devices(ask, handle, gpu)
    note = f"GPU {index} is in MIG mode without a MIG device: make one (`nvidia-smi mig -cgi ... -C`) or turn MIG off"
    return Card(gpu, slices), "" if slices else note


def _gpu(nvml: Any, ask: Callable[..., Any], handle: Any, index: int, root: Path) -> Gpu:
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    pci = ask("nvmlDeviceGetPciInfo", handle)
    gpu = Gpu(
        index=index,
        # The one fact without which no worker can be given this GPU: its error goes up.
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=ask("nvmlDeviceGetName", handle) or "unknown GPU",
        memory_bytes=memory.total if memory else None,
        compute_capability=ask("nvmlDeviceGetCudaComputeCapability", handle),
        cores=ask("nvmlDeviceGetNumGpuCores", handle),
        max_sm_clock_mhz=ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM),
        pcie_generation=ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
        pcie_width=ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
        pcie_current_generation=ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
        pcie_current_width=ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
    )
    return replace(gpu, **_from_sysfs(root, pci_address(pci))) if pci else gpu


def _from_sysfs(root: Path, address: tuple[int, int, int]) -> dict[str, Any]:
    """Bus id, NUMA node and nearest CPUs; NVML tells the latter two only since R510, sysfs always."""
    bus_id = "{:04x}:{:02x}:{:02x}.0".format(*address)
    folder = root / "sys/bus/pci/devices" / bus_id
    node, cpus = line_of(folder / "numa_node"), line_of(folder / "local_cpulist")
    # -1 is the kernel's word for "not known".
    return {"pci_bus_id": bus_id, "numa_node": int(node) if node.isdecimal() else None, "cpu_affinity": cpus or None}
