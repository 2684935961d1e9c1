"""The results of a test's calls, kept until the test runs again, which `session/running.py` has pytest do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.core.verdict import Want
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

_SAME = "A test that is in doubt runs again: it must make the same calls each time"


@dataclass
class _Call:
    """The result of one call of a test, and its row in the history; None if it has none."""

    result: Measurement
    row: int | None = None


class RerunQueue:
    """The results of a session's tests, call by call.

    A test runs again after all tests have run if one of its calls is not decided. It makes the same calls again: a
    decided call returns its result at once, an undecided call takes one more run. So a test's runs are spread over the
    session, and one slow phase of the machine does not affect all of them.

    Args:
        history: each result is written to it at once, so that a killed session loses none; None for a smoke run, which
            keeps nothing.
    """

    def __init__(self, history: History | None) -> None:
        self._history = history
        self._calls: dict[str, list[_Call]] = {}
        self._waiting: set[str] = set()
        self.history_fault = ""
        """Why the history lacks a result, or "": a verdict counts even if its result can't be written."""

    def begin(self, test: str) -> None:
        """Note that the test starts; forget its earlier results unless it was deferred."""
        if test not in self._waiting:
            self._calls[test] = []
        self._waiting.discard(test)

    def earlier(self, test: str, index: int, machine: str, *sides: tuple[Subject, str]) -> Measurement | None:
        """Return the earlier result of the test's call `index` (from 0); None if the call did not run before.

        Each of the sides is a workload that it measures now and its topology; two are compared.

        Raises:
            TfperfError: the test makes other calls than before.
        """
        calls = self._calls.get(test, [])
        if index >= len(calls):
            return None
        before = calls[index].result
        other = [(before.other.workload, before.other.topology or before.topology)] if before.other else []
        gave = _described(before.machine, *other, (before.workload, before.topology))
        asked = _described(machine, *sides)
        if gave != asked:
            raise TfperfError(
                f"call {index + 1} of this test measured {gave} when it ran first, and asks for {asked} now",
                next_step=_SAME,
            )
        return before

    def require_all_calls(self, test: str, made: int) -> None:
        """Refuse a rerun that made fewer calls than the first run: an omitted call would never be decided."""
        kept = len(self._calls.get(test, []))
        if made < kept:
            raise TfperfError(f"this test made {kept} calls when it ran first, and {made} now", next_step=_SAME)

    def keep(self, test: str, index: int, result: Measurement) -> None:
        """Keep the result of a call, replacing its earlier result."""
        calls = self._calls.setdefault(test, [])
        if index == len(calls):
            calls.append(_Call(result))
        call = calls[index]
        call.result = result
        if self._history is None:
            return
        try:
            call.row = self._history.append(result, replaces=call.row)
        except TfperfError as error:
            self.history_fault = self.history_fault or str(error)

    def is_decided(self, test: str) -> bool:
        """Whether no call of the test wants further runs."""
        return all(result.is_decided for result in self.results_of(test))

    def has_begun(self, test: str) -> bool:
        """Whether the test has run, or runs."""
        return test in self._calls

    def defer(self, test: str) -> None:
        """Let the test run again."""
        self._waiting.add(test)

    def results_of(self, test: str) -> list[Measurement]:
        """Return the results of the test's calls so far, in order."""
        return [call.result for call in self._calls.get(test, [])]

    @property
    def results(self) -> Iterator[Measurement]:
        """The results of all tests so far, in the order in which they first ran."""
        return (call.result for calls in self._calls.values() for call in calls)


def runs_missing(result: Measurement) -> int:
    """Return the least number of further runs before a result is decided."""
    wants = result.wants
    each, taken = (2, result.pairs) if wants.what is Want.PAIRS else (1, result.runs)
    return each * max(wants.count - len(taken), 0)


def _described(machine: str, *sides: tuple[Subject, str]) -> str:
    workloads = " against ".join(workload.id for workload, _ in sides)
    topologies = " against ".join(dict.fromkeys(topology for _, topology in sides))
    return f"{workloads} on {topologies} of {machine}"
