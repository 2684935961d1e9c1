"""Are the GPUs fit to measure? Their settings, errors and other processes, as NVML reports them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.telemetry import GpuTelemetry
from pytest_tfperf.core.topology import Gpu
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level, cpu_list
from pytest_tfperf.features.doctor.framework_fitness import Driver
from pytest_tfperf.hardware.discovery import Card, read_cards, visible_gpus
from pytest_tfperf.hardware.host import ROOT
from pytest_tfperf.hardware.nvml import (
    SWITCH,
    NvmlError,
    ask,
    driver_hangs,
    gives_our_pids,
    handles_of,
    nvlink_ends,
    read_gpus,
    session,
)
from pytest_tfperf.hardware.sampler import pid_in, process_name
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.reports.run import slowed_down

_LIMITS = DisturbanceLimits()

_SETTLE_SECONDS = 1.5  # before a second look at a GPU that seems to be slowed down, or in use


def gpu_findings(
    root: Path = ROOT, nvml: Any = None, of_software: Callable[[Driver], Iterable[Finding]] = lambda _: ()
) -> list[Finding]:
    """All findings about the driver and the visible GPUs; facts that the driver does not report are left out.

    `of_software` returns the findings about what is to run on them (`software_findings`).
    """
    if driver_hangs(root):
        fact = "it does not answer"
        return [Finding(Check.DRIVER, Level.UNFIT, fact, "sudo dmesg | grep -i xid   # a reboot usually repairs it")]
    other_process = process_name if gives_our_pids(root) else None
    try:
        with session(nvml, root) as opened:
            version = ask(opened, "nvmlSystemGetDriverVersion") or "unknown"
            cards, notes, _ = read_cards(opened, root)
            findings = [Finding(Check.DRIVER, Level.UNFIT, note, "nvidia-smi -q") for note in notes]
            findings = findings or [Finding(Check.DRIVER, Level.OK, f"version {version}, {counted(len(cards), 'GPU')}")]
            visible = visible_gpus(cards, os.environ)
            shown = [(card, uuids) for card in cards if (uuids := [gpu.uuid for gpu in card.usable if gpu in visible])]
            number = ask(opened, "nvmlSystemGetCudaDriverVersion")
            cuda = (number // 1000, number % 1000 // 10) if number else None
            usable = 1 if any(gpu.mig for gpu in visible) else len(visible)  # CUDA gives a process one MIG device
            findings += of_software(Driver(version, cuda, tuple(card.gpu for card, _ in shown), usable))
            for card, uuids in shown:
                findings += _of_card(opened, card, _states(opened, uuids, other_process))
            findings += _nvlinks(opened, cards)
            findings += _numa_nodes(visible, os.sched_getaffinity(0))
            return findings
    except NvmlError as error:
        if error.fault:
            return [Finding(Check.DRIVER, Level.UNFIT, str(error), "nvidia-smi")]
        return [Finding(Check.DRIVER, Level.ABSENT, f"tests run on CPUs only: {error}")]


def _nvlinks(nvml: Any, cards: Sequence[Card]) -> Iterator[Finding]:
    """Whether GPUs of a kind have equally many active NVLinks; GPUs in MIG mode have none.

    Without switches, a GPU that has none may have no bridge.
    """
    ends = {card.gpu: nvlink_ends(nvml, card.handle, {}) for card in cards if card.usable == (card.gpu,)}
    has_switches = any(SWITCH in own for own in ends.values())
    for gpu, own in ends.items():
        most = max(len(of_other) for other, of_other in ends.items() if other.name == gpu.name)
        if len(own) < most and (own or has_switches):
            fact = f"GPU {gpu.index}: {len(own)} are active, and {most} of others of its kind"
            fix = f"nvidia-smi nvlink -s -i {gpu.index}; sudo dmesg | grep -i xid   # a reboot may bring them back"
            yield Finding(Check.NVLINKS, Level.UNFIT, fact, fix)
        elif own:
            yield Finding(Check.NVLINKS, Level.OK, f"GPU {gpu.index}: {len(own)} are active")


def _numa_nodes(gpus: Sequence[Gpu], cpus: Collection[int]) -> Iterator[Finding]:
    """Whether this process may run on CPUs that are far from a GPU: no worker and no program is bound to the near ones.

    Binding would take cores from the input pipeline, and with them the machine's name, so it is the user's choice.
    """
    near: dict[str, list[Gpu]] = {}
    for gpu in gpus:
        if gpu.cpu_affinity:
            near.setdefault(gpu.cpu_affinity, []).append(gpu)
    for listed, equal in near.items():
        far = set(cpus) - set(cpu_list(listed))
        names = ", ".join(dict.fromkeys(str(gpu.index) for gpu in equal))
        whose = f"GPU {names}" if len(equal) == 1 else f"GPUs {names}"
        if not far:
            yield Finding(Check.NUMA, Level.OK, f"{whose}: all usable CPUs are near")
            continue
        fact = f"{whose}: near CPUs {listed}, and runs may use {counted(len(far), 'CPU')} of another socket"
        fix = (
            f"taskset -c {listed} pytest ...   # for tests of these GPUs alone; the machine's name has fewer cores then"
        )
        yield Finding(Check.NUMA, Level.WARNING, fact, fix)


def _states(
    nvml: Any, uuids: Sequence[str], other_process: Callable[[int], str | None] | None
) -> Sequence[GpuTelemetry]:
    """The state of a GPU, or of its MIG devices."""
    handles = handles_of(nvml, uuids)
    states = read_gpus(nvml, handles, other_process)
    if any(now.use_by_unknown > _LIMITS.gpu_utilisation_fraction or now.slowed_down_by() for now in states):
        # Without persistence mode this query wakes it, and it seems to be in use for a moment. A throttle reason may
        # last a millisecond.
        time.sleep(_SETTLE_SECONDS)
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
        is_told = now.throttled_fractions is not None
        state = "not slowed down" if is_told else "the driver does not say whether it is slowed down"
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
