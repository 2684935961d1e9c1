"""What the machine did while it was measured, and whether that spoils the measurement.

The guard is for what no statistics can mend. Below the limits the windows' spread and the repeated runs carry the
disturbance; above them no figure is worth having, and the windows are taken again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

MIB = 2**20


class Throttle(StrEnum):
    """Why a GPU's clock is below its highest, by NVML's clocks event reasons."""

    IDLE = "idle"
    APPLICATION_CLOCKS = "application_clocks"
    POWER_CAP = "power_cap"
    HW_SLOWDOWN = "hw_slowdown"
    SYNC_BOOST = "sync_boost"
    SW_THERMAL = "sw_thermal"
    HW_THERMAL = "hw_thermal"
    HW_POWER_BRAKE = "hw_power_brake"
    DISPLAY_CLOCKS = "display_clocks"
    UNKNOWN = "unknown"  # a reason that a newer driver has


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process of somebody else that computes on a GPU.

    Args:
        pid: its id, as /proc has it.
        name: its command's name.
        utilisation_fraction: the multiprocessors' time that it used; None where the driver doesn't tell.
    """

    pid: int
    name: str
    utilisation_fraction: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One GPU at one time; None is what the driver didn't tell.

    Args:
        uuid: the GPU or MIG device, as NVML names it; a MIG device's clocks, power and heat are its GPU's.
        power_limit_watts: what it is set up to draw at most.
        utilisation_fraction: of the time in which any kernel ran.
        throttles: all reasons that hold, harmless ones too.
        other_processes: those that compute on it and aren't ours; graphics alone (a desktop) doesn't count.
    """

    uuid: str
    temperature_celsius: int | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_watts: float | None = None
    power_limit_watts: int | None = None
    utilisation_fraction: float | None = None
    memory_used_bytes: int | None = None
    throttles: tuple[Throttle, ...] | None = None
    other_processes: tuple[GpuProcess, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The machine between two looks at it; None is what it didn't tell.

    Args:
        monotonic_seconds: the second look, by time.monotonic().
        seconds: from the first look to the second.
        usable_cores: the cores that affinity and quota leave to us; what the fractions are of.
        other_cpu_fraction: CPU time that wasn't ours, other processes' and the kernel's.
        idle_fraction: CPU time that nobody used.
        steal_fraction: CPU time that the hypervisor gave to other virtual machines.
        swap_bytes_per_sec: pages in and out of swap, the whole machine's.
        busiest_other: "python (pid 4711)", the process that used most of the other time; "" where not known.
        load_average: over a minute, the whole machine's.
        cpu_mhz: the mean clock of the usable cores (of 16 of them, where there are more).
        memory_available_bytes: what can be had without swapping.
    """

    monotonic_seconds: float
    seconds: float
    usable_cores: int
    other_cpu_fraction: float | None = None
    idle_fraction: float | None = None
    steal_fraction: float | None = None
    swap_bytes_per_sec: float | None = None
    busiest_other: str = ""
    load_average: float | None = None
    cpu_mhz: int | None = None
    memory_available_bytes: int | None = None
    gpus: tuple[GpuSample, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """From where a disturbance is one; each is an option.

    Args:
        other_cpu_fraction: others' CPU time, of the usable cores. A quarter: an editor, a monitoring agent or the
            terminal stay below it, a neighbour that computes does not.
        idle_fraction: while more than this was idle, others took nothing that we wanted: a GPU's host with 64 cores
            may lend 16. 1 counts all of it.
        steal_fraction: the hypervisor's share; clouds take a few per cent all the time.
        swap_bytes_per_sec: 1 MiB/s is 256 pages of 4 KiB; at 0.1 ms a page they can cost 2.6 % of the time, as much as
            the default tolerance. A trickle of cold pages stays below.
        gpu_utilisation_fraction: use of our GPU by one other process; an idle notebook that only holds memory stays
            below. Where the driver doesn't tell, its being there counts. 1: any is accepted.
        gpu_samples_fraction: the part of a GPU's samples that must show heat, power brake or other processes: a GPU at
            its target temperature flickers.
    """

    other_cpu_fraction: float = 0.25
    idle_fraction: float = 0.25
    steal_fraction: float = 0.25
    swap_bytes_per_sec: float = MIB
    gpu_utilisation_fraction: float = 0.05
    gpu_samples_fraction: float = 0.25


def disturbance(samples: Sequence[Sample], limits: Limits = Limits()) -> str:
    """One sentence with the fact and the culprit, or "".

    Rates are means over all of `samples`: give those of about a second or more, as the kernel counts CPU time in ticks
    of 10 ms. A power cap is how the machine is set up, and no disturbance.
    """
    return _gpus(samples, limits) or _other_cpu(samples, limits) or _steal(samples, limits) or _swap(samples, limits)


def remedy(sentence: str) -> str:
    """What to do about a disturbance, or a control that got slower, from the sentence that says what it was."""
    return next((way for phrase, way in _REMEDIES.items() if phrase in sentence), "Free the machine of other work")


_REMEDIES = {
    "other processes used": "End that work, or accept more of it with --tfperf-busy FRACTION",
    "the hypervisor gave": "Take a machine that is not shared, or accept more of it with --tfperf-steal FRACTION",
    "swapping": "Free memory, or accept more of it with --tfperf-swap MIB/S",
    "slowed down": "See to cooling and power supply, or accept more of it with --tfperf-gpu-throttled FRACTION",
    " ran on ": "End it, take another GPU (CUDA_VISIBLE_DEVICES), or accept it with --tfperf-gpu-busy FRACTION",
    "does not answer": "A driver that hangs mostly takes a reboot",
    "slower by now": "Measure again when the machine is quiet",
}


def power_facts(samples: Sequence[Sample], limits: Limits = Limits()) -> dict[str, str]:
    """How the GPUs' power is capped: `gpu_power_limit`, and `gpu_power_capped`, "yes" where the cap held them back.

    That is how a machine is set up, and no disturbance: it is recorded, so that a difference from the baseline shows.
    Only what the driver told is in it. "yes" takes more of a GPU's samples than `gpu_samples_fraction`.
    """
    gpus = [gpu for sample in samples for gpu in sample.gpus]
    watts = sorted({gpu.power_limit_watts for gpu in gpus if gpu.power_limit_watts is not None})
    facts = {"gpu_power_limit": "+".join(f"{limit}W" for limit in watts)} if watts else {}
    told = [gpu for gpu in gpus if gpu.throttles is not None]
    if told:
        seen = Counter(gpu.uuid for gpu in told)
        capped = Counter(gpu.uuid for gpu in told if Throttle.POWER_CAP in (gpu.throttles or ()))
        held = any(capped[uuid] > limits.gpu_samples_fraction * count for uuid, count in seen.items())
        facts["gpu_power_capped"] = "yes" if held else "no"
    return facts


def _other_cpu(samples: Sequence[Sample], limits: Limits) -> str:
    used = _mean(samples, lambda s: s.other_cpu_fraction)
    idle = _mean(samples, lambda s: s.idle_fraction)
    if used is None or used <= limits.other_cpu_fraction or (idle or 0.0) > limits.idle_fraction:
        return ""
    culprits: Counter[str] = Counter()
    for sample in samples:
        if sample.busiest_other:
            culprits[sample.busiest_other] += round(1000 * sample.seconds * (sample.other_cpu_fraction or 0.0))
    most = f", above all {culprits.most_common(1)[0][0]}" if culprits else ""
    return f"other processes used {_percent(used)} of {_cores(samples)}{most}"


def _steal(samples: Sequence[Sample], limits: Limits) -> str:
    stolen = _mean(samples, lambda s: s.steal_fraction)
    if stolen is None or stolen <= limits.steal_fraction:
        return ""
    return f"the hypervisor gave {_percent(stolen)} of {_cores(samples)} to other virtual machines (steal time)"


def _swap(samples: Sequence[Sample], limits: Limits) -> str:
    rate = _mean(samples, lambda s: s.swap_bytes_per_sec)
    if rate is None or rate <= limits.swap_bytes_per_sec:
        return ""
    free = [s.memory_available_bytes for s in samples if s.memory_available_bytes is not None]
    left = f", with {min(free) / MIB:,.0f} MiB of memory available" if free else ""
    return f"swapping {rate / MIB:.0f} MiB/s{left}"


def _gpus(samples: Sequence[Sample], limits: Limits) -> str:
    flat = sorted((gpu for sample in samples for gpu in sample.gpus), key=lambda gpu: gpu.uuid)
    texts = (_gpu(uuid, list(gpus), limits) for uuid, gpus in groupby(flat, key=lambda gpu: gpu.uuid))
    return next(filter(None, texts), "")


def _gpu(uuid: str, gpus: Sequence[GpuSample], limits: Limits) -> str:
    name = _short(uuid)
    slowdowns = {
        f"{name} slowed down for heat": {Throttle.SW_THERMAL, Throttle.HW_THERMAL},
        f"{name} slowed down by the HW power brake, which its power supply pulled": {Throttle.HW_POWER_BRAKE},
        f"{name} was slowed down by its hardware, for heat or power": {Throttle.HW_SLOWDOWN},
    }
    for text, reasons in slowdowns.items():
        hit = [gpu for gpu in gpus if reasons.intersection(gpu.throttles or ())]
        if len(hit) > limits.gpu_samples_fraction * len(gpus):
            hottest = max((gpu.temperature_celsius for gpu in hit if gpu.temperature_celsius is not None), default=None)
            return text + (f" ({hottest} C)" if hottest is not None else "")
    return _gpu_processes(name, gpus, limits)


def _gpu_processes(name: str, gpus: Sequence[GpuSample], limits: Limits) -> str:
    busy = [
        process
        for gpu in gpus
        for process in gpu.other_processes or ()
        if _counts(process.utilisation_fraction, limits.gpu_utilisation_fraction)
    ]
    often = Counter(f"{process.name} (pid {process.pid})" for process in busy).most_common(1)
    if not often or often[0][1] <= limits.gpu_samples_fraction * len(gpus):
        return ""
    used = [process.utilisation_fraction for process in busy if f"(pid {process.pid})" in often[0][0]]
    most = max((fraction for fraction in used if fraction is not None), default=None)
    return f"{often[0][0]} ran on {name} too" + (f" and used up to {_percent(most)} of it" if most else "")


def _counts(used: float | None, limit: float) -> bool:
    return limit < 1 if used is None else used > limit


def _mean(samples: Sequence[Sample], fact: Callable[[Sample], float | None]) -> float | None:
    known = [(value, sample.seconds) for sample in samples if (value := fact(sample)) is not None]
    seconds = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / seconds if seconds > 0 else None


def _cores(samples: Sequence[Sample]) -> str:
    cores = samples[0].usable_cores
    return "1 core" if cores == 1 else f"{cores} cores"


def _percent(fraction: float) -> str:
    return f"{fraction * 100:.0f} %"


def _short(uuid: str) -> str:
    """ "GPU-3b1c…": enough to find it in `nvidia-smi -L`."""
    kind, dash, rest = uuid.partition("-")
    return f"{kind}{dash}{rest[:4]}…" if len(rest) > 4 else uuid
