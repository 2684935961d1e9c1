from __future__ import annotations

from collections.abc import Sequence

import pytest
from measurements import attempt

from pytest_tfperf.live import LiveLine
from pytest_tfperf.measuring.windows import Plan
from pytest_tfperf.trial import Attempt, Window

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


def _attempt(steps: Sequence[int]) -> Attempt:
    return Attempt(tuple(Window(s, s * 0.1, loss=7.5) for s in steps), images_per_step=64)


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
    assert terminal.lines == ["Step\tImg/sec\ttotal_loss", "1\timages/sec: 640.0 +/- 0.0 (jitter = 0.0)\t7.500"]


def test_the_first_window_gets_tf_cnn_benchmarks_header_and_line() -> None:
    assert Terminal().with_lines().windows(1).lines == [
        "Step\tImg/sec\ttotal_loss",
        "1\timages/sec: 640.0 +/- 0.0 (jitter = 0.0)\t7.500",
    ]


def test_every_tenth_step_gets_a_line() -> None:
    shown = Terminal().with_lines().windows(*[1] * 21).lines[1:]
    assert [line.partition("\t")[0] for line in shown] == ["1", "10", "20"]


def test_a_window_over_a_tenth_step_gets_a_line() -> None:
    shown = Terminal().with_lines().windows(4, 4, 4, 4, 4, 4).lines[1:]
    assert [line.partition("\t")[0] for line in shown] == ["4", "12", "20"]


def test_the_live_line_makes_way_for_lines_that_stay() -> None:
    terminal = Terminal()
    terminal.live.write_line = terminal.written.append
    terminal.windows(1)
    assert terminal.written[:2] == [CLEAR, "Step\tImg/sec\ttotal_loss"]
