"""Which tests run again, what their calls measured before, and what of it the history keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_tfperf.core.command import Subject
from pytest_tfperf.core.comparison import Comparison
from pytest_tfperf.core.measurement import Measurement
from pytest_tfperf.errors import TfperfError

if TYPE_CHECKING:
    from pytest_tfperf.stores.history import History

Result = Measurement | Comparison

_SAME = "A test that is in doubt runs again: it must make the same calls each time"


@dataclass
class _Call:
    """What one call of a test gave, and its row in the history; None where it has none."""

    result: Result
    row: str | None = None


class RerunQueue:
    """The results of a session's tests, call by call.

    A test of which a call is undecided runs again when all tests have run. It makes the same calls again: a decided one
    gets its result back at once, an undecided one takes another run. So a test's runs lie apart, and one slow spell of
    the machine does not hit them all.

    Args:
        open_history: each result is written when it is there, so that a kill loses none; None for a smoke run, which
            keeps nothing.
    """

    def __init__(self, open_history: Callable[[], History] | None) -> None:
        self._open_history = open_history
        self._calls: dict[str, list[_Call]] = {}
        self._waiting: set[str] = set()
        self.history_fault = ""
        """Why the history lacks something; a full disk must not cost the verdict that was just reached."""

    def begin(self, test: str) -> None:
        """The test starts; unless it waited in this queue, it starts from nothing."""
        if test not in self._waiting:
            self._calls[test] = []
        self._waiting.discard(test)

    def earlier(self, test: str, index: int, asked: str) -> Result | None:
        """What the test's call number `index` (from 0) gave when it ran before; None where it did not.

        Args:
            test, index: the call.
            asked: what it asks for now, as `asked_for` words it.

        Raises:
            TfperfError: the test makes other calls than it made then.
        """
        calls = self._calls.get(test, [])
        if index >= len(calls):
            return None
        before = calls[index].result
        if isinstance(before, Measurement):
            gave = asked_for(before.topology, before.machine, before.workload)
        else:
            gave = asked_for(before.topology, before.machine, before.a.workload, before.b.workload)
        if gave != asked:
            raise TfperfError(
                f"call {index + 1} of this test measured {gave} when it ran first, and asks for {asked} now. {_SAME}"
            )
        return before

    def require_all_calls(self, test: str, made: int) -> None:
        """Refuse a rerun that made fewer calls than the first run: an undecided one would stay so for ever.

        Raises:
            TfperfError: so it is.
        """
        kept = len(self._calls.get(test, []))
        if made < kept:
            raise TfperfError(f"this test made {kept} calls when it ran first, and {made} now. {_SAME}")

    def keep(self, test: str, index: int, result: Result) -> None:
        """Keep what a call gave, in the place of what it gave before."""
        calls = self._calls.setdefault(test, [])
        if index == len(calls):
            calls.append(_Call(result))
        call = calls[index]
        call.result = result
        if self._open_history is None:
            return
        history = self._open_history()
        try:
            if isinstance(result, Measurement):
                call.row = history.append(result, replaces=call.row)
            else:
                call.row = history.append_comparison(result)
        except TfperfError as error:
            self.history_fault = self.history_fault or str(error)

    def is_undecided(self, test: str) -> bool:
        """Whether a call of the test wants further runs."""
        return any(not result.is_decided for result in self.results_of(test))

    def has_begun(self, test: str) -> bool:
        """Whether the test has run, or runs."""
        return test in self._calls

    def defer(self, test: str) -> None:
        """Let the test run again."""
        self._waiting.add(test)

    def results_of(self, test: str) -> list[Result]:
        """What the test's calls gave so far, in order."""
        return [call.result for call in self._calls.get(test, [])]

    @property
    def results(self) -> Iterator[Result]:
        """What all tests gave so far, in the order in which they first ran."""
        return (call.result for calls in self._calls.values() for call in calls)


def asked_for(topology: str, machine: str, *workloads: Subject) -> str:
    """What a call measures, in words: one workload, or two that are compared."""
    return f"{' against '.join(workload.id for workload in workloads)} on {topology} of {machine}"
