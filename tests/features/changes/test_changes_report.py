"""The table of changes, and the message that fails a session."""

from __future__ import annotations

from dataclasses import replace

from pytest_tfperf.core.baseline import Key
from pytest_tfperf.core.change import Change, ChangeKind
from pytest_tfperf.features.changes.table import change_table, drift_message

STEP = Change(
    machine="box",
    test="test_a.py::test_b",
    key=Key("resnet50-b64", "1x8"),
    kind=ChangeKind.STEP,
    session="20260220-030000-abcdef",
    time="2026-02-20T03:00:00+00:00",
    last_session="20260220-030000-abcdef",
    found_session="20260224-030000-123456",
    commit_before="0123456789abcdef",
    commit_after="fedcba9876543210",
    size=-0.031,
    low=-0.036,
    high=-0.026,
    sessions_since=30,
)
DECLINE = replace(STEP, test="test_a.py::test_c", kind=ChangeKind.DECLINE, size=-0.06, low=-0.07, high=-0.05)
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


def test_the_message_begins_with_the_test_and_the_size() -> None:
    assert drift_message("box", [STEP])[0] == "drift on box: test_a.py::test_b became slower for good, by 3.1 %"


def test_the_message_has_date_commits_and_both_next_steps() -> None:
    text = "\n".join(drift_message("box", [STEP]))
    assert "test_a.py::test_b (resnet50-b64 on 1x8): -3.1 % (95 % CI -3.6 % to -2.6 %) since 2026-02-20" in text
    assert "commits 0123456789..fedcba9876" in text
    assert "tfperf history changes --machine=box" in text
    assert "--update-baselines" in text


def test_the_message_of_several_counts_them_and_has_the_worst_first() -> None:
    headline, first, *_ = drift_message("box", [STEP, DECLINE])
    assert headline == "drift on box: test_a.py::test_c and 1 more became slower for good, by up to 6 %"
    assert first.startswith("  test_a.py::test_c")
    assert "little by little since" in first


def test_the_message_of_many_is_short() -> None:
    many = [replace(STEP, test=f"test_{number}") for number in range(40)]
    assert len(drift_message("box", many)) == 8
