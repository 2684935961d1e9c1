"""Which tests run which lines of the package, and how long each test takes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import coverage
import pytest

OPTIONS = ("-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=mutants")
"""Options of each run of the tests."""


@dataclass(frozen=True, slots=True)
class TestsOfLines:
    """The tests that run each line.

    Args:
        package: the package's folder.
        lines: file below the package -> line -> node ids of the tests that run it, and of the files that run it when
            they are imported, as for the parameters of a test.
        seconds: of each test.
    """

    package: Path
    lines: Mapping[str, Mapping[int, frozenset[str]]]
    seconds: Mapping[str, float]

    def of(self, file: str, line: int) -> tuple[list[str], float]:
        """The tests that can notice a change of a line, the quickest first, and how long they take.

        A line that runs at import, such as a constant, belongs to the tests of the lines that name what it defines.
        """
        found = self.lines[file].get(line, frozenset())
        if not any(map(_is_test, found)):
            found = frozenset[str]().union(*self._of_names(file, line))
        found = frozenset(test for test in self.seconds if test in found or test.partition("::")[0] in found)
        return sorted(found, key=lambda test: (self.seconds[test], test)), sum(self.seconds[test] for test in found)

    def _of_names(self, file: str, line: int) -> Iterator[frozenset[str]]:
        name = _defined_at((self.package / file).read_text().splitlines(), line)
        if name is None:
            return
        for other, tests in self.lines.items():
            for number, text in enumerate((self.package / other).read_text().splitlines(), 1):
                if re.search(rf"\b{name}\b", text):
                    yield tests.get(number, frozenset())


def _is_test(node_id: str) -> bool:
    return "::" in node_id


def _defined_at(lines: Sequence[str], line: int) -> str | None:
    """The name that the statement around a line defines: a constant, a field or a function."""
    for text in reversed(lines[:line]):
        if found := re.match(r"\s*(?:def (\w+)|(\w+)(?:: [^=]+)? = )", text):
            return found[1] or found[2]
    return None


class _Contexts:
    """A plugin of pytest that tells coverage which test runs."""

    def __init__(self, measuring: coverage.Coverage) -> None:
        self._measuring = measuring
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Iterator[None]:
        """Name the lines that run when a file of tests is imported after the file."""
        self._measuring.switch_context(collector.nodeid if isinstance(collector, pytest.Module) else "")
        try:
            return (yield)
        finally:
            self._measuring.switch_context("")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Name the lines from here on after the test."""
        self._measuring.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._measuring.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up setup, call and teardown."""
        self.seconds[report.nodeid] += report.duration


def measure(package: Path, folders: Iterable[str]) -> TestsOfLines:
    """Run the tests once, without a mutant.

    Raises:
        SystemExit: a test fails.
    """
    measuring = coverage.Coverage(data_file=None, source=[str(package)], config_file=False)
    contexts = _Contexts(measuring)
    measuring.start()
    try:
        status = pytest.main([*OPTIONS, *folders], plugins=[contexts])
    finally:
        measuring.stop()
    if status:
        raise SystemExit("a test fails without a mutant: see above")
    data = measuring.get_data()
    lines = {
        Path(file).relative_to(package).as_posix(): {
            line: frozenset(filter(None, names)) for line, names in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    return TestsOfLines(package, defaultdict(dict, lines), contexts.seconds)
