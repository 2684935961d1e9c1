"""The search for the first slow state, by comparisons that may be wrong; it survives an interruption."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, final

from pytest_tfperf.bench.comparing import OtherSide
from pytest_tfperf.console.pytest_process import run_pytest
from pytest_tfperf.console.session_settings import root
from pytest_tfperf.core.exit_status import EXIT_GREEN, EXIT_NOT_MEASURED, EXIT_REGRESSED
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import WORST_FIRST, Outcome, Reason, Tolerance
from pytest_tfperf.errors import TfperfError
from pytest_tfperf.features import outputs
from pytest_tfperf.features.bisect.states import States
from pytest_tfperf.features.bisect.step import Answer, Call, Fault, answer_file, read, write
from pytest_tfperf.judging.pairs import PAIRS_THAT_TELL, Terms
from pytest_tfperf.reports.numbers import change, counted, time_span
from pytest_tfperf.reports.table import aligned
from pytest_tfperf.reports.verdict import why_of
from pytest_tfperf.workers.failures import last_lines

TOTAL_ERROR: Final = 0.05
"""How often a whole search may end at the wrong change.

Every comparison gets an equal share: the first, which measures the loss; one for each halving; and the last, of the
first slow state with the state before it. So the errors add up to this at most, and no answer is trusted more than
another.
"""

MOST_PAIRS: Final = 60
"""Pairs of a comparison before its likelier answer counts: at 4 % between runs, halves of 10 % need about 20."""

_MOST_SECONDS: Final = 3600.0
_SLOW: Final = {Outcome.REGRESSED: True, Outcome.PASS: False, Outcome.IMPROVED: False}


def comparisons(states: int) -> int:
    """Return the most comparisons of a search, if nothing is skipped.

    >>> comparisons(32)
    7
    """
    return 2 + math.ceil(math.log2(states))


def error_rates(states: int) -> Terms:
    """Return one comparison's share in either direction, among this many states that may be the first slow state."""
    share = TOTAL_ERROR / comparisons(states)
    return Terms(max_pairs=MOST_PAIRS, max_seconds=_MOST_SECONDS, false_alarms=share, false_passes=share)


def threshold_of(ratio: float) -> Tolerance:
    """Return half of the loss, in logarithms: states that lost more lie behind the change, the others before it."""
    return Tolerance(math.sqrt(ratio) - 1, None)


def is_slow(outcome: Outcome | None, ratio: float, threshold: Tolerance) -> bool:
    """Whether a state lies behind the change; an undecided comparison gives the likelier answer."""
    return _SLOW[outcome] if outcome in _SLOW else ratio < 1 + (threshold.lower or 0.0)


def candidates(states: int, known: Mapping[int, bool | None]) -> range:
    """Return the states that may be the first slow state; in the end a single state, if none was skipped beside it.

    So many states are searched after state 0, which is fast; the last one is slow. `known` is whether a state is slow,
    None where it can't be measured.
    """
    slow = min((index for index, is_slow in known.items() if is_slow), default=states)
    fast = max((index for index, is_slow in known.items() if is_slow is False and index < slow), default=0)
    return range(fast + 1, slow + 1)


def next_state(states: int, known: Mapping[int, bool | None]) -> int | None:
    """Return the state to compare next: the nearest to the middle that can be measured; None at the end."""
    left = candidates(states, known)
    middle = (left.start - 1 + left[-1]) / 2
    return min((index for index in left[:-1] if index not in known), key=lambda i: abs(i - middle), default=None)


def _session(test: str, step: Path) -> str:
    """Run pytest on the test and return its output; an id of the history is relative to pytest's root."""
    where = test if Path(test.partition("::")[0]).exists() else str(root() / test)
    return run_pytest([where, "-p", "no:cacheprovider"], {"bisect_step": str(step)}, outputs())[1]


@final
@dataclass(slots=True, eq=False)
class Search:
    """One search. It keeps each answer that decides in a file, so that the same command can go on after a stop."""

    test: str  # pytest's id
    states: States
    dir: Path  # tfperf's own folder
    show: Callable[[str], object]  # prints a line
    tolerance: Tolerance | None = None  # the loss that the bad end must exceed; None for the test's own tolerance
    run_pytest: Callable[[str, Path], str] = _session  # runs a step's session on the test, and returns its output
    _call: Call = field(default=("", "", ""), init=False)
    _answers: dict[int, Measurement | Fault] = field(default_factory=dict, init=False)
    _asked_again: set[int] = field(default_factory=set, init=False)
    _seconds_of_runs: list[float] = field(default_factory=list, init=False)

    @property
    def folder(self) -> Path:
        """The folder of the answers that are kept."""
        told = "\0".join([self.test, str(self.tolerance), *self.states.key])
        return self.dir.absolute() / "bisect" / hashlib.sha256(told.encode()).hexdigest()[:12]

    def run(self) -> int:
        """Search until the change is found; returns the exit status.

        Raises:
            TfperfError: the ends can't be compared.
        """
        good, bad = self.states.names[0], self.states.names[-1]
        self.show(
            f"{counted(self._last, 'state')} after {good} (good) up to {bad} (bad), at most "
            f"{counted(comparisons(self._last), 'comparison')}"
        )
        ends = self._compare_ends()
        if _is_invalid(ends):
            self.show(f"  {bad}: skipped: {why_of(ends)}; once more")
            ends = self._compare_ends()
        if not _is_invalid(ends):  # a reader would take its ratio for a result
            of = "" if ends.test == self.test else f" of {ends.test}"
            self.show(f"  {bad}: {_size(ends)}, {counted(len(ends.pairs), 'pair')}{of}")
        if ends.outcome not in _SLOW:
            self.show(f"{bad} could not be compared with {good}: {why_of(ends)}. The same command tries it again")
            return EXIT_NOT_MEASURED
        if not _SLOW[ends.outcome]:
            self.show(f"{bad} is not slower than {good} by more than the tolerance: {why_of(ends)}")
            return EXIT_REGRESSED
        return self._find(threshold_of(ends.ratio))

    def _find(self, threshold: Tolerance) -> int:
        names = self.states.names
        for index in range(1, self._last):
            if (kept := self._read(self._file(index))) is not None:
                self._answers[index] = self._of_call(kept)
                self.show(f"  {names[index]}: {_described(self._answers[index])} (kept)")
        while (asked := self._next()) is not None:
            self._show_left()
            answer = self._compare(0, asked, threshold)
            self._answers[asked] = result = self._of_call(answer)
            if isinstance(result, Measurement):
                self._write(self._file(asked), answer)
            self.show(f"  {names[asked]}: {_described(result)}")
        if len(self._candidates) == 1:
            return self._confirm(self._candidates[0], threshold)
        listed = ", ".join(names[index] for index in self._candidates)
        may_pass = any(map(self._may_pass, self._candidates))
        hint = ". The same command measures those again that were disturbed" if may_pass else ""
        self.show(f"one of these {len(self._candidates)}, because those between can't be measured: {listed}{hint}")
        return EXIT_NOT_MEASURED

    @property
    def _last(self) -> int:
        return len(self.states.names) - 1

    @property
    def _known(self) -> dict[int, bool | None]:
        return {index: _lies_behind(result) for index, result in self._answers.items()}

    @property
    def _candidates(self) -> range:
        return candidates(self._last, self._known)

    def _next(self) -> int | None:
        """Return the state to compare next; at the end, once more the states that a busy machine may have skipped."""
        asked = next_state(self._last, self._known)
        again = [index for index in self._candidates if self._may_pass(index) and index not in self._asked_again]
        if asked is not None or not again:
            return asked
        self.show(f"going back to {', '.join(self.states.names[index] for index in again)}")
        for index in again:
            del self._answers[index]
        self._asked_again |= set(again)
        return next_state(self._last, self._known)

    def _may_pass(self, index: int) -> bool:
        result = self._answers.get(index)
        return isinstance(result, Fault) and result.may_pass

    # Comparisons

    def _compare_ends(self) -> Measurement:
        """Return the comparison of the call that lost most between the ends; it is kept if it is decided."""
        answer = self._read(self._file(self._last)) or self._compare(0, self._last, self.tolerance)
        faults = [TfperfError(*fault.why.split("\n")) for fault in answer.faults.values()]
        if not answer.comparisons:
            raise faults[0]
        # A call that could not be compared may have lost most, so it comes before calls that passed.
        self._call, most = min(
            answer.calls.items(),
            key=lambda item: (WORST_FIRST.index(item[1].outcome or Outcome.INVALID), item[1].ratio),
        )
        if most.outcome in _SLOW:
            if faults and not _SLOW[most.outcome]:
                raise faults[0]
            self._write(self._file(self._last), answer)
        return most

    def _compare(self, a: int, b: int, tolerance: Tolerance | None) -> Answer:
        """Return the answer of a session that compares two states; without a comparison it has a fault."""
        try:
            side_a, side_b = (self.states.state(index) for index in (a, b))
        except TfperfError as error:
            return Answer(faults={self.test: Fault(why=str(error))})
        step = self.folder / "step.json"
        answered = answer_file(step)
        answered.unlink(missing_ok=True)
        terms = replace(error_rates(self._last), tolerance=tolerance)
        announcement = (f"each check compares {side_b.title} (b) with {side_a.title} (a)",)
        other = OtherSide(a=side_a, b=side_b, announcement=announcement, terms=terms, compares_figures=False)
        self._write(step, other)
        text = self.run_pytest(self.test, step)
        answer = self._read(answered) or Answer()
        if answer.comparisons or answer.faults:
            return answer
        nothing = TfperfError(f"pytest compared nothing in {self.test}:", *last_lines(text))
        return Answer(faults={self.test: Fault(why=str(nothing))})

    def _of_call(self, answer: Answer) -> Measurement | Fault:
        """Return the comparison of the call that lost most between the ends, or why there is none."""
        if (comparison := answer.calls.get(self._call)) is not None:
            if comparison.other is not None and comparison.verdicts[0].reason is Reason.NOT_PROVED:
                return Fault(why=f"{why_of(comparison)}\n{comparison.other.doubt}")
            return Fault(why=why_of(comparison), may_pass=True) if _is_invalid(comparison) else comparison
        faults = (answer.faults.get(test) for test in (self._call[0], self.test))
        return next(filter(None, faults), Fault(why=f"{self._call[0]} was not compared"))

    # The end

    def _confirm(self, first: int, threshold: Tolerance) -> int:
        """Compare the first slow state with the state before it, and show the result."""
        names, before = self.states.names, first - 1
        beside = f"{names[first]} beside {names[before]}"
        last = self._of_call(self._compare(before, first, threshold))
        if isinstance(last, Fault) and last.may_pass:
            self.show(f"  {beside}: {_described(last)}; once more")
            last = self._of_call(self._compare(before, first, threshold))
        if isinstance(last, Fault):
            self.show(f"{names[first]} is the first slow one; its size is not known: {last.reason}")
            return EXIT_NOT_MEASURED
        is_sure = last.outcome in _SLOW
        if not _lies_behind(last):
            why = "an earlier answer was wrong" if is_sure else "this undecided answer or an earlier one is wrong"
            self.show(
                f"{names[first]} would be it, but beside {names[before]} it is not slow ({_size(last)}): {why}. "
                "Search again on a quieter machine, with --again"
            )
            return EXIT_NOT_MEASURED
        compared = ((i, result) for i, result in self._answers.items() if isinstance(result, Measurement))
        unsure = [names[i] for i, comparison in compared if comparison.outcome not in _SLOW]
        unsure += [] if is_sure else [beside]
        doubts = [("doubt", f"{', '.join(unsure)} stayed undecided; the likelier answer counted")] if unsure else []
        lines = aligned([*self.states.about(first), *doubts])
        size = f"{_size(last)}, beside {names[before]}"
        for line in (f"{names[first]} is the first slow one: {size}", *(f"  {line}" for line in lines)):
            self.show(line)
        return EXIT_GREEN

    def _show_left(self) -> None:
        """Show how many comparisons are left, and how long they take with the fewest and with the most pairs."""
        left = comparisons(len(self._candidates)) - 1
        pair = 2 * statistics.fmean(self._seconds_of_runs) if self._seconds_of_runs else 0.0
        time = f", {time_span(left * PAIRS_THAT_TELL * pair, left * min(MOST_PAIRS * pair, _MOST_SECONDS))}"
        self.show(f"{counted(left, 'comparison')} left{time if pair else ''}")

    # What is kept: the answer on each state beside state 0

    def _file(self, index: int) -> Path:
        return self.folder / f"0-{index}.json"

    def _read(self, file: Path) -> Answer | None:
        answer = read(Answer, file)
        if answer is not None and answer.comparisons:
            self._seconds_of_runs.append(math.fsum(result.seconds / result.workers for result in answer.comparisons))
        return answer

    def _write(self, path: Path, value: OtherSide | Answer) -> None:
        write(path, value)
        (self.folder.parent / ".gitignore").write_text("*\n", "utf-8")


def _is_invalid(comparison: Measurement) -> bool:
    return comparison.outcome in (None, Outcome.INVALID)


def _lies_behind(result: Measurement | Fault) -> bool | None:
    """Whether a state lies behind the change; None where it could not be compared."""
    if isinstance(result, Fault):
        return None
    return is_slow(result.outcome, result.ratio, result.verdicts[0].tolerance or Tolerance())


def _size(comparison: Measurement) -> str:
    """Return the change with its interval: "-10.1 % (95 % CI -11.0 % to -9.2 %)"."""
    low, high = comparison.ratio_interval
    interval = f" (95 % CI {change(low - 1)} to {change(high - 1)})" if math.isfinite(high) else ""
    return f"{change(comparison.ratio - 1)}{interval}"


def _described(result: Measurement | Fault) -> str:
    if isinstance(result, Fault):
        return f"skipped: {result.reason}"
    doubt = "" if result.outcome in _SLOW else ", the likelier answer"
    word = "slow" if _lies_behind(result) else "fast"
    return f"{word}{doubt}, {change(result.ratio - 1)} in {counted(len(result.pairs), 'pair')}"
