"""A search from its first comparison to its result; it survives an interruption."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from pytest_tfperf.core.consequence import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.core.plain_json import build, plain
from pytest_tfperf.core.verdict import WORST_FIRST, Outcome, Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features.bisect.search import (
    MOST_PAIRS,
    Answer,
    Search,
    Side,
    answer_of,
    comparisons,
    error_rates,
    threshold_of,
)
from pytest_tfperf.features.bisect.states import States
from pytest_tfperf.features.bisect.step import Answered, Found, Step, read_answer, write
from pytest_tfperf.judging.pairs import PairsDecision
from pytest_tfperf.reports.numbers import change, counted, duration
from pytest_tfperf.reports.table import aligned
from pytest_tfperf.stores import files

_LAST_LINES = 15
_DECIDED = (Outcome.PASS, Outcome.IMPROVED, Outcome.REGRESSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a search knows, as its file keeps it.

    Args:
        ends: the comparison of the bad end with the good one, of the call that lost most; None before it is decided.
        answers: by the state's index; without what was skipped, which can perhaps be measured next time.
        seconds: that the comparisons took.
    """

    ends: Found | None = None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    seconds: float = 0.0


class _NotMeasured(TfperfError):
    """A state can't be compared."""


@final
class Searching:
    """One search.

    Args:
        test: pytest's id.
        states: what is searched.
        folder: tfperf's own.
        show: prints a line.
        tolerance: what the bad end must have lost more than; None: the test's own.
        afresh: forget what is known.
        run_pytest: runs a step's session on the test, and returns what it printed.
    """

    def __init__(
        self,
        test: str,
        states: States,
        folder: Path,
        show: Callable[[str], object],
        *,
        tolerance: Tolerance | None = None,
        afresh: bool = False,
        run_pytest: Callable[[str, Path], str] | None = None,
    ) -> None:
        self._test = test
        self._states = states
        self._show = show
        self._tolerance = tolerance
        self._run_pytest = run_pytest or _session
        self._last = len(states.names) - 1
        self._rates = error_rates(self._last)
        digest = hashlib.sha256("\0".join([test, str(tolerance), *states.key]).encode()).hexdigest()[:12]
        self._file = folder.absolute() / "bisect" / f"{digest}.json"
        if afresh:
            self._file.unlink(missing_ok=True)
        self._kept = self._read()
        self._skipped: dict[int, Answer] = {}
        self._asked_again: set[int] = set()

    def run(self) -> int:
        """Search until the change is found; returns the exit status.

        Raises:
            TfperfError: the ends can't be compared.
            KeyboardInterrupt: after saying what is kept.
        """
        try:
            return self._run()
        except KeyboardInterrupt:
            known = len(self._kept.answers) + (self._kept.ends is not None)
            self._show(
                f"interrupted; {counted(known, 'comparison')} kept in {self._file}. The same command goes on, "
                "with --again it begins anew"
            )
            raise

    def _run(self) -> int:
        names = self._states.names
        self._show(
            f"{counted(self._last, 'state')} after {names[0]} (good) up to {names[-1]} (bad), at most "
            f"{counted(comparisons(self._last), 'comparison')}"
        )
        ends = self._kept.ends or self._compare_ends()
        if ends.decision.outcome is Outcome.INVALID:
            self._show(f"  {names[-1]}: skipped: {ends.decision.reason}; once more")
            ends = self._compare_ends()
        outcome, reason = ends.decision.outcome, ends.decision.reason
        if outcome is not Outcome.INVALID:  # a reader would take its ratio for a result
            of = "" if ends.test == self._test else f" of {ends.test}"
            self._show(f"  {names[-1]}: {_size(ends.decision)}, {counted(ends.pairs, 'pair')}{of}")
        if outcome not in _DECIDED:
            self._show(f"{names[-1]} could not be compared with {names[0]}: {reason}. The same command tries it again")
            return EXIT_NOT_MEASURED
        if outcome is not Outcome.REGRESSED:
            self._show(f"{names[-1]} is not slower than {names[0]} by more than the tolerance: {reason}")
            return EXIT_REGRESSED
        for index, answer in sorted(self._answers.items()):
            self._show(f"  {names[index]}: {_said(answer)} (kept)")
        while (asked := self._next()) is not None:
            self._show_left()
            answer = self._ask(0, asked, ends)
            if answer.side is Side.SKIPPED:
                self._skipped[asked] = answer
            else:
                self._keep(replace(self._kept, answers={**self._kept.answers, str(asked): answer}))
            self._show(f"  {names[asked]}: {_said(answer)}")
        return self._end(ends)

    def _next(self) -> int | None:
        """The state to compare next; at the end of the search, what could not be measured for a passing reason."""
        if (asked := self._search.next) is not None:
            return asked
        again = [index for index in self._search.candidates if self._may_pass(index)]
        if not again:
            return None
        self._show(f"going back to {', '.join(self._states.names[index] for index in again)}")
        for index in again:
            del self._skipped[index]
            self._asked_again.add(index)
        return self._search.next

    def _may_pass(self, index: int) -> bool:
        """Whether to measure a skipped state again: once, and only what a busy machine may have caused."""
        return index in self._skipped and self._skipped[index].may_pass and index not in self._asked_again

    # Comparisons

    def _compare_ends(self) -> Found:
        """The call that lost most between the ends; kept if it is decided.

        Raises:
            _NotMeasured: an end can't be built or measured.
        """
        answered = self._compare(0, self._last, self._tolerance)
        faults = [_NotMeasured(fault) for fault in answered.faults.values()]
        if not answered.found:
            raise faults[0]
        # What could not be compared may have lost most, so it comes before what passed.
        most = min(answered.found, key=lambda one: (WORST_FIRST.index(one.decision.outcome), one.decision.ratio))
        if most.decision.outcome in _DECIDED:
            if most.decision.outcome is not Outcome.REGRESSED and faults:
                raise faults[0]
            self._keep(replace(self._kept, ends=most))
        return most

    def _ask(self, a: int, b: int, ends: Found) -> Answer:
        """How b differs from a in the call that lost most between the ends; skipped where it can't be compared."""
        threshold = threshold_of(ends.decision.ratio)
        try:
            answered = self._compare(a, b, threshold)
        except _NotMeasured as error:
            return Answer(side=Side.SKIPPED, why=str(error.lines[0]))
        alike = [one for one in answered.found if (one.test, one.call) == (ends.test, ends.call)]
        if not alike:
            why = answered.faults.get(ends.test, f"{ends.test} was not compared")
            return Answer(side=Side.SKIPPED, why=why.partition("\n")[0], may_pass=ends.test in answered.passing)
        found = alike[0]
        if found.decision.outcome is Outcome.INVALID:
            return Answer(side=Side.SKIPPED, why=found.decision.reason, may_pass=True)
        return answer_of(found.decision, threshold, found.pairs)

    def _compare(self, a: int, b: int, tolerance: Tolerance | None) -> Answered:
        """What a session finds that compares two states; without a comparison it has a fault.

        Raises:
            _NotMeasured: a state can't be built.
        """
        try:
            states = [self._states.state(index) for index in (a, b)]
        except TfperfError as error:
            raise _NotMeasured(str(error)) from None
        step_file, answer_file = (self._file.with_suffix(suffix) for suffix in (".step.json", ".answer.json"))
        answer_file.unlink(missing_ok=True)
        step = Step(
            a=states[0],
            b=states[1],
            answer=str(answer_file),
            error=self._rates.false_alarms,
            most_pairs=MOST_PAIRS,
            tolerance=tolerance,
        )
        self._write(step_file, step)
        text = self._run_pytest(self._test, step_file)
        answered = read_answer(answer_file) if answer_file.exists() else Answered()
        self._kept = replace(self._kept, seconds=self._kept.seconds + answered.seconds)
        if answered.found or answered.faults:
            return answered
        end = (f"  | {line}" for line in text.splitlines()[-_LAST_LINES:])
        return Answered(faults={self._test: "\n".join([f"pytest compared nothing in {self._test}:", *end])})

    # The end

    def _end(self, ends: Found) -> int:
        names, found = self._states.names, self._search.candidates
        if len(found) > 1:
            listed = ", ".join(names[index] for index in found)
            again = any(self._skipped[index].may_pass for index in found if index in self._skipped)
            hint = ". The same command measures those again that were disturbed" if again else ""
            self._show(f"one of these {len(found)}, because those between can't be measured: {listed}{hint}")
            return EXIT_NOT_MEASURED
        first = found[0]
        before = self._last_measured_before(first)
        last = self._ask(before, first, ends)
        if last.may_pass:
            self._show(f"  {names[first]} beside {names[before]}: {_said(last)}; once more")
            last = self._ask(before, first, ends)
        if last.side is Side.SKIPPED:
            self._show(f"{names[first]} is the first slow {self._states.noun}; its size is not known: {last.why}")
            return EXIT_NOT_MEASURED
        if last.side is not Side.BAD:
            why = "an earlier answer was wrong" if last.is_sure else "this undecided answer or an earlier one is wrong"
            self._show(
                f"{names[first]} would be it, but beside {names[before]} it is not slow ({_size(last)}): {why}. "
                "Search again on a quieter machine, with --again"
            )
            return EXIT_NOT_MEASURED
        unsure = [names[i] for i, answer in self._answers.items() if not answer.is_sure]
        unsure += [] if last.is_sure else [f"{names[first]} beside {names[before]}"]
        doubts = [("doubt", f"{', '.join(unsure)} stayed undecided; the likelier answer counted")] if unsure else []
        lines = aligned([*self._states.about(first), *doubts])
        size = f"{_size(last)}, beside {names[before]}"
        self._show("\n".join([f"{names[first]} is the first slow one: {size}", *(f"  {line}" for line in lines)]))
        return EXIT_GREEN

    def _last_measured_before(self, index: int) -> int:
        """The nearest state before it that was measured, so that its own change is what differs."""
        return max((i for i, one in self._answers.items() if one.side is Side.GOOD and i < index), default=0)

    # What is kept

    @property
    def _answers(self) -> dict[int, Answer]:
        return {int(index): answer for index, answer in self._kept.answers.items()} | self._skipped

    @property
    def _search(self) -> Search:
        return Search(self._last, self._answers)

    def _show_left(self) -> None:
        """How many comparisons are left, and their time by those that were made."""
        left = comparisons(self._search.bad - self._search.good) - 1
        made = 1 + sum(answer.side is not Side.SKIPPED for answer in self._answers.values())
        self._show(
            f"{counted(left, 'comparison')} left, about {duration(left * self._kept.seconds / made)}"
            if self._kept.seconds
            else f"{counted(left, 'comparison')} left"
        )

    def _read(self) -> Kept:
        try:
            return build(Kept, json.loads(self._file.read_text("utf-8")), str(self._file))
        except FileNotFoundError:
            return Kept()
        except (OSError, ValueError, TfperfError) as error:
            raise TfperfError(f"{self._file} can't be read: {error}", next_step="Begin anew with --again") from None

    def _keep(self, kept: Kept) -> None:
        self._kept = kept
        self._write(self._file, kept)

    def _write(self, path: Path, value: Kept | Step) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / ".gitignore").write_text("*\n", "utf-8")
            if isinstance(value, Step):
                write(path, value)
            else:
                files.replace(path, json.dumps(plain(value)).encode())
        except OSError as error:
            raise TfperfError(
                f"{path} can't be written: {error.strerror}", next_step="Free some space, or give --dir"
            ) from None


def _session(test: str, step_file: Path) -> str:
    """Run pytest on the test; returns what it printed. Ctrl-C reaches it, too, and is waited for."""
    command = [sys.executable, "-m", "pytest", test, "-p", "no:cacheprovider"]
    with subprocess.Popen(
        command,
        env={**os.environ, "TFPERF_BISECT_STEP": str(step_file)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        try:
            text, _ = process.communicate()
        except KeyboardInterrupt:
            process.communicate()
            raise
    return text


def _size(found: PairsDecision | Answer) -> str:
    """The change with its interval: "-10.1 % (95 % CI -11.0 % to -9.2 %)"."""
    interval = f" (95 % CI {change(found.low - 1)} to {change(found.high - 1)})" if math.isfinite(found.high) else ""
    return f"{change(found.ratio - 1)}{interval}"


def _said(answer: Answer) -> str:
    if answer.side is Side.SKIPPED:
        return f"skipped: {answer.why}"
    doubt = "" if answer.is_sure else ", the likelier answer"
    word = "slow" if answer.side is Side.BAD else "fast"
    return f"{word}{doubt}, {change(answer.ratio - 1)} in {counted(answer.pairs, 'pair')}"
