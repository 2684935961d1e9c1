"""The shell command that runs one test again, as messages print it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final


@dataclass(frozen=True, slots=True)
class RerunCommand:
    """What a command needs, besides a test's name, to measure the test in the same way.

    Args:
        options: the options of this session that affect what is measured, as shell words, each after a space.
        root: pytest's rootdir; node ids start from it.
        folder: where pytest was called; a path on the command line starts from it.
        arguments: what pytest was called with, as shell words, each after a space, without what affects one session.
    """

    options: str = ""
    root: Path = Path()
    folder: Path = Path()
    arguments: str = ""

    def of(self, test: str) -> str:
        """The command for the test with this node id.

        >>> RerunCommand(" --tfperf-machine=box").of("perf_tests/test_a.py::test_b[1]")
        "pytest 'perf_tests/test_a.py::test_b[1]' --tfperf-machine=box"
        """
        path, separator, name = test.partition("::")
        if self.folder != self.root:
            path = os.path.relpath(self.root / path, self.folder)
        return f"pytest {quote(path + separator + name)}{self.options}"

    @property
    def recording(self) -> str:
        """The command that records the baselines of all tests of this session."""
        return f"pytest{self.arguments} --update-baselines"


FROM_ROOTDIR: Final = RerunCommand()
"""Called in rootdir, without options."""
