from __future__ import annotations

import signal

from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.workers.processes import describe_exit


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
