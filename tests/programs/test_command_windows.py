"""Windows out of what a program prints, by a played program and a played clock."""

from __future__ import annotations

import math
import random
import re
import signal
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_tfperf.bench.run_engine import RunEngine, Side
from pytest_tfperf.core.command import Command
from pytest_tfperf.core.disturbance import Disturbance
from pytest_tfperf.core.figure import Figure
from pytest_tfperf.core.run import Plan, Run
from pytest_tfperf.core.throughput import summarise
from pytest_tfperf.core.topology import Devices
from pytest_tfperf.errors import Hung, MeasurementError
from pytest_tfperf.programs.command_windows import CommandWindows
from pytest_tfperf.programs.reading import Kind, Reading, Unreadable
from pytest_tfperf.programs.window_aggregator import WindowAggregator
from pytest_tfperf.workers.failures import describe_exit
from tests.helpers.expected import SameTexts
from tests.helpers.measurements import command
from tests.helpers.played import BOX, BUSY, Notes, PlayedGuard
from tests.helpers.played_program import PLAN, PlayedProgram, measured, per_sec


def lines(count: int, text: str = "{rate} examples/s\n", every: float = 1.0, rate: float = 50.0) -> PlayedProgram:
    """The rate changes a little, as no setting does."""
    return PlayedProgram([(every, text.format(rate=rate + n % 3 / 100, step=10 * n)) for n in range(1, count + 1)])


def test_each_rate_is_a_window_and_the_first_is_warm_up() -> None:
    run = measured(lines(12))
    assert (len(run.warmup), len(run.windows), per_sec(run)) == (1, 11, pytest.approx(50, rel=1e-3))


def test_no_more_readings_are_timed_than_asked_for() -> None:
    assert len(measured(lines(100), Plan(steps=7, warmup_steps=1)).windows) == 7


def test_a_program_that_is_read_to_its_end_may_print_more() -> None:
    assert len(measured(lines(100), Plan(steps=7, warmup_steps=1), until_end=True).windows) == 99


def test_reading_stops_when_enough_is_known_which_is_asked_every_ten_readings() -> None:
    program, asked = lines(100), []
    windows = CommandWindows(program, command(), clock=lambda: program.now)
    windows.warm_up(PLAN)
    run = windows.time(PLAN, Notes(), lambda run: bool(asked.append(len(run.windows)) or len(asked) == 2))
    assert (asked, len(run.windows)) == ([10, 20], 20)


def test_timing_ends_after_the_longest_time() -> None:
    run = measured(lines(100), Plan(steps=90, warmup_steps=1, max_seconds=5))
    assert (len(run.windows), run.ended_by_time) == (5, True)


def test_a_program_that_printed_all_readings_did_not_end_by_time() -> None:
    assert not measured(lines(100), Plan(steps=5, warmup_steps=1, max_seconds=5)).ended_by_time


def test_a_counter_is_timed_by_when_its_lines_arrive() -> None:
    run = measured(lines(12, "step {step}\n", every=0.5), pattern=r"step (?P<step>\d+)", examples_per_step=4)
    assert (len(run.windows), per_sec(run)) == (9, pytest.approx(10 * 4 / 0.5))


def test_seconds_per_step_make_a_rate() -> None:
    run = measured(lines(9, "0.25 s\n"), pattern=r"(?P<seconds>\S+) s", examples_per_step=4)
    assert per_sec(run) == pytest.approx(16)


def test_lines_that_come_fast_are_put_together() -> None:
    run = measured(lines(2000, every=0.01), Plan(steps=20, warmup_steps=1))
    assert (len(run.windows), min(w.seconds for w in run.windows) > 0.1) == (20, True)


def test_steps_of_a_tenth_of_a_second_on_a_busy_machine_are_those_of_one_process() -> None:
    late = [((0.08, 0.12)[n % 2], f"{50 + n % 5} examples/s\n") for n in range(60)]
    assert len(measured(PlayedProgram(late)).windows) > 5


def test_time_after_the_last_reading_is_no_training() -> None:
    last_is_alone = [(0.1, "50 examples/s\n")] * 60 + [(0.1, "10 examples/s\n")]
    run = measured(PlayedProgram([*last_is_alone, (20.0, "")]), Plan(steps=90, warmup_steps=1), until_end=True)
    assert sum(window.seconds for window in run.windows) == pytest.approx(6.0, abs=0.2)


@pytest.mark.parametrize("form", ["\r{} examples/s", "\n{} examples/s", "\x1b[2K\r{} examples/s", "{} examples/s\n"])
def test_a_pause_belongs_to_the_line_behind_it_also_where_the_next_line_ends_it(form: str) -> None:
    steps = ([0.5] * 4 + [2.5]) * 6  # seconds for ten examples
    program = PlayedProgram([*((seconds, form.format(10 / seconds)) for seconds in steps), (9.0, "")])
    assert per_sec(measured(program, until_end=True)) == pytest.approx(10 * 29 / sum(steps[1:]), rel=0.05)


@given(st.lists(st.floats(0.2, 0.9), min_size=5, max_size=12), st.integers(1, 256))
def test_means_since_the_first_step_are_undone(seconds: list[float], batch: int) -> None:
    printed, elapsed = [], 0.0
    for n, each in enumerate(seconds, 1):
        elapsed += each
        printed.append((each, f"{10 * n}\timages/sec: {10 * n * batch / elapsed:.9f} +/- 0.1 (jitter = 0.2)\t7.8\n"))
    run = measured(PlayedProgram(printed), unit="images/s", format="tf_cnn_benchmarks")
    rates = [w.steps / w.seconds for w in run.windows]
    assert rates == pytest.approx([10 * batch / each for each in seconds[1:]], rel=1e-5)


@given(st.lists(st.floats(0.2, 9), min_size=4, max_size=12), st.floats(100, 1e5))
def test_all_windows_together_give_all_examples_over_all_seconds(seconds: list[float], rate: float) -> None:
    """Each line states the rate since the line before, whether it comes every so many steps or seconds."""
    rates = [rate * (1 + n % 3) for n in range(len(seconds))]
    program = PlayedProgram([(each, f"{r!r} examples/s\n") for each, r in zip(seconds, rates, strict=True)])
    examples = sum(each * r for each, r in zip(seconds[1:], rates[1:], strict=True))
    assert per_sec(measured(program)) == pytest.approx(examples / sum(seconds[1:]), rel=0.05)


@given(
    st.lists(st.tuples(st.sampled_from(list(Kind)), st.floats(1.1e-12, 0.9e15), st.floats(0, 9), st.integers(1, 99)))
)
def test_no_reading_makes_a_window_without_steps_or_time(
    readings: list[tuple[Kind, float, float, int]],
) -> None:
    aggregator, now = WindowAggregator(0.0, command(examples_per_step=8), 0.15), 0.0
    for kind, value, after, step in readings:
        now += after
        with suppress(Unreadable):
            aggregator.take(now, Reading(kind, value, step=step))
        window = aggregator.window(now)
        assert window is None or (window.steps >= 1 and 0 < window.seconds < math.inf)


def test_a_rate_of_zero_before_the_first_step_is_no_reading() -> None:
    program = lines(8)
    program.prints = iter([(1.0, "0.0 examples/s\n"), *program.script])
    assert len(measured(program).windows) == 7


def test_an_infinite_rate_before_the_first_step_is_skipped_and_counted() -> None:
    program = lines(8)
    program.prints = iter([(1.0, "inf examples/s\n"), *program.script])
    run = measured(program)
    assert len(run.windows) == 7
    assert run.not_read == (
        "1 line with a rate was not read: inf before the first reading is no number: 'inf examples/s'"
    )


@pytest.mark.parametrize("rate", [0.0, -3.0, 5e-324, 1e300, math.nan, math.inf])
def test_a_rate_that_can_not_be_is_an_error(rate: float) -> None:
    script = [*lines(3).script, (1.0, f"{rate} examples/s\n")]
    with pytest.raises(MeasurementError, match=re.escape(f"it printed {rate:g} as its rate, which can't be one")):
        measured(PlayedProgram(script))


def test_a_loss_that_is_no_number_shows_in_the_throughput() -> None:
    script = [*lines(5).script, (1.0, "50 examples/s loss: nan\n"), *lines(5, "50 examples/s loss: 1\n").script]
    assert summarise([measured(PlayedProgram(script))]).is_diverged


TELLS_TOO_LITTLE: dict[str, tuple[PlayedProgram, dict[str, object]]] = {
    "one line without a rate": (PlayedProgram([(1, "hello\n")]), {}),
    "more lines than an error shows": (PlayedProgram([(1, "hello\n")] * 30), {}),
    "nothing": (PlayedProgram([]), {}),
    "failed at once": (PlayedProgram([(1, "out of disk\n")], "exited with status 3"), {}),
    "failed after 2 readings": (PlayedProgram(lines(2).script, "exited with status 3"), {}),
    "killed after 2 readings": (PlayedProgram(lines(2).script, describe_exit(-signal.SIGKILL)), {}),
    "3 readings": (lines(3), {}),
    "1 reading": (lines(1), {}),
    "one line with a counter": (lines(1, "it 3\n"), {"pattern": r"it (?P<step>\d)", "examples_per_step": 1}),
    "no line of the format": (lines(9, "step 9\n"), {"format": "tqdm", "examples_per_step": 1}),
}


def test_a_program_that_tells_too_little_is_an_error(same_texts: SameTexts) -> None:
    texts = {}
    for case, (program, how) in TELLS_TOO_LITTLE.items():
        with pytest.raises(MeasurementError) as error:
            measured(program, **how)
        texts[case] = str(error.value)
    same_texts("too_little", texts)


def test_a_program_that_is_read_to_its_end_may_print_its_rate_once() -> None:
    run = measured(lines(1), until_end=True)
    assert (len(run.windows), per_sec(run)) == (1, pytest.approx(50, rel=1e-3))


@pytest.mark.parametrize(
    "script",
    [
        [(60.0, "50 examples/s\n"), (10.0, "300 examples/s\n"), (10.0, "300 examples/s\n")],
        [(80.0, "50 examples/s\n300 examples/s\n300 examples/s\n")],
    ],
    ids=["as they come", "in one chunk"],
)
def test_a_program_that_is_read_to_its_end_leaves_its_start_out(script: list[tuple[float, str]]) -> None:
    assert per_sec(measured(PlayedProgram(script), until_end=True)) == pytest.approx(300)


def test_rates_that_arrive_in_one_chunk_weigh_evenly() -> None:
    """100 and 300 for the same work each, twice, after the warm-up."""
    chunk = "100 examples/s\n300 examples/s\n"
    program = PlayedProgram([(10.0, "7 examples/s\n"), (10.0, chunk), (5.0, chunk)])
    assert per_sec(measured(program, until_end=True)) == pytest.approx(150)


@given(st.lists(st.floats(0.1, 3), min_size=6, max_size=12))
def test_fractions_of_a_counter_add_up_to_its_rate(each: list[float]) -> None:
    """Hugging Face counts epochs: 0.4, 0.8, 1.2."""
    step, script = 0.0, []
    for epochs in each:
        step += epochs
        script.append((2 * epochs, f"epoch={step!r}\n"))
    run = measured(PlayedProgram(script), pattern=r"epoch=(?P<step>[\d.e-]+)", examples_per_step=1000, until_end=True)
    assert per_sec(run) == pytest.approx(500)


def test_lines_of_which_none_can_be_read_end_the_program_after_two_minutes() -> None:
    program = PlayedProgram([(1.0, f"loss {n} at 12 img/s\n") for n in range(600)], silence_seconds=600)
    with pytest.raises(MeasurementError) as error:
        measured(program)
    assert program.now == pytest.approx(121, abs=2)
    assert "no line matches the pattern" in str(error.value)


def test_a_program_that_says_much_at_its_start_and_then_compiles_is_waited_for() -> None:
    start = [(0.01, "loading\n")] * 50
    assert len(measured(PlayedProgram([*start, (90.0, "50 examples/s\n"), *lines(4).script])).windows) == 4


def test_what_is_expected_later_is_waited_for() -> None:
    script = [*[(1.0, "preparing\n")] * 200, *lines(5).script]
    assert len(measured(PlayedProgram(script, silence_seconds=900), first_within=300).windows) == 4
    with pytest.raises(MeasurementError, match="has printed for 50 s"):
        measured(PlayedProgram(script, silence_seconds=900), first_within=50)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "printed 15 lines, then nothing for 1 min 59 s, and was ended: no line matches the pattern"),
        ({"terminal": True}, "or leave it out to measure the program by its steps; `tfperf read"),
        ({"first_within": 300}, "then nothing for 4 min 59 s, and was ended"),
    ],
)
def test_a_program_that_says_no_rate_and_falls_silent_is_ended_by_the_clock(how: dict[str, object], said: str) -> None:
    program = PlayedProgram([(0.1, "  | Name | Type\n")] * 15, hangs=True, silence_seconds=600)
    with pytest.raises(MeasurementError, match=re.escape(said)):
        measured(program, **how)


def test_a_program_whose_rate_is_its_last_line_may_print_other_lines_for_long() -> None:
    script = [*[(5.0, "{'loss': 0.5}\n")] * 30, (200.0, "50 examples/s\n")]
    assert per_sec(measured(PlayedProgram(script, silence_seconds=600), until_end=True)) == pytest.approx(50, rel=1e-3)


NO_RATE: dict[str, tuple[PlayedProgram, dict[str, object]]] = {
    "prints on": (PlayedProgram([(1.0, "hello\n")] * 99), {}),
    "a bar that needs a terminal": (PlayedProgram([(0.1, "hello\n")] * 15, hangs=True, silence_seconds=600), {}),
    "has a terminal": (PlayedProgram([(0.1, "hello\n")] * 15, hangs=True, silence_seconds=600), {"terminal": True}),
    "begins a line": (PlayedProgram([(1.0, "loading ...")], hangs=True, silence_seconds=600), {}),
    "imports for long": (PlayedProgram([(28.0, "Epoch 1/20\n")], hangs=True, silence_seconds=600), {}),
    "prints nothing": (PlayedProgram([], hangs=True, silence_seconds=600), {}),
    "may take for ever": (
        PlayedProgram([(1.0, "hello\n"), (40.0, "hello\n")], silence_seconds=math.inf),
        {"first_within": math.inf},
    ),
    "another unit": (PlayedProgram([(1.0, "12 img/s\n")] * 99), {}),
}


def test_while_the_first_reading_is_late_the_user_is_told_what_the_program_printed(same_texts: SameTexts) -> None:
    texts = {}
    for case, (program, how) in NO_RATE.items():
        told: list[tuple[float, str]] = []
        windows = CommandWindows(
            program,
            command(**how),
            notice=lambda text, to=told, by=program: to.append((by.now, text)),
            clock=lambda by=program: by.now,
        )
        with pytest.raises(MeasurementError):
            windows.warm_up(PLAN)
        assert told[0][0] < 30
        texts[case] = next(text for at, text in told if at >= 30)
    same_texts("no_rate_yet", texts)


def test_output_that_comes_all_at_once_is_recognised_as_buffered() -> None:
    program = PlayedProgram([(30.0, "hello world\n" * 700)])
    with pytest.raises(MeasurementError, match="stdbuf -oL"):
        measured(program)


@pytest.mark.parametrize(("timed_from", "rate"), [("start", 10.0), ("first output", 12.5)])
def test_a_program_that_prints_no_rate_is_timed_as_a_whole(timed_from: str, rate: float) -> None:
    program = PlayedProgram([(20.0, "begins\n"), (80.0, "ends\n")])
    assert per_sec(measured(program, examples=1000, timed_from=timed_from)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("program", "how", "said"),
    [
        (PlayedProgram([(1, "x")], "exited with status 3"), {"examples": 9}, "exited with status 3"),
        (PlayedProgram([(1, "x")], hangs=True), {"examples": 9}, "did not end within 100 s"),
        (PlayedProgram([], "was killed"), {"examples": 9}, "the program was killed"),
        (PlayedProgram([]), {"examples": 9}, "it printed nothing, so there is no first output to time from"),
        (PlayedProgram([(1, "x")]), {"examples": 9}, "it ended with its first output, so it took no time"),
    ],
)
def test_a_whole_run_that_can_not_be_timed_is_an_error(
    program: PlayedProgram, how: dict[str, object], said: str
) -> None:
    with pytest.raises(MeasurementError, match=said):
        measured(program, **how)


def averages(rates: list[float]) -> list[float]:
    """Of the same work each, since the first."""
    return [n / sum(1 / rate for rate in rates[:n]) for n in range(1, len(rates) + 1)]


NOISY = [100 + 7 * math.sin(n * n) for n in range(120)]


def test_averages_that_are_declared_are_undone() -> None:
    shown = [(1.0, f"{rate:.6f} examples/s\n") for rate in averages(NOISY[:20])]
    run = measured(PlayedProgram(shown), rate_is="average")
    rates = [w.steps / w.seconds for w in run.windows]
    assert rates == pytest.approx(NOISY[1:20], rel=1e-3)


def test_rates_that_are_no_averages_pass() -> None:
    script = [(1.0, f"{rate:.6f} examples/s\n") for rate in NOISY]
    assert len(measured(PlayedProgram(script), Plan(steps=110, warmup_steps=1)).windows) == 110


@given(st.floats(0.5, 100), st.integers(12, 60), st.integers(0, 99))
def test_averages_that_contain_the_start_are_refused_and_undone(start: float, count: int, seed: int) -> None:
    """Of units that take a second each, with noise of 1 %, after a start of at least half a second."""
    noise = random.Random(seed)
    elapsed, shown = start, []
    for n in range(1, count + 1):
        elapsed += noise.gauss(1, 0.01)
        shown.append((1.0, f"{n / elapsed:.6f} examples/s\n"))
    with pytest.raises(MeasurementError, match="give rate_is='average'"):
        measured(PlayedProgram(shown))
    assert per_sec(measured(PlayedProgram(shown), rate_is="average")) == pytest.approx(1, rel=0.02)


@given(st.floats(4, 60), st.integers(1, 40), st.integers(15, 60), st.booleans())
def test_a_rate_is_checked_by_the_time_between_its_steps(
    start: float, first: int, count: int, is_average: bool
) -> None:
    """Whenever its first line comes. Each step takes 0.25 s, and ever less at first, which a recent rate may show."""
    step, now, said = 0, start, 0.0
    shown: list[tuple[float, str]] = []
    for n in range(count):
        begun, steps = now, 10 if n else first
        step += steps
        now += 0.25 * steps * (1 + 1 / (n + 1) + 0.01 * math.sin(n * n))
        rate = step / now if is_average else steps / (now - begun)
        shown.append((now - said, f"step {step}: {rate:.6f} examples/s\n"))
        said = now
    if is_average:
        with pytest.raises(MeasurementError, match=r"a step holds .* times as much at the end|look like averages"):
            measured(PlayedProgram(shown), Plan(steps=99, warmup_steps=1))
    else:
        assert measured(PlayedProgram(shown), Plan(steps=99, warmup_steps=1)).windows


@given(st.floats(0.05, 0.6), st.floats(3, 30), st.integers(25, 90), st.integers(0, 99))
def test_rates_that_settle_are_no_averages(depth: float, within: float, count: int, seed: int) -> None:
    """One that begins at a tenth of its speed, and settles slowly, looks the same; it is refused with a next step."""
    noise = random.Random(seed)
    rates = [100 * (1 - depth * math.exp(-n / within)) * noise.gauss(1, 0.01) for n in range(count)]
    script = [(1.0, f"{rate:.6f} examples/s\n") for rate in rates]
    assert measured(PlayedProgram(script), Plan(steps=99, warmup_steps=1)).windows


def test_slow_readings_count() -> None:
    """900 and 1100 in turn, with a step before each, which is no part of the number."""
    script = [(1.0, f"step {120 + n} {900 if n % 2 else 1100}.0 examples/s\n") for n in range(41)]
    assert per_sec(measured(PlayedProgram(script))) == pytest.approx(1000, rel=0.02)


def test_a_program_that_ends_after_enough_readings_is_measured() -> None:
    assert len(measured(lines(4)).windows) == 3


def test_a_last_line_without_an_end_is_read() -> None:
    assert per_sec(measured(PlayedProgram([(1, "50 examples/s")]), until_end=True)) == pytest.approx(50, rel=1e-3)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([], "the program printed nothing for 100 s"),
        (
            [(60.0, "loading\n")] * 50,
            "printed nothing that can be read for 100 s and was ended; no line matches the pattern",
        ),
        (lines(8).script, "the program printed nothing for 100 s"),
        ([(9.0, "0 examples/s\n")] * 50, "printed only readings that did not advance for 100 s"),
    ],
)
def test_a_program_without_a_reading_for_too_long_hangs(script: list[tuple[float, str]], said: str) -> None:
    with pytest.raises(Hung) as error:
        measured(PlayedProgram(script, hangs=True))
    assert said in str(error.value)


@pytest.mark.parametrize("script", [["step 100\n"] * 50, ["step 7\n", "step 8\n", *["step 8\n"] * 50]])
def test_a_counter_that_does_not_advance_hangs(script: list[str]) -> None:
    """The heartbeat of a stuck program."""
    program = PlayedProgram([(9.0, text) for text in script])
    with pytest.raises(Hung, match="printed only readings that did not advance for 100 s"):
        measured(program, pattern=r"step (?P<step>\d+)", examples_per_step=1)


class OneProgram:
    """A launcher whose one program is played."""

    def prepare_command(self, command: Command, devices: Devices, nodes: int) -> PlayedProgram:
        return lines(1)


@pytest.mark.parametrize(("nodes", "disturbance"), [(1, BUSY), (2, None)])
def test_the_guard_watches_only_what_this_process_starts(
    monkeypatch: pytest.MonkeyPatch, nodes: int, disturbance: Disturbance | None
) -> None:
    """An engine's ranks on this node would count as other processes."""
    monkeypatch.setattr("pytest_tfperf.bench.run_engine.CommandRun", lambda played: played)
    topology = replace(BOX, node_count=nodes)
    side = Side(workload=command(until_end=True), topology=topology, launcher=OneProgram())  # type: ignore[arg-type]
    engine = RunEngine(Notes(), PlayedGuard([BUSY]))  # type: ignore[arg-type]
    assert engine.run(side, PLAN).disturbance == disturbance


def test_an_injected_slowdown_takes_a_fraction_of_the_throughput_off() -> None:
    program = lines(12)
    windows = CommandWindows(program, command(), slowdown=0.5, clock=lambda: program.now)
    windows.warm_up(PLAN)
    assert per_sec(windows.time(PLAN, Notes())) == pytest.approx(25, rel=1e-3)


# Figures


def with_figures(program: PlayedProgram, *figures: Figure, steps: int = 5, **how: object) -> Run:
    plan = Plan(steps=steps, warmup_steps=1, counts_readings=True)
    windows = CommandWindows(program, command(**how), also=figures, clock=lambda: program.now)
    windows.warm_up(plan)
    return windows.time(plan, Notes())


TRAINS = "step {step} loss: 50 {rate} examples/s\n"


def test_a_figure_of_a_later_step_is_waited_for() -> None:
    run = with_figures(lines(100, TRAINS), Figure("loss", at_step=300))
    assert (run.figures, run.figure_places) == ({"loss": 50.0}, {"loss": "at step 300"})


def test_a_mean_over_later_steps_and_a_count_up_to_one_are_waited_for() -> None:
    figures = Figure("loss", steps=(150, 300)), Figure("lines", counts="examples", at_step=250)
    run = with_figures(lines(100, TRAINS), *figures)
    assert run.figures == {"loss": 50.0, "lines": 25.0}
    assert run.figure_places == {"loss": "over steps 150 to 300", "lines": "up to step 250"}


def test_a_figure_whose_step_never_comes_ends_with_the_program_and_says_how_far_it_came() -> None:
    with pytest.raises(MeasurementError, match="is read at step 3000, and was printed from step 10 to step 1000"):
        with_figures(lines(100, TRAINS), Figure("loss", at_step=3000))


def test_a_figure_that_is_printed_seldom_is_waited_for_behind_its_step() -> None:
    script = [
        (1.0, f"step {step} 50.0{step % 7} examples/s{' loss: 2' if step % 900 == 100 else ''}\n")
        for step in range(10, 2000, 10)
    ]
    run = with_figures(PlayedProgram(script), Figure("loss", at_step=300))
    assert (run.figures, run.figure_places) == ({"loss": 2.0}, {"loss": "at step 300"})


def test_a_loss_that_no_line_has_is_not_waited_for_behind_its_step() -> None:
    program = lines(100, "step {step} {rate} examples/s\n")
    run = with_figures(program, Figure("loss", at_step=300))
    assert (run.figures, program.now) == ({}, 30.0)


def test_a_run_is_not_ended_early_before_a_figure_was_printed() -> None:
    script = [*lines(25).script, (1.0, "eval 7\n"), *lines(25).script]
    program = PlayedProgram(script)
    first = Figure("x", pattern=r"eval (?P<x>\S+)", takes="first")
    windows = CommandWindows(program, command(), also=[first], clock=lambda: program.now)
    windows.warm_up(PLAN)
    run = windows.time(PLAN, Notes(), lambda _: True)
    assert (len(run.windows), run.figures["x"]) == (30, 7.0)


@pytest.mark.parametrize(("until_end", "place"), [(False, "at step 40"), (True, "at step 1000")])
def test_the_loss_is_of_a_reading_that_each_run_has_or_of_the_end(until_end: bool, place: str) -> None:
    run = with_figures(lines(100, TRAINS), Figure("loss"), until_end=until_end)
    assert run.figure_places["loss"] == place
