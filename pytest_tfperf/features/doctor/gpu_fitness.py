"""Are the GPUs fit to measure? Their settings, errors and other processes, as NVML reports them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.telemetry import GpuTelemetry
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.features.doctor.tensorflow_fitness import Installed, build_findings, code_findings
from pytest_tfperf.hardware.discovery import Card, read_cards, visible_gpus
from pytest_tfperf.hardware.host import ROOT
from pytest_tfperf.hardware.host_usage import pid_in, process_name
from pytest_tfperf.hardware.nvml import NvmlError, ask, driver_hangs, session
from pytest_tfperf.hardware.sampler import handles_of, read_gpus
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.reports.telemetry import slowed_down

_LIMITS = DisturbanceLimits()


def gpu_findings(
    root: Path = ROOT,
    nvml: Any = None,
    other_process: Callable[[int], str | None] | None = process_name,
    environ: Mapping[str, str] = os.environ,
    find_tensorflow: Callable[[], Installed | None] = lambda: None,
    settle_seconds: float = 1.5,
) -> list[Finding]:
    """All findings about the driver and the visible GPUs; facts that the driver does not report are left out.

    Args:
        root: the folder above sys and dev.
        nvml: pynvml or a stand-in; None imports pynvml.
        other_process: returns the name of a process; None for one that is gone, and instead of it where NVML's pids are
            not valid.
        environ: CUDA_VISIBLE_DEVICES may hide GPUs, whose state then does not matter; CUDA_CACHE_PATH and HOME lead to
            the driver's compiled code.
        find_tensorflow: called where there are GPUs; returns None where TensorFlow is not installed.
        settle_seconds: the wait before a second look at a GPU that seems to be in use by processes that can't be seen.
    """
    if driver_hangs(root):
        fact = "it does not answer"
        return [Finding(Check.DRIVER, Level.UNFIT, fact, "sudo dmesg | grep -i xid   # a reboot usually repairs it")]
    try:
        with session(nvml, root) as opened:
            version = ask(opened, "nvmlSystemGetDriverVersion") or "unknown"
            cards, notes, _ = read_cards(opened, root)
            findings = [Finding(Check.DRIVER, Level.UNFIT, note, "nvidia-smi -q") for note in notes]
            findings = findings or [Finding(Check.DRIVER, Level.OK, f"version {version}, {counted(len(cards), 'GPU')}")]
            visible = visible_gpus(cards, environ)
            number = ask(opened, "nvmlSystemGetCudaDriverVersion")
            cuda = (number // 1000, number % 1000 // 10) if number else None
            tensorflow = find_tensorflow() if visible else None
            if tensorflow is not None:
                findings += build_findings(tensorflow, version, cuda)
            for card in cards:
                if shown := [gpu.uuid for gpu in card.usable if gpu in visible]:
                    if tensorflow is not None:
                        findings += code_findings(card.gpu, tensorflow, cuda, environ)
                    findings += _of_card(opened, card, _states(opened, shown, other_process, settle_seconds))
            return findings
    except NvmlError as error:
        if error.fault:
            return [Finding(Check.DRIVER, Level.UNFIT, str(error), "nvidia-smi")]
        return [Finding(Check.DRIVER, Level.ABSENT, f"tests run on CPUs only: {error}")]


def _states(
    nvml: Any, uuids: Sequence[str], other_process: Callable[[int], str | None] | None, settle_seconds: float
) -> Sequence[GpuTelemetry]:
    """The state of a GPU, or of its MIG devices."""
    handles = handles_of(nvml, uuids)
    states = read_gpus(nvml, handles, other_process)
    if any(now.use_by_unknown > _LIMITS.gpu_utilisation_fraction for now in states):
        # Without persistence mode this query wakes it, and it seems to be in use for a moment.
        time.sleep(settle_seconds)
        states = read_gpus(nvml, handles, other_process)
    return states


def _of_card(nvml: Any, card: Card, states: Sequence[GpuTelemetry]) -> Iterator[Finding]:
    """Findings about a GPU in this state; of its MIG devices' states only the processes differ."""
    index = card.gpu.index
    yield from _compute_mode(nvml, card.handle, index)
    yield from _persistence(nvml, card.handle, index)
    yield from _power_limit(nvml, card.handle, index)
    yield from _clocks(nvml, card.handle, index, states[0])
    for now in states:
        yield from _processes(index, now)
    yield from _errors(nvml, card.handle, index)


def _compute_mode(nvml: Any, handle: Any, index: int) -> Iterator[Finding]:
    mode = ask(nvml, "nvmlDeviceGetComputeMode", handle)
    fix = f"sudo nvidia-smi -i {index} -c DEFAULT"
    if mode == nvml.NVML_COMPUTEMODE_PROHIBITED:
        yield Finding(Check.COMPUTE_MODE, Level.UNFIT, f"GPU {index}: PROHIBITED, so no process can use it", fix)
    elif mode == nvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS:
        fact = f"GPU {index}: EXCLUSIVE_PROCESS, so comparisons run one side after the other"
        yield Finding(Check.COMPUTE_MODE, Level.WARNING, fact, fix)
    elif mode is not None:
        yield Finding(Check.COMPUTE_MODE, Level.OK, f"GPU {index}: DEFAULT")


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
    if throttle := now.slowed_down_by():
        why = slowed_down(throttle, now.temperature_celsius_max)
        fix = f"check cooling and power supply: nvidia-smi -i {index} -q -d TEMPERATURE,POWER,PERFORMANCE"
        yield Finding(Check.GPU_CLOCKS, Level.UNFIT, f"GPU {index}: {why}", fix)
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
    if now.use_by_unknown > _LIMITS.gpu_utilisation_fraction:
        fact = f"GPU {index}: {now.use_by_unknown * 100:.0f} % in use, by processes that can't be seen here"
        fix = "look from the host (nvidia-smi), or start the container with docker run --pid=host"
        yield Finding(Check.GPU_PROCESSES, Level.UNFIT, fact, fix)
        return
    if now.other_processes is None:
        why = (
            "this driver has no list of them"
            if now.processes_max is None
            else "NVML gives the host's process ids, and a container has its own without --pid=host"
        )
        fact = f"GPU {index}: not known; {why}. A GPU in use before a run counts as shared"
        yield Finding(Check.GPU_PROCESSES, Level.UNKNOWN, fact)
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
