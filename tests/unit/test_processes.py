from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.launchers.processes import describe_exit, log_tail


def test_an_exit_status_is_given() -> None:
    assert describe_exit(3) == "exited with status 3"


def test_a_clean_exit_is_an_exit_too() -> None:
    assert describe_exit(0) == "exited with status 0"


def test_a_kill_points_to_the_kernel() -> None:
    assert describe_exit(-signal.SIGKILL) == (
        "was ended by SIGKILL (somebody's kill -9, or the kernel's out-of-memory killer: see dmesg)"
    )


def test_a_crash_says_where_to_look() -> None:
    assert describe_exit(-signal.SIGSEGV) == "was ended by SIGSEGV (a crash in native code)"


def test_an_abort_is_named() -> None:
    assert describe_exit(-signal.SIGABRT) == "was ended by SIGABRT (native code gave up)"


def test_other_signals_have_their_name() -> None:
    assert describe_exit(-signal.SIGTERM) == "was ended by SIGTERM"


def test_a_real_time_signal_has_its_number() -> None:
    assert describe_exit(-40) == "was ended by signal 40"


@given(st.integers(-64, 255))
def test_every_status_can_be_described(status: int) -> None:
    assert describe_exit(status)


def test_the_end_of_a_log_is_shown_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\ntwo\nthree\n")
    assert log_tail(tmp_path / "a.log", lines=2) == "  | two\n  | three"


def test_an_empty_log_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    assert log_tail(tmp_path / "a.log") == "  | (empty)"


def test_a_missing_log_says_so(tmp_path: Path) -> None:
    assert log_tail(tmp_path / "a.log") == "  | (no log: No such file or directory)"


def test_bytes_that_are_no_text_are_shown_somehow(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"CUDA_ERROR \xff\xfe\n")
    assert log_tail(tmp_path / "a.log") == "  | CUDA_ERROR \ufffd\ufffd"


@pytest.mark.parametrize("count", [19, 20, 500])
def test_no_more_than_twenty_lines_are_shown(tmp_path: Path, count: int) -> None:
    (tmp_path / "a.log").write_text("x\n" * count)
    assert len(log_tail(tmp_path / "a.log").splitlines()) == min(count, 20)
