"""The shell command that runs a test again, as messages show it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Final

RECORDING_OPTION: Final = "--update-baselines"
_option = RECORDING_OPTION


def recording_option() -> str:
    """Return the option that records baselines, as messages advise it: a project may have one of its usual name."""
    return _option


def name_recording_option(option: str) -> None:
    """Let messages advise this option from now on."""
    global _option
    _option = option


@dataclass(frozen=True, slots=True)
class RerunCommand:
    """The parts of a rerun command that do not depend on the test."""

    options: str = ""  # this session's options that affect measurements, as shell words, each after a space
    root: Path = Path()  # pytest's rootdir, which node ids are relative to
    folder: Path = Path()  # the folder that pytest was called in, which paths on a command line are relative to
    arguments: str = ""  # pytest's arguments, as shell words, each after a space, without options of this session only
    folders: str = ""  # those of the history and the baselines, as options of `tfperf`, where options named them

    def of(self, test: str) -> str:
        """Return the command for the test with this node id.

        >>> RerunCommand(" --tfperf-machine=box").of("perf_tests/test_a.py::test_b[1]")
        "pytest 'perf_tests/test_a.py::test_b[1]' --tfperf-machine=box"
        """
        path, separator, name = test.partition("::")
        if self.folder != self.root:
            path = os.path.relpath(self.root / path, self.folder)
        return f"pytest {quote(path + separator + name)}{self.options}"

    def accepting(self, test: str, session: str) -> str:
        """The command that makes what a session measured the baseline of a test.

        >>> RerunCommand(folders=" --dir=/data").accepting("test_a.py::test_b", "s1")
        'tfperf baselines accept test_a.py::test_b --session=s1 --dir=/data'
        """
        return f"tfperf baselines accept {quote(test)} --session={quote(session)}{self.folders}"

    @property
    def recording(self) -> str:
        """The command that records the baselines of all tests of this session."""
        return f"pytest{self.arguments} {recording_option()}"


FROM_ROOTDIR: Final = RerunCommand()
"""For pytest called in rootdir without options."""
