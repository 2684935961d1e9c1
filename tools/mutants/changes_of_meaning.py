"""The changes of meaning: wrong rules that somebody could write by mistake, each with the test that must notice it."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tools.mutants.coverage_of_tests import OPTIONS
from tools.mutants.mutations import Mutant, mutant_of


def read(package: Path, path: Path) -> Iterator[tuple[Mutant, str]]:
    """Each change, and the node id of its test.

    Raises:
        SystemExit: a change's old text is not in its file, or several times.
    """
    for number, change in enumerate(tomllib.loads(path.read_text())["change"], 1):
        source = (package / change["file"]).read_text()
        if (count := source.count(change["old"])) != 1:
            raise SystemExit(
                f"{path.name}, change {number} ({change['why']}): {change['file']} has its old text {count} times, and "
                f"not once: {change['old']!r}. Bring it up to date, or delete it together with its rule"
            )
        mutant = mutant_of(change["file"], source, source.replace(change["old"], change["new"]))
        assert mutant is not None, f"{path.name}, change {number} changes nothing"
        yield mutant, change["test"]


def require_passing(tests: Collection[str]) -> float:
    """Run the tests without any change, which imports what they need; return the seconds that all of them take.

    Raises:
        SystemExit: one fails, is skipped, or is no test.
    """
    run = _Run()
    status = pytest.main([*OPTIONS, *tests], plugins=[run])
    silent = [test for test in tests if not any(test in (name, name.partition("[")[0]) for name in run.passed)]
    if status or silent:
        raise SystemExit(f"without any change these must pass: {', '.join(silent) or 'see above'}")
    return run.seconds


class _Run:
    """A plugin of pytest that notes which tests passed."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.seconds = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a call that passed, and its time."""
        self.seconds += report.duration
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
