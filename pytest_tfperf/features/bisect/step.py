"""A step of `tfperf bisect`, and the answer of its session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from pytest_tfperf.bench.comparing import OtherSide
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.errors import MeasurementError, UserCodeFailed
from pytest_tfperf.stores import kept

_ONLY_HERE: Final = (
    "the test ran on the current code alone. Call `check` in it: only this runs on other commits or with other packages"
)

_VERSION: Final = 1

T = TypeVar("T")

Call = tuple[str, str, str]  # a compared call: the test, its workload, and the topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why two states could not be compared."""

    why: str  # what happened, in lines
    # Whether the same code may run the next time: the machine was disturbed, memory or a GPU was lacking, a worker
    # hung or was killed.
    may_pass: bool = False

    @property
    def reason(self) -> str:
        """Its first line."""
        return self.why.partition("\n")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The comparisons of two states in one session."""

    comparisons: tuple[Measurement, ...] = ()  # in the order in which they ran
    faults: Mapping[str, Fault] = field(default_factory=dict)  # of tests that could not be measured or compared nothing

    @property
    def calls(self) -> dict[Call, Measurement]:
        """The comparisons, by call."""
        return {(result.test, str(result.workload), result.topology): result for result in self.comparisons}


def answer_of(record: SessionResult) -> Answer:
    """Return a session's answer: only comparisons of the two states, which a `throughput.compare` is not."""
    comparisons = tuple(result for result in record.results if result.other is not None and result.other.is_of_session)
    faults = {
        test: Fault(
            why=str(error), may_pass=isinstance(error, MeasurementError) and not isinstance(error, UserCodeFailed)
        )
        for test, error in record.not_measured.items()
    }
    if not (comparisons or faults):
        faults = {result.test: Fault(why=_ONLY_HERE) for result in record.results}
    return Answer(comparisons=comparisons, faults=faults)


def answer_file(step: Path) -> Path:
    """Return the file of a step's answer."""
    return step.with_suffix(".answer.json")


def read(cls: type[T], path: Path) -> T | None:
    """Return a step's `OtherSide`, or its `Answer`; None where there is no file.

    Raises:
        TfperfError: as `kept.read`.
    """
    return kept.read(cls, path, _VERSION, "Begin anew with --again")


def write(path: Path, value: OtherSide | Answer) -> None:
    """Write a step or an answer, whole or not at all.

    Raises:
        TfperfError: as `kept.write`.
    """
    kept.write(path, value, _VERSION)
