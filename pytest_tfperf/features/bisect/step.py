"""The answer of a session that is a step of `tfperf bisect`, or of `git bisect run`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from pytest_tfperf.bench.comparing import OtherSide
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_INTERRUPTED, EXIT_REGRESSED
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.session_verdicts import SessionResult
from pytest_tfperf.core.verdict import Against, Outcome
from pytest_tfperf.errors import MeasurementError, TfperfError, UserCodeFailed
from pytest_tfperf.stores import files

SKIP: Final = 125
"""The status that tells `git bisect run` that a commit can't be judged."""

STOP: Final = 130
"""The status after Ctrl-C, as a shell gives it; git ends the bisection from 128 on."""

_ONLY_HERE: Final = (
    "the test ran on the current code alone. Call `check` in it: only this runs on other commits or with other packages"
)

T = TypeVar("T", OtherSide, "Answer")

Call = tuple[str, str, str]
"""A compared call: the test, its workload, and the topology."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why two states could not be compared.

    Args:
        why: the first line is shown where other states were compared.
        may_pass: whether the same code may run the next time: the machine was disturbed, memory or a GPU was lacking, a
            worker hung or was killed.
    """

    why: str
    may_pass: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The comparisons of two states in one session.

    Args:
        comparisons: in the order in which they ran.
        faults: of each test that could not be measured, or compared nothing.
    """

    comparisons: tuple[Measurement, ...] = ()
    faults: Mapping[str, Fault] = field(default_factory=dict)

    @property
    def calls(self) -> dict[Call, Measurement]:
        """The comparisons, by call."""
        return {(result.test, str(result.workload), result.topology): result for result in self.comparisons}


def answer_of(record: SessionResult) -> Answer:
    """Return a session's answer: only comparisons of the two states, which a `throughput.compare` is not."""
    comparisons = tuple(result for result in record.results if result.other is not None and result.other.is_of_session)
    faults = {test: Fault(why=str(error), may_pass=_may_pass(error)) for test, error in record.not_measured.items()}
    if not (comparisons or faults):
        faults = {result.test: Fault(why=_ONLY_HERE) for result in record.results}
    return Answer(comparisons=comparisons, faults=faults)


def _may_pass(error: TfperfError) -> bool:
    return isinstance(error, MeasurementError) and not isinstance(error, UserCodeFailed)


def answer_file(step: Path) -> Path:
    """Return the file of a step's answer."""
    return step.with_suffix(".answer.json")


def read(kind: type[T], path: Path) -> T:
    """Read a step (an `OtherSide`) or an answer from its file."""
    return build(kind, json.loads(path.read_text("utf-8")), str(path))


def write(path: Path, value: OtherSide | Answer) -> None:
    """Write a step or an answer, whole or not at all."""
    files.replace(path, json.dumps(plain(value)).encode())


def git_status(record: SessionResult, status: int) -> int:
    """Return the status for a session that pytest would end with `status`.

    Bad is a confirmed regression that fails its test, or another test that failed. Good are tests that all passed a
    verdict. Everything else decides nothing: tests that could not be measured, stayed in doubt or had no baseline, a
    regression that fails no test, files that can't be collected, and a slower machine.
    """
    if status == EXIT_INTERRUPTED and record.selection:
        return STOP
    outcomes = [result.outcome for result in record.results]
    # --tfperf-strict also fails a test that stayed in doubt.
    is_in_doubt = bool(record.not_measured) or Outcome.INCONCLUSIVE in outcomes
    if status == EXIT_REGRESSED and (Outcome.REGRESSED in outcomes or not is_in_doubt):
        return EXIT_REGRESSED
    if status == EXIT_GREEN and record.results and all(map(_is_good, record.results)):
        return EXIT_GREEN
    return SKIP


def _is_good(result: Measurement) -> bool:
    """Whether a result passed, and not only against earlier sessions, which may be of slow commits."""
    verdict = result.verdict
    is_provisional = verdict is not None and verdict.against is Against.EARLIER_SESSIONS
    return result.outcome in (Outcome.PASS, Outcome.IMPROVED) and not is_provisional
