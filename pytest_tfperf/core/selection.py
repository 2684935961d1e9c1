"""The throughput tests that pytest selected, and what is known of each before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_tfperf.errors import TfperfError


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTest:
    """One test that asks for `throughput`.

    Args:
        id: pytest's node id.
        cpu: it is marked `cpu`.
        gpu: it is marked `gpu`.
        reads_data: one of its parameters is a pipeline that reads a data set.
        is_important: it is marked `important`.
        file, line: where it begins, the path from rootdir and the line from 1; "" and 0 where that is not known.
        faults: what is wrong with its parameters; empty where it can run.
    """

    id: str
    cpu: bool = False
    gpu: bool = False
    reads_data: bool = False
    is_important: bool = False
    file: str = ""
    line: int = 0
    faults: tuple[TfperfError, ...] = ()


class Selection:
    """The throughput tests in pytest's order; none before pytest has collected them."""

    def __init__(self, tests: Iterable[SelectedTest] = ()) -> None:
        self.replace(tests)

    def replace(self, tests: Iterable[SelectedTest]) -> None:
        """Select these tests, and no others."""
        self._tests = {test.id: test for test in tests}

    def __contains__(self, test: object) -> bool:
        return test in self._tests

    def __len__(self) -> int:
        return len(self._tests)

    def __getitem__(self, test: str) -> SelectedTest:
        """The test with this node id."""
        return self._tests[test]

    @property
    def tests(self) -> tuple[SelectedTest, ...]:
        """All of them, in pytest's order."""
        return tuple(self._tests.values())

    @property
    def faulty(self) -> dict[str, tuple[TfperfError, ...]]:
        """The tests that can't run as their parameters are, and why."""
        return {one.id: one.faults for one in self._tests.values() if one.faults}

    @property
    def marks(self) -> set[tuple[bool, bool]]:
        """The combinations of the marks `cpu` and `gpu` that occur."""
        return {(one.cpu, one.gpu) for one in self._tests.values()}

    def runnable(self, *, has_gpus: bool, has_data: bool) -> list[SelectedTest]:
        """The tests that can run on such a machine, as far as marks and parameters tell."""
        return [
            one
            for one in self._tests.values()
            if not one.faults and (has_data or not one.reads_data) and (has_gpus or one.cpu or not one.gpu)
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The tests that a session has time for.

    Args:
        run: their node ids, in the order in which they run.
        left_out: the others, with the seconds that each would take.
        limit_seconds: how long the session may take.
        option: what set this limit.
        remarks: what kept the choice from being better; lines for the user.
    """

    run: tuple[str, ...]
    left_out: Mapping[str, float]
    limit_seconds: float
    option: str
    remarks: tuple[str, ...] = ()
