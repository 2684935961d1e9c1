"""What a terminal shows while runs are made: the progress line, and with -v the lines that stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.core.disturbance import Disturbance, DisturbanceKind
from pytest_tfperf.core.run import Plan, Run, Window
from pytest_tfperf.core.throughput import window_statistics
from pytest_tfperf.features.replay.tf_cnn_log import parse
from pytest_tfperf.reports.progress_line import ProgressLine, progress

BUSY = Disturbance(DisturbanceKind.OTHER_PROCESSES, 0.61, cores=2)

SAVE, RESTORE, CLEAR = "\x1b7", "\x1b8", "\x1b[K"
TEST = "perf_tests/test_a.py::test_b[1]"
FIRST_LINES = ["Step\tImg/sec\ttotal_loss", "1\timages/sec: 640.0 +/- 0.0 (jitter = 0.0)\t7.500"]


def run_of(*steps: int) -> Run:
    """Windows of so many steps, 0.1 s a step."""
    return Run(tuple(Window(s, s * 0.1, loss=7.5) for s in steps), examples_per_step=64, compile_seconds=3.21)


class Terminal:
    """What a progress line writes; `lines` collects what stays, with -v only."""

    def __init__(self, room: int = 80, *, verbose: bool = False) -> None:
        self.written: list[str] = []
        self.lines: list[str] = []
        self.seconds = 0.0
        self.line = ProgressLine(write=self.written.append, room=lambda: room, test=TEST, clock=lambda: self.seconds)
        if verbose:
            self.line.write_line = self.lines.append

    def time(self, run: Run, label: str = "run") -> None:
        """The calls for a run whose windows come in one by one."""
        self.line.begin(label)
        for count in range(1, len(run.windows) + 1):
            self.line.window(replace(run, windows=run.windows[:count]), Plan())

    def finish(self, run: Run, label: str = "run", result: Run | None = None) -> Sequence[str]:
        """The lines of a whole run; `result` is what is left of it in the steady state."""
        before = len(self.lines)
        self.time(run, label)
        self.line.ended(result or run)
        return self.lines[before:]


def test_a_phase_stands_beside_test_and_run_until_it_is_taken_away() -> None:
    terminal = Terminal()
    terminal.line.begin("run")
    terminal.line.phase("compile")
    terminal.line.done()
    assert terminal.written == [f"{SAVE}  test_b[1]  run 1  compile ...{CLEAR}{RESTORE}", CLEAR]


PROGRESS = "steps 40/100  640.0 images/s  up to 6 s left"


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (80, f"test_b[1]  run 1  {PROGRESS}"),
        (57, "test_b[1]  run 1  steps 40/100  640.0 images/s"),
        (40, "run 1  steps 40/100  640.0 images/s"),
        (33, "steps 40/100  640.0 images/s"),
        (20, "steps 40/100"),
        (-5, ""),
    ],
)
def test_where_room_is_short_the_figures_stay_longest(room: int, shown: str) -> None:
    terminal = Terminal(room)
    terminal.time(run_of(40))
    assert terminal.written == [f"{SAVE}  {shown}{CLEAR}{RESTORE}"]


SPEED = "steps 40/100  640.0 images/s"


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (80, f"[1/15, about 1 min 20 s left]  test_b[1]  run 1  {SPEED}"),
        (69, f"[1/15, about 1 min 20 s left]  run 1  {SPEED}"),
        (62, f"[1/15, about 1 min 20 s left]  {SPEED}"),
        (50, SPEED),
    ],
)
def test_the_sessions_progress_stands_before_the_tests(room: int, shown: str) -> None:
    terminal = Terminal(room)
    terminal.line.expect(15, lambda: (80.0, 80.0))
    terminal.time(run_of(40))
    assert terminal.written == [f"{SAVE}  {shown}{CLEAR}{RESTORE}"]


def test_the_sessions_time_passes_and_tests_are_counted_once() -> None:
    terminal = Terminal(120)
    terminal.line.expect(2, lambda: (80.0 - terminal.seconds, 80.0 - terminal.seconds))
    shown = []
    for test, seconds in [("a", 0), ("b", 60), ("a", 30), ("software and machine", 0)]:
        terminal.seconds += seconds
        terminal.line.test = test
        terminal.line.begin("run")
        terminal.line.phase("start")
        shown.append(terminal.written[-1].partition("]")[0].partition("[")[2])
    assert shown == ["1/2, about 1 min 20 s left", "2/2, about 20 s left", "2/2", "2/2"]


def test_without_a_terminal_only_the_lines_that_stay_are_written() -> None:
    terminal = Terminal(verbose=True)
    terminal.line.write = None
    terminal.line.phase("compile")
    terminal.time(run_of(1))
    terminal.line.done()
    assert (terminal.written, terminal.lines[1:]) == ([], FIRST_LINES)


def test_a_pipe_gets_a_plain_line_within_30_seconds() -> None:
    terminal, plain = Terminal(), []
    terminal.line.write, terminal.line.write_plain = None, plain.append
    terminal.line.expect(15, lambda: (80.0, 80.0))
    for seconds in (0, 28, 2, 20, 11):
        terminal.seconds += seconds
        terminal.time(run_of(40))
    assert plain == [
        "tfperf: test 1/15, test_b[1], run 3, steps 40/100, about 1 min 20 s left",
        "tfperf: test 1/15, test_b[1], run 5, steps 40/100, about 1 min 20 s left",
    ]


def test_work_before_the_first_test_is_shown_by_the_clock_until_it_is_done() -> None:
    terminal, plain = Terminal(), []
    terminal.line.write, terminal.line.write_plain, terminal.line.test = None, plain.append, ""
    terminal.line.say("installing the packages of old.lock.txt")
    for seconds in (10, 25, 20, 20):
        terminal.seconds += seconds
        terminal.line.tick()
    terminal.line.expect(1, lambda: None)
    terminal.seconds += 100
    terminal.line.tick()
    said = "installing the packages of old.lock.txt"
    assert plain == [said, f"tfperf: {said} for 35 s", f"tfperf: {said} for 1 min 15 s"]


def test_a_state_that_lasts_is_shown_by_the_clock() -> None:
    terminal, plain = Terminal(), []
    terminal.line.write, terminal.line.write_plain = None, plain.append
    terminal.line.begin("run")
    terminal.line.phase("compile")
    for _ in range(65):
        terminal.seconds += 1
        terminal.line.tick()
    assert plain == [f"tfperf: test_b[1], run 1, compile for {age}" for age in ("29 s", "58 s")]


def test_a_state_that_lasts_shows_no_time_that_is_left_of_the_run() -> None:
    terminal, plain = Terminal(), []
    terminal.line.write, terminal.line.write_plain = None, plain.append
    terminal.time(run_of(40))
    terminal.seconds += 30
    terminal.line.tick()
    assert plain == ["tfperf: test_b[1], run 1, steps 40/100 for 30 s"]


def test_a_run_that_ends_by_time_has_no_more_left_than_that() -> None:
    plan = Plan(steps=100, max_seconds=30)
    assert progress(run_of(40), plan)[2] == "up to 6 s left"
    assert progress(Run(tuple(Window(1, 6.0) for _ in range(3)), examples_per_step=64), plan)[2] == "up to 12 s left"


def test_a_terminal_shows_how_long_a_state_lasts() -> None:
    terminal = Terminal()
    terminal.line.begin("run")
    terminal.line.phase("compile")
    terminal.seconds = 42
    terminal.line.tick()
    assert terminal.written[-1] == f"{SAVE}  test_b[1]  run 1  compile ...  for 42 s{CLEAR}{RESTORE}"


def test_what_the_user_should_know_stays_in_a_terminal_too_and_names_the_test() -> None:
    terminal, plain = Terminal(40), []
    terminal.line.write_plain = plain.append
    terminal.line.begin("run")
    terminal.line.phase("first reading")
    for terminal.seconds in range(20, 35):
        terminal.line.tick()
        terminal.line.notice("the program has printed nothing for 30 s")
    assert plain == ["tfperf: test_b[1], run 1, the program has printed nothing for 30 s"]


def test_after_a_run_nothing_is_shown_by_the_clock() -> None:
    terminal = Terminal()
    terminal.line.begin("run")
    terminal.line.phase("compile")
    terminal.line.done()
    shown = len(terminal.written)
    terminal.seconds = 99
    terminal.line.tick()
    assert len(terminal.written) == shown


def test_a_further_run_says_what_it_is_for() -> None:
    terminal = Terminal(200)
    terminal.line.why = "in doubt: 2 more runs at least"
    terminal.line.disturbed(BUSY)
    terminal.line.begin("confirmation run")
    terminal.line.phase("start")
    assert terminal.written[-1].endswith(
        "start ...  (in doubt: 2 more runs at least; the run before was disturbed: "
        f"other processes used 61 % of 2 cores){CLEAR}{RESTORE}"
    )


def test_a_disturbance_is_told_of_the_next_run_only() -> None:
    terminal = Terminal(200)
    terminal.line.disturbed(BUSY)
    for _ in range(2):
        terminal.line.begin("run")
        terminal.line.phase("start")
    assert ["disturbed" in shown for shown in terminal.written] == [True, False]


def test_a_disturbance_is_not_told_of_another_test() -> None:
    terminal = Terminal(200)
    terminal.line.disturbed(BUSY)
    terminal.line.test = "another"
    terminal.line.begin("run")
    terminal.line.phase("start")
    assert "disturbed" not in terminal.written[-1]


def test_a_program_that_is_read_to_its_end_shows_no_total() -> None:
    terminal = Terminal()
    terminal.line.window(run_of(5, 5), Plan(steps=100, counts_readings=True, until_end=True))
    assert ("readings 2 " in terminal.written[-1], "2/" in terminal.written[-1]) == (True, False)
    assert "left" not in terminal.written[-1]


def test_a_tests_own_runs_are_numbered_and_others_are_named() -> None:
    terminal = Terminal(verbose=True)
    labels = ["run", "reference environment", "confirmation run", "on device data"]
    heads = [terminal.finish(run_of(1), label)[0] for label in labels]
    terminal.line.test = "another"
    heads.append(terminal.finish(run_of(1))[0])
    assert [head.removesuffix(": compiled in 3.2 s") for head in heads] == [
        "run 1",
        "reference environment",
        "confirmation run 2",
        "on device data",
        "run 1",
    ]


@pytest.mark.parametrize(
    ("windows", "steps"),
    [([1] * 21, ["1", "10", "20", "21"]), ([4] * 5, ["4", "12", "20"]), ([5, 4, 4], ["5", "13"])],
    ids=["every tenth step and the last", "windows over a tenth step", "few steps"],
)
def test_a_run_is_printed_at_every_tenth_step_and_at_its_end(windows: list[int], steps: list[str]) -> None:
    _, _, *lines = Terminal(verbose=True).finish(run_of(*windows))
    assert [line.partition("\t")[0] for line in lines[:-3]] == steps
    assert lines[-3:] == ["-" * 64, "total images/sec: 640.00", "-" * 64]


def test_steps_before_the_steady_state_are_said_to_be_left_out() -> None:
    whole = run_of(5, 4, 4)
    result = replace(whole, windows=whole.windows[1:])
    assert Terminal(verbose=True).finish(whole, result=result)[-1] == (
        "the first 5 steps came before the steady state: the result counts the other 8"
    )


windows = st.builds(Window, st.integers(1, 30), st.floats(0.001, 5.0), st.sampled_from([None, 7.5, math.nan]))


@given(st.lists(windows, min_size=1, max_size=30), st.integers(30, 1000))
def test_the_lines_of_a_run_are_a_log_that_replay_reads(timed: list[Window], examples_per_step: int) -> None:
    lines = Terminal(verbose=True).finish(Run(tuple(timed), examples_per_step, compile_seconds=1.0))
    read = parse("\n".join(lines), "a.log").run(examples_per_step)
    assert sum(w.steps for w in read.windows) == sum(w.steps for w in timed)
    mean, _, _ = window_statistics([Run(tuple(timed), examples_per_step)])
    assert read.stated_examples_per_sec == pytest.approx(mean, abs=0.0051)
