"""A setting as the user gave it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pytest_tfperf.core.setting import Setting


class Origin(Enum):
    """Where a setting was given."""

    OPTION = "option"
    VARIABLE = "environment variable"
    OVERRIDE = "-o"
    INI_FILE = "ini file"


@dataclass(frozen=True, slots=True)
class Given:
    """A setting that the user gave: where, and its text; as text it is what a message calls it.

    Args:
        setting: which one.
        origin: where it was given.
        text: its value before it was parsed.
        file: pytest's ini file, for a value that stands there.
    """

    setting: Setting[Any]
    origin: Origin
    text: str
    file: str = ""

    def __str__(self) -> str:
        name = self.setting.name
        match self.origin:
            case Origin.OPTION:
                return self.setting.spelled
            case Origin.VARIABLE:
                return f"environment variable TFPERF_{name.upper()}"
            case Origin.OVERRIDE:
                return f"-o tfperf_{name}"
            case Origin.INI_FILE:
                return f"{self.file}: tfperf_{name}"
