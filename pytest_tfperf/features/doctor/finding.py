"""What a check of a machine found, one subject at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is, the worst first; the values are what a report shows."""

    UNFIT = "UNFIT"
    WARNING = "warning"
    UNKNOWN = "unknown"
    OK = "ok"


class Subject(StrEnum):
    """What was looked at; reports/doctor.py says why each matters."""

    OTHER_PROCESSES = "other processes"
    LOAD = "load"
    STEAL = "steal time"
    SWAP = "swap"
    MEMORY = "memory"
    GOVERNOR = "CPU governor"
    TURBO = "turbo"
    QUOTA = "CPU quota"
    SIBLINGS = "hyper-threading"
    DISK = "disk space"
    FILE_SYSTEM = "file system"
    DRIVER = "NVIDIA driver"
    PERSISTENCE = "persistence mode"
    POWER_LIMIT = "power limit"
    GPU_CLOCKS = "GPU clocks"
    GPU_PROCESSES = "GPU processes"
    ECC = "GPU memory errors"


@dataclass(frozen=True, slots=True)
class Finding:
    """One subject.

    Args:
        subject: what was looked at.
        level: UNFIT: a measurement would be discarded or wrong; WARNING: it would be noisier, or may not last;
            UNKNOWN: the machine does not report it.
        fact: what was found, with figures.
        fix: the command that fixes it, or what to do where no command can; "" for none.
    """

    subject: Subject
    level: Level
    fact: str
    fix: str = ""
