"""The table of changes."""

from __future__ import annotations

from dataclasses import replace

from pytest_tfperf.features.changes.command import change_table
from tests.helpers.measurements import lasting_change

STEP = lasting_change()
OF_THE_MACHINE = replace(STEP, test=None, key=None, commit_before="", commit_after="")


def test_a_line_has_date_size_interval_commits_and_sessions() -> None:
    heading, line = change_table([STEP])
    assert heading.split()[:3] == ["since", "kind", "change"]
    words = "2026-02-20 step -3.1 % -3.6 % to -2.6 % test_a.py::test_b 0123456789..fedcba9876 30 resnet50-b64 1x8 box"
    assert line.split() == words.split()


def test_a_change_of_the_machine_says_so() -> None:
    assert "(all tests together)" in change_table([OF_THE_MACHINE])[1]


def test_without_changes_there_is_no_table() -> None:
    assert change_table([]) == []


def test_a_narrow_terminal_keeps_date_size_and_test() -> None:
    line = change_table([STEP], 60)[1]
    assert len(line) <= 60
    assert "2026-02-20" in line
    assert "-3.1 %" in line
