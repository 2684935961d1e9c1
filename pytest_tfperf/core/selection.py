"""The throughput tests that pytest selected, and the facts about each that are known before it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_tfperf.errors import TfperfError


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTest:
    """A test that uses the fixture `throughput`.

    Args:
        id: pytest's node id.
        cpu: whether it is marked `cpu`.
        gpu: whether it is marked `gpu`.
        reads_data: whether one of its parameters is a pipeline that reads a data set.
        file, line: its source location, relative to rootdir and from 1; "" and 0 where that is not known.
        faults: the errors of its parameters; empty where it can run.
        owner: as in a `Measurement`.
    """

    id: str
    cpu: bool = False
    gpu: bool = False
    reads_data: bool = False
    file: str = ""
    line: int = 0
    faults: tuple[TfperfError, ...] = ()
    owner: str = ""


class Selection:
    """The selected throughput tests in pytest's order; none before pytest has collected them.

    Attributes:
        collected: the node ids of all tests in files that were collected whole, whether selected or not.
    """

    def __init__(self, tests: Iterable[SelectedTest] = ()) -> None:
        self.collected: frozenset[str] = frozenset()
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
        """All selected tests, in pytest's order."""
        return tuple(self._tests.values())

    @property
    def faulty(self) -> dict[str, tuple[TfperfError, ...]]:
        """The tests with invalid parameters, and their errors."""
        return {test.id: test.faults for test in self.tests if test.faults}

    def runnable(self, *, has_gpus: bool, has_data: bool) -> list[SelectedTest]:
        """Return the tests that can run on such a machine, by their marks and parameters."""
        return [
            test
            for test in self.tests
            if not test.faults and (has_data or not test.reads_data) and (has_gpus or test.cpu or not test.gpu)
        ]
