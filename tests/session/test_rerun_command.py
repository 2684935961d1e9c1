"""The command that runs a test again, as messages print it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.rerun_command import RerunCommand


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (RerunCommand(), "pytest 'perf_tests/test_a.py::test_b[1]'"),
        (RerunCommand(" --tfperf-machine=box"), "pytest 'perf_tests/test_a.py::test_b[1]' --tfperf-machine=box"),
        (RerunCommand("", Path("/p"), Path("/p/perf_tests")), "pytest 'test_a.py::test_b[1]'"),
        (RerunCommand("", Path("/p"), Path("/p/docs")), "pytest '../perf_tests/test_a.py::test_b[1]'"),
    ],
    ids=["rootdir", "options", "from the tests' folder", "from another folder"],
)
def test_a_command_can_be_typed_where_pytest_was_called(command: RerunCommand, text: str) -> None:
    assert command.of("perf_tests/test_a.py::test_b[1]") == text


@given(st.text(st.characters(exclude_characters="\x00"), min_size=1))
def test_a_shell_reads_every_name_as_one_word(name: str) -> None:
    assert shlex.split(RerunCommand().of(f"test_a.py::test_b[{name}]")) == ["pytest", f"test_a.py::test_b[{name}]"]


def test_baselines_are_recorded_by_what_was_typed() -> None:
    assert RerunCommand(arguments=" perf_tests -m cpu").recording == "pytest perf_tests -m cpu --update-baselines"
