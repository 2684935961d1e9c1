"""Polls the host and GPUs once a second while a run is measured, from a thread of the driver.

Of a GPU it reads temperature, clocks, power, throttle reasons, and its use by other processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle, merged
from pytest_tfperf.hardware.host_usage import HostUsage
from pytest_tfperf.hardware.nvml import WAKE_SECONDS, NvmlError, ask, gives_our_pids, session

_INTERVAL_SECONDS = 1.0
_STOP_SECONDS = 5.0  # a call into the driver of a GPU that fell off the bus may never return
# The kernel counts CPU time in ticks of 10 ms, of which fewer than ten are too coarse.
_SHORTEST_SECONDS = 0.1
_MPS = "nvidia-cuda-mps"  # how the names of its server and its control daemon begin
_USE_SECONDS = 1.0  # NVML averages a process's use over up to a second; a shorter time may give nothing


class Sampler:
    """Polls from `start` to `stop`, at least once.

    Args:
        gpu_uuids: GPUs and MIG devices to watch.
        ours: pids of processes that are ours, although this process did not start them.
        knows_pids: whether NVML's process ids can be looked up here.
    """

    def __init__(
        self,
        gpu_uuids: Sequence[str] = (),
        ours: Collection[int] = (),
        *,
        nvml: Any = None,
        knows_pids: Callable[[], bool] = gives_our_pids,
    ) -> None:
        self._ours = ours
        self._uuids = tuple(dict.fromkeys(gpu_uuids))
        self._nvml = nvml
        self._knows_pids = knows_pids
        self._polls: list[Telemetry] = []
        self._found = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tfperf-sampler", daemon=True)
        self.hung = False
        """Whether the thread did not end when it was stopped."""

    def start(self) -> None:
        """Begin; call it once."""
        self._thread.start()

    def stop(self) -> Telemetry | None:
        """Poll a last time and end; None where the polls cover less than 0.1 s."""
        self._ended.set()
        if not self._uuids or self._found.wait(WAKE_SECONDS):  # GPUs may have to wake first
            self._thread.join(_STOP_SECONDS)
        self.hung = self._thread.is_alive()
        telemetry = merged(list(self._polls))
        return telemetry if telemetry is not None and telemetry.seconds >= _SHORTEST_SECONDS else None

    @property
    def latest(self) -> Telemetry | None:
        """The last poll; None before the first."""
        return self._polls[-1] if self._polls else None

    @property
    def polls(self) -> tuple[Telemetry, ...]:
        """All polls in order; without the processes' names, which are many and would be stored with each run."""
        return tuple(
            replace(poll, other_processes=None, gpus=tuple(replace(gpu, other_processes=None) for gpu in poll.gpus))
            for poll in list(self._polls)
        )

    def _run(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._found.set)  # even where this thread fails: `stop` must not wait for it
            host = HostUsage(besides=self._ours)
            nvml, handles = opened(stack, self._nvml, self._uuids)
            self._found.set()
            other_process = host.other_process if self._knows_pids() else None
            ended = False
            while not ended:
                ended = self._ended.wait(_INTERVAL_SECONDS)
                poll = host.poll()
                self._polls.append(replace(poll, gpus=read_gpus(nvml, handles, other_process)))


def opened(stack: ExitStack, nvml: Any, uuids: Collection[str]) -> tuple[Any, Mapping[str, Any]]:
    """NVML, initialised until the stack ends, and the handles of `handles_of`; None for NVML without a driver."""
    known = None
    if uuids:
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
        nvml: pynvml, initialised; None where there is no driver, so that no fact is known.
        handles: of the GPUs and MIG devices, by `handles_of`.
        other_process: returns the name of a process; "" if it is ours, None if there is no such process. None instead
            of it where NVML's pids can't be looked up (`nvml.gives_our_pids`): then other processes are not known.
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
