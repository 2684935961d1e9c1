"""One step of a search: what a session of pytest is told to compare, and what it answers. A file crosses over."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Outcome, Tolerance
from pytest_tfperf.stores import files


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A state of code and packages that can be measured.

    Args:
        name: in messages and in the comparison's environment: a commit, or an environment.
        kind: "commit" or "packages", the name of that fact.
        python: runs it.
        folder: its code; "" for the current code.
    """

    name: str
    kind: str
    python: str
    folder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a session compares.

    Args:
        a, b: the two states.
        answer: the file that gets an `Answered`.
        error: how often the comparison may be wrong, in either direction.
        most_pairs: after so many it ends.
        tolerance: between good and bad, for all comparisons of the test; None: the test's own.
    """

    a: State
    b: State
    answer: str
    error: float
    most_pairs: int
    tolerance: Tolerance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One comparison of the test."""

    ratio: float
    low: float
    high: float
    outcome: Outcome
    reason: str
    pairs: int
    lower: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a session found.

    Args:
        found: the comparisons of the test, in its order.
        faults: why nothing could be measured, one message for each test.
        seconds: how long the comparisons took.
    """

    found: tuple[Found, ...] = ()
    faults: tuple[str, ...] = ()
    seconds: float = 0.0


def read_step(path: Path) -> Step:
    """The step of a file that `tfperf bisect` wrote."""
    return build(Step, json.loads(path.read_text("utf-8")), str(path))


def write(path: Path, step: Step | Answered) -> None:
    """Write a step or its answer, whole or not at all."""
    files.replace(path, json.dumps(plain(step)).encode())


def read_answer(path: Path) -> Answered:
    """What a session has found."""
    return build(Answered, json.loads(path.read_text("utf-8")), str(path))


def answered(record: SessionRecord) -> Answered:
    """What a session gave."""
    compared = [one for one in record.results if isinstance(one, Comparison)]
    return Answered(
        found=tuple(
            Found(
                ratio=one.ratio,
                low=one.low,
                high=one.high,
                outcome=one.outcome or Outcome.INVALID,
                reason=one.reason,
                pairs=len(one.pairs),
                lower=one.tolerance.lower,
            )
            for one in compared
        ),
        faults=tuple(map(str, record.not_measured.values())),
        seconds=sum(one.seconds for one in compared),
    )
