"""NVIDIA's management library (NVML), through nvidia-ml-py: it opens no CUDA context, so the GPUs stay as they are."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from pytest_tfperf.core.telemetry import GpuTelemetry, Throttle
from pytest_tfperf.core.topology import Link, LinkKind, Matrix
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.hardware.host import ROOT

# The end of an NVML error's name -> its meaning and the next step.
_CAUSES = {
    "LIBRARY_NOT_FOUND": "there is no libnvidia-ml.so.1: no NVIDIA driver is installed, or this container was started "
    "without its GPUs (docker run --gpus all)",
    "DRIVER_NOT_LOADED": "the NVIDIA library is installed, but its kernel module is not loaded or finds no GPU: "
    "see `modprobe nvidia` and `dmesg | grep -i nvrm`",
    "NO_PERMISSION": "no permission to open the GPUs' device files: see `ls -l /dev/nvidia*` and `id`",
    "GPU_IS_LOST": "the driver has lost it; `dmesg | grep -i xid` may show why, and a reboot often brings it back",
    "RESET_REQUIRED": "it must be reset (`sudo nvidia-smi --gpu-reset -i INDEX`), or the machine rebooted",
    "LIB_RM_VERSION_MISMATCH": "the NVIDIA library and kernel module have different versions, as after a driver "
    "update: reboot, or reload the module (`rmmod nvidia_uvm nvidia; modprobe nvidia`)",
}
_NO_NVML = (
    "there are GPUs (/dev/nvidiactl), but no libnvidia-ml.so.1, which names them: a container needs "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
)


class NvmlError(TfperfError):
    """NVML cannot be used: an installed driver fails (`fault`), or the machine has no GPUs."""

    def __init__(self, text: str, *, fault: bool = False) -> None:
        super().__init__(text)
        self.fault = fault


@contextmanager
def session(nvml: Any = None, root: Path = ROOT) -> Iterator[Any]:
    """pynvml (or the stand-in given), initialised; shut down at the end. Sessions may be nested: NVML counts them.

    Raises:
        NvmlError: no library, driver or permission; says which.
    """
    nvml = nvml or importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        is_missing = error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND
        has_gpus = (root / "dev/nvidiactl").exists()
        text = _NO_NVML if is_missing and has_gpus else cause(nvml, error)
        raise NvmlError(text, fault=has_gpus or not is_missing) from None
    try:
        yield nvml
    except nvml.NVMLError as error:
        raise NvmlError(cause(nvml, error), fault=True) from None
    finally:
        with suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def ask(nvml: Any, function: str, *args: Any) -> Any:
    """The function's answer; None where this driver, GPU or version of nvidia-ml-py does not have it."""
    # AttributeError: the abandoned package pynvml, whose module has the same name, lacks later functions. The mismatch:
    # a driver before R510 lacks later versions of a function. UnicodeDecodeError: the names that R555 gives in WSL2.
    mismatch = getattr(nvml, "NVMLLibraryMismatchError", AttributeError)
    with suppress(nvml.NVMLError, AttributeError, UnicodeDecodeError, mismatch):
        return as_text(getattr(nvml, function)(*args))
    return None


def as_text(answer: Any) -> Any:
    """An answer with bytes, which the package pynvml gives for names, as text."""
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def cause(nvml: Any, error: Any) -> str:
    """An NVML error's meaning for the user, and the next step."""
    causes = {getattr(nvml, f"NVML_ERROR_{name}"): text for name, text in _CAUSES.items()}
    return causes.get(error.value, f"NVML reports {str(error)!r} (error {error.value})")


# The kernel's PROC_PID_INIT_INO: the namespace of the host's pids.
_HOSTS_PIDS = "pid:[4026531836]"


def gives_our_pids(root: Path = ROOT) -> bool:
    """Whether NVML's process ids are valid in this process.

    NVML gives the host's. A container has ids of its own, unless it was started with the host's (docker run
    --pid=host, Kubernetes' hostPID); there our own worker looks like a process of somebody else.
    """
    with suppress(OSError):
        return str((root / "proc/self/ns/pid").readlink()) == _HOSTS_PIDS
    return False


WAKE_SECONDS = 60.0
"""The most that a driver without persistence mode may take to wake a machine's GPUs: eight need about 16 s."""

# NVML wakes a GPU when it is asked for, not before.
_TOUCH_ALL = """
import pynvml
pynvml.nvmlInit()
for index in range(pynvml.nvmlDeviceGetCount()):
    try:
        pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index))
    except pynvml.NVMLError:
        pass
"""


def driver_hangs(root: Path = ROOT, answer_seconds: float = WAKE_SECONDS) -> bool:
    """Whether an installed driver hangs, tried in a process of its own: it would block this one for ever."""
    if not (root / "dev/nvidiactl").exists():
        return False
    return answer_of(_TOUCH_ALL, seconds=answer_seconds) is None


def answer_of(
    code: str, *arguments: str, seconds: float, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | None:
    """The end of Python code in a process of its own, and what it printed; None if it did not end within `seconds`.

    A call into a driver that hangs never returns, and frameworks that see GPUs keep memory on them until they end. The
    code gets the arguments as `sys.argv[1:]`, and these variables beside ours.
    """
    given: dict[str, Any] = {"env": os.environ | (environ or {}), "stdin": subprocess.DEVNULL, "text": True}
    with tempfile.TemporaryFile("w+", errors="replace") as out, tempfile.TemporaryFile("w+", errors="replace") as log:
        # Files and no pipes, which a process that it leaves behind would hold open.
        process = subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=out, stderr=log, **given)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)  # no longer: inside a hung driver it may never end
            return None
        out.seek(0)
        log.seek(0)
        return subprocess.CompletedProcess(process.args, status, out.read(), log.read())


SWITCH = -1
"""The far end of an NVLink that is a switch, as on an HGX."""
ELSEWHERE = -2
"""One that is no GPU of those asked for, as in a container that was given some of them."""


def pci_address(pci: Any) -> tuple[int, int, int]:
    """Domain, bus and device of NVML's PCI info: as numbers, because the text's form differs between its versions."""
    return pci.domain, pci.bus, pci.device


def read_links(nvml: Any, handles: Sequence[Any]) -> Matrix:
    """Row i, column j: the best path between GPUs i and j."""
    infos = [ask(nvml, "nvmlDeviceGetPciInfo", handle) for handle in handles]
    indices = {pci_address(info): i for i, info in enumerate(infos) if info}
    ends = [nvlink_ends(nvml, handle, indices) for handle in handles]
    paths = {
        nvml.NVML_TOPOLOGY_INTERNAL: LinkKind.PIX,  # two GPUs on one board, as on a K80, share its PCIe switch
        nvml.NVML_TOPOLOGY_SINGLE: LinkKind.PIX,
        nvml.NVML_TOPOLOGY_MULTIPLE: LinkKind.PXB,
        nvml.NVML_TOPOLOGY_HOSTBRIDGE: LinkKind.PHB,
        nvml.NVML_TOPOLOGY_NODE: LinkKind.NODE,
        nvml.NVML_TOPOLOGY_SYSTEM: LinkKind.SYS,
    }

    def link(i: int, j: int) -> Link:
        # One end may not report a link that the other end reports.
        direct = max(ends[i].count(j), ends[j].count(i))
        # All GPUs on the switches reach each other with all the links that they have to them.
        switched = min(ends[i].count(SWITCH), ends[j].count(SWITCH))
        if direct + switched:
            return Link(LinkKind.NVLINK, direct + switched)
        # Asked in one order only, so that the matrix is symmetric whatever the driver answers.
        ancestor = ask(nvml, "nvmlDeviceGetTopologyCommonAncestor", handles[min(i, j)], handles[max(i, j)])
        return Link(paths.get(ancestor, LinkKind.UNKNOWN))

    size = range(len(handles))
    return tuple(tuple(None if i == j else link(i, j) for j in size) for i in size)


def nvlink_ends(nvml: Any, handle: Any, indices: Mapping[tuple[int, int, int], int]) -> list[int]:
    """The far end of each active NVLink of a GPU: a GPU's index, by its `pci_address`, `SWITCH` or `ELSEWHERE`."""
    # Virtual machines hide the switches, so an end of unknown kind counts as a switch, as in NCCL.
    switches = (nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH, nvml.NVML_NVLINK_DEVICE_TYPE_UNKNOWN)
    ends = []
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        if ask(nvml, "nvmlDeviceGetNvLinkState", handle, number) != nvml.NVML_FEATURE_ENABLED:
            continue
        remote = ask(nvml, "nvmlDeviceGetNvLinkRemotePciInfo", handle, number)
        if remote and pci_address(remote) in indices:
            ends.append(indices[pci_address(remote)])
        elif ask(nvml, "nvmlDeviceGetNvLinkRemoteDeviceType", handle, number) in switches:
            ends.append(SWITCH)
        else:
            ends.append(ELSEWHERE)
    return ends


# The state of GPUs at one moment

_MPS = "nvidia-cuda-mps"  # how the names of its server and its control daemon begin
_USE_SECONDS = 1.0  # NVML averages a process's use over up to a second; a shorter time may give nothing


def opened(stack: ExitStack, nvml: Any, uuids: Collection[str]) -> tuple[Any, Mapping[str, Any]]:
    """NVML, initialised until the stack ends, and the handles of `handles_of`; None for NVML without a driver."""
    known = None
    with suppress(NvmlError):
        known = stack.enter_context(session(nvml))
    return known, handles_of(known, uuids)


def handles_of(nvml: Any, uuids: Iterable[str]) -> Mapping[str, Any]:
    """NVML's handle of each GPU or MIG device; None for a device that it does not find.

    Ask once and not at each poll: while it searches, NVML may wake other GPUs too.
    """
    # Bytes, because the package pynvml takes no text.
    return {uuid: None if nvml is None else ask(nvml, "nvmlDeviceGetHandleByUUID", uuid.encode()) for uuid in uuids}


def read_gpus(
    nvml: Any, handles: Mapping[str, Any], other_process: Callable[[int], str | None] | None
) -> tuple[GpuTelemetry, ...]:
    """The state of each GPU or MIG device; a fact that the driver does not report is None.

    Args:
        other_process: returns the name of a process; "" if it is ours, None if there is no such process. None instead
            of it where NVML's pids can't be looked up (`gives_our_pids`): then other processes are not known.
    """
    return tuple(_read(nvml, uuid, handle, other_process) for uuid, handle in handles.items())


def _read(nvml: Any, uuid: str, handle: Any, other_process: Callable[[int], str | None] | None) -> GpuTelemetry:
    if handle is None:
        return GpuTelemetry(uuid=uuid)
    mig = uuid.startswith("MIG-")
    gpu = ask(nvml, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) if mig else handle
    milliwatts = ask(nvml, "nvmlDeviceGetPowerUsage", gpu)
    limit_milliwatts = ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", gpu)
    rates = ask(nvml, "nvmlDeviceGetUtilizationRates", gpu)
    pids = _computing(nvml, handle)
    others = None if pids is None or other_process is None else _other_processes(nvml, handle, pids, other_process)
    of_all = _computing(nvml, gpu) if mig and others is not None else None
    return GpuTelemetry(
        uuid=uuid,
        temperature_celsius_max=ask(nvml, "nvmlDeviceGetTemperature", gpu, nvml.NVML_TEMPERATURE_GPU),
        sm_clock_mhz_median=ask(nvml, "nvmlDeviceGetClockInfo", gpu, nvml.NVML_CLOCK_SM),
        power_watts_mean=None if milliwatts is None else milliwatts / 1000,
        power_limit_watts_max=None if limit_milliwatts is None else round(limit_milliwatts / 1000),
        utilisation_fraction_mean=None if rates is None else rates.gpu / 100,
        throttled_fractions=_throttles(nvml, gpu),
        other_processes=others,
        processes_max=None if pids is None else len(pids),
        neighbours_max=None if of_all is None or pids is None else len(of_all - pids),
    )


def _throttles(nvml: Any, gpu: Any) -> Mapping[str, float] | None:
    bits = ask(nvml, "nvmlDeviceGetCurrentClocksEventReasons", gpu)  # from R535 on
    if bits is None:
        bits = ask(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", gpu)  # the name that older drivers know
    return None if bits is None else {reason.value: 1.0 for i, reason in enumerate(Throttle) if bits & 1 << i}


def _computing(nvml: Any, handle: Any) -> set[int] | None:
    """The processes that compute on a GPU or MIG device, without graphics (a desktop); None without a list of them."""
    computing = ask(nvml, "nvmlDeviceGetComputeRunningProcesses", handle)
    if computing is None:  # drivers before R510 know the second version of the function
        computing = ask(nvml, "nvmlDeviceGetComputeRunningProcesses_v2", handle)
    if computing is None:
        return None
    clients = ask(nvml, "nvmlDeviceGetMPSComputeRunningProcesses", handle) or []
    return {entry.pid for entry in [*computing, *clients]}


def _other_processes(
    nvml: Any, handle: Any, pids: Collection[int], other_process: Callable[[int], str | None]
) -> Mapping[str, float] | None:
    """Other processes' shares of the GPU, without MPS' server: it computes for its clients, which NVML lists, too.

    None where none is found, but not all pids could be looked up: they may be of another namespace after all.
    """
    named = {pid: other_process(pid) for pid in pids}
    others = {pid: name for pid, name in named.items() if name and not name.startswith(_MPS)}
    if not others and None in named.values():
        return None
    shares = _shares(nvml, handle) if others else None
    return {name: 1.0 if shares is None else shares.get(pid, 0.0) for pid, name in others.items()}


def _shares(nvml: Any, handle: Any) -> dict[int, float] | None:
    """Pid -> the fraction of the GPU that it used lately; a process that used none may be missing."""
    since = int((time.time() - _USE_SECONDS) * 1e6)
    try:
        entries = nvml.nvmlDeviceGetProcessUtilization(handle, since)
    except nvml.NVMLError as error:
        # "Not found" is NVML's word for nothing to report, "success" is nvidia-ml-py's.
        return {} if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_SUCCESS) else None
    # Some drivers add entries without a process, old entries, or thousands of per cent.
    valid = [entry for entry in entries if entry.pid and entry.smUtil <= 100 and entry.timeStamp >= since]
    return {entry.pid: entry.smUtil / 100 for entry in sorted(valid, key=lambda entry: entry.timeStamp)}
