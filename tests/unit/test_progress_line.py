from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurements import attempt

from pytest_tfperf.bench.windows import Plan
from pytest_tfperf.core.run import Run, Window
from pytest_tfperf.core.throughput import window_statistics
from pytest_tfperf.reports.live import LiveLine
from pytest_tfperf.stores import tf_cnn_log

SAVE, RESTORE, CLEAR = "\x1b7", "\x1b8", "\x1b[K"
TEST = "perf_tests/test_a.py::test_b[1]"


class Terminal:
    def __init__(self, room: int = 80) -> None:
        self.written: list[str] = []
        self.lines: list[str] = []
        self.live = LiveLine(write=self.written.append, room=lambda: room, test=TEST)

    def with_lines(self) -> Terminal:
        self.live.write_line = self.lines.append
        return self

    def windows(self, *steps: int, plan: Plan | None = None) -> Terminal:
        """As many calls as windows, as a driver makes them."""
        for count in range(1, len(steps) + 1):
            self.live.window(_attempt(steps[:count]), plan or Plan())
        return self

    def run(self, attempt: Run, result: Run | None = None) -> list[str]:
        """The lines of a whole run; `result` is what is left of it."""
        before = len(self.lines)
        for count in range(1, len(attempt.windows) + 1):
            self.live.window(replace(attempt, windows=attempt.windows[:count]), Plan())
        self.live.ended(result or attempt)
        return self.lines[before:]


def _attempt(steps: Sequence[int]) -> Run:
    windows = tuple(Window(s, s * 0.1, loss=7.5) for s in steps)
    return Run(windows, images_per_step=64, compile_seconds=3.21)


def test_a_phase_is_shown_beside_the_tests_name() -> None:
    terminal = Terminal()
    terminal.live.phase("compile")
    assert terminal.written == [f"{SAVE}  test_b[1]  compile ...{CLEAR}{RESTORE}"]


def test_progress_is_shown_beside_the_tests_name() -> None:
    terminal = Terminal().windows(40)
    assert terminal.written == [f"{SAVE}  test_b[1]  steps 40/100  640.0 images/s  6 s left{CLEAR}{RESTORE}"]


def test_figures_matter_more_than_the_name() -> None:
    terminal = Terminal(room=50).windows(40)
    assert terminal.written == [f"{SAVE}  steps 40/100  640.0 images/s  6 s left{CLEAR}{RESTORE}"]


@pytest.mark.parametrize("room", [-5, 0, 3, 20])
def test_a_line_that_would_wrap_is_left_out(room: int) -> None:
    terminal = Terminal(room=room).windows(40)
    assert terminal.written == [f"{SAVE}  {CLEAR}{RESTORE}"]


@pytest.mark.parametrize("room", range(10, 70))
def test_a_line_never_reaches_the_right_edge(room: int) -> None:
    (written,) = Terminal(room=room).windows(40).written
    assert len(written) - len(SAVE + CLEAR + RESTORE) < room


def test_a_line_is_taken_away() -> None:
    terminal = Terminal()
    terminal.live.done()
    assert terminal.written == [CLEAR]


def test_without_a_terminal_nothing_is_written(capfd: pytest.CaptureFixture[str]) -> None:
    live = LiveLine(test=TEST, room=lambda: 80)
    live.phase("compile")
    live.window(attempt([0.1]), Plan())
    live.done()
    assert capfd.readouterr() == ("", "")


def test_without_a_terminal_the_lines_that_stay_are_all() -> None:
    terminal = Terminal()
    live = LiveLine(test=TEST, room=lambda: 80, write_line=terminal.lines.append)
    live.phase("compile")
    live.window(_attempt([1]), Plan())
    live.done()
    assert terminal.lines[1:] == ["Step\tImg/sec\ttotal_loss", "1\timages/sec: 640.0 +/- 0.0 (jitter = 0.0)\t7.500"]


def test_the_first_window_gets_tf_cnn_benchmarks_header_and_line() -> None:
    assert Terminal().with_lines().windows(1).lines[1:] == [
        "Step\tImg/sec\ttotal_loss",
        "1\timages/sec: 640.0 +/- 0.0 (jitter = 0.0)\t7.500",
    ]


def test_every_tenth_step_gets_a_line() -> None:
    shown = Terminal().with_lines().windows(*[1] * 21).lines[2:]
    assert [line.partition("\t")[0] for line in shown] == ["1", "10", "20"]


def test_a_window_over_a_tenth_step_gets_a_line() -> None:
    shown = Terminal().with_lines().windows(4, 4, 4, 4, 4, 4).lines[2:]
    assert [line.partition("\t")[0] for line in shown] == ["4", "12", "20"]


def test_the_live_line_makes_way_for_lines_that_stay() -> None:
    terminal = Terminal()
    terminal.live.write_line = terminal.written.append
    terminal.windows(1)
    assert terminal.written[:3] == [CLEAR, "run 1: compiled in 3.2 s", "Step\tImg/sec\ttotal_loss"]


def test_each_run_of_a_test_has_its_number() -> None:
    terminal = Terminal().with_lines()
    heads = [terminal.run(_attempt([1]))[0] for _ in range(2)]
    terminal.live.test = "another"
    heads.append(terminal.run(_attempt([1]))[0])
    assert heads == [f"run {number}: compiled in 3.2 s" for number in (1, 2, 1)]


def test_a_run_ends_with_its_last_step_and_its_total() -> None:
    assert Terminal().with_lines().run(_attempt([5, 4, 4]))[-4:] == [
        "13\timages/sec: 640.0 +/- 0.0 (jitter = 0.0)\t7.500",
        "-" * 64,
        "total images/sec: 640.00",
        "-" * 64,
    ]


def test_a_last_step_that_has_its_line_gets_no_second() -> None:
    lines = Terminal().with_lines().run(_attempt([5, 5]))
    assert [line.partition("\t")[0] for line in lines if "images/sec: 640.0 " in line] == ["5", "10"]


def test_a_run_that_came_to_nothing_has_no_total() -> None:
    assert not any("total images" in line for line in Terminal().with_lines().windows(5, 5).lines)


def test_steps_that_had_not_settled_are_told() -> None:
    whole = _attempt([5, 4, 4])
    result = replace(whole, windows=whole.windows[1:])
    last = Terminal().with_lines().run(whole, result)[-1]
    assert last == "its first 5 steps had not settled: the result is of the other 8"


windows = st.builds(Window, st.integers(1, 30), st.floats(0.001, 5.0), st.sampled_from([None, 7.5, math.nan]))


@given(st.lists(windows, min_size=1, max_size=30), st.integers(30, 1000))
def test_the_lines_of_a_run_are_a_log_that_is_read_back(timed: list[Window], images_per_step: int) -> None:
    ran = Run(tuple(timed), images_per_step, compile_seconds=1.0)
    read = tf_cnn_log.parse("\n".join(Terminal().with_lines().run(ran)), "a.log").attempt(images_per_step)
    assert sum(w.steps for w in read.windows) == sum(w.steps for w in timed)
    assert read.stated_images_per_sec == pytest.approx(window_statistics(timed, images_per_step)[0], abs=0.005)
