"""Watches the machine before a run and during it, and has its GPUs warm before anything is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind, DisturbanceLimits
from pytest_tfperf.core.run import Run
from pytest_tfperf.core.telemetry import Telemetry, Throttle, least_share
from pytest_tfperf.hardware.sampler import Sampler
from pytest_tfperf.judging.validity import busiest, disturbance_in

# NVML averages a GPU's use over up to a second and shows it for another, so the first looks may still see our own last
# worker. Each look is shorter than the sampler's interval, so that it sees one value and no mean.
_LOOKS = (0.15, *[0.6] * 5)
_LOW_LOOKS = 2  # in a row, after a first look at which the GPU was in use

TRIES = 3
"""How many runs or pairs are tried until one is undisturbed."""


@dataclass(slots=True)
class Observation:
    """The state of the machine during a run; filled when the `watching` block ends, but for `latest`."""

    disturbance: Disturbance | None = None  # the first above its limit
    environment: Mapping[str, str] = field(default_factory=dict)  # `power_facts`
    telemetry: Telemetry | None = None  # a summary of the samples; None if the run was too short
    polls: tuple[Telemetry, ...] = ()  # the samples, second by second
    latest: Callable[[], Telemetry | None] = lambda: None  # the last sample so far; None before the first

    def of(self, run: Run, before: Disturbance | None) -> Run:
        """Return the run as it was observed, with a disturbance before it where nothing else disturbed it."""
        disturbance = run.disturbance or self.disturbance or before
        return replace(run, telemetry=self.telemetry, polls=self.polls, disturbance=disturbance)

    def temperatures(self) -> list[int] | None:
        """Return the GPUs' degrees Celsius now; empty if a driver does not tell, None before the first sample."""
        return None if (now := self.latest()) is None else temperatures(now)


def temperatures(telemetry: Telemetry) -> list[int]:
    """Return the GPUs' degrees Celsius; empty if a driver does not tell."""
    celsius = [gpu.temperature_celsius_max for gpu in telemetry.gpus]
    return [] if None in celsius else [value for value in celsius if value is not None]


class DisturbanceGuard:
    """Watches runs; pytest and all processes that it started count as our own.

    Args:
        limits: above which a disturbance counts.
        sampler: makes a sampler for GPU UUIDs and the pids of our processes that pytest did not start.
        looks: seconds of each look of `before`; the first one alone decides if no GPU is in use.
    """

    def __init__(
        self,
        limits: DisturbanceLimits,
        sampler: Callable[[Sequence[str], Collection[int]], Sampler] = Sampler,
        looks: Sequence[float] = _LOOKS,
    ) -> None:
        self.limits = limits
        self._sampler = sampler
        self._looks = looks

    def before(self, gpu_uuids: Iterable[str]) -> Disturbance | None:
        """Return other work on GPUs where its processes can't be told from ours: any use before our worker starts."""
        uuids = tuple(gpu_uuids)
        if not uuids:
            return None
        disturbance, low = None, 0
        for seconds in self._looks:
            now = self._in_use(uuids, seconds)
            disturbance, low = now or disturbance, 0 if now else low + 1
            if disturbance is None or low == _LOW_LOOKS:
                return None
        return disturbance

    def _in_use(self, uuids: Sequence[str], seconds: float) -> Disturbance | None:
        sampler = self._sampler(uuids, ())
        sampler.start()
        time.sleep(seconds)
        telemetry = sampler.stop()
        uses = {gpu.uuid: gpu.use_by_unknown for gpu in telemetry.gpus} if telemetry else {}
        uuid, used = busiest(uses)
        is_shared = used > self.limits.gpu_utilisation_fraction
        return Disturbance(DisturbanceKind.GPU_SHARED, used, gpu=uuid) if is_shared else None

    @contextmanager
    def watching(self, gpu_uuids: Iterable[str] = (), pids: Collection[int] = ()) -> Iterator[Observation]:
        """Watch the host and these GPUs until the block ends; processes with these pids are our own too."""
        uuids = tuple(gpu_uuids)
        sampler = self._sampler(uuids, pids)
        observation = Observation(latest=lambda: sampler.latest)
        sampler.start()
        try:
            yield observation
        finally:
            observation.telemetry = sampler.stop()
            observation.polls = sampler.polls if observation.telemetry is not None else ()
        if observation.telemetry is not None:
            observation.disturbance = disturbance_in(observation.telemetry, self.limits)
            observation.environment = power_facts(observation.telemetry, self.limits)
        if observation.disturbance is None and sampler.hung:
            observation.disturbance = Disturbance(DisturbanceKind.DRIVER_SILENT, gpu=uuids[0] if uuids else "")


def power_facts(telemetry: Telemetry, limits: DisturbanceLimits) -> dict[str, str]:
    """Return `gpu_power_limit` ("300W"), `gpu_power_capped` and `mig_neighbours` ("yes" or "no"), as far as known.

    A power cap belongs to the machine's setup and is no disturbance, and so do neighbours on a MIG GPU, who take some
    of its power. Both are recorded, so that a change of them shows.
    """
    facts = {}
    watts = {gpu.power_limit_watts_max for gpu in telemetry.gpus if gpu.power_limit_watts_max is not None}
    if watts:
        facts["gpu_power_limit"] = "+".join(f"{limit}W" for limit in sorted(watts))
    over = least_share(limits.gpu_samples_fraction, telemetry.seconds)
    capped = [
        gpu.throttled_fractions.get(Throttle.POWER_CAP, 0.0) > over
        for gpu in telemetry.gpus
        if gpu.throttled_fractions is not None
    ]
    if capped:
        facts["gpu_power_capped"] = "yes" if any(capped) else "no"
    neighbours = [gpu.neighbours_max for gpu in telemetry.gpus if gpu.neighbours_max is not None]
    if neighbours:
        facts["mig_neighbours"] = "yes" if any(neighbours) else "no"
    return facts


LOOK_SECONDS = 1.0


def watch_idly() -> Telemetry | None:
    """Sample the machine for a second in which we do nothing; None where it can't be sampled."""
    with DisturbanceGuard(DisturbanceLimits()).watching() as observation:
        time.sleep(LOOK_SECONDS)
    return observation.telemetry


@dataclass(frozen=True, slots=True)
class Load:
    """The disturbance of the machine before baselines are recorded."""

    refused: Disturbance | None = None  # beyond the user's limits
    accepted: Disturbance | None = None  # beyond the usual limits only


def look_before_recording(limits: DisturbanceLimits, look: Callable[[], Telemetry | None] = watch_idly) -> Load:
    """Return the load that decides whether a run would count now.

    A disturbance must show in as many looks as a test has tries: a mail client has started within a second.
    """
    beyond: Disturbance | None = None
    for _ in range(TRIES):
        telemetry = look()
        if telemetry is None:
            return Load()
        beyond = disturbance_in(telemetry, limits)
        if beyond is None:
            return Load(accepted=disturbance_in(telemetry, DisturbanceLimits()))
    return Load(refused=beyond)


# The warm-up of GPUs: a cold one has higher clocks, and becomes slower. A worker's warm-up goes on until its GPUs are
# warm. A program does not wait, and may end before that; so its first run is thrown away if the GPUs were cold, and
# taken again. That has never run on a GPU.

STEADY_SECONDS = 10.0
"""GPUs are warm if no temperature rose by more than `STEADY_CELSIUS` during this time."""

STEADY_CELSIUS = 1

MOST_SECONDS = 90.0
"""A large GPU takes about a minute; after this time the session goes on in any case."""


@dataclass(frozen=True, slots=True)
class Warmed:
    """How GPUs were warmed up."""

    seconds: float  # of work
    before: int  # the temperature of the warmest GPU, in degrees Celsius
    after: int
    is_steady: bool  # False if they were still getting warmer after `MOST_SECONDS`


class GpuWarmUp:
    """Warms up each GPU once in a session, before or by its first run.

    Args:
        most_seconds: when to go on although the GPUs still get warmer; 0 for no warm-up.
        clock: seconds, for tests.
    """

    def __init__(self, *, most_seconds: float = MOST_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._most_seconds = most_seconds
        self._clock = clock
        self._warm: set[str] = set()
        self._cold_runs: dict[tuple[str, ...], Warmed] = {}
        self.done: list[Warmed] = []  # in order

    def of(
        self, uuids: Sequence[str], temperatures: Callable[[], Sequence[int] | None], phase: Callable[[str], None]
    ) -> Callable[[], bool]:
        """Return a function to call after each window of a run's warm-up, which tells whether the run's GPUs are warm.

        `temperatures` returns each GPU's in degrees Celsius; empty if the driver gives none, None if it was not read
        yet. `phase` is called with a text that gives the temperature.
        """
        if self._most_seconds == 0 or self._warm.issuperset(uuids):
            return lambda: True
        started, readings = self._clock(), list[tuple[float, Sequence[int]]]()

        def is_warm() -> bool:
            now, seconds = temperatures(), self._clock() - started
            if now:
                readings.append((seconds, now))
                phase(f"GPU warm-up, {max(now)} C")
            is_steady = _is_steady(readings)
            if not is_steady and now != [] and seconds < self._most_seconds:
                return False
            self._warm.update(uuids)
            if readings:
                self.done.append(Warmed(seconds, max(readings[0][1]), max(readings[-1][1]), is_steady))
            return True

        return is_warm

    def was_cold(self, uuids: Sequence[str], celsius: Sequence[int], seconds: float) -> bool:
        """Return whether the GPUs were cold in a program's run, so that later runs will be slower than this one.

        They are warm if the run has ended no warmer than the one before it, which each later run will then do, too: a
        GPU cools down while a program starts. A run of `most_seconds` counts in any case. So this costs no more time
        than the warm-up of a worker, and mostly one run in a session.

        Args:
            celsius: the warmest GPU's temperature in each second that was timed; empty if no driver gives it.
            seconds: how long the run took with its start.
        """
        if self._most_seconds == 0 or not celsius or self._warm.issuperset(uuids):
            return False
        before = self._cold_runs.get(tuple(uuids), Warmed(0.0, celsius[0], celsius[0], is_steady=False))
        is_steady = celsius[-1] - before.after <= STEADY_CELSIUS
        if not is_steady and before.seconds + seconds < self._most_seconds:
            self._cold_runs[tuple(uuids)] = replace(before, seconds=before.seconds + seconds, after=celsius[-1])
            return True
        self._warm.update(uuids)
        if before.seconds:
            self.done.append(replace(before, is_steady=is_steady))
        return False


def _is_steady(readings: Sequence[tuple[float, Sequence[int]]]) -> bool:
    """Whether no GPU became warmer over the last `STEADY_SECONDS`."""
    earlier = [celsius for at, celsius in readings if at <= readings[-1][0] - STEADY_SECONDS]
    return bool(earlier) and all(b - a <= STEADY_CELSIUS for a, b in zip(earlier[-1], readings[-1][1], strict=True))
