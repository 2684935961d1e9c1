"""Are the GPUs fit to measure? Their settings, errors and other processes, as NVML reports them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.telemetry import GpuTelemetry, Throttle
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.hardware.discovery import Card, read_cards, visible_gpus
from pytest_tfperf.hardware.host import ROOT
from pytest_tfperf.hardware.host_usage import pid_in, process_name
from pytest_tfperf.hardware.nvml import NvmlError, ask, driver_hangs, session
from pytest_tfperf.hardware.sampler import read_gpus

_LIMITS = DisturbanceLimits()
_TOO_HOT = {
    Throttle.SW_THERMAL: "slowed down by the driver because of its temperature",
    Throttle.HW_THERMAL: "slowed down by its hardware because of its temperature",
    Throttle.HW_POWER_BRAKE: "slowed down by the power brake",
    Throttle.HW_SLOWDOWN: "slowed down by its hardware",
}


def gpu_findings(
    root: Path = ROOT,
    nvml: Any = None,
    other_process: Callable[[int], str] = process_name,
    environ: Mapping[str, str] = os.environ,
) -> list[Finding]:
    """What was found of the driver and of each visible GPU; a fact that the driver does not report is left out.

    Args:
        root: the folder above sys and dev.
        nvml: pynvml or a stand-in; None imports pynvml.
        other_process: the name of a process by its pid; "" where it can't be seen.
        environ: CUDA_VISIBLE_DEVICES may hide GPUs, whose state then does not matter.
    """
    if driver_hangs(root):
        fact = "it does not answer"
        return [Finding(Check.DRIVER, Level.UNFIT, fact, "sudo dmesg | grep -i xid   # a reboot usually repairs it")]
    try:
        with session(nvml) as opened:
            version = ask(opened, "nvmlSystemGetDriverVersion") or "unknown"
            cards, notes = read_cards(opened, root)
            found = [Finding(Check.DRIVER, Level.UNFIT, note, "nvidia-smi -q") for note in notes]
            found += found or [Finding(Check.DRIVER, Level.OK, f"version {version}, {_gpus(len(cards))}")]
            visible = visible_gpus(cards, environ)
            for card in cards:
                if shown := [gpu.uuid for gpu in card.usable if gpu in visible]:
                    found += _of_card(opened, card, read_gpus(opened, shown, other_process))
            return found
    except NvmlError as error:
        if error.fault:
            return [Finding(Check.DRIVER, Level.UNFIT, str(error), "nvidia-smi")]
        return [Finding(Check.DRIVER, Level.OK, f"none, so tests run on CPUs only: {error}")]


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _of_card(nvml: Any, card: Card, seen: Sequence[GpuTelemetry]) -> Iterator[Finding]:
    """Of a GPU, of which `seen` is the state, or that of its MIG devices: only processes differ between these."""
    index = card.gpu.index
    yield from _persistence(nvml, card.handle, index)
    yield from _power_limit(nvml, card.handle, index)
    yield from _clocks(nvml, card.handle, index, seen[0])
    for now in seen:
        yield from _processes(index, now)
    yield from _errors(nvml, card.handle, index)


def _persistence(nvml: Any, handle: Any, index: int) -> Iterator[Finding]:
    mode = ask(nvml, "nvmlDeviceGetPersistenceMode", handle)
    if mode is not None:
        is_on = mode == nvml.NVML_FEATURE_ENABLED
        level, fix = (Level.OK, "") if is_on else (Level.WARNING, f"sudo nvidia-smi -i {index} -pm 1")
        yield Finding(Check.PERSISTENCE, level, f"GPU {index}: {'on' if is_on else 'off'}", fix)


def _power_limit(nvml: Any, handle: Any, index: int) -> Iterator[Finding]:
    enforced = ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)
    default = ask(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", handle)
    if enforced is None or default is None:
        return
    watts, usual = round(enforced / 1000), round(default / 1000)
    if watts < usual:
        fact, fix = f"GPU {index}: {watts} W, its default is {usual} W", f"sudo nvidia-smi -i {index} -pl {usual}"
        yield Finding(Check.POWER_LIMIT, Level.WARNING, fact, fix)
    else:
        yield Finding(Check.POWER_LIMIT, Level.OK, f"GPU {index}: {watts} W")


def _clocks(nvml: Any, handle: Any, index: int, now: GpuTelemetry) -> Iterator[Finding]:
    throttled = now.throttled_fractions or {}
    if reason := next((text for throttle, text in _TOO_HOT.items() if throttled.get(throttle)), ""):
        hot = "" if now.temperature_celsius_max is None else f", {now.temperature_celsius_max} C"
        fix = f"check cooling and power supply: nvidia-smi -i {index} -q -d TEMPERATURE,POWER,PERFORMANCE"
        yield Finding(Check.GPU_CLOCKS, Level.UNFIT, f"GPU {index}: {reason}{hot}", fix)
        return
    asked = ask(nvml, "nvmlDeviceGetApplicationsClock", handle, nvml.NVML_CLOCK_SM)
    default = ask(nvml, "nvmlDeviceGetDefaultApplicationsClock", handle, nvml.NVML_CLOCK_SM)
    if asked is not None and default is not None and asked < default:
        fact = f"GPU {index}: application clock {asked} MHz, its default is {default} MHz"
        yield Finding(Check.GPU_CLOCKS, Level.WARNING, fact, f"sudo nvidia-smi -i {index} -rac")
    elif now.sm_clock_mhz_median is not None:
        state = (
            "the driver does not say whether it is slowed down"
            if now.throttled_fractions is None
            else "not slowed down"
        )
        yield Finding(Check.GPU_CLOCKS, Level.OK, f"GPU {index}: {state}, {now.sm_clock_mhz_median:g} MHz now")


def _processes(index: int, now: GpuTelemetry) -> Iterator[Finding]:
    if now.other_processes is None:
        return
    if not now.other_processes:
        yield Finding(Check.GPU_PROCESSES, Level.OK, f"GPU {index}: no other process computes on it")
        return
    busiest = max(now.other_processes.values())
    level = Level.UNFIT if busiest > _LIMITS.gpu_utilisation_fraction else Level.WARNING
    names = ", ".join(f"{name} {share * 100:.0f} %" for name, share in now.other_processes.items())
    pids = ",".join(map(pid_in, now.other_processes))
    fix = f"ps -fp {pids}   # then end them, or choose another GPU with CUDA_VISIBLE_DEVICES"
    yield Finding(Check.GPU_PROCESSES, level, f"GPU {index}: {names}", fix)


def _errors(nvml: Any, handle: Any, index: int) -> Iterator[Finding]:
    """Uncorrected errors since the driver was loaded."""
    kind, since = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    count = ask(nvml, "nvmlDeviceGetTotalEccErrors", handle, kind, since)
    if count:
        fact = f"GPU {index}: {count} uncorrected since the driver was loaded"
        yield Finding(Check.ECC, Level.UNFIT, fact, f"nvidia-smi -i {index} -q -d ECC,ROW_REMAPPER   # then reboot")
    elif count == 0:
        yield Finding(Check.ECC, Level.OK, f"GPU {index}: none uncorrected")
