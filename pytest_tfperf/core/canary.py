"""The machine by itself: what it does in a matrix product and in a memory copy, without TensorFlow.

When a whole suite gets slower, these tell the machine from the software (the canary of the mine sings or it doesn't).
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

from pytest_tfperf.errors import BaselineError

_WORD = re.compile(r"(?P<name>[a-z_]+)=(?P<rate>\d+(?:\.\d*)?(?:e[+-]?\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Moved:
    """How far one canary moved since the baselines, in natural logarithms.

    Args:
        by: the difference of log rates; negative: slower.
        error: its standard error.
    """

    by: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Canaries:
    """What the host's processors gave at one time.

    Args:
        matrix_product_gflops: float32 matrix product on all usable cores, 10^9 operations per second.
        memory_copy_gigabytes: bytes copied per second by one core, in 10^9.

    Raises:
        BaselineError: a rate that can't be one.
    """

    matrix_product_gflops: float
    memory_copy_gigabytes: float

    def __post_init__(self) -> None:
        for name, rate in self._rates().items():
            if not (math.isfinite(rate) and rate > 0):
                raise BaselineError(f"canaries: {name}={rate!r} is not a rate: it must be above 0")

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `str` of canaries gives, "matrix_product_gflops=95.2 memory_copy_gigabytes=9.13".

        Raises:
            BaselineError: anything else.
        """
        words = [_WORD.fullmatch(word) for word in text.split(" ")]
        rates = {word["name"]: float(word["rate"]) for word in words if word}
        names = {field.name for field in fields(cls)}
        if len(words) != len(names) or rates.keys() != names:
            form = " ".join(f"{name}=RATE" for name in sorted(names))
            raise BaselineError(f"canaries {text[:80]!r}: write {form}, or leave the cell empty")
        return cls(**rates)

    @classmethod
    def median(cls, looks: Collection[Self]) -> Self | None:
        """Of several looks at the machine, canary by canary; None of none."""
        if not looks:
            return None
        return cls(**{f.name: statistics.median(getattr(look, f.name) for look in looks) for f in fields(cls)})

    def _rates(self) -> dict[str, float]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        return " ".join(f"{name}={rate:.5g}" for name, rate in self._rates().items())


_WORDS = {"matrix_product_gflops": "matrix product", "memory_copy_gigabytes": "memory copy"}


def moved(looks: Sequence[Canaries], then: Sequence[Canaries]) -> dict[str, Moved]:
    """Each canary's way from `then`, the baselines' (their median counts), to tonight's looks, by its name in words.

    A median's error is 1.25 standard deviations over the root of their number; that of then is taken for as large. {}
    for fewer than two looks, or nothing to compare with.
    """
    if len(looks) < 2 or not then:
        return {}
    return {
        word: _moved([_log(look, name) for look in looks], [_log(c, name) for c in then])
        for name, word in _WORDS.items()
    }


def in_words(canaries: Mapping[str, Moved]) -> str:
    """ "matrix product -12 +/- 3 %, memory copy +1 +/- 1 %"."""
    return ", ".join(f"{name} {math.expm1(m.by) * 100:+.0f} +/- {m.error * 100:.0f} %" for name, m in canaries.items())


def _moved(now: Sequence[float], then: Sequence[float]) -> Moved:
    error = 1.25 * statistics.stdev(now) * math.sqrt(2 / len(now))
    return Moved(statistics.median(now) - statistics.median(then), error)


def _log(canaries: Canaries, name: str) -> float:
    return math.log(getattr(canaries, name))
