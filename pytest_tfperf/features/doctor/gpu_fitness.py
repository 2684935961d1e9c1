"""Are the GPUs fit to measure? Their settings, errors and other processes, as NVML reports them."""

from __future__ import annotations

import ast
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_tfperf.core.disturbance import DisturbanceLimits
from pytest_tfperf.core.telemetry import GpuTelemetry
from pytest_tfperf.features.doctor.fitness import Check, Finding, Level
from pytest_tfperf.hardware.discovery import Card, read_cards, visible_gpus
from pytest_tfperf.hardware.host import ROOT, text_of
from pytest_tfperf.hardware.host_usage import pid_in, process_name
from pytest_tfperf.hardware.nvml import NvmlError, ask, driver_hangs, session
from pytest_tfperf.hardware.sampler import handles_of, read_gpus
from pytest_tfperf.reports.numbers import counted
from pytest_tfperf.reports.telemetry import slowed_down

_LIMITS = DisturbanceLimits()


@dataclass(frozen=True, slots=True)
class Build:
    """The code for GPUs in TensorFlow's package.

    Args:
        cuda: its version of CUDA, (12, 5).
        targets: the compute capabilities with finished code.
        compiled_by_drivers: the compute capabilities with PTX, from which a driver compiles code for later GPUs.
    """

    cuda: tuple[int, int]
    targets: tuple[tuple[int, int], ...]
    compiled_by_drivers: tuple[tuple[int, int], ...]


def gpu_findings(
    root: Path = ROOT,
    nvml: Any = None,
    other_process: Callable[[int], str] | None = process_name,
    environ: Mapping[str, str] = os.environ,
    build: Build | None = None,
    settle_seconds: float = 1.5,
) -> list[Finding]:
    """All findings about the driver and the visible GPUs; facts that the driver does not report are left out.

    Args:
        root: the folder above sys and dev.
        nvml: pynvml or a stand-in; None imports pynvml.
        other_process: returns the name of a process; "" where it can't be seen. None where NVML's pids are not valid.
        environ: CUDA_VISIBLE_DEVICES may hide GPUs, whose state then does not matter; CUDA_CACHE_PATH and HOME lead to
            the driver's compiled code.
        build: of the installed TensorFlow; None without one for GPUs.
        settle_seconds: the wait before a second look at a GPU that seems to be in use by processes that can't be seen.
    """
    if driver_hangs(root):
        fact = "it does not answer"
        return [Finding(Check.DRIVER, Level.UNFIT, fact, "sudo dmesg | grep -i xid   # a reboot usually repairs it")]
    try:
        with session(nvml, root) as opened:
            version = ask(opened, "nvmlSystemGetDriverVersion") or "unknown"
            cards, notes = read_cards(opened, root)
            findings = [Finding(Check.DRIVER, Level.UNFIT, note, "nvidia-smi -q") for note in notes]
            findings = findings or [Finding(Check.DRIVER, Level.OK, f"version {version}, {counted(len(cards), 'GPU')}")]
            visible = visible_gpus(cards, environ)
            driver = ask(opened, "nvmlSystemGetCudaDriverVersion") or 0
            for card in cards:
                if shown := [gpu.uuid for gpu in card.usable if gpu in visible]:
                    if build is not None:
                        findings += _code(card, build, (driver // 1000, driver % 1000 // 10), environ)
                    findings += _of_card(opened, card, _states(opened, shown, other_process, settle_seconds))
            return findings
    except NvmlError as error:
        if error.fault:
            return [Finding(Check.DRIVER, Level.UNFIT, str(error), "nvidia-smi")]
        return [Finding(Check.DRIVER, Level.ABSENT, f"tests run on CPUs only: {error}")]


def _states(
    nvml: Any, uuids: Sequence[str], other_process: Callable[[int], str] | None, settle_seconds: float
) -> Sequence[GpuTelemetry]:
    """The state of a GPU, or of its MIG devices."""
    handles = handles_of(nvml, uuids)
    states = read_gpus(nvml, handles, other_process)
    if any(map(_is_in_use_unseen, states)):
        # Without persistence mode this query wakes it, and it seems to be in use for a moment.
        time.sleep(settle_seconds)
        states = read_gpus(nvml, handles, other_process)
    return states


def _is_in_use_unseen(now: GpuTelemetry) -> bool:
    return now.other_processes is None and (now.utilisation_fraction_mean or 0.0) > _LIMITS.gpu_utilisation_fraction


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


def _compiled_code(environ: Mapping[str, str]) -> Path:
    """The folder of the driver's compiled code (CUDA C++ Programming Guide, CUDA environment variables)."""
    return Path(environ.get("CUDA_CACHE_PATH") or Path(environ.get("HOME", "/"), ".nv/ComputeCache"))


def _code(card: Card, build: Build, driver: tuple[int, int], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether TensorFlow has code for the GPU.

    Finished code runs on the same major version from its minor one on. PTX runs on all later GPUs, if the driver knows
    the CUDA that wrote it: TensorFlow 2.21's of CUDA 12.5, the only code that it has for Hopper, needs R555.
    """
    capability = card.gpu.compute_capability
    if capability is None:
        return
    gpu, wanted = f"GPU {card.gpu.index}, compute capability {_dotted(capability)}", _dotted(build.cuda)
    if any(target[0] == capability[0] and target <= capability for target in build.targets):
        yield Finding(Check.GPU_CODE, Level.OK, f"{gpu}: in the installed TensorFlow")
    elif not any(target <= capability for target in build.compiled_by_drivers):
        fix = "install a TensorFlow that was built for it, or measure on another GPU"
        yield Finding(Check.GPU_CODE, Level.UNFIT, f"{gpu}: the installed TensorFlow has none and ignores it", fix)
    elif driver != (0, 0) and driver < build.cuda:
        fact = f"{gpu}: a driver of CUDA {wanted} must compile TensorFlow's, and this one knows CUDA {_dotted(driver)}"
        drivers = "R555 or newer" if build.cuda == (12, 5) else f"one of CUDA {wanted} or newer"
        yield Finding(Check.GPU_CODE, Level.UNFIT, fact, f"install a newer NVIDIA driver, {drivers}")
    elif capability >= _BLACKWELL and build.cuda < _CUDA_OF_BLACKWELL:
        fact = f"{gpu}: newer than CUDA {wanted}, so the XLA of the installed TensorFlow can't compile for it"
        fix = "use a TensorFlow of CUDA 12.8 or newer (NVIDIA's container), and xla=False until then"
        yield Finding(Check.GPU_CODE, Level.WARNING, fact, fix)
    else:
        fact, cache = f"{gpu}: the driver compiles TensorFlow's, in the first steps", _compiled_code(environ)
        if cache.is_dir() and any(cache.iterdir()):
            yield Finding(Check.GPU_CODE, Level.OK, f"{fact}, and keeps it in {cache}")
            return
        fix = f"-o tfperf_timeout=3600 in the first session, and keep {cache} (variable CUDA_CACHE_PATH) for later ones"
        yield Finding(Check.GPU_CODE, Level.WARNING, f"{fact}, which may take 30 minutes: {cache} is empty", fix)


# PTX 8.6 and 8.7, which know Blackwell, came with CUDA 12.7 and 12.8.
_BLACKWELL, _CUDA_OF_BLACKWELL = (10, 0), (12, 8)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def installed_build() -> Build | None:
    """The build of this Python's TensorFlow, without the seconds of an import; None without one for GPUs."""
    spec = find_spec("tensorflow")
    for folder in (spec.submodule_search_locations if spec is not None else None) or ():
        file = Path(folder) / "python/platform/build_info.py"
        return parsed_build(text_of(file))
    return None


def parsed_build(text: str) -> Build | None:
    """The build in a text of TensorFlow's build_info.py; None for a build without NVIDIA's GPUs."""
    cuda = re.search(r"'cuda_version', '(\d+)\.(\d+)", text)
    listed = re.search(r"'cuda_compute_capabilities', (\[[^]]*\])", text)
    if cuda is None or listed is None:
        return None
    capabilities: dict[str, list[tuple[int, int]]] = {"sm": [], "compute": []}
    for name in ast.literal_eval(listed[1]):
        kind, _, digits = str(name).partition("_")
        if kind in capabilities and digits.isdecimal():
            capabilities[kind].append((int(digits[:-1]), int(digits[-1])))
    return Build((int(cuda[1]), int(cuda[2])), tuple(capabilities["sm"]), tuple(capabilities["compute"]))


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
    if _is_in_use_unseen(now):
        used = (now.utilisation_fraction_mean or 0.0) * 100
        fact = f"GPU {index}: {used:.0f} % in use, by processes that can't be seen here"
        fix = "look from the host (nvidia-smi), or start the container with docker run --pid=host"
        yield Finding(Check.GPU_PROCESSES, Level.UNFIT, fact, fix)
        return
    if now.other_processes is None:
        fact = (
            f"GPU {index}: not known; NVML gives the host's process ids, and a container has its own without --pid=host"
        )
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
