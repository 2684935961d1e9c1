"""The GPUs' share of a sample, from NVML; what one driver or GPU can't tell is None."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_tfperf.core.samples import GpuProcess, GpuSample, Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_tfperf.hardware.processes import Process

# By NVML's bits; its names changed from "throttle" to "event" reasons, its bits never did.
_THROTTLES = {
    0x001: Throttle.IDLE,
    0x002: Throttle.APPLICATION_CLOCKS,
    0x004: Throttle.POWER_CAP,
    0x008: Throttle.HW_SLOWDOWN,
    0x010: Throttle.SYNC_BOOST,
    0x020: Throttle.SW_THERMAL,
    0x040: Throttle.HW_THERMAL,
    0x080: Throttle.HW_POWER_BRAKE,
    0x100: Throttle.DISPLAY_CLOCKS,
}

_LOOK_BACK_SECONDS = 1.0  # NVML sums a process's use over up to a second: asking for less gives nothing at times


class GpuWatch:
    """Looks at some GPUs.

    Args:
        nvml: pynvml, initialised.
        uuids: GPUs or MIG devices.
        other: a pid's process, where it can be seen and isn't ours. In a container NVML may give pids of the host: they
            are not to be seen, may well be ours, and so count for nothing.
    """

    def __init__(self, nvml: Any, uuids: Iterable[str], other: Callable[[int], Process | None]) -> None:
        self._nvml = nvml
        self._other = other
        self._handles = {uuid: self._ask("nvmlDeviceGetHandleByUUID", uuid) for uuid in uuids}

    def sample(self) -> tuple[GpuSample, ...]:
        """How they are now."""
        return tuple(GpuSample(uuid=u) if h is None else self._sample(u, h) for u, h in self._handles.items())

    def _sample(self, uuid: str, handle: Any) -> GpuSample:
        nvml, ask = self._nvml, self._ask
        card = ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) if uuid.startswith("MIG-") else handle
        milliwatts = ask("nvmlDeviceGetPowerUsage", card)
        most_milliwatts = ask("nvmlDeviceGetEnforcedPowerLimit", card)
        used = ask("nvmlDeviceGetUtilizationRates", card)
        memory = ask("nvmlDeviceGetMemoryInfo", handle)
        return GpuSample(
            uuid=uuid,
            temperature_celsius=ask("nvmlDeviceGetTemperature", card, nvml.NVML_TEMPERATURE_GPU),
            sm_clock_mhz=ask("nvmlDeviceGetClockInfo", card, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=ask("nvmlDeviceGetClockInfo", card, nvml.NVML_CLOCK_MEM),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            power_limit_watts=None if most_milliwatts is None else round(most_milliwatts / 1000),
            utilisation_fraction=None if used is None else used.gpu / 100,
            memory_used_bytes=None if memory is None else memory.used,
            throttles=self._throttles(card),
            other_processes=self._others(handle),
        )

    def _throttles(self, card: Any) -> tuple[Throttle, ...] | None:
        # The newer name is missing in drivers before R535, the older one may go.
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", card)
        bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", card) if bits is None else bits
        if bits is None:
            return None
        known = tuple(word for bit, word in _THROTTLES.items() if bits & bit)
        return (*known, Throttle.UNKNOWN) if bits & ~sum(_THROTTLES) else known

    def _others(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        computing = self._ask("nvmlDeviceGetComputeRunningProcesses", handle)
        if computing is None:
            # Drivers before R510 have the older function only; both structures begin with the pid.
            computing = self._ask("nvmlDeviceGetComputeRunningProcesses_v2", handle)
        if computing is None:
            return None
        others = [process for pid in {entry.pid for entry in computing} if (process := self._other(pid))]
        shares = self._shares(handle) if others else None
        return tuple(
            GpuProcess(
                pid=process.pid,
                name=process.name,
                utilisation_fraction=None if shares is None else shares.get(process.pid, 0.0),
            )
            for process in sorted(others)
        )

    def _shares(self, handle: Any) -> dict[int, float] | None:
        """Pid to the fraction of the GPU that it used of late; a process that used none may be missing."""
        since = int((time.time() - _LOOK_BACK_SECONDS) * 1e6)
        try:
            entries = self._nvml.nvmlDeviceGetProcessUtilization(handle, since)
        except self._nvml.NVMLError as error:
            # "Not found" is NVML's, "success" nvidia-ml-py's word for nothing to tell.
            return {} if error.value in (self._nvml.NVML_ERROR_NOT_FOUND, self._nvml.NVML_SUCCESS) else None
        # Some drivers fill entries up with no process, samples of long ago, or thousands of per cent.
        told = [entry for entry in entries if entry.pid and entry.smUtil <= 100 and entry.timeStamp >= since]
        return {entry.pid: entry.smUtil / 100 for entry in sorted(told, key=lambda entry: entry.timeStamp)}

    def _ask(self, function: str, *args: Any) -> Any:
        with suppress(self._nvml.NVMLError, AttributeError):
            return getattr(self._nvml, function)(*args)
        return None
