"""One step of a search: what a session of pytest compares, and what it answers. A file crosses over."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, final

from pytest_tfperf.bench.comparing import Effort, Terms
from pytest_tfperf.core.command import Command, Subject
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_INTERRUPTED, EXIT_REGRESSED
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.session_verdicts import SessionRecord
from pytest_tfperf.core.verdict import Against, Outcome, Tolerance
from pytest_tfperf.errors import MeasurementError, TfperfError, UserCodeFailed
from pytest_tfperf.judging.pairs import ErrorRates, PairsDecision
from pytest_tfperf.reports.comparisons import reason_of
from pytest_tfperf.revisions.checkout import Checkout
from pytest_tfperf.revisions.checkout_launcher import CheckoutLauncher
from pytest_tfperf.revisions.git import require_repository
from pytest_tfperf.stores import files
from pytest_tfperf.workers.interpreters import Interpreter
from pytest_tfperf.workers.launcher import Launcher

SKIP: Final = 125
"""What `git bisect run` takes for a commit that can't be judged."""

STOP: Final = 130
"""As a shell gives it after Ctrl-C; git ends the bisection from 128 on."""


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
    """One comparison of the two states.

    Args:
        test: pytest's node id.
        call: which call of the test it is, from 0.
        decision: INVALID where the states could not be compared.
        pairs: how many it took.
    """

    test: str
    call: int
    decision: PairsDecision
    pairs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a session found.

    Args:
        found: the comparisons of the two states, in their order.
        faults: why a test could not be measured, or compared nothing.
        passing: the tests with a fault that may be gone the next time.
        seconds: how long the calls took.
    """

    found: tuple[Found, ...] = ()
    faults: Mapping[str, str] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
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
    """What a session gave: only what ran on the two states, which a `throughput.compare` does not."""
    calls: Counter[str] = Counter()
    found: list[Found] = []
    for one in record.results:
        if isinstance(one, Comparison) and one.against_other_side:
            decision = PairsDecision(one.ratio, one.low, one.high, one.of_ratio or Outcome.INVALID, reason_of(one))
            found.append(Found(test=one.test, call=calls[one.test], decision=decision, pairs=len(one.pairs)))
        calls[one.test] += 1
    faults = {test: str(error) for test, error in record.not_measured.items()}
    if not (found or faults):
        faults = dict.fromkeys(calls, _ONLY_HERE)
    passing = tuple(test for test, error in record.not_measured.items() if _may_pass(error))
    seconds = sum(one.seconds for one in record.results)
    return Answered(found=tuple(found), faults=faults, passing=passing, seconds=seconds)


def _may_pass(error: TfperfError) -> bool:
    """Whether the same code may run the next time: memory or a GPU was lacking, a worker hung or was killed."""
    return isinstance(error, MeasurementError) and not isinstance(error, UserCodeFailed)


_ONLY_HERE: Final = (
    "the test ran on the current code alone. Call `check` or `check_command` in it: only these run on other commits or "
    "with other packages"
)


def git_status(record: SessionRecord, status: int) -> int:
    """The status for a session that pytest would end with `status`.

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


def _is_good(result: Measurement | Comparison) -> bool:
    """Whether it passed, and not only against earlier sessions: these may be of slow commits."""
    verdict = result.verdict if isinstance(result, Measurement) else None
    is_provisional = verdict is not None and verdict.against is Against.EARLIER_SESSIONS
    return result.outcome in (Outcome.PASS, Outcome.IMPROVED) and not is_provisional


_SECONDS: Final = 3600.0
"""The longest that a comparison may take; a search takes what it needs."""


@final
class TwoStates:
    """See `OtherSide`.

    Args:
        step: what is compared.
        root: pytest's rootdir.
    """

    may_lack_code: Final = False
    remarks: Final[Sequence[str]] = ()

    def __init__(self, step: Step, root: Path) -> None:
        self._step = step
        self._root = root
        self.announcement = (f"each check compares {step.b.name} (b) with {step.a.name} (a)",)
        self.facts: tuple[Mapping[str, str], Mapping[str, str]] = (
            {step.a.kind: step.a.name},
            {step.b.kind: step.b.name},
        )
        self.terms = Terms(
            tolerance=step.tolerance,
            effort=Effort(max_pairs=step.most_pairs, max_seconds=_SECONDS),
            error_rates=ErrorRates(false_alarms=step.error, false_passes=step.error),
            compares_figures=False,
        )

    def launchers(self, here: Launcher, launch: Callable[[Interpreter], Launcher]) -> tuple[Launcher, Launcher]:
        """See `OtherSide.launchers`."""
        del here  # neither state is the current one
        return self._launcher(self._step.a, launch), self._launcher(self._step.b, launch)

    def _launcher(self, state: State, launch: Callable[[Interpreter], Launcher]) -> Launcher:
        if not state.folder:
            return launch(Interpreter(state.python))
        repository = require_repository(self._root, "tfperf bisect").resolve()
        folder = Path(state.folder).resolve()
        checkout = Checkout(repository=repository, folder=folder, name=state.name, beside=folder.parent)
        return CheckoutLauncher(launch(checkout.interpreter(state.python)), checkout)

    def refuse(self, subject: Subject, test: str) -> None:  # noqa: ARG002  # the same tests
        """Refuse a program that packages can't change."""
        is_other_python = not self._step.b.folder and self._step.b.python != sys.executable
        if is_other_python and isinstance(subject, Command) and not subject.runs_this_python:
            raise TfperfError(
                f"{subject.id}: {subject.argv[0]} runs with the same packages in each environment",
                next_step='Begin the command with sys.executable, as in [sys.executable, "train.py"]',
            )

    def close(self) -> None:
        """Do nothing: `tfperf bisect` holds the checkouts."""
