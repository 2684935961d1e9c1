"""Watches the machine while something is measured, and says whether that spoils it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from pytest_tfperf.core.samples import Limits, disturbance, power_facts
from pytest_tfperf.core.telemetry import Telemetry, kept_of
from pytest_tfperf.hardware.sampler import Sampler


@dataclass(slots=True)
class Seen:
    """What went on beside a measurement; filled when `watching` ends.

    Args:
        disturbance: who else used the machine, or what slowed it down, in one sentence; "" where nothing did.
        environment: what is recorded and is no disturbance: the GPUs' power limit, and whether it held them back.
        conditions: what is kept of the samples; None where the measurement was too short for one.
    """

    disturbance: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    conditions: Telemetry | None = None


class Guard:
    """Looks a few times a second; one for a session.

    Args:
        limits: from where a disturbance is one.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    @contextmanager
    def watching(self, gpu_uuids: Iterable[str] = ()) -> Iterator[Seen]:
        """Look from here to the block's end; pytest and all that it started count as ours."""
        seen = Seen()
        uuids = tuple(gpu_uuids)
        sampler = Sampler(lambda: (os.getpid(),), uuids)
        sampler.start()
        try:
            yield seen
        finally:
            sampler.stop()
        samples = sampler.since(-math.inf)
        seen.disturbance = disturbance(samples, self._limits)
        if sampler.hangs and not seen.disturbance:
            who = "the GPU's driver" if uuids else "the kernel"
            seen.disturbance = f"{who} does not answer any more; dmesg may say why (of a GPU, NVRM: Xid)"
        seen.environment = power_facts(samples, self._limits)
        seen.conditions = kept_of(samples)
