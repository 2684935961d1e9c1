"""What can make a run worthless: other work on the machine, heat, swapping, or a throughput that never settled."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DisturbanceKind(StrEnum):
    """What disturbed a run; reports/advice.py says for each what to do about it."""

    OTHER_PROCESSES = "other processes"
    STEAL = "steal time"
    SWAPPING = "swapping"
    GPU_SLOWED_DOWN = "GPU slowed down"
    GPU_SHARED = "GPU shared"
    DRIVER_SILENT = "driver silent"
    NOT_STEADY = "not steady"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Why a run is not believed.

    Args:
        kind: what it was.
        fact: one sentence with the figures and the culprit, without advice:
            "other processes used 43 % of 2 cores, most of it make (pid 4711)".
    """

    kind: DisturbanceKind
    fact: str

    def __str__(self) -> str:
        return self.fact
