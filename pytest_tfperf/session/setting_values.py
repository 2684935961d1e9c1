"""Parsers of settings. A ValueError's text continues the message after the value, as in "'x' must be ..."."""

from __future__ import annotations

from collections.abc import Callable
from configparser import ConfigParser
from contextlib import suppress
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_tfperf.core import catalogue
from pytest_tfperf.core.machine_key import check_name
from pytest_tfperf.features.cluster.names import split_launcher

if TYPE_CHECKING:
    from pytest_tfperf.features.references.environment import ReferenceEnvironment


class WorkerStart(StrEnum):
    """How worker processes start."""

    FORK = "fork"
    FRESH = "fresh"


def _number(kind: type[int] | type[float], allows: Callable[[float], bool], says: str) -> Callable[[str], Any]:
    def parse(text: str) -> float:
        with suppress(ValueError):
            value = kind(text)
            if allows(value):
                return value
        raise ValueError(says)

    return parse


fraction = _number(float, lambda x: 0 <= x < 1, "must be a fraction from 0 to below 1, 0.4 for 40 %")
share = _number(float, lambda x: 0 < x <= 1, "must be a fraction above 0, up to 1, 0.4 for 40 %")
tolerance = _number(float, lambda x: 0 < x < 1, "must be a fraction between 0 and 1, 0.05 for 5 %")
seconds = _number(float, lambda x: 0 < x <= 1e6, "must be above 0 and at most 1,000,000 seconds")
seconds_or_inf = _number(float, lambda x: x > 0, "must be above 0 seconds, or inf")
rate = _number(float, lambda x: x >= 0, "must be 0 or more MiB/s, or inf")


_SECONDS_OF = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """Seconds of "90s", "30m" or "1.5h"."""
    with suppress(ValueError, KeyError):
        seconds = float(text[:-1]) * _SECONDS_OF[text[-1:]]
        if 0 < seconds < inf:
            return seconds
    raise ValueError("must be a time above 0 with its unit: 90s, 30m or 1.5h")


def count(least: int) -> Callable[[str], Any]:
    """A whole number, `least` or more."""
    return _number(int, lambda n: n >= least, f"must be a whole number, {least} or more")


def flag(text: str) -> bool:
    """An ini file's true or false."""
    try:
        return ConfigParser.BOOLEAN_STATES[text.lower()]
    except KeyError:
        raise ValueError("must be true or false") from None


port = _number(int, lambda n: 0 <= n <= 65535, "must be a port, from 0 to 65535")


def launcher(text: str) -> str:
    """A launcher's name and its options."""
    split_launcher(text)
    return text


def worker(text: str) -> WorkerStart:
    """How workers start."""
    if text not in list(WorkerStart):
        raise ValueError(f"must be {' or '.join(WorkerStart)}")
    return WorkerStart(text)


def _path(kind: str) -> Callable[[str], Path]:
    """A path; `~` is the user's home."""

    def parse(text: str) -> Path:
        try:
            return Path(text).expanduser()
        except RuntimeError:
            raise ValueError(f"must be a {kind}, and there is no such user's home") from None

    return parse


folder, file = _path("folder"), _path("file")


def machine(text: str) -> str:
    """The name of a machine, "" for none."""
    if text:
        check_name(text)
    return text


def pipeline(text: str) -> str:
    """An input pipeline's name."""
    catalogue.resolve_pipeline(text)
    return text


# What reads these two starts other Pythons; few sessions need it.


def python(text: str) -> Path:
    """The interpreter that a path, a name on PATH or a virtual environment's folder names."""
    from pytest_tfperf.workers.interpreters import find_python

    return find_python(text)


def reference(text: str) -> ReferenceEnvironment:
    """The environment that PYTHON[:SOURCE_DIR] names."""
    from pytest_tfperf.features.references.environment import parse_reference

    return parse_reference(text)
