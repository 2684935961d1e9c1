"""Watches the machine during a run and judges whether something disturbed it.

Only disturbances above the limits count. Smaller ones show in the spread of windows and of repeated runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pytest_tfperf.core.disturbance import NO_LIMITS, Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.telemetry import GpuTelemetry, Telemetry, Throttle
from pytest_tfperf.errors import MeasurementError
from pytest_tfperf.hardware.nvml import gives_our_pids
from pytest_tfperf.hardware.sampler import Sampler
from pytest_tfperf.reports.numbers import whole_percent
from pytest_tfperf.reports.telemetry import slowed_down

# NVML averages a GPU's use over up to a second, so the first look may still see our own last worker.
_LOOKS = (0.15, 1.5)

TRIES = 3
"""How many runs or pairs are tried until one is undisturbed."""


@dataclass(slots=True)
class Observation:
    """What happened on the machine during a run; filled when the `watching` block ends.

    Args:
        disturbance: the first disturbance above its limit; None if there was none.
        environment: facts about the GPUs' power limits, see `power_facts`.
        telemetry: what was sampled; None if the run was too short.
        polls: the samples, second by second.
    """

    disturbance: Disturbance | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    telemetry: Telemetry | None = None
    polls: tuple[Telemetry, ...] = ()


class DisturbanceGuard:
    """Watches runs; pytest and all processes that it started count as our own.

    Args:
        limits: above which a disturbance counts.
        sampler: makes a sampler for GPU UUIDs and the pids of our processes that pytest did not start.
        knows_pids: whether NVML's process ids can be looked up here.
        looks: seconds that `before` watches, and watches once more if a GPU is in use.
    """

    def __init__(
        self,
        limits: DisturbanceLimits,
        sampler: Callable[[Sequence[str], Collection[int]], Sampler] = Sampler,
        knows_pids: Callable[[], bool] = gives_our_pids,
        looks: Sequence[float] = _LOOKS,
    ) -> None:
        self._limits = limits
        self._sampler = sampler
        self._knows_pids = knows_pids
        self._looks = looks

    def before(self, gpu_uuids: Iterable[str]) -> Disturbance | None:
        """Other work on GPUs where processes can't be told from ours: any use of them, before our worker starts."""
        uuids = tuple(gpu_uuids)
        if not uuids or self._knows_pids():
            return None
        found = None
        for seconds in self._looks:
            found = self._in_use(uuids, seconds)
            if found is None:
                break
        return found

    def _in_use(self, uuids: Sequence[str], seconds: float) -> Disturbance | None:
        sampler = self._sampler(uuids, ())
        sampler.start()
        time.sleep(seconds)
        telemetry = sampler.stop()
        uses = {gpu.uuid: gpu.utilisation_fraction_mean or 0.0 for gpu in telemetry.gpus} if telemetry else {}
        uuid, used = _busiest(uses)
        if used <= self._limits.gpu_utilisation_fraction:
            return None
        fact = (
            f"other work used {whole_percent(used)} of {uuid} before the run; this container does not see whose "
            "(docker run --pid=host does)"
        )
        return Disturbance(DisturbanceKind.GPU_SHARED, fact)

    @contextmanager
    def watching(self, gpu_uuids: Iterable[str] = (), pids: Collection[int] = ()) -> Iterator[Observation]:
        """Watch the host and these GPUs until the block ends; processes with these pids are our own too."""
        observation, uuids = Observation(), tuple(gpu_uuids)
        sampler = self._sampler(uuids, pids)
        sampler.start()
        try:
            yield observation
        finally:
            observation.telemetry = sampler.stop()
            observation.polls = sampler.polls if observation.telemetry is not None else ()
        if observation.telemetry is not None:
            observation.disturbance = disturbance_in(observation.telemetry, self._limits)
            observation.environment = power_facts(observation.telemetry, self._limits)
        if observation.disturbance is None and sampler.hung:
            who = "the GPU driver" if uuids else "the kernel"
            fact = f"{who} stopped answering during the run; dmesg may show why (for a GPU: NVRM: Xid)"
            observation.disturbance = Disturbance(DisturbanceKind.DRIVER_SILENT, fact)


def disturbance_in(telemetry: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    """The first disturbance above its limit, of a GPU or else of the host; None if there is none."""
    on_gpus = [_gpu_disturbance(gpu, limits) for gpu in telemetry.gpus]
    return next(filter(None, on_gpus), None) or _host_disturbance(telemetry, limits)


def power_facts(telemetry: Telemetry, limits: DisturbanceLimits) -> dict[str, str]:
    """`gpu_power_limit` ("300W") and `gpu_power_capped` ("yes" or "no"), as far as the driver reports them.

    A power cap belongs to the machine's setup and is no disturbance. It is recorded, so that a change of it shows.
    """
    facts = {}
    watts = {gpu.power_limit_watts_max for gpu in telemetry.gpus if gpu.power_limit_watts_max is not None}
    if watts:
        facts["gpu_power_limit"] = "+".join(f"{limit}W" for limit in sorted(watts))
    capped = [
        gpu.throttled_fractions.get(Throttle.POWER_CAP, 0.0) > limits.gpu_samples_fraction
        for gpu in telemetry.gpus
        if gpu.throttled_fractions is not None
    ]
    if capped:
        facts["gpu_power_capped"] = "yes" if any(capped) else "no"
    return facts


def _gpu_disturbance(gpu: GpuTelemetry, limits: DisturbanceLimits) -> Disturbance | None:
    if why := slowed_down(gpu, limits.gpu_samples_fraction):
        return Disturbance(DisturbanceKind.GPU_SLOWED_DOWN, f"{gpu.uuid} was {why}")
    process, used = _busiest(gpu.other_processes)
    if used > limits.gpu_utilisation_fraction:
        fact = f"{process} also ran on {gpu.uuid} and used up to {whole_percent(used)} of it"
        return Disturbance(DisturbanceKind.GPU_SHARED, fact)
    return None


def _host_disturbance(host: Telemetry, limits: DisturbanceLimits) -> Disturbance | None:
    cores = "1 core" if host.usable_cores == 1 else f"{host.usable_cores} cores"
    others, idle = host.other_cpu_fraction_mean or 0.0, host.idle_fraction_mean or 0.0
    # Other processes that only use idle cores do not slow us down.
    if others > limits.other_cpu_fraction and idle <= limits.idle_fraction:
        process, _ = _busiest(host.other_processes)
        culprit = f", the busiest was {process}" if process else ""
        fact = f"other processes used {whole_percent(others)} of {cores}{culprit}"
        return Disturbance(DisturbanceKind.OTHER_PROCESSES, fact)
    stolen = host.steal_fraction_mean or 0.0
    if stolen > limits.steal_fraction:
        fact = f"the hypervisor gave {whole_percent(stolen)} of {cores} to other virtual machines (steal time)"
        return Disturbance(DisturbanceKind.STEAL, fact)
    swapped = host.swap_bytes_per_sec_mean or 0.0
    if swapped > limits.swap_bytes_per_sec:
        return Disturbance(DisturbanceKind.SWAPPING, f"the machine swapped {swapped / 2**20:.0f} MiB/s")
    return None


def _busiest(shares: Mapping[str, float] | None) -> tuple[str, float]:
    return max((shares or {}).items(), key=lambda item: item[1], default=("", 0.0))


LOOK_SECONDS = 1.0


def watch_idly() -> Telemetry | None:
    """What the machine does in a second in which we do nothing; None where it can't be sampled."""
    with DisturbanceGuard(DisturbanceLimits()).watching() as seen:
        time.sleep(LOOK_SECONDS)
    return seen.telemetry


def look_before_recording(limits: DisturbanceLimits, look: Callable[[], Telemetry | None] = watch_idly) -> str:
    """Return if a run would count now: "", or a remark where it counts only because the user accepts more.

    A disturbance must show in as many looks as a test has tries: a mail client that starts is over in a second.

    Args:
        limits: what the user accepts.
        look: samples the machine.

    Raises:
        MeasurementError: more disturbs the machine than the user accepts.
    """
    beyond: Disturbance | None = None
    for _ in range(TRIES):
        telemetry = look()
        if telemetry is None:
            return ""
        beyond = disturbance_in(telemetry, limits)
        if beyond is None:
            usual = disturbance_in(telemetry, DisturbanceLimits())
            return f"{usual}, and {limits.of(usual.kind)} accepts it: the new rows will say so" if usual else ""
    assert beyond is not None, "at least one look was taken"
    option = limits.of(beyond.kind)
    raise MeasurementError(
        f"--update-baselines: {beyond}, and the limit is {option}. Nothing was measured. Free the machine of other "
        f"work; or record all the same with a higher limit, as in -o {NO_LIMITS.of(beyond.kind)}: the new rows then "
        "say so"
    )
