"""What a probe tells its driver, with the bounds of what can be true."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_tfperf.errors import TfperfError

_MOST_RANKS = 1024
_MOST = 2**53  # examples, steps, seconds
MOST_BYTES = 64 * 1024  # of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """How a probe calls."""

    pid: int
    rank: int
    ranks: int

    def __post_init__(self) -> None:
        if not (0 < self.pid <= _MOST and 0 <= self.rank < self.ranks <= _MOST_RANKS):
            raise TfperfError("a number can't be true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What a probe tells when its process has taken some steps."""

    source: str
    steps: int  # that it has taken
    examples_per_step: float | None
    counted: str  # how examples are counted, or why not
    fetches: bool
    first_step_at: float  # by the clock of `time.perf_counter`
    counts: Mapping[str, int]  # of compilations and the like, at the end of the first step
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _require_numbers(self.steps, self.examples_per_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures that a probe has read; None for one that it can't."""

    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A window as a probe tells it."""

    steps: int
    untimed: int  # steps before these
    seconds: float
    loss: float | None
    examples: int | None
    input_seconds: float
    between_seconds: float
    paused_seconds: float
    skipped: int
    others: int
    doubt: str
    counts: Mapping[str, int]

    def __post_init__(self) -> None:
        _require_numbers(
            self.steps, self.seconds, self.examples, self.input_seconds, self.between_seconds, self.paused_seconds
        )
        _require_numbers(self.untimed, self.skipped, self.others)


def _require_numbers(*numbers: float | None) -> None:
    if not all(number is None or 0 <= number <= _MOST for number in numbers):
        raise TfperfError("a number can't be true")
